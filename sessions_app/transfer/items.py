"""What a store is, piece by piece, whatever the format: states, sessions and their events, in one order (pure).

Everything is canonical, so that two stores with the same content give the same bytes. Object keys are sorted, as
PostgreSQL does not keep their order. Numbers are what ADK reads: a float from 1e16 on is the whole number that it is, and
-0.0 is 0.0. A row's time has microseconds, which is all that PostgreSQL keeps; an event's own `timestamp` stays exact, and
its row's time is that one wherever they are the same to the microsecond.
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from os import SEEK_END
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, Protocol

from ..domain.units import event_in_seconds, in_seconds, whole_milliseconds
from ..errors import Invalid
from ..reads.weights import items

MOST: Final = 64 * 2**20  # bytes of what is read as one: a line, a session
MOST_ITEMS: Final = 2_000_000  # lists, objects, keys and items of it
TOO_MANY: Final = "more lists, objects and items than are read at once"
_WHOLE: Final = 1e16  # see domain/json_values.py
_FIRST: Final = -30_000_000_000  # in the year 1019; SQLite does not read earlier dates back
_DEEPEST: Final = 200  # levels; ADK's parser stops there, and with it its reading of the session
_NUL: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


class Fault(Invalid):
    """What is read is not what it should be; `detail["place"]` says where in it, "" for all of it."""


class StateItem(NamedTuple):
    """The state of an app, or of a user in it; keys without prefix. An empty one is no item."""

    app: str
    user: str | None
    state: dict[str, Any]
    updated: float


class SessionItem(NamedTuple):
    """A session's row, states as canonical JSON; `events` follow it. `initial_state` None: never recorded."""

    app: str
    user: str
    session: str
    created: float
    updated: float
    state: str
    initial_state: str | None
    events: int


class EventItem(NamedTuple):
    """An event's row, `text` its canonical JSON; `extra`: what its columns say otherwise (id, invocation_id, at)."""

    id: str
    invocation_id: str
    timestamp: float
    text: str
    extra: dict[str, Any]


Item = StateItem | SessionItem | EventItem


class Reader(Protocol):
    """The items of something that is read, in order; raises Fault, or Invalid for a fault at `place`."""

    @property
    def done(self) -> int:
        """How far it has read, in the units of `total`: bytes of a file, events of a database."""
        ...

    @property
    def total(self) -> int:
        """How much there is, about."""
        ...

    @property
    def where(self) -> str:
        """Where it stands, for a fault's reader: "line 12"."""
        ...

    def __iter__(self) -> Iterator[Item]:
        """From the beginning, once."""
        ...


_heart: Final[ContextVar[Callable[[], None]]] = ContextVar("heart", default=lambda: None)


def beat() -> None:
    """Says that what reads is still at it, in the middle of a query, too. Raises what ends it: it was cancelled, say."""
    _heart.get()()


@contextmanager
def beating(heart: Callable[[], None]) -> Iterator[None]:
    """Has `heart` called by every `beat` in here."""
    token = _heart.set(heart)
    try:
        yield
    finally:
        _heart.reset(token)


@contextmanager
def open_file(path: str) -> Iterator[tuple[BinaryIO, int]]:
    """A file, and its size in bytes. Raises Fault for what cannot be read twice, OSError."""
    with Path(path).open("rb") as file:
        if not file.seekable():
            raise Fault("this is no file: an import reads it twice", place="")
        size = file.seek(0, SEEK_END)
        file.seek(0)
        yield file, size


def read_with(
    kind: Callable[[BinaryIO, int, bool], Reader],
) -> Callable[[str, bool], AbstractContextManager[Reader]]:
    """Makes the `Format.read` of a kind of file; `strict` says that the items are for PostgreSQL."""

    @contextmanager
    def read(path: str, strict: bool) -> Iterator[Reader]:
        with open_file(path) as (file, size):
            yield kind(file, size, strict)

    return read


def event_item(data: Any, event_id: str, invocation_id: str, at: float | None) -> EventItem:
    """An event from its JSON and its columns; `at` None for the event's own time. Raises Invalid where it has none."""
    data = event_in_seconds(data)
    own = data if isinstance(data, dict) else {}
    extra: dict[str, Any] = {}
    said = moment(own.get("timestamp"))
    if at is None:
        at = said
    if at is None:
        raise Invalid("the event has no time: neither “timestamp” in it nor “at” beside it is one")
    if said is not None and (said == at or microseconds(said) == microseconds(at)):
        at = said
    else:
        at = extra["at"] = microseconds(at)
    if own.get("id") != event_id:
        extra["id"] = event_id
    if own.get("invocation_id") != invocation_id:
        extra["invocation_id"] = invocation_id
    return EventItem(event_id, invocation_id, at, canonical(data), extra)


def in_whole_milliseconds(item: Item) -> Item:
    """An item as a store that keeps milliseconds has it."""
    if isinstance(item, SessionItem):
        return item._replace(created=whole_milliseconds(item.created), updated=whole_milliseconds(item.updated))
    if isinstance(item, EventItem):
        data = json.loads(item.text)
        if isinstance(data, dict) and (said := moment(data.get("timestamp"))) is not None:
            data["timestamp"] = whole_milliseconds(said)
        return event_item(data, item.id, item.invocation_id, whole_milliseconds(item.timestamp))
    return item


def moment(value: Any) -> float | None:
    """A number that is a time every store can hold, as seconds; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    value = in_seconds(value)
    try:
        datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return value if value >= _FIRST else None


def microseconds(seconds: float) -> float:
    """A time as PostgreSQL keeps it; what is no date stays as it is."""
    try:
        return datetime.fromtimestamp(seconds, UTC).timestamp()
    except (ValueError, OverflowError, OSError):
        return seconds


def parse(text: str, *, strict: bool = False) -> Any:
    """JSON as ADK reads it, NaN included; `strict` refuses what PostgreSQL cannot hold. Raises Invalid."""
    if items(text) > MOST_ITEMS:
        raise Invalid(TOO_MANY)
    try:
        if strict:
            value = json.loads(text, parse_float=_finite, parse_constant=_refuse)
        else:
            value = json.loads(text, parse_float=_number)
    except json.JSONDecodeError as error:
        raise Invalid(f"not valid JSON: {error.msg} (column {error.colno})") from error
    except RecursionError as error:
        raise Invalid(f"nested deeper than {_DEEPEST} levels") from error
    except ValueError as error:
        raise Invalid(str(error)) from error
    if text.count("[") + text.count("{") > _DEEPEST and _depth(value) > _DEEPEST:
        raise Invalid(f"nested deeper than {_DEEPEST} levels, which no agent could read")
    if strict and "\\u" in text:
        written = canonical(value)
        if _NUL.search(written):
            raise Invalid("PostgreSQL cannot hold the character U+0000")
        if re.search(r"\\ud[89a-f]", written):  # else it would have been written as the character
            _check_characters(value)
    return value


def canonical(value: Any) -> str:
    """The one text of a JSON value; where it holds half of a surrogate pair, in ASCII."""
    text = _PLAIN.encode(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            text = _ESCAPED.encode(value)
    return text


_PLAIN: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"))
_ESCAPED: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def _number(text: str) -> float | int:
    value = float(text)
    return int(value) if _WHOLE <= abs(value) < math.inf else value + 0.0


def _finite(text: str) -> float | int:
    value = _number(text)
    return value if math.isfinite(value) else _refuse(text)


def _refuse(name: str) -> Any:
    raise ValueError(f"PostgreSQL cannot hold {name}")


def _check_characters(value: Any) -> None:
    try:
        _PLAIN.encode(value).encode()
    except UnicodeEncodeError as error:
        raise Invalid("PostgreSQL cannot hold half of a surrogate pair") from error


def _depth(value: Any) -> int:
    """How many levels lie in a value; counted without descending, as Python would stop too early."""
    levels, layer = 0, [value]
    while layer:
        layer = [
            inner
            for outer in layer
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        levels += 1
    return levels - 1
