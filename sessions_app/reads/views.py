"""Reads a whole session, or the state of a user or an app."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..access.handles import shown_user
from ..access.shown import shown_object
from ..domain.errors import Invalid, NotFound
from ..domain.session_ref import SessionRef
from ..domain.state import Scope, Scoped, State
from ..models import App, Session, User, read_instant
from ..sources import database
from ..writes.incomplete import is_incomplete
from .labels import called
from .listed import sessions_of
from .lists import AppRow, app_rows, title_of
from .size_limits import Measured, large, measured_sql


@dataclass(frozen=True)
class SessionView:
    """A session with the state that its agent sees. `initial_state` is None if it was never recorded."""

    ref: SessionRef
    actor: Actor
    create_time: float
    revision: float
    state: Scoped
    initial_state: State | None
    sizes: Mapping[Scope, int] = field(default_factory=dict)  # characters of the scopes that are too large to be read

    @cached_property
    def title(self) -> str:
        """Returns its title; it is looked up when it is asked for, which most edits never do."""
        return called({self.ref: title_of(self.state.session)}, self.actor)[self.ref]

    @property
    def is_incomplete(self) -> bool:
        """Returns whether it is still being copied or imported."""
        return is_incomplete(self.state.session)


_STATE: Final = Measured("state")  # for `_read_state` to read
_SCOPES: Final[tuple[Scope, ...]] = ("session", "user", "app")


def app(source: str, app_name: str, *, actor: Actor, partly: bool = False) -> tuple[AppRow, State]:
    """Returns an app and its state. Raises NotFound, and Invalid for a state that is too large to be read.

    With `partly`, returns no state."""
    with database.using(source):
        text = App.objects.using(source).filter(app_name=app_name).values_list(_STATE, flat=True).first()
        is_there = text is not None or sessions_of(source, app_name).exists()
        if not is_there or not actor.may_see(source, app_name):
            raise NotFound(_("There's no app “%(name)s” in this source.") % {"name": app_name})
        return app_rows(source, [app_name])[0], {} if partly else _read_state(text, "app", actor, app_name)


def user_state(source: str, app_name: str, user_id: str, *, actor: Actor, partly: bool = False) -> State:
    """Returns a user's state; keys have no prefix. Raises NotFound for a user without session and state, and Invalid
    for a state that is too large to be read.

    With `partly`, only checks that the user exists, and returns no state."""
    with database.using(source):
        rows = User.objects.using(source).filter(app_name=app_name, user_id=user_id)
        text = rows.values_list(_STATE, flat=True).first()
        sessions = Session.objects.using(source).filter(app_name=app_name, user_id=user_id)
        is_there = text is not None or sessions.exists()
        if not is_there or not actor.may_see(source, app_name):
            raise NotFound(
                _("There's no user “%(name)s” in this app.") % {"name": shown_user(source, app_name, user_id, actor)}
            )
        return {} if partly else _read_state(text, "user", actor, app_name)


def _read_state(text: str | None, scope: Scope, actor: Actor, app_name: str) -> State:
    if size := large(text):
        raise Invalid(_too_large(size), size=size)
    return shown_object(text or "null", actor, app_name, scope)


def _too_large(size: int) -> str:
    return _("This state is too large to show here: %(n)s characters.") % {"n": size}


def session(ref: SessionRef, *, actor: Actor, partly: bool = False) -> SessionView:
    """Returns a session with its state by scope. Raises NotFound, and Invalid for a state that is too large to be read.

    With `partly`, leaves out the scopes that are too large, and returns their sizes."""
    actor.check_sees(ref)
    with database.using(ref.source) as db, db.cursor() as cursor:
        texts = [measured_sql(f"{table}.state", db) for table in "sua"]
        initial_state = measured_sql("s.initial_state", db) if database.is_adopted(ref.source) else "NULL"
        cursor.execute(
            f"""SELECT s.create_time, s.update_time, {", ".join(texts)}, {initial_state}
            FROM sessions AS s LEFT JOIN app_states AS a ON a.app_name = s.app_name
            LEFT JOIN user_states AS u ON u.app_name = s.app_name AND u.user_id = s.user_id
            WHERE s.app_name = %s AND s.user_id = %s AND s.id = %s""",
            ref[1:],
        )
        row = cursor.fetchone()
    if row is None:
        raise NotFound(_("There's no session “%(id)s”.") % {"id": ref.session_id})
    sizes: dict[Scope, int] = {
        scope: size for scope, text in zip(_SCOPES, row[2:5], strict=True) if (size := large(text))
    }
    if sizes and not partly:
        raise Invalid(_too_large(max(sizes.values())))
    own, user, app, initial = (
        None if text is None or large(text) else shown_object(text, actor, ref.app_name, scope)
        for scope, text in zip((*_SCOPES, *_SCOPES[:1]), row[2:], strict=True)
    )
    return SessionView(
        ref,
        actor,
        read_instant(row[0]),
        read_instant(row[1]),
        Scoped(app=app or {}, user=user or {}, session=own or {}),
        initial,
        sizes,
    )
