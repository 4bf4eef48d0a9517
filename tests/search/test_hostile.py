"""Whatever a source holds, its index goes on, and so does whoever asks it."""

from __future__ import annotations

import json
import random
import time
import tracemalloc
from collections.abc import Callable
from typing import Final

import pytest

from sessions_app.access.actor import SYSTEM
from sessions_app.models import SearchSession
from sessions_app.search.completing import complete
from sessions_app.search.health import histogram
from sessions_app.search.index import feed as feeding
from sessions_app.search.index.feed import Feeder
from sessions_app.search.results import search
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.adk.services import key_of
from tests.search.finding import asked, feed, ids, query_of, rows
from tests.support.people import ALICE
from tests.support.stored import execute

pytestmark = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture
def source(own: str, new_store: Callable[[str], str], open_source: Callable[[str], str]) -> str:
    """An empty SQLite source, which may hold any text."""
    return open_source(new_store("sqlite"))


NAMES: Final = (
    "a\0b",
    "\ud800",
    "👩" * 128,
    "é" * 128,
    " ",
    "' OR 1=1 --",
    "%s {} \\",
    '"x" * OR NEAR(a)',
    "¦",
    "\u202e",
)


def insert(source: str, *names: str, data: str = '{"author": "user"}', state: str = "{}") -> None:
    """A session with one event, as a program without manners writes it."""
    now = time.time()
    text = [name.encode(errors="surrogatepass") for name in names]
    execute(
        source,
        """INSERT INTO sessions (app_name, user_id, id, state, create_time, update_time)
        VALUES (CAST(%s AS TEXT), CAST(%s AS TEXT), CAST(%s AS TEXT), %s, %s, %s)""",
        [*text, state, now, now],
    )
    execute(
        source,
        """INSERT INTO events (app_name, user_id, session_id, id, invocation_id, timestamp, event_data)
        VALUES (CAST(%s AS TEXT), CAST(%s AS TEXT), CAST(%s AS TEXT), %s, 'i', %s, %s)""",
        [*text, str(now), now, data],
    )


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_a_hostile_name_stops_nothing(own: str, source: str, name: str) -> None:
    said = json.dumps({"id": name, "author": name, "content": {"parts": [{"text": name}]}, "error_code": name})
    state = json.dumps({name: name, "inner": {name: [name]}, "__session_metadata__": {"displayName": name}})
    insert(source, name, name, name, data=said, state=state)
    insert(source, "booking", "ana", "s1", data='{"author": "user", "content": {"parts": [{"text": "expired"}]}}')
    feeder = feed(source)
    assert ids("expired") == ["s1"]
    assert asked("").count in (1, 2)
    columns = "app_name, user_id, session_id, invocation_id, timestamp, event_data"
    execute(source, f"INSERT INTO events (id, {columns}) SELECT id || 'b', {columns} FROM events")
    feed(source, feeder, walk=True)
    assert ids("expired") == ["s1"]
    for text in (name, f"user:{name}", f"state.{name} =", "author:", "state.", f'tool:"{name}'):
        complete(text, len(text), actor=SYSTEM)
        asked_for = query_of(text)
        search(asked_for, actor=SYSTEM)
        histogram(asked_for, actor=SYSTEM)


def test_names_that_are_no_text_do_not_keep_the_walk_from_ending(own: str, source: str) -> None:
    for number in range(2 * feeding.SOME + 1):  # a whole page of them and more
        execute(
            source,
            """INSERT INTO sessions (app_name, user_id, id, state, create_time, update_time)
            VALUES ('a', 'u', CAST(x'ff' || CAST(%s AS BLOB) AS TEXT), '{}', 0, 0)""",
            [f"{number:04}"],
        )
    insert(source, "z", "ana", "s1", data='{"author": "user", "content": {"parts": [{"text": "expired"}]}}')
    feeder = Feeder(source)
    until = time.monotonic() + 20
    while feeder.feed():
        assert time.monotonic() < until, "the walk comes to the same sessions again and again"
    assert ids("expired") == ["s1"]


def test_many_large_states_are_not_read_at_once(own: str, source: str) -> None:
    state = json.dumps({"step": "pay", "__session_metadata__": {"displayName": "Large"}, "notes": "x" * 2_000_000})
    for number in range(30):
        insert(source, "booking", "ana", f"s{number}", state=state)
    tracemalloc.start()
    try:
        feed(source)
        results = search(query_of("step = pay"), actor=SYSTEM, columns=("step",))
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 45_000_000  # together, they are 60 MB
    assert [row.title for row in results.rows] == ["Large"] * 30


def test_the_longest_names_stop_nothing(own: str, source: str) -> None:
    chance = random.Random(1)
    name = "".join(chr(chance.randrange(0x1F300, 0x2FA00)) for _ in range(2_000))
    data = {"author": name, "error_code": name, "content": {"parts": [{"function_call": {"name": name}}]}}
    insert(source, name, name, name, data=json.dumps(data), state=json.dumps({name: name, "a": {name: 1}}))
    insert(source, "booking", "ana", "s1")
    feed(source)
    assert asked("").count == 2


@pytest.mark.parametrize("stored_id", ['"\\ud800"', '"a\\u0000"', "5", '"other"', "null"])
def test_an_events_id_is_that_of_its_row_whatever_stands_in_it(own: str, source: str, stored_id: str) -> None:
    insert(source, "booking", "ana", "s1", data=f'{{"author": "user", "id": {stored_id}}}')
    feeder = feed(source)
    (number,) = SearchSession.objects.values_list("pk", flat=True)
    append_event(key_of(source), {"author": "a", "content": {"parts": [{"text": "expired"}]}}, actor=ALICE)
    feed(source, feeder)
    assert ids("expired") == ["s1"]
    assert [row.events for row in rows()] == [2]
    assert list(SearchSession.objects.values_list("pk", flat=True)) == [number], "only what is new was read"


@pytest.mark.parametrize(
    "end", ["", "x" * 999_000, "👩" * 300_000, "기" * 300_000, "\0" * 100_000, " a" * 400_000, "7" * 10**6]
)
def test_a_long_text_is_found_by_its_beginning(own: str, source: str, end: str) -> None:
    ref = create_session(source, "booking", "ana", session_id="s1", actor=ALICE)
    text = f"the fare expired {end}".replace("\0", "\x01")
    append_event(ref, {"author": "user", "content": {"parts": [{"text": text}]}}, actor=ALICE)
    append_event(ref, {"author": "a", "actions": {"state_delta": {"long": text}}, "error_message": text}, actor=ALICE)
    feed(source)
    assert ids("fare expired") == ids('"fare exp"') == ids("long exists") == ["s1"]
    assert ids("error:expired") == ["s1"]


NUMBERS: Final = [
    "NaN",
    "Infinity",
    "-Infinity",
    "1e400",
    "1" + "0" * 400,
    "-" + "9" * 400,
    "1e-400",
    "9007199254740993",
]


@pytest.mark.parametrize("number", NUMBERS, ids=range(len(NUMBERS)))
def test_any_number_in_state_can_be_compared_with_and_stops_nothing(own: str, source: str, number: str) -> None:
    data = f'{{"author": "a", "actions": {{"state_delta": {{"n": {number}}}}}, "timestamp": {number}}}'
    insert(source, "booking", "ana", "s1", data=data, state=f'{{"n": {number}, "list": [{number}]}}')
    feed(source)
    assert ids("n exists") == ["s1"]
    above, below = ids("n > 5"), ids("n < 5")
    assert (above, below) == {
        "NaN": ([], []),
        "-Infinity": ([], ["s1"]),
        NUMBERS[5]: ([], ["s1"]),
        "1e-400": ([], ["s1"]),
    }.get(number, (["s1"], []))
