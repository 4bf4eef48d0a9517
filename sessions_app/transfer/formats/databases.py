"""Reads databases for an import: ADK's own, and those of other ADKs, whose tables are much like ADK's.

A database is opened for reading only. It does not become a source: it is never listed or adopted. A `Layout` has the
names of a kind of database. The rest is the same for all kinds: the states of apps, the states of users, then sessions
by name, each with its events in append order. If that order is unknown, they are sorted by time and id. Each session is
read as it was at one moment. Only one page of events is in memory at a time.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from ...domain.adk_fields import check_fields
from ...domain.errors import Invalid, SourceError
from ...domain.event import ID_LENGTH, INVOCATION_ID_LENGTH
from ...domain.json_values import check_name
from ...sources.dialect import UNADOPTED
from ...sources.recognise import check_not_java
from ..items import EventItem, Fault, Item, Reader, SessionItem, StateItem, beat, canonical, event_item, microseconds
from .layouts import Json, Layout, seconds
from .opened import Database, Row, opened

_PAGE: Final = 256  # events at most; fewer if they are large
_PAGE_LENGTH: Final = 1_000_000  # characters that a page of events should have
_KEYS: Final = 2_000  # sessions whose names are read at once


# --- Which kind -------------------------------------------------------------------------------------------------------


_GO_ONLY: Final = {"routes_json", "output_json", "node_info_json", "requested_input_json", "isolation_scope"}


def recognise_database(address: str) -> str:
    """Returns the name of a database's format, according to its tables. Raises Fault."""
    if address.startswith("agentengine://"):
        return "vertex"
    with opened(address) as database:
        tables = database.tables
        events = tables.get("events", {})
        if "sessions" in tables and "event_data" in events:
            return "adk-database"
        if "sessions" in tables and "llm_response" in events:
            return "adk-rust"
        if "sessions" in tables and "actions" in events:
            return _pickled_or_not(database, events)
    if not tables:
        raise Fault("this database is empty", place="")
    named = ", ".join(sorted(tables)[:10])
    raise Fault(f"this is a database, but not of an ADK that adkweb knows: it has the tables {named}", place="")


def _pickled_or_not(database: Database, events: dict[str, str]) -> str:
    """Distinguishes adk-go's tables from the similar ones of ADK's schema v0: the `actions` of adk-go are JSON."""
    if events.keys() & _GO_ONLY:
        return "adk-go"
    try:
        check_not_java(events)
    except SourceError as error:
        raise Fault(error.message, place="") from error
    for row in database.rows("SELECT substr(actions, 1, 1) AS actions FROM events WHERE actions IS NOT NULL LIMIT 1"):
        first = row["actions"]
        return "adk-go" if first in ("{", b"{") else "adk-v0"
    return "adk-go" if events.get("id") == "text" else "adk-v0"


# --- Reading ----------------------------------------------------------------------------------------------------------


def reader(layout: Layout) -> Callable[[str, bool], AbstractContextManager[Reader]]:
    """Makes the `Format.read` of a kind of database."""

    @contextmanager
    def read(address: str, strict: bool) -> Iterator[Reader]:
        with opened(address) as database:
            yield Items(database, layout, strict)

    return read


class Items:
    """Reads the items of a database. Raises Fault, which names the session and event."""

    def __init__(self, database: Database, layout: Layout, strict: bool) -> None:
        self.done = 0
        self.where, self.secrets = "", True
        self._database, self._layout, self._json = database, layout, Json(strict)
        self._check()
        self._wanted = [self._as_text(name, "events") for name in database.tables["events"] if name != "seq"]
        self.total = int(database.rows("SELECT count(*) AS n FROM events")[0]["n"])

    def __iter__(self) -> Iterator[Item]:
        """Reads from the start, once."""
        try:
            yield from self._states("app_states", ("app_name",))
            yield from self._states("user_states", ("app_name", "user_id"))
            for row in self._named("sessions", ("app_name", "user_id", self._layout.session), (), _KEYS):
                names = tuple(row.values())
                self.where = _joined(*names)
                yield from self._session(*names)
        except Invalid as error:
            raise Fault(error.message, place=self.where) from error

    def _check(self) -> None:
        layout = self._layout
        wanted = {
            "sessions": {"app_name", "user_id", layout.session, "state", layout.created, layout.updated},
            "events": {"app_name", "user_id", "session_id", "id", "invocation_id", "timestamp", *layout.columns},
            "app_states": {"app_name", "state", layout.updated},
            "user_states": {"app_name", "user_id", "state", layout.updated},
        }
        for table, columns in wanted.items():
            if table not in self._database.tables:
                raise Fault(f"this is not a database of the format {layout.name}: it has no table “{table}”", place="")
            if missing := columns - self._database.tables[table].keys():
                named = ", ".join(sorted(missing))
                raise Fault(
                    f"this is not a database of the format {layout.name}: the table “{table}” has no {named}", place=""
                )

    def _as_text(self, name: str, table: str) -> str:
        """Returns the SQL that reads a column. JSON is read as the stored text."""
        kind = self._database.tables[table][name]
        quoted = '"' + name.replace('"', '""') + '"'
        text = self._database.dialect.text(quoted)
        return f"{text} AS {quoted}" if kind in ("json", "jsonb") and text != quoted else quoted

    def _named(self, table: str, names: tuple[str, ...], more: tuple[str, ...], page: int) -> Iterator[Row]:
        """Yields rows in the order of their names, read page by page. `more` are further columns to read."""
        of = self._database
        order = ", ".join(f"{name} COLLATE {of.collation}" for name in names)
        cut = _cut if of.any_length else str
        columns = ", ".join([*map(cut, names), *(self._as_text(name, table) for name in more)])
        after: tuple[Any, ...] = ()
        while True:
            beyond = f"WHERE ({order}) > ({', '.join(['%s'] * len(names))})" if after else ""
            sql = f"SELECT {columns} FROM {table} {beyond} ORDER BY {order} LIMIT {page}"
            rows = self._database.rows(sql, *after, length=_PAGE_LENGTH)
            for row in rows:
                beat()
                yield row
            if not rows or (len(rows) < page and not of.stops_early):
                return
            before, after = after, tuple(rows[-1][name] for name in names)
            if after == before:  # a crafted database could keep reading from ever making progress
                raise Invalid("the names have no order that leads on from here")

    def _states(self, table: str, names: tuple[str, ...]) -> Iterator[StateItem]:
        updated = self._layout.updated
        for row in self._named(table, names, ("state", updated), 50):
            self.where = f"state of {_joined(*(row[name] for name in names))}"
            app, user = [*(check_name(row[name], name, ID_LENGTH) for name in names), None][:2]
            if state := self._json.object(row["state"], "state"):
                yield StateItem(app or "", user, state, microseconds(seconds(row[updated], updated)))

    def _session(self, app: str, user: str, session: str) -> Iterator[Item]:
        layout, database = self._layout, self._database
        columns = [layout.created, layout.updated, "state"]
        columns += ["initial_state"] * ("initial_state" in database.tables["sessions"])
        for name, what in ((app, "app_name"), (user, "user_id"), (session, layout.session)):
            check_name(name, what, ID_LENGTH)
        rows = database.rows(
            f"""SELECT {", ".join(self._as_text(name, "sessions") for name in columns)}, (SELECT count(*) FROM events
                WHERE app_name = sessions.app_name AND user_id = sessions.user_id
                AND session_id = sessions.{layout.session}) AS events
            FROM sessions WHERE app_name = %s AND user_id = %s AND {layout.session} = %s""",
            *(app, user, session),
        )
        if not rows:
            return  # it was deleted in the meantime
        if len(rows) > 1:
            raise Invalid("the session is there twice")
        (row,) = rows
        first = row.get("initial_state")
        item = SessionItem(
            app,
            user,
            session,
            microseconds(seconds(row[layout.created], layout.created)),
            microseconds(seconds(row[layout.updated], layout.updated)),
            canonical(layout.state(self._json.object(row["state"], "state"))),
            None if first is None else canonical(self._json.object(first, "initial_state")),
            row["events"],
        )
        yield item
        yield from self._events(item)

    def _events(self, item: SessionItem) -> Iterator[EventItem]:
        tables = self._database.tables
        of = self._database.dialect
        order = of.order if of.is_file or "seq" in tables["events"] else UNADOPTED.order
        order_columns = ", ".join(f"{name} AS order{n}" for n, name in enumerate(order))
        left, size, after = item.events, 32, ()
        while left:
            beyond = f"AND ({', '.join(order)}) > ({', '.join(['%s'] * len(order))})" if after else ""
            page = self._database.rows(
                f"""SELECT {", ".join(self._wanted)}, {order_columns} FROM events
                WHERE app_name = %s AND user_id = %s AND session_id = %s {beyond}
                ORDER BY {", ".join(order)} LIMIT {min(size, left)}""",
                *(item.app, item.user, item.session, *after),
                length=_PAGE_LENGTH,
            )
            if not page:
                raise Invalid("the session was deleted while it was read")
            length = 0
            for row in page:
                self.where = f"{_joined(item.app, item.user, item.session)}, event {row['id']}"
                event = self._event(row)
                length += len(event.text)
                self.done += 1
                yield event
            left -= len(page)
            after = tuple(page[-1][f"order{n}"] for n in range(len(order)))
            size = max(1, min(_PAGE, len(page) * _PAGE_LENGTH // max(1, length)))

    def _event(self, row: Row) -> EventItem:
        event_id = check_name(row["id"], "id", ID_LENGTH)
        invocation_id = check_name(row["invocation_id"] or "", "invocation_id", INVOCATION_ID_LENGTH)
        at = seconds(row["timestamp"], "timestamp")
        data = self._layout.event(row, self._json)
        if self._layout is not ADK:
            data = {"id": event_id, "invocation_id": invocation_id, "timestamp": at} | data
            check_fields(data)
        return event_item(data, event_id, invocation_id, at)


def _cut(name: str) -> str:
    """Returns the SQL that cuts overlong names on SQLite, where they have any length. A cut name is still too long."""
    return f"CASE WHEN length({name}) > {ID_LENGTH} THEN substr({name}, 1, {ID_LENGTH + 1}) ELSE {name} END AS {name}"


def _joined(*names: Any) -> str:
    return "/".join(map(str, names))


def _adk_event(row: Row, json: Json) -> Any:
    return json.parse(row["event_data"] if row["event_data"] is not None else "null", "event_data")


ADK: Final = Layout("adk-database", _adk_event, frozenset({"event_data"}))
read = reader(ADK)
