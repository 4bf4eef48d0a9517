"""Creates and deletes sessions."""

import time
import uuid
from collections.abc import Mapping
from typing import Any

from django.db import DatabaseError
from django.utils.translation import gettext as _

from .. import broadcast
from ..access.actor import Actor
from ..domain.event import ID_LENGTH
from ..domain.json_values import check, check_name, dumps
from ..domain.session_ref import SessionRef, digest_of
from ..domain.state import split, without_temp
from ..errors import AlreadyExists, StaleSession
from ..models import SessionTag, SessionTitle, stored_instant
from ..sources import database, registry
from .append import log
from .rows import check_names, locked, merge, note_place, revision_of, transaction_on


def create_session(
    source: str,
    app_name: str,
    user_id: str,
    *,
    actor: Actor,
    state: Mapping[str, Any] | None = None,
    session_id: str | None = None,
) -> SessionRef:
    """Creates a session and stores its initial state by scope. Without a `session_id`, it gets a UUID.

    The initial state is not an event: it is kept in `sessions.initial_state`, with full keys. Raises AlreadyExists,
    Invalid, NotAllowed and SourceError.
    """
    actor.check_may("append", app_name)
    ref = SessionRef(
        source,
        check_name(app_name, _("the app's name"), ID_LENGTH),
        check_name(user_id, _("the user's id"), ID_LENGTH),
        check_name((session_id or "").strip() or str(uuid.uuid4()), _("the session's id"), ID_LENGTH),
    )
    initial = without_temp(check(dict(state or {})))
    scoped = split(initial)
    with database.writing(source) as db, transaction_on(db), db.cursor() as cursor:
        now = stored_instant(time.time(), db)
        cursor.execute(
            """INSERT INTO sessions (app_name, user_id, id, state, initial_state, create_time, update_time)
            VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING""",
            [*ref[1:], dumps(scoped.session), dumps(initial), now, now],
        )
        if cursor.rowcount == 0:
            raise AlreadyExists(_("The session %(id)s exists already.") % {"id": ref.session_id})
        # ADK's DatabaseSessionService needs both rows to exist, empty or not.
        for scope in ("user", "app"):
            merge(cursor, ref, scope, scoped.scope(scope), (), now)
        if database.keeps_creations(source):
            note_place(cursor, ref)
    broadcast.tell("events", ref)
    return ref


def delete_session(ref: SessionRef, *, actor: Actor, revision: float | None = None) -> None:
    """Deletes a session, its events, and its title and tags; app and user state stay.

    With `revision`, the session is deleted only if this is still its revision. Raises NotFound, NotAllowed,
    StaleSession and SourceError.
    """
    actor.check_may("admin", ref.app_name)
    check_names(ref)
    with database.writing(ref.source) as db, transaction_on(db), db.cursor() as cursor:
        locked(cursor, ref)
        if revision not in (None, revision_of(cursor, ref)):
            raise StaleSession
        # The session first: a trigger of sources/schema.py reads what its events wrote, so they must still be there.
        cursor.execute("DELETE FROM sessions WHERE app_name = %s AND user_id = %s AND id = %s", ref[1:])
        cursor.execute("DELETE FROM events WHERE app_name = %s AND user_id = %s AND session_id = %s", ref[1:])
    _delete_labels(ref)
    broadcast.tell("events", ref)
    log.info("%s deleted the session %s", actor.name, "/".join(ref))


def _delete_labels(ref: SessionRef) -> None:
    """Deletes what people called a session, so that a new one of the same names does not begin with it."""
    try:
        for labels in (SessionTitle, SessionTag):
            labels.objects.filter(where=registry.identity(ref.source), digest=digest_of(*ref[1:])).delete()
    except DatabaseError as error:  # of adkweb's own database; the session is gone all the same
        log.warning("the title and tags of a deleted session stay: %s", error)
