"""Files that are no export, or no whole one: the line is named, and nothing of it is written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessions_app.transfer.formats import jsonl
from sessions_app.transfer.items import Fault
from tests import strategies
from tests.strategies import MANY
from tests.support.stored import counts
from tests.transfer.files import checked, event_line, file_of, imported, session_line

EVENT, SESSION = event_line(), session_line(events=1)
GOOD = file_of(SESSION, EVENT)
LF = b"\n"
EMPTY = {"app_states": 0, "user_states": 0, "sessions": 0, "events": 0}


def raw(*given: bytes) -> bytes:
    """A file of these lines behind a header and a session of one event."""
    return b"\n".join([b'{"adkweb":"jsonl","version":1}', json.dumps(SESSION).encode(), *given]) + b"\n"


def without(line: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in names}


def data(**other: Any) -> dict[str, Any]:
    return {"type": "event", "data": {**EVENT["data"], **other}}


APP = {"type": "app", "app": "app", "state": {}, "updated": 1.0}
FAULTS = {
    "nothing": (b"", 1, "not the header"),
    "a database": (b"SQLite format 3\0" + bytes(range(127, 256)), 1, "not UTF-8"),
    "another json": (b'{"sessions": []}\n', 1, "not the header"),
    "a list": (b"[1]\n", 1, "not the header"),
    "deep header": (b"[" * 100_000 + b"\n", 1, "not the header"),
    "a later version": (b'{"adkweb":"jsonl","version":2}\n', 1, "version 1"),
    "only a header": (b'{"adkweb":"jsonl","version":1}\n', 2, "truncated"),
    "no JSON": (raw(b"{'type': 'event'}"), 3, "not valid JSON"),
    "an empty line": (raw(b""), 3, "not valid JSON"),
    "not an object": (raw(b"[]"), 3, "known type"),
    "no type": (raw(b"{}"), 3, "known type"),
    "a strange type": (raw(b'{"type": ["event"]}'), 3, "known type"),
    "an unknown type": (raw(b'{"type": "events"}'), 3, "known type"),
    "not UTF-8": (raw(b'{"type": "event\xff"}'), 3, "UTF-8"),
    "an unknown field": (file_of(SESSION, {**EVENT, "seq": 1}), 3, "seq is unknown"),
    "a missing field": (file_of(without(SESSION, "state")), 2, "state is missing"),
    "a state that is none": (file_of({**SESSION, "state": []}), 2, "not an object"),
    "a number that is none": (file_of({**SESSION, "events": True}), 2, "not a number"),
    "a number below zero": (file_of({**SESSION, "events": -1}), 2, "not a number"),
    "a time that is none": (file_of({**SESSION, "updated": "now"}), 2, "updated is not a time"),
    "a time beyond all": (file_of({**SESSION, "created": 1e30}), 2, "created is not a time"),
    "a name that is none": (file_of({**SESSION, "user": None}), 2, "user isn't a string"),
    "a name too long": (file_of({**SESSION, "session": "x" * 129}), 2, "129"),
    "a name with a nul": (file_of({**SESSION, "app": "\0"}), 2, "U+0000"),
    "an event before its session": (file_of(EVENT, SESSION), 2, "without a session"),
    "one event too many": (file_of(SESSION, EVENT, event_line("e2")), 4, "one more"),
    "one too few": (file_of(SESSION, session_line("s2")), 3, "1 events of app/u/s1 are missing"),
    "an event without id": (file_of(SESSION, {"type": "event", "data": {"timestamp": 1}}), 3, "id isn't a string"),
    "an event without time": (
        file_of(SESSION, {"type": "event", "data": 1, "id": "a", "invocation_id": ""}),
        3,
        "time",
    ),
    "a session twice": (file_of(session_line(), session_line()), 3, "twice"),
    "sessions out of order": (file_of(session_line("b"), session_line("a")), 3, "out of order"),
    "a state behind sessions": (file_of(session_line(), APP), 3, "out of order"),
    "an id twice": (file_of(session_line(events=3), EVENT, event_line("e2"), EVENT), 5, "e1 appears twice"),
    "too deep": (file_of(SESSION, data(x=strategies.nested(250))), 3, "200 levels"),
    "far too deep": (raw(b'{"type":"event","data":' + b"[" * 200_000), 3, "200 levels"),
    "too many digits": (raw(b'{"type":"event","data":' + b"1" * 5_000 + b"}"), 3, "4300"),
    "more behind the end": (GOOD + b"\n", 5, "continues"),
    "another end": (b'"events": 2}'.join(GOOD.rsplit(b'"events": 1}', 1)), 4, "lines are missing"),
}


@pytest.mark.guarantee(
    "Databases and files",
    "An import reads the whole file before it writes anything, so if the file contains an error, nothing is written.",
)
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_names_its_line_and_nothing_is_written(name: str, source: str) -> None:
    file, line, words = FAULTS[name]
    with pytest.raises(Fault, match=words.replace("+", r"\+")) as raised:
        imported(source, file)
    assert raised.value.detail["place"] == f"line {line}"
    assert counts(source) == EMPTY


def test_the_good_file_has_no_fault(source: str) -> None:
    assert imported(source, GOOD).new == 1


def test_a_file_truncated_anywhere_is_known_as_such() -> None:
    for length in range(len(GOOD) - 1):
        with pytest.raises(Fault) as raised:
            checked(GOOD[:length])
        whole = GOOD[length : length + 1] == b"\n"  # only its line feed is missing
        assert raised.value.detail["place"] == f"line {len(GOOD[:length].split(LF)) + whole}"
    assert checked(GOOD[:-1]).events == 1  # an editor may drop the last line feed


def test_a_line_without_end_is_not_read_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "MOST", 1_000)
    with pytest.raises(Fault, match="longer than 1000") as raised:
        checked(raw(b" " * 2_000))
    assert raised.value.detail["place"] == "line 3"


def test_the_same_id_in_two_sessions_is_no_fault() -> None:
    assert checked(file_of(session_line("a", 1), EVENT, session_line("b", 1), EVENT)).sessions == 2


LINES = GOOD.split(b"\n")
_values = strategies.json_values.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=40)


@settings(MANY, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 4), _values, st.booleans(), st.booleans())
def test_whatever_stands_in_a_file_it_is_read_or_refused(place: int, line: bytes, swap: bool, strict: bool) -> None:
    given = [*LINES[:place], line, *LINES[place + swap :]]
    try:
        checked(b"\n".join(given), strict=strict)
    except Fault as fault:
        found = int(fault.detail["place"].removeprefix("line "))
    else:
        found = 1
    assert 1 <= found <= len(given) + line.count(b"\n") + 1
