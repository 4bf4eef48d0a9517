"""Streams the items of a source: names in the order of their code points, events in the order of appending.

The order does not depend on the database. Each session is exported as it was at one moment: its row and the number of
its events are read by one statement, then that many events, which never change. Only one page of events is in memory at
a time, however long a session is. The source need not be adopted.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any, Final
from urllib.parse import quote

from ..access.actor import SYSTEM, Actor
from ..access.handles import are_hidden, are_hidden_anywhere, shown_ref, shown_user
from ..access.shown import Kind, shown
from ..domain import credentials
from ..domain.errors import Conflict, Invalid
from ..domain.session_ref import SessionRef
from ..domain.state import Scope
from ..models import read_instant, stored_instant
from ..reads.lists import app_names
from ..sources import database, dialect, registry
from .items import EventItem, Item, SessionItem, StateItem, canonical, event_item, microseconds, parse

_KEYS: Final = 2_000  # sessions whose names are read at once
_STATES: Final = 50
_SAME_USER: Final = "sessions.app_name = user_states.app_name AND sessions.user_id = user_states.user_id"
_MOST_EVENTS: Final = 256  # on a page; fewer if they are large
_PAGE_LENGTH: Final = 1_000_000  # characters that a page of events should have


@dataclass(frozen=True, slots=True)
class Filter:
    """Selects sessions by app, user and id; None selects any. App and user states go with the selected sessions."""

    app: str | None = None
    user: str | None = None
    session: str | None = None

    def where(self) -> tuple[str, list[str]]:
        """Returns an SQL condition on `sessions`, and its values."""
        given = {"app_name": self.app, "user_id": self.user, "id": self.session}
        found = {f"sessions.{name} = %s": value for name, value in given.items() if value is not None}
        return " AND ".join(found) or "TRUE", list(found.values())


@dataclass(slots=True)
class Damaged:
    """Rows of a source that can't be read, or that aren't objects, by their names: `shop/ana/s1/e2` is an event. An
    export leaves them out. It is `looking` while they are being found."""

    rows: dict[tuple[str, ...], str] = field(default_factory=dict)  # why
    looking: bool = True

    @property
    def names(self) -> list[str]:
        """Returns the names of the rows."""
        return ["/".join(row) for row in self.rows]

    def leaves_out(self, row: tuple[str, ...], why: str) -> bool:
        """Returns whether a damaged row is left out. A row that was damaged after the check is not: it would be listed
        nowhere."""
        if self.looking:
            self.rows[row] = why
        return row in self.rows

    def of(self, session: tuple[str, ...]) -> int:
        """Returns how many events of a session are left out."""
        return sum(row[:-1] == session for row in self.rows)


def damaged(source: str, only: Filter, *, actor: Actor) -> Damaged:
    """Searches what `items` yields for damaged rows, because an export lists what it leaves out first."""
    rows = Damaged()
    return _looked_for(rows, items(source, only, actor=actor, left_out=rows))


def damaged_of(refs: Iterable[SessionRef], *, actor: Actor) -> Damaged:
    """Searches what `items_of` yields for damaged rows."""
    rows = Damaged()
    return _looked_for(rows, items_of(refs, actor=actor, left_out=rows))


def _looked_for(rows: Damaged, some: Iterable[Item]) -> Damaged:
    for _item in some:
        pass
    rows.looking = False
    return rows


def items(source: str, only: Filter, *, actor: Actor, left_out: Damaged | None = None) -> Iterator[Item]:
    """Yields what the actor may see of a source: the states of apps and of users, then each session with its events.

    The secrets of credentials are left out, also for an agent, except for the machine itself: dots in their place would
    be taken for secrets when the file is read.

    A user whose id is hidden has a handle, and is sorted by it, so that the order reveals nothing.

    Raises SourceError, Conflict (a session was deleted while it was read) and Invalid (something stored is not JSON).
    """
    yield from _states(source, "app", only, actor, left_out)
    yield from _user_states(source, only, actor, left_out)
    for ref in _in_order(refs(source, only), actor):
        yield from _session(ref, actor, left_out)


def refs(source: str, only: Filter) -> Iterator[SessionRef]:
    """Yields the selected sessions by name, without checking who may see them, reading a page at a time. Raises
    SourceError."""
    where, values = only.where()
    for names in _rows(source, "sessions", ("app_name", "user_id", "id"), "", where, values, _KEYS):
        yield SessionRef(source, *names)


def _in_order(some: Iterable[SessionRef], actor: Actor) -> Iterator[SessionRef]:
    """Yields the sessions of each app in the order of what the actor sees of their names. To change the order, it takes
    the names of an app into memory."""
    for (source, app_name), each in groupby(some, key=itemgetter(0, 1)):
        if are_hidden(source, app_name, actor):
            yield from sorted(each, key=lambda ref: shown_ref(ref, actor))
        else:
            yield from each


def _user_states(source: str, only: Filter, actor: Actor, left_out: Damaged | None) -> Iterator[StateItem]:
    if not are_hidden_anywhere(actor):
        yield from _states(source, "user", only, actor, left_out)
        return
    where, values = only.where()
    if values:
        where = f"EXISTS (SELECT 1 FROM sessions WHERE {_SAME_USER} AND {where})"
    rows = _rows(source, "user_states", ("app_name", "user_id"), "", where, values, _KEYS)
    for ref in _in_order((SessionRef(source, app, user, "") for app, user in rows), actor):
        if not actor.may_see(source, ref.app_name):
            continue
        try:
            state = user_state(*ref[:3], actor=actor)
        except Invalid as error:
            if left_out and left_out.leaves_out(shown_ref(ref, actor)[1:3], error.message):
                continue
            raise
        if state:
            yield state


def items_of(refs: Iterable[SessionRef], *, actor: Actor, left_out: Damaged | None = None) -> Iterator[Item]:
    """Yields what the actor may see of some sessions: each with its events, after the states of its app and its user.

    Raises what `items` does.
    """
    told: set[tuple[str, ...]] = set()
    for ref in _in_order(refs, actor):
        owners: dict[Scope, Filter] = {"app": Filter(ref.app_name), "user": Filter(ref.app_name, ref.user_id)}
        for scope, only in owners.items():
            owner = (ref.source, *only.where()[1])
            if owner not in told:
                told.add(owner)
                yield from _states(ref.source, scope, only, actor, left_out)
        yield from _session(ref, actor, left_out)


def _session(ref: SessionRef, actor: Actor, left_out: Damaged | None) -> Iterator[Item]:
    """Yields a session with its events; nothing if it was deleted, or if its app does not exist for the actor."""
    names = shown_ref(ref, actor)[1:]
    try:
        found = head(ref, actor) if actor.may_see(ref.source, ref.app_name) else None
    except Invalid as error:
        if left_out and left_out.leaves_out(names, error.message):
            return
        raise
    if found is None:
        return
    if found.is_incomplete:
        raise Conflict(f"The session {'/'.join(names)} is half-imported: finish its import, or delete it, first.")
    left = found.events
    yield found._replace(user=names[1], events=left - (left_out.of(names) if left_out else 0))
    place = None
    while left:
        page, place = events(ref, place, left, actor, left_out)
        if place is None:
            raise Conflict(f"The session {'/'.join(names)} was deleted while it was read.")
        left -= place.read
        yield from page


def count(source: str, only: Filter, *, actor: Actor) -> int:
    """Returns roughly how many events `items` will yield."""
    where, values = only.where()
    if not actor.sees_all_of(source):
        seen = app_names(source, actor=actor)
        where = f"{where} AND sessions.app_name IN ({', '.join(['%s'] * len(seen)) or 'NULL'})"
        values = [*values, *seen]
    named = "sessions.app_name = events.app_name AND sessions.user_id = events.user_id AND sessions.id = session_id"
    with database.using(source) as db, db.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM events"
            + (f" WHERE EXISTS (SELECT 1 FROM sessions WHERE {named} AND {where})" if where != "TRUE" else ""),
            values,
        )
        return int(cursor.fetchone()[0])


def head(ref: SessionRef, actor: Actor) -> SessionItem | None:
    """Returns a session's row with the number of its events, or None if there is no such session."""
    with database.using(ref.source) as db, db.cursor() as cursor:
        of = dialect.of(db)
        initial = of.text("initial_state") if database.is_adopted(ref.source) else "NULL"
        cursor.execute(
            f"""SELECT {of.text("state")}, {initial}, create_time, update_time, (SELECT count(*) FROM events
                WHERE app_name = sessions.app_name AND user_id = sessions.user_id AND session_id = sessions.id)
            FROM sessions WHERE app_name = %s AND user_id = %s AND id = %s""",
            ref[1:],
        )
        row = cursor.fetchone()
    if row is None:
        return None
    state = canonical(_json(row[0], ref, actor))
    first = None if row[1] is None else canonical(_json(row[1], ref, actor))
    created, updated = (microseconds(read_instant(value)) for value in row[2:4])
    return SessionItem(*ref[1:], created, updated, state, first, row[4])


def events(
    ref: SessionRef, after: Any, most: int, actor: Actor, left_out: Damaged | None = None
) -> tuple[list[EventItem], Any]:
    """Returns the next events of a session in append order, and where they end: pass it as `after` to continue.

    `after` is None for the first page. A session whose database is adopted in the meantime is read to its end by time,
    as it was started.
    """
    with database.using(ref.source) as db:
        numbered = len(after.values) == 1 if isinstance(after, _Place) else database.is_numbered(ref.source)
        # If this database was released in the meantime, it has no such column, and the export fails.
        seq = registry.sources[ref.source].dialect.seq_in_session if numbered else ""
        order = [seq] if seq else ["timestamp", "id"]
        beyond = f"AND ({', '.join(order)}) > ({', '.join(['%s'] * len(order))})" if after is not None else ""
        limit, after = (after.size, after.values) if isinstance(after, _Place) else (32, [])
        with db.cursor() as cursor:
            cursor.execute(
                f"""SELECT id, invocation_id, timestamp, {dialect.of(db).text("event_data")}, {seq or 0} FROM events
                WHERE app_name = %s AND user_id = %s AND session_id = %s {beyond}
                ORDER BY {", ".join(order)} LIMIT %s""",
                [*ref[1:], *after, min(limit, most)],
            )
            found, length, read = [], 0, 0
            for event_id, invocation_id, at, data, number in cursor:
                read += 1
                length += len(data or "")
                last = [number] if seq else [stored_instant(read_instant(at), db), event_id]
                try:
                    value = _json(data if data is not None else "null", ref, actor, "event", event_id)
                    if left_out and not isinstance(value, dict):
                        raise Invalid("not an object")
                except Invalid as error:
                    if left_out and left_out.leaves_out((*shown_ref(ref, actor)[1:], event_id), error.message):
                        continue
                    raise
                found.append(event_item(value, event_id, invocation_id, read_instant(at)))
    if not read:
        return [], None
    return found, _Place(last, max(1, min(_MOST_EVENTS, read * _PAGE_LENGTH // max(1, length))), read)


def state(source: str, item: StateItem, actor: Actor) -> dict[str, Any] | None:
    """Returns the state that the source has for an item's app or user, or None if it has no row."""
    scope: Scope = "app" if item.user is None else "user"
    table, names = _TABLES[scope]
    with database.using(source) as db, db.cursor() as cursor:
        where = " AND ".join(f"{name} = %s" for name in names)
        cursor.execute(
            f"SELECT {dialect.of(db).text('state')} FROM {table} WHERE {where}", [item.app, item.user][: len(names)]
        )
        row = cursor.fetchone()
    if row is None:
        return None
    found = _json(row[0], SessionRef(source, item.app, item.user or "", ""), actor, scope)
    return found if isinstance(found, dict) else {}


def user_state(source: str, app_name: str, user_id: str, *, actor: Actor) -> StateItem | None:
    """Returns the state of a user, who may have no session; None if it is empty, or if their app does not exist for the
    actor."""
    names = ("app_name", "user_id")
    given = "app_name = %s AND user_id = %s"
    for app, user, text, updated in _rows(
        source, "user_states", names, "state update_time", given, (app_name, user_id), 2
    ):
        state = _json(text, SessionRef(source, app, user, ""), actor, "user")
        if state and actor.may_see(source, app):
            return StateItem(app, shown_user(source, app, user, actor), state, microseconds(read_instant(updated)))
    return None


@dataclass(frozen=True, slots=True)
class _Place:
    values: list[Any]
    size: int  # of the next page
    read: int  # rows of this one


_TABLES: Final[dict[Scope, tuple[str, tuple[str, ...]]]] = {
    "app": ("app_states", ("app_name",)),
    "user": ("user_states", ("app_name", "user_id")),
}


def _states(
    source: str, scope: Scope, only: Filter, actor: Actor, left_out: Damaged | None = None
) -> Iterator[StateItem]:
    table, names = _TABLES[scope]
    where, values = only.where()
    if values:
        same = " AND ".join(f"sessions.{name} = {table}.{name}" for name in names)
        where = f"EXISTS (SELECT 1 FROM sessions WHERE {same} AND {where})"
    for row in _rows(source, table, names, "state update_time", where, values, _STATES):
        app, user = row[0], row[1] if scope == "user" else None
        if not actor.may_see(source, app):
            continue
        seen = user and shown_user(source, app, user, actor)
        try:
            found = _json(row[-2], SessionRef(source, app, user or "", ""), actor, scope)
        except Invalid as error:
            if left_out and left_out.leaves_out((app,) if seen is None else (app, seen), error.message):
                continue
            raise
        if found:
            yield StateItem(app, seen, found, microseconds(read_instant(row[-1])))


def _rows(
    source: str, table: str, names: Sequence[str], more: str, where: str, values: Sequence[str], page: int
) -> Iterator[tuple[Any, ...]]:
    """Yields rows in the order of their names, read page by page. `more` names further columns, separated by blanks."""
    after: tuple[Any, ...] = ()
    while True:
        with database.using(source) as db, db.cursor() as cursor:
            of = dialect.of(db)
            order = ", ".join(of.by_bytes(f"{table}.{name}") for name in names)
            columns = [*names, *(of.text(c) if c == "state" else c for c in more.split())]
            beyond = f"AND ({order}) > ({', '.join(['%s'] * len(names))})" if after else ""
            cursor.execute(
                f"SELECT {', '.join(columns)} FROM {table} WHERE {where} {beyond} ORDER BY {order} LIMIT {page}",
                [*values, *after],
            )
            found = list(cursor.fetchall())
        yield from found
        if len(found) < page:
            return
        after = found[-1][: len(names)]


def _json(text: str, ref: SessionRef, actor: Actor, scope: Kind = "session", event_id: str = "") -> Any:
    try:
        value = parse(text)
        if actor is SYSTEM:
            return value
        return shown(credentials.without(value) if credentials.may_hold(text) else value, actor, ref.app_name, scope)
    except Invalid as error:
        where = "/".join(name for name in (*shown_ref(ref, actor)[1:], event_id) if name)
        raise Invalid(f"What is stored for {where} cannot be exported: {error.message}") from error


# --- What an export left out, as a header: a file of google-adk's has no place for it ---------------------------------

NAME: Final = "Adkweb-Left-Out"
_LENGTH: Final = 4_000  # characters: more is cut by proxies


def left_out_header(rows: Damaged | None) -> dict[str, str]:
    """Returns the header: “2: shop/ana/s1/e2 shop/ana/s1/e5”, with names as in addresses. Long lists are cut."""
    if rows is None:
        return {}
    names = " ".join(quote(name.encode("utf-8", "replace"), safe="/") for name in rows.names)
    return {NAME: f"{len(rows.names)}: {names}"[:_LENGTH]}
