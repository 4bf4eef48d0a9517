"""Tells when a session began, and whether the initial state of every session is recorded.

Initial state is written to the database, but no event says so.
"""

from typing import Any, Final

from ..access.actor import Actor
from ..access.shown import shown_object
from ..domain.json_values import read_stored_or_none
from ..domain.positions import Position, position_of
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, UNKNOWN, Scope, State, scope_of
from ..reads import views
from ..reads.event_views import events_of, ordered
from ..reads.weights import large, measured_sql
from ..sources import database

FOREVER: Final = Position(2**62)  # after every position


def all_recorded(ref: SessionRef, scope: Scope) -> bool:
    """Tells whether the initial state of every session that this user, or this app, ever had is recorded.

    It is not if a session was deleted, or if something else than adkweb created one.
    """
    with database.using(ref.source) as db, db.cursor() as cursor:
        if not database.keeps_creations(ref.source):
            return False
        names, of_user = (ref[1:3], "AND user_id = %s") if scope == "user" else (ref[1:2], "")
        cursor.execute(
            f"""SELECT 1 FROM sessions WHERE app_name = %s {of_user} AND coalesce(initial_place, 0) <= 0
            UNION ALL SELECT 1 FROM adkweb_deleted WHERE app_name = %s {of_user} LIMIT 1""",
            [*names, *names],
        )
        return cursor.fetchone() is None


def begun(ref: SessionRef) -> Position:
    """Returns the position at which a session was created, or of its first event if that is not recorded."""
    with database.using(ref.source) as db, db.cursor() as cursor:
        if database.keeps_creations(ref.source):
            cursor.execute(
                "SELECT initial_place FROM sessions WHERE app_name = %s AND user_id = %s AND id = %s", ref[1:]
            )
            row = cursor.fetchone()
            if row and row[0] and row[0] > 0:
                return Position(row[0])
        first = ordered(events_of(ref), ref.source, newest=False).values_list("seq", flat=True).first()
    return FOREVER if first is None else position_of(first)


def first_value(ref: SessionRef, name: str, actor: Actor) -> Any:
    """Returns a full key's value before the first write of it; UNKNOWN if that is not recorded."""
    scope = scope_of(name)[0]
    if scope == "session":
        initial = views.session(ref, partly=True, actor=actor).initial_state
        return UNKNOWN if initial is None else initial.get(name, ABSENT)
    return ABSENT if all_recorded(ref, scope) else UNKNOWN


def initial_state(ref: SessionRef, actor: Actor) -> State | None:
    """Returns the state that a session began with; None if that is not recorded, or too large to be read."""
    with database.using(ref.source) as db, db.cursor() as cursor:
        if not database.is_adopted(ref.source):
            return None
        state = measured_sql("initial_state", db.vendor)
        cursor.execute(f"SELECT {state} FROM sessions WHERE app_name = %s AND user_id = %s AND id = %s", ref[1:])
        row = cursor.fetchone()
    if row is None or row[0] is None or large(row[0]):
        return None
    return shown_object(row[0], actor, ref.app_name, read=read_stored_or_none)
