"""Writes and reads `jsonl`: adkweb's own lossless format, with one JSON object per line (docs/transfer.md shows it).

A file has a header, the states of apps, the states of users, each session followed by its events, and an end. The
counts in the end show whether the file is complete. Apps, users and sessions are sorted by name, so none can be there
twice.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol, cast

from ...domain.errors import Invalid
from ...domain.event import ID_LENGTH, INVOCATION_ID_LENGTH
from ...domain.json_values import as_object, check_name
from ..items import (
    MOST,
    EventItem,
    Item,
    SessionItem,
    StateItem,
    Unholdable,
    canonical,
    event_item,
    microseconds,
    moment,
    named,
    parse,
    read_with,
)

VERSION: Final = 1
_HEADER: Final = {"adkweb": "jsonl", "version": VERSION}
_WITHOUT_SECRETS: Final = {"secrets": False}  # the header of a file without the secrets of credentials has this, too

_FIELDS: Final[dict[str, tuple[set[str], set[str]]]] = {  # by type of line: the fields it must have, and may have
    "app": ({"app", "state", "updated"}, set()),
    "user": ({"app", "user", "state", "updated"}, set()),
    "session": ({"app", "user", "session", "created", "updated", "state", "events"}, {"initial_state"}),
    "event": ({"data"}, {"id", "invocation_id", "at"}),
    "end": ({"apps", "users", "sessions", "events"}, set()),
}
_ORDER: Final = {"app": 0, "user": 1, "session": 2}


def write(items: Iterable[Item], secrets: bool = True, left_out: Sequence[str] = ()) -> Iterator[bytes]:
    """Writes the lines of a file, from its header to its end. The header says so if the items have no `secrets`, and
    names damaged rows that were `left_out`."""
    counts = dict.fromkeys(("apps", "users", "sessions", "events"), 0)
    damaged = {"left_out": list(left_out)} if left_out else {}
    yield _line(_HEADER | ({} if secrets else _WITHOUT_SECRETS) | damaged)
    for item in items:
        if isinstance(item, EventItem):
            counts["events"] += 1
            # The parts are canonical already. Joining them in the order of their keys saves half the work.
            at = f'"at":{canonical(item.extra["at"])},' if "at" in item.extra else ""
            names = "".join(f',"{n}":{canonical(item.extra[n])}' for n in ("id", "invocation_id") if n in item.extra)
            yield f'{{{at}"data":{item.text}{names},"type":"event"}}\n'.encode()
        elif isinstance(item, SessionItem):
            counts["sessions"] += 1
            line = {**item._asdict(), "type": "session", "state": parse(item.state)}
            del line["initial_state"]
            if item.initial_state is not None:
                line["initial_state"] = parse(item.initial_state)
            yield _line(line)
        else:
            counts["apps" if item.user is None else "users"] += 1
            line = {**item._asdict(), "type": "app" if item.user is None else "user"}
            yield _line({name: value for name, value in line.items() if name != "user" or value is not None})
    yield _line({"type": "end", **counts})


def _line(value: dict[str, Any]) -> bytes:
    return canonical(value).encode() + b"\n"


class LineFile(Protocol):
    """The file that lines are read from, or the part of one that holds them."""

    def readline(self, limit: int = -1, /) -> bytes:
        """Returns the next line, or its first bytes; nothing at the end."""
        ...


class Lines:
    """Reads the items of a file line by line."""

    def __init__(self, file: LineFile, size: int, strict: bool) -> None:
        self.done, self.total = 0, size
        self.secrets = True
        self._line = 0
        self._file = file
        self._strict = strict
        self._counts = dict.fromkeys(("apps", "users", "sessions", "events"), 0)
        self._last: tuple[int, tuple[str, ...]] = (0, ())
        self._session = ""
        self._wanted = 0  # events of the session that are still to come

    @property
    def where(self) -> str:
        """Returns the line that was read last: "line 12"."""
        return f"line {self._line}"

    def __iter__(self) -> Iterator[Item]:
        """Reads from the file's start, once."""
        self._header()
        while (item := self._item()) is not None:
            yield item
        if self._read():
            raise Invalid("the file continues after its end")

    def _read(self) -> str:
        self._line += 1
        line = self._file.readline(MOST + 1)
        self.done += len(line)
        if len(line) > MOST:
            raise Invalid(f"the line is longer than {MOST} bytes")
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            raise Invalid(f"not UTF-8 (byte {error.start + 1} of the line)") from error

    def _header(self) -> None:
        text = self._read()
        try:
            header = json.loads(text)
        except (ValueError, RecursionError):
            header = None
        if not isinstance(header, dict) or header.get("adkweb") != "jsonl":
            raise Invalid("this is not a jsonl export of adkweb: its first line is not the header of one")
        left_out = header.pop("left_out", [])
        are_names = isinstance(left_out, list) and all(isinstance(name, str) for name in left_out)
        if not are_names or header not in (_HEADER, _HEADER | _WITHOUT_SECRETS):
            raise Invalid(f"this export is not of version {VERSION}, which is all that this adkweb reads")
        self.secrets = header == _HEADER

    def _item(self) -> Item | None:
        line = self._next_line()
        kind: str = line["type"]
        if kind == "event" and not self._wanted:
            raise Invalid("an event without a session before it, or one more than its session has")
        if kind != "event" and self._wanted:
            raise Invalid(f"{kind} instead of an event{self._missing()}")
        if kind == "event":
            return self._event(line)
        if kind == "end":
            self._end(line)
            return None
        return self._row(kind, line)

    def _next_line(self) -> dict[str, Any]:
        """Reads the next line, which must be an object of a known type with the fields of this type."""
        text = self._read()
        if not text:
            raise Invalid(f"the file is truncated: it ends here without its end line{self._missing()}")
        try:
            line = self._parsed(text)
        except Unholdable:
            raise
        except Invalid:
            if text.endswith("\n"):
                raise
            raise Invalid(f"the file is truncated: it ends within this line{self._missing()}") from None
        kind = line.get("type") if isinstance(line, dict) else None
        if not isinstance(kind, str) or kind not in _FIELDS:
            raise Invalid(f"the line is not an object of a known type: {', '.join(_FIELDS)}")
        must, may = _FIELDS[kind]
        if problem := must - line.keys():
            raise Invalid(f"{kind}: {', '.join(sorted(problem))} is missing")
        if problem := line.keys() - must - may - {"type"}:
            raise Invalid(f"{kind}: {', '.join(sorted(problem))} is unknown")
        return cast("dict[str, Any]", line)

    def _parsed(self, text: str) -> Any:
        try:
            return parse(text, strict=self._strict)
        except Unholdable:
            line = as_object(parse(text))
            own = as_object(line.get("data"))
            names = "/".join(str(line[name]) for name in ("app", "user", "session") if name in line)
            with named(names or self._session, own and f"event {line.get('id', own.get('id'))}"):
                raise

    def _event(self, line: dict[str, Any]) -> EventItem:
        self._wanted -= 1
        self._counts["events"] += 1
        own = line["data"] if isinstance(line["data"], dict) else {}
        return event_item(
            line["data"],
            _name(line.get("id", own.get("id")), "id"),
            _name(line.get("invocation_id", own.get("invocation_id")), "invocation_id", INVOCATION_ID_LENGTH),
            _time(line, "at") if "at" in line else None,
        )

    def _row(self, kind: str, line: dict[str, Any]) -> StateItem | SessionItem:
        names = tuple(_name(line[name], name) for name in ("app", "user", "session") if name in line)
        if (rank := (_ORDER[kind], names)) <= self._last:
            raise Invalid(f"{kind} {'/'.join(names)}: out of order, or there twice")
        self._last = rank
        self._counts[f"{kind}s"] += 1
        if not isinstance(line["state"], dict):
            raise Invalid(f"{kind}: state is not an object")
        if kind != "session":
            return StateItem(names[0], line.get("user"), line["state"], _time(line, "updated"))
        count = line["events"]
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise Invalid("session: events is not a number of events")
        self._session, self._wanted = "/".join(names), count
        initial = canonical(line["initial_state"]) if "initial_state" in line else None
        created, updated = _time(line, "created"), _time(line, "updated")
        return SessionItem(names[0], names[1], names[2], created, updated, canonical(line["state"]), initial, count)

    def _end(self, line: dict[str, Any]) -> None:
        if {name: line[name] for name in self._counts} != self._counts:
            raise Invalid(f"lines are missing: the end says {canonical(line)}, the file has {canonical(self._counts)}")

    def _missing(self) -> str:
        return f"; {self._wanted} events of {self._session} are missing" if self._wanted else ""


read = read_with(Lines)


def _name(value: Any, what: str, limit: int = ID_LENGTH) -> str:
    return check_name(value, what, limit)


def _time(line: dict[str, Any], name: str) -> float:
    value = moment(line[name])
    if value is None:
        raise Invalid(f"{line['type']}: {name} is not a time in seconds since 1970")
    return microseconds(value)
