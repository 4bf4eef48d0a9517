"""Databases as what is imported: ADK's own, and those of other ADKs, which share its tables in outline.

A database is opened for reading only, past `sources`: it is no source, is listed nowhere and is never adopted. `Layout`
says how a kind of database names things and how a row of its events becomes an event; the rest is the same for all: states
of apps, of users, then sessions, names ascending as their characters do, each with its events in append order where
something tells it, else by time and id. Each session is of one moment, as in `stored`; memory is that of a page of events.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from ...domain.adk_fields import check_fields
from ...domain.event import ID_LENGTH, INVOCATION_ID_LENGTH
from ...domain.json_values import check_name, looks_encrypted
from ...errors import Invalid, SourceError
from ...sources.dialect import SEQ_IN_SESSION
from ...sources.recognise import check_not_java
from .. import exporting
from ..items import (
    EventItem,
    Fault,
    Item,
    Reader,
    SessionItem,
    StateItem,
    beat,
    canonical,
    event_item,
    microseconds,
    moment,
)
from ..items import parse as parse_json
from .opened import Database, Row, opened

_PAGE: Final = 256  # events at most; fewer where they are large
_PAGE_LENGTH: Final = 1_000_000  # characters that a page of events aims at
_KEYS: Final = 2_000  # sessions whose names are read at once


@dataclass(frozen=True, slots=True)
class Layout:
    """How one kind of database keeps sessions. `event` makes an event of a row of `events` (JSON not yet parsed; `Json`
    parses it) without its id, invocation_id and timestamp; `state` makes a session's own state of what is stored as such.
    """

    name: str
    event: Callable[[Row, "Json"], dict[str, Any]]
    columns: frozenset[str]  # of `events`, without which it is not this kind
    state: Callable[[dict[str, Any]], dict[str, Any]] = lambda found: found
    session: str = "id"  # names of columns of `sessions` and the states
    created: str = "create_time"
    updated: str = "update_time"


class Json:
    """Parses JSON of columns; `strict` refuses what PostgreSQL cannot hold."""

    def __init__(self, strict: bool) -> None:
        self.strict = strict

    def parse(self, value: Any, what: str) -> Any:
        """A column's JSON, None for NULL. Raises Invalid."""
        if value is None:
            return None
        raw = value if isinstance(value, str) else blob(value, what)
        text = ""
        try:
            text = raw if isinstance(raw, str) else raw.decode()
            return parse_json(text, strict=self.strict)
        except UnicodeDecodeError as error:
            raise Invalid(f"{what}: no JSON text") from error
        except Invalid as error:
            if looks_encrypted(text):
                raise Invalid(f"{what} is encrypted: only a program with the key can read it") from error
            raise Invalid(f"{what}: {error.message}") from error

    def again(self, value: Any, what: str) -> Any:
        """A value that did not come from JSON, as it would come from there. Raises Invalid."""
        try:
            return self.parse(canonical(value), what)
        except (ValueError, RecursionError) as error:
            raise Invalid(f"{what}: {error}") from error

    def object(self, value: Any, what: str) -> dict[str, Any]:
        """A column's JSON object, {} for NULL. Raises Invalid."""
        found = self.parse(value, what)
        if not isinstance(found, dict | None):
            raise Invalid(f"{what}: no JSON object")
        return found or {}


def blob(value: Any, what: str) -> bytes:
    """A column's bytes. Raises Invalid for a value of another type, which SQLite keeps in any column."""
    if not isinstance(value, bytes | memoryview):
        raise Invalid(f"{what}: neither text nor bytes")
    return bytes(value)


# --- Which kind -------------------------------------------------------------------------------------------------------


_GO_ONLY: Final = {"routes_json", "output_json", "node_info_json", "requested_input_json", "isolation_scope"}


def recognise_database(place: str) -> str:
    """The name of the format of a database, by its tables. Raises Fault."""
    if place.startswith("agentengine://"):
        return "vertex"
    with opened(place) as database:
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
    raise Fault(f"this is a database, but of no ADK that is known here: it has the tables {named}", place="")


def _pickled_or_not(database: Database, events: dict[str, str]) -> str:
    """adk-go's tables and those of ADK's schema v0 have almost the same columns; `actions` is JSON in one."""
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
    """What Format.read is for a kind of database."""

    @contextmanager
    def read(place: str, strict: bool) -> Iterator[Reader]:
        with opened(place) as database:
            yield Items(database, layout, strict)

    return read


class Items:
    """The items of a database; raises Fault naming the session and event."""

    def __init__(self, database: Database, layout: Layout, strict: bool) -> None:
        self.done = 0
        self.place = ""
        self._database, self._layout, self._json = database, layout, Json(strict)
        self._check()
        self._wanted = [self._as_text(name, "events") for name in database.tables["events"] if name != "seq"]
        self.total = int(database.rows("SELECT count(*) AS n FROM events")[0]["n"])

    def __iter__(self) -> Iterator[Item]:
        """From the beginning, once."""
        try:
            yield from self._states("app_states", ("app_name",))
            yield from self._states("user_states", ("app_name", "user_id"))
            for row in self._named("sessions", ("app_name", "user_id", self._layout.session), (), _KEYS):
                names = tuple(row.values())
                self.place = _place(*names)
                yield from self._session(*names)
        except Invalid as error:
            raise Fault(error.message, place=self.place) from error

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
                raise Fault(f"this is no database of the format {layout.name}: it has no table “{table}”", place="")
            if missing := columns - self._database.tables[table].keys():
                named = ", ".join(sorted(missing))
                raise Fault(
                    f"this is no database of the format {layout.name}: the table “{table}” has no {named}", place=""
                )

    def _as_text(self, name: str, table: str) -> str:
        """A column, JSON as the text that is stored."""
        kind = self._database.tables[table][name]
        quoted = '"' + name.replace('"', '""') + '"'
        parsed = kind in ("json", "jsonb") and self._database.vendor == "postgresql"
        return f"{quoted}::text AS {quoted}" if parsed else quoted

    def _named(self, table: str, names: tuple[str, ...], more: tuple[str, ...], page: int) -> Iterator[Row]:
        """Rows by name, a page at a time; `more` is columns that come along."""
        postgresql = self._database.vendor == "postgresql"
        collation = '"C"' if postgresql else "BINARY"
        order = ", ".join(f"{name} COLLATE {collation}" for name in names)
        columns = ", ".join([*map(str if postgresql else _cut, names), *(self._as_text(name, table) for name in more)])
        after: tuple[Any, ...] = ()
        while True:
            beyond = f"WHERE ({order}) > ({', '.join(['%s'] * len(names))})" if after else ""
            sql = f"SELECT {columns} FROM {table} {beyond} ORDER BY {order} LIMIT {page}"
            found = self._database.rows(sql, *after, length=_PAGE_LENGTH)
            for row in found:
                beat()
                yield row
            if not found or (postgresql and len(found) < page):
                return
            before, after = after, tuple(found[-1][name] for name in names)
            if after == before:  # a database can be made so that nothing lies behind what was read
                raise Invalid("names that no order leads on from")

    def _states(self, table: str, names: tuple[str, ...]) -> Iterator[StateItem]:
        updated = self._layout.updated
        for row in self._named(table, names, ("state", updated), 50):
            self.place = f"state of {_place(*(row[name] for name in names))}"
            app, user = [*(check_name(row[name], name, ID_LENGTH) for name in names), None][:2]
            if state := self._json.object(row["state"], "state"):
                yield StateItem(app or "", user, state, microseconds(seconds(row[updated], updated)))

    def _session(self, app: str, user: str, session: str) -> Iterator[Item]:
        layout, database = self._layout, self._database
        columns = [layout.created, layout.updated, "state"]
        columns += ["initial_state"] * ("initial_state" in database.tables["sessions"])
        for name, what in ((app, "app_name"), (user, "user_id"), (session, layout.session)):
            check_name(name, what, ID_LENGTH)
        found = database.rows(
            f"""SELECT {", ".join(self._as_text(name, "sessions") for name in columns)}, (SELECT count(*) FROM events
                WHERE app_name = sessions.app_name AND user_id = sessions.user_id
                AND session_id = sessions.{layout.session}) AS events
            FROM sessions WHERE app_name = %s AND user_id = %s AND {layout.session} = %s""",
            *(app, user, session),
        )
        if not found:
            return  # deleted since
        if len(found) > 1:
            raise Invalid("the session stands there twice")
        (row,) = found
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
        if exporting.is_half(item):
            raise Invalid("the session is half-imported there: finish its import, or delete it, first")
        yield item
        yield from self._events(item)

    def _events(self, item: SessionItem) -> Iterator[EventItem]:
        tables = self._database.tables
        vendor = self._database.vendor
        order = [SEQ_IN_SESSION[vendor]] if vendor == "sqlite" or "seq" in tables["events"] else []
        order = order or ["timestamp", "id"]
        places = ", ".join(f"{name} AS place{n}" for n, name in enumerate(order))
        left, size, after = item.events, 32, ()
        while left:
            beyond = f"AND ({', '.join(order)}) > ({', '.join(['%s'] * len(order))})" if after else ""
            page = self._database.rows(
                f"""SELECT {", ".join(self._wanted)}, {places} FROM events
                WHERE app_name = %s AND user_id = %s AND session_id = %s {beyond}
                ORDER BY {", ".join(order)} LIMIT {min(size, left)}""",
                *(item.app, item.user, item.session, *after),
                length=_PAGE_LENGTH,
            )
            if not page:
                raise Invalid("the session was deleted while it was read")
            length = 0
            for row in page:
                self.place = f"{_place(item.app, item.user, item.session)}, event {row['id']}"
                found = self._event(row)
                length += len(found.text)
                self.done += 1
                yield found
            left -= len(page)
            after = tuple(page[-1][f"place{n}"] for n in range(len(order)))
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
    """A column of names for SQLite, where one may be of any length: cut, it is still too long, and refused as that."""
    return f"CASE WHEN length({name}) > {ID_LENGTH} THEN substr({name}, 1, {ID_LENGTH + 1}) ELSE {name} END AS {name}"


def keep(event: dict[str, Any], adk: str, rest: Mapping[str, Any]) -> None:
    """Adds to an event's `custom_metadata` what another ADK says and ADK's events have no field for."""
    if kept := {name: value for name, value in rest.items() if value is not None}:
        event["custom_metadata"] = {**event.get("custom_metadata", {}), adk: kept}


def _place(*names: Any) -> str:
    return "/".join(map(str, names))


def _adk_event(row: Row, json: Json) -> Any:
    return json.parse(row["event_data"] if row["event_data"] is not None else "null", "event_data")


ADK: Final = Layout("adk-database", _adk_event, frozenset({"event_data"}))
read = reader(ADK)


# --- Times ------------------------------------------------------------------------------------------------------------


# As Go prints a time: 2026-01-02 03:04:05.678901234 +0000 UTC m=+0.1
_GO_TIME: Final = re.compile(r"([\d-]+[ T][\d:.]+) ([+-]\d\d):?(\d\d)(?: .*)?")


def seconds(value: Any, what: str) -> float:
    """A time of a row as seconds since 1970: a number, a datetime or a text; UTC where it names no zone. Raises Invalid."""
    if isinstance(value, str):
        text = value.strip()
        if (go := _GO_TIME.fullmatch(text)) is not None:
            text = f"{go[1]}{go[2]}:{go[3]}"
        try:
            value = datetime.fromisoformat(text)
        except ValueError:
            value = None
    if isinstance(value, datetime):
        try:
            value = (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
        except OverflowError:
            value = None
    found = moment(value)
    if found is None:
        raise Invalid(f"{what}: this is no time")
    return found
