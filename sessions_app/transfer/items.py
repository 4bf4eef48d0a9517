"""Defines the items of an export, whatever the format: states, sessions and their events, in a fixed order (pure).

Everything is canonical, so that two sources with the same content give the same bytes. Object keys are sorted, because
PostgreSQL does not keep their order. Numbers are what ADK reads: a float from 1e16 on becomes a whole number, and -0.0
becomes 0.0. A row's time has microseconds, which is all that PostgreSQL keeps. An event's own `timestamp` stays exact,
and replaces its row's time if the two are the same to the microsecond.
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
from typing import Any, BinaryIO, Final, NamedTuple, Protocol, TypeVar

from ..domain import credentials
from ..domain.errors import Invalid
from ..domain.units import event_in_seconds, in_seconds, whole_milliseconds
from ..writes.incomplete import MARK, is_incomplete, is_untouched

MOST: Final = 64 * 2**20  # bytes that are read as one piece: a line, a session
MOST_CONTAINERS: Final = 2_000_000  # lists, objects and keys in such a piece
# Items in such a piece. A line has a session's state twice, now and as it started, and domain/json_values.py allows a
# million in each value that is written: what could be stored can be read back.
MOST_ITEMS: Final = 10_000_000
TOO_MANY: Final = "more lists, objects and items than are read at once"
_WHOLE: Final = 1e16  # see domain/json_values.py
_FIRST: Final = -30_000_000_000  # in the year 1019; SQLite cannot read earlier dates back
_DEEPEST: Final = 200  # levels; ADK's parser fails beyond that, and then the session cannot be loaded
_NUL: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


HIDDEN: Final = "adkweb:hidden"  # a key of a session's own state in a file: values were hidden (hiding.py)


class Fault(Invalid):
    """The input is wrong; `detail["place"]` says where, "" for all of it."""


class StateItem(NamedTuple):
    """The state of an app, or of a user in it, with keys without a prefix. Empty states have no item."""

    app: str
    user: str | None
    state: dict[str, Any]
    updated: float


class SessionItem(NamedTuple):
    """A session's row, with states as canonical JSON. `events` says how many EventItems follow it.

    `initial_state` is None if it was never recorded.
    """

    app: str
    user: str
    session: str
    created: float
    updated: float
    state: str
    initial_state: str | None
    events: int

    @property
    def is_incomplete(self) -> bool:
        """Returns whether it is still being imported there, even if someone has written to it since."""
        return MARK in self.state and is_incomplete(json.loads(self.state))

    @property
    def is_hidden(self) -> bool:
        """Returns whether its values were hidden when the file was written."""
        return HIDDEN in self.state and HIDDEN in json.loads(self.state)

    @property
    def is_untouched(self) -> bool:
        """Returns whether it is still being imported there, and no one has written to it since."""
        return MARK in self.state and is_untouched(json.loads(self.state))


class EventItem(NamedTuple):
    """An event's row. `text` is its canonical JSON, `extra` the columns that differ from it (id, invocation_id, at)."""

    id: str
    invocation_id: str
    timestamp: float
    text: str
    extra: dict[str, Any]


Item = StateItem | SessionItem | EventItem
AnyItem = TypeVar("AnyItem", bound=Item)


class Reader(Protocol):
    """Yields the items of a file or database in order. Raises Fault, or Invalid for a fault at `where`."""

    @property
    def done(self) -> int:
        """Returns how much was read, in the units of `total`: bytes of a file, events of a database."""
        ...

    @property
    def total(self) -> int:
        """Returns roughly how much there is to read."""
        ...

    @property
    def secrets(self) -> bool:
        """Returns whether the input has the secrets of credentials, once reading started: False if they were left
        out."""
        ...

    @property
    def where(self) -> str:
        """Returns where the reader is now, for error messages: "line 12"."""
        ...

    def __iter__(self) -> Iterator[Item]:
        """Reads from the start. A reader can be read once."""
        ...


_heart: Final[ContextVar[Callable[[], None]]] = ContextVar("heart", default=lambda: None)


def beat() -> None:
    """Reports that reading continues, also in the middle of a query.

    Raises whatever should end it, such as a cancellation.
    """
    _heart.get()()


@contextmanager
def beating(heart: Callable[[], None]) -> Iterator[None]:
    """Makes every `beat` inside call `heart`."""
    token = _heart.set(heart)
    try:
        yield
    finally:
        _heart.reset(token)


_replaces: Final[ContextVar[bool]] = ContextVar("replaces", default=False)


@contextmanager
def replacing_nul(replaces: bool) -> Iterator[None]:
    """Makes every `parse` inside replace characters that PostgreSQL can't hold with “�”, if it is for
    PostgreSQL."""
    token = _replaces.set(replaces)
    try:
        yield
    finally:
        _replaces.reset(token)


class Unholdable(Invalid):
    """A text has a character that PostgreSQL cannot hold. Readers name the session and the event."""


@contextmanager
def named(*names: Any) -> Iterator[None]:
    """Names the session and the event in an Unholdable of a reader."""
    try:
        yield
    except Unholdable as error:
        raise Unholdable(f"{', '.join(filter(None, names))}: {error.message}") from error


@contextmanager
def open_file(path: str) -> Iterator[tuple[BinaryIO, int]]:
    """Opens a file and yields it with its size in bytes. Raises OSError, and Fault if it cannot be read twice."""
    with Path(path).open("rb") as file:
        if not file.seekable():
            raise Fault("this cannot be read twice, which an import has to do", place="")
        size = file.seek(0, SEEK_END)
        file.seek(0)
        yield file, size


def read_with(
    kind: Callable[[BinaryIO, int, bool], Reader],
) -> Callable[[str, bool], AbstractContextManager[Reader]]:
    """Makes the `Format.read` of a kind of file."""

    @contextmanager
    def read(path: str, strict: bool) -> Iterator[Reader]:
        with open_file(path) as (file, size):
            yield kind(file, size, strict)

    return read


def event_item(data: Any, event_id: str, invocation_id: str, at: float | None) -> EventItem:
    """Makes an item of an event's JSON and its columns.

    If `at` is None, the event's own time is taken. Raises Invalid if it has none.
    """
    data = event_in_seconds(data)
    own = data if isinstance(data, dict) else {}
    extra: dict[str, Any] = {}
    said = moment(own.get("timestamp"))
    if at is None:
        at = said
    if at is None:
        raise Invalid("the event has no time: neither “timestamp” in it nor “at” beside it has one")
    if said is not None and (said == at or microseconds(said) == microseconds(at)):
        at = said
    else:
        at = extra["at"] = microseconds(at)
    if own.get("id") != event_id:
        extra["id"] = event_id
    if own.get("invocation_id") != invocation_id:
        extra["invocation_id"] = invocation_id
    return EventItem(event_id, invocation_id, at, canonical(data), extra)


def without_secrets(item: AnyItem) -> AnyItem:
    """Returns an item without the secrets of credentials; the same object if it has none."""
    if isinstance(item, StateItem):
        state = credentials.without(item.state)
        return item if state is item.state else item._replace(state=state)
    if isinstance(item, SessionItem):
        first = item.initial_state
        left = first if first is None else text_without_secrets(first)
        return item._replace(state=text_without_secrets(item.state), initial_state=left)
    return item._replace(text=text_without_secrets(item.text))


def text_without_secrets(text: str) -> str:
    """Returns a canonical JSON text without the secrets of credentials."""
    return canonical(credentials.without(json.loads(text))) if credentials.may_hold(text) else text


def in_whole_milliseconds(item: Item) -> Item:
    """Returns an item as a source that keeps milliseconds would have it."""
    if isinstance(item, SessionItem):
        return item._replace(created=whole_milliseconds(item.created), updated=whole_milliseconds(item.updated))
    if isinstance(item, EventItem):
        data = json.loads(item.text)
        if isinstance(data, dict) and (said := moment(data.get("timestamp"))) is not None:
            data["timestamp"] = whole_milliseconds(said)
        return event_item(data, item.id, item.invocation_id, whole_milliseconds(item.timestamp))
    return item


def moment(value: Any) -> float | None:
    """Returns a number as a time in seconds, or None if it is not a time that every source can hold."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        seconds = in_seconds(value)  # JSON has whole numbers that no float can hold
        datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return seconds if seconds >= _FIRST else None


def microseconds(seconds: float) -> float:
    """Rounds a time to microseconds, as PostgreSQL keeps it. A number that is not a date stays as it is."""
    try:
        return datetime.fromtimestamp(seconds, UTC).timestamp()
    except (ValueError, OverflowError, OSError):
        return seconds


def check_items(text: str) -> None:
    """Raises Invalid for JSON that would take too much memory. Signs within its strings count, too."""
    if sum(map(text.count, "[{:")) > MOST_CONTAINERS or text.count(",") > MOST_ITEMS:
        raise Invalid(TOO_MANY)


def parse(text: str, *, strict: bool = False) -> Any:
    """Parses JSON as ADK does, including NaN. With `strict`, refuses what PostgreSQL cannot hold. Raises Invalid."""
    check_items(text)
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
        # A whole pair would have been written as the character.
        half = re.search(r"\\ud[89a-f]", written) and not _is_whole(value)
        if (half or _NUL.search(written)) and _replaces.get():
            return _replaced(value)
        if half or _NUL.search(written):
            what = "the character U+0000" if _NUL.search(written) else "half of a surrogate pair"
            raise Unholdable(
                f"PostgreSQL cannot hold {what}. To have “�” in its place: --replace-nul, or the box on the import page"
            )
    return value


def canonical(value: Any) -> str:
    """Returns the canonical text of a JSON value. It is in ASCII if the value has half of a surrogate pair."""
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


def _is_whole(value: Any) -> bool:
    try:
        _PLAIN.encode(value).encode()
    except UnicodeEncodeError:
        return False
    return True


def _replaced(value: Any) -> Any:
    """Returns a value with “�” in place of what PostgreSQL cannot hold. Two keys stay two keys."""
    if isinstance(value, str):
        return value.replace("\0", "�").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return list(map(_replaced, value))
    if not isinstance(value, dict):
        return value
    result: dict[str, Any] = {}
    for key, each in value.items():
        name = _replaced(key)
        while name in result or (name != key and name in value):
            name += "�"
        result[name] = _replaced(each)
    return result


def _depth(value: Any) -> int:
    """Counts the levels of a value, without recursion, which would hit Python's limit too early."""
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
