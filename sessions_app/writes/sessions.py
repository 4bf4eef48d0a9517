"""Creates and deletes sessions."""

import json
import time
import uuid
from collections.abc import Mapping
from typing import Any

from django.db import DatabaseError
from django.utils.translation import gettext as _

from .. import broadcast
from ..access import approval
from ..access.actor import AGENT, Actor
from ..access.audit.record import record
from ..access.shown import check_unmasked
from ..domain.errors import AlreadyExists, Conflict, NotAllowed, StaleSession
from ..domain.event import ID_LENGTH
from ..domain.json_values import check, check_name, dumps
from ..domain.session_ref import SessionRef, digest_of
from ..domain.state import split, without_temp
from ..models import (
    Answer,
    Breakpoint,
    Dismissal,
    Job,
    Pause,
    Report,
    SessionHold,
    SessionTag,
    SessionTitle,
    TriedSession,
    stored_instant,
    tables,
)
from ..sources import database, registry
from .append import Origin, log
from .incomplete import check_unmarked
from .rows import check_names, locked, merge, note_place, revision_of, transaction_on


def create_session(
    source: str,
    app_name: str,
    user_id: str,
    *,
    actor: Actor,
    state: Mapping[str, Any] | None = None,
    session_id: str | None = None,
    origin: Origin = "agent",
) -> SessionRef:
    """Creates a session and stores its initial state by scope. Without a `session_id`, it gets a UUID.

    The initial state is not an event: it is kept in `sessions.initial_state`, with full keys. Raises AlreadyExists,
    Invalid, NotAllowed, also for the first session of an app (Actor.may_found), and SourceError; Held if it is a
    person's and has a key that needs a second person.
    """
    actor.check_may("append", source, app_name)
    ref = SessionRef(
        source,
        check_name(app_name, _("the app's name"), ID_LENGTH),
        check_name(user_id, _("the user's id"), ID_LENGTH),
        check_name((session_id or "").strip() or str(uuid.uuid4()), _("the session's id"), ID_LENGTH),
    )
    initial = without_temp(check(dict(state or {})))
    check_unmarked(initial)
    check_unmasked(initial, actor, app_name)
    if origin == "person":
        approval.check(source, app_name, initial, actor=actor)
    scoped = split(initial)
    with database.writing(source) as db, transaction_on(db), db.cursor() as cursor:
        if not actor.may_found(source, app_name):
            _check_there_is(cursor, app_name)
        now = stored_instant(time.time(), db)
        cursor.execute(
            """INSERT INTO sessions (app_name, user_id, id, state, initial_state, create_time, update_time)
            VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING""",
            [*ref[1:], dumps(scoped.session), dumps(initial), now, now],
        )
        if cursor.rowcount == 0:
            raise AlreadyExists(_("There's already a session “%(id)s”.") % {"id": ref.session_id})
        # ADK's DatabaseSessionService needs both rows to exist, empty or not.
        for scope in ("user", "app"):
            merge(cursor, ref, scope, scoped.scope(scope), (), now)
        if database.keeps_creations(source):
            note_place(cursor, ref)
    broadcast.tell("events", ref)
    return ref


def _check_there_is(cursor: Any, app_name: str) -> None:
    for table in ("app_states", "sessions"):
        cursor.execute(f"SELECT 1 FROM {table} WHERE app_name = %s LIMIT 1", [app_name])
        if cursor.fetchone():
            return
    raise NotAllowed(
        _(
            "There's no app “%(app)s” yet, and a token for a pattern can't create apps. Create a token with "
            "--apps %(app)s"
        )
        % {"app": app_name}
    )


def delete_session(ref: SessionRef, *, actor: Actor, revision: float | None = None) -> None:
    """Deletes a session, its events, and its title and tags; app and user state stay.

    With `revision`, the session is deleted only if this is still its revision. Raises NotFound, NotAllowed,
    StaleSession and SourceError; Conflict for a session on hold.
    """
    actor.check_may("admin", ref.source, ref.app_name)
    check_names(ref)
    database.get(ref.source)  # which may have changed since
    if is_on_hold(ref):
        raise Conflict(_("This session is on hold. It can't be deleted until an admin ends the hold."))
    with database.writing(ref.source) as db, transaction_on(db), db.cursor() as cursor:
        locked(cursor, ref)
        if revision not in (None, revision_of(cursor, ref)):
            raise StaleSession
        # The session first: a trigger of sources/schema.py reads what its events wrote, so they must still be there.
        cursor.execute("DELETE FROM sessions WHERE app_name = %s AND user_id = %s AND id = %s", ref[1:])
        cursor.execute("DELETE FROM events WHERE app_name = %s AND user_id = %s AND session_id = %s", ref[1:])
        if actor is not AGENT:  # what an agent does in its own database is its own business, as without adkweb
            record("session-deleted", actor.name, ref=ref)
    _delete_labels(ref)
    broadcast.tell("events", ref)
    log.info("%s deleted the session %s", actor.name, "/".join(ref))


def is_on_hold(ref: SessionRef) -> bool:
    """Returns whether a session must be kept."""
    holds = SessionHold.objects.filter(where=registry.identity(ref.source), digest=digest_of(*ref[1:]))
    return bool(tables.rows_of(holds[:1]))


def delete_user_state(source: str, app_name: str, user_id: str, *, actor: Actor) -> bool:
    """Deletes the state of a user who has no session. Returns whether there was any. Raises NotAllowed, SourceError."""
    actor.check_may("admin", source, app_name)
    names = [app_name, user_id]
    with database.writing(source) as db, transaction_on(db), db.cursor() as cursor:
        cursor.execute(
            """DELETE FROM user_states WHERE app_name = %s AND user_id = %s
            AND NOT EXISTS (SELECT 1 FROM sessions WHERE app_name = %s AND user_id = %s)""",
            [*names, *names],
        )
        deleted = bool(cursor.rowcount > 0)
    if deleted:
        log.info("%s deleted the state of the user %s", actor.name, "/".join([source, *names]))
    return deleted


def forget_deleted(source: str, app_name: str, user_id: str, *, actor: Actor) -> None:
    """Removes a user's id from adkweb's notes of deleted sessions: those of `user:` keys are deleted, those of the app
    stay.

    Raises NotAllowed, SourceError."""
    actor.check_may("admin", source, app_name)
    names = [app_name, user_id]
    with database.writing(source) as db, transaction_on(db), db.cursor() as cursor:
        if not database.keeps_creations(source):
            return
        cursor.execute(
            "DELETE FROM adkweb_deleted_writes WHERE app_name = %s AND user_id = %s AND key LIKE 'user:%%'", names
        )
        cursor.execute("UPDATE adkweb_deleted_writes SET user_id = '' WHERE app_name = %s AND user_id = %s", names)
        # It is still known what the app's state may be left over from.
        cursor.execute(
            """INSERT INTO adkweb_deleted SELECT app_name, '', place FROM adkweb_deleted
            WHERE app_name = %s AND user_id = %s AND user_id <> ''
            ON CONFLICT (app_name, user_id) DO UPDATE SET place = CASE
                WHEN adkweb_deleted.place < excluded.place THEN excluded.place ELSE adkweb_deleted.place END""",
            names,
        )
        cursor.execute("DELETE FROM adkweb_deleted WHERE app_name = %s AND user_id = %s AND user_id <> ''", names)


def _delete_labels(ref: SessionRef) -> None:
    """Deletes the title and tags of a session, so that a new one with the same names does not start with them. A run of its
    agent ends."""
    where, names = registry.identity(ref.source), dict(zip(("app_name", "user_id", "session_id"), ref[1:], strict=True))
    try:
        for own in (SessionTitle, SessionTag, Dismissal, Answer, Report, Breakpoint, Pause):
            own.objects.filter(where=where, digest=digest_of(*ref[1:])).delete()
        TriedSession.objects.filter(where=where, names=json.dumps(ref[1:])).delete()
        Job.objects.of_agents().filter(where=where, **names).delete()
    except DatabaseError as error:  # of adkweb's own database; the session is deleted anyway
        log.warning("the title and tags of a deleted session stay: %s", error)
