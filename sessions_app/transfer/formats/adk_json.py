"""Writes and reads `adk-json`: one session as `adk web` exports it and `adk run --save_session` writes it.

Its state is merged. It has no initial state, and no times of the session's creation or of changes of shared state.
Fields are written in camelCase, as on ADK's routes; snake_case is read, too.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO, Final

from ...domain.adk_fields import check_fields
from ...domain.camel_case import camel_name, to_camel, to_snake
from ...domain.errors import Invalid
from ...domain.event import ID_LENGTH, INVOCATION_ID_LENGTH, Event
from ...domain.json_values import as_object, check_name
from ...domain.state import Scoped, split
from ..items import (
    MOST,
    EventItem,
    Fault,
    Item,
    SessionItem,
    StateItem,
    canonical,
    check_items,
    event_item,
    microseconds,
    moment,
    named,
    parse,
    read_with,
)

_FIELDS: Final = ("id", "app_name", "user_id", "state", "events", "last_update_time")
_SNAKE: Final = {camel_name(name): name for name in _FIELDS}
NAMES: Final = ({"id", "appName", "userId"}, {"id", "app_name", "user_id"})  # the fields that every session has


# --- Writing ----------------------------------------------------------------------------------------------------------


def write(items: Iterable[Item], secrets: bool = True, left_out: Sequence[str] = ()) -> Iterator[bytes]:
    """Writes a session with each event on a line. google-adk's model has no field for whether it has its `secrets`, or
    for what was `left_out`. Raises Invalid unless there is exactly one session."""
    states: dict[tuple[str, str | None], dict[str, Any]] = {}
    session: SessionItem | None = None
    events: list[str] = []
    for item in items:
        if isinstance(item, StateItem):
            states[item.app, item.user] = item.state
        elif isinstance(item, EventItem):
            events.append(canonical(to_camel(stored_event(item))))
        elif session is not None:
            raise Invalid(
                "This format holds one session, and there are several: name one by --app, --user and --session."
            )
        else:
            session = item
    if session is None:
        raise Invalid("This format holds one session, and there is none.")
    app, user = states.get((session.app, None), {}), states.get((session.app, session.user), {})
    merged = Scoped(app=app, user=user, session=parse(session.state)).merged()
    yield f'{{"appName":{canonical(session.app)},"events":['.encode()
    for number, event in enumerate(events):
        yield f"{',' if number else ''}\n{event}".encode()
    rest = {"id": session.session, "lastUpdateTime": session.updated, "state": merged, "userId": session.user}
    yield f"],{canonical(rest)[1:]}\n".encode()


def stored_event(item: EventItem) -> Event:
    """Returns an event with the values of its row, as ADK loads it. Raises Invalid if it is not an object."""
    event = parse(item.text)
    if not isinstance(event, dict):
        raise Invalid(f"The event {item.id} is not an object; only jsonl can hold it.")
    said = {"timestamp" if name == "at" else name: value for name, value in item.extra.items()}
    return event | said


# --- Reading ----------------------------------------------------------------------------------------------------------


class _Session:
    """Reads the items of one session."""

    def __init__(self, file: BinaryIO, size: int, strict: bool) -> None:
        self.done, self.total, self.where = 0, size, ""
        self.secrets = True  # as far as such a file tells
        self._file, self._strict = file, strict
        self._names = ""

    def __iter__(self) -> Iterator[Item]:
        """Reads from the file's start, once."""
        fields = self._fields()
        names = [self._name(fields, name) for name in ("app_name", "user_id", "id")]
        self.where = "state"
        with named("/".join(names)):
            state = piece(fields.get("state", {}), self._strict)
        if not isinstance(state, dict):
            raise Invalid("it is not an object")
        self.where = "events"
        events = fields.get("events", [])
        if not isinstance(events, list):
            raise Invalid("it is not a list")
        self._names = "/".join(names)
        first = self._event(0, events[0]).timestamp if events else None
        self.where = camel_name("last_update_time")
        updated = moment(fields.get("last_update_time", first or 0.0))
        if updated is None:
            raise Invalid("it is not a time in seconds since 1970")
        created = updated if first is None else first
        yield from begun(names, split(state), None, (created, updated), len(events))
        for number, event in enumerate(events):
            item = self._event(number, event)
            self.done = self.total * (number + 1) // len(events)
            yield item
        self.done = self.total

    def _fields(self) -> dict[str, Any]:
        data = load(self._file)
        if not isinstance(data, dict):
            raise Invalid("this is not an ADK session: its JSON is not an object")
        fields = {}
        for name, value in data.items():
            snake = _SNAKE.get(name, name)
            if snake not in _FIELDS:
                raise Fault("an ADK session has no such field", place=name)
            fields[snake] = value
        return fields

    def _name(self, fields: dict[str, Any], name: str) -> str:
        self.where = ""
        if name not in fields:
            raise Invalid(f"this is not an ADK session: {camel_name(name)} is missing")
        return check_name(fields[name], camel_name(name), ID_LENGTH)

    def _event(self, number: int, given: Any) -> EventItem:
        self.where = f"events[{number}]"
        return checked_event(given, self.where, self._strict, self._names)


read = read_with(_Session)


def begun(
    names: list[str], state: Scoped, initial: dict[str, Any] | None, times: tuple[float, float], events: int
) -> Iterator[StateItem | SessionItem]:
    """Yields what comes before a session's events:

    the state of its app and user, then its row, without `temp:` keys.
    """
    created, updated = map(microseconds, times)
    app, user, session = names
    if state.app:
        yield StateItem(app, None, state.app, updated)
    if state.user:
        yield StateItem(app, user, state.user, updated)
    first = None if initial is None else canonical(initial)
    yield SessionItem(app, user, session, created, updated, canonical(state.session), first, events)


def checked_event(given: Any, where: str, strict: bool, session: str = "") -> EventItem:
    """Reads an event of a session in either spelling. Raises Fault if ADK could not load it, or if it has no id."""
    try:
        with named(session, f"event {as_object(given).get('id')}"):
            event = to_snake(piece(given, strict))
        if not isinstance(event, dict):
            raise Invalid("it is not an object")
        try:
            check_fields(event)
        except Invalid as error:
            inner, _colon, problem = error.message.partition(": ")
            raise Fault(problem, place=f"{where}.{inner}") from error
        if not event.get("id"):
            raise Fault("is missing", place=f"{where}.id")
        event_id = check_name(event["id"], "id", ID_LENGTH)
        invocation_id = check_name(event.get("invocation_id", ""), "invocation_id", INVOCATION_ID_LENGTH)
        return event_item(event, event_id, invocation_id, None)
    except Fault:
        raise
    except Invalid as error:
        raise Fault(error.message, place=where) from error


# --- A file that holds one JSON value ---------------------------------------------------------------------------------


def load(file: BinaryIO) -> Any:
    """Reads the JSON value of a file. Raises Fault with line and column."""
    data = file.read(MOST + 1)
    if len(data) > MOST:
        raise Fault(f"the file is larger than {MOST} bytes", place="")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Fault(f"not UTF-8 (byte {error.start + 1} of the file)", place=f"line {line}") from error
    try:
        check_items(text)
        return json.loads(text)
    except Invalid as error:
        raise Fault(error.message, place="") from error
    except json.JSONDecodeError as error:
        cut = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
        problem = "the file is truncated" if cut else f"not valid JSON: {error.msg}"
        raise Fault(problem, place=f"line {error.lineno}, column {error.colno}") from error
    except RecursionError as error:
        raise Fault("nested deeper than any session", place="") from error
    except ValueError as error:  # int() of too many digits
        raise Fault(str(error), place="") from error


def piece(value: Any, strict: bool) -> Any:
    """Returns a part of the value, with numbers as ADK reads them. `strict` is for PostgreSQL. Raises Invalid."""
    try:
        text = json.dumps(value)
    except RecursionError as error:
        raise Invalid("nested deeper than any session") from error
    return parse(text, strict=strict)
