"""Streams the JSON texts of events and states as they are stored, however large."""

from collections.abc import Iterator, Sequence
from typing import Final

from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..access.shown import shown_pieces
from ..domain.errors import NotFound
from ..domain.session_ref import SessionRef
from ..domain.state import Scope
from ..sources import database

_PIECE: Final = 8_000_000  # characters


def state_text(ref: SessionRef, scope: Scope, *, actor: Actor) -> Iterator[str]:
    """Yields the JSON text of a scope's state as it is stored, in pieces and without parsing it. Raises NotFound."""
    actor.check_sees(ref)
    table, names = {"session": ("sessions", 4), "user": ("user_states", 3), "app": ("app_states", 2)}[scope]
    columns = ("app_name", "user_id", "id")[: names - 1]
    where = " AND ".join(f"{name} = %s" for name in columns)
    sql = f"SELECT %s FROM {table} WHERE {where}"
    return shown_pieces(lambda: _pieces(ref.source, sql, "state", ref[1:names]), actor, ref.app_name, scope)


def event_text(ref: SessionRef, event_id: str, *, actor: Actor) -> Iterator[str]:
    """Yields the JSON text of an event as it is stored, in pieces and without parsing it. Raises NotFound."""
    actor.check_sees(ref)
    where = "app_name = %s AND user_id = %s AND session_id = %s AND id = %s"
    sql, names = f"SELECT %s FROM events WHERE {where}", (*ref[1:], event_id)
    return shown_pieces(lambda: _pieces(ref.source, sql, "event_data", names), actor, ref.app_name, "event")


def _pieces(source: str, sql: str, column: str, names: Sequence[str]) -> Iterator[str]:
    """Yields a text in pieces of _PIECE characters. These are large, because the database reads the whole text for each
    of them."""
    first = 1
    while True:
        with database.using(source) as db, db.cursor() as cursor:
            text = column if db.vendor == "sqlite" else f"{column}::text"
            cursor.execute(sql.replace("%s", f"substr({text}, {first:d}, {_PIECE:d})", 1), names)
            row = cursor.fetchone()
        if row is None:
            raise NotFound(_("This is not here any more."))
        if not row[0]:
            return
        yield row[0]
        first += _PIECE
