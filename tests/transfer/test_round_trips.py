"""What leaves a store and enters another is the same, byte for byte when it leaves that one."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app import transfer
from sessions_app.access.actor import SYSTEM
from sessions_app.domain.errors import Conflict
from sessions_app.domain.json_values import MAX_ITEMS, equal
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import State, split
from sessions_app.reads import views
from sessions_app.writes.append import append_event
from sessions_app.writes.copies import ImportedSession, import_session
from sessions_app.writes.sessions import create_session
from tests import strategies
from tests.conftest import FORMATS
from tests.support.stored import events_of as stored_events
from tests.support.stored import everything, execute, query, state_of
from tests.transfer.conftest import Make
from tests.transfer.files import ANA, exported, furnish, imported, lines


@pytest.mark.guarantee(
    "Databases and files",
    "If you import an export with secrets into an empty database and export it again, the two files are identical.",
)
@pytest.mark.parametrize("name", [name for name, kind in transfer.FORMATS.items() if kind.lossless and kind.write])
@pytest.mark.parametrize("other", FORMATS)
def test_an_export_imported_into_an_empty_store_is_exported_byte_for_byte(
    full: str, make: Make, other: str, name: str
) -> None:
    file = exported(full, name)
    into = make(other)
    report = imported(into, file, name)
    assert (report.new, report.events, report.skipped) == (4, 7, [])
    assert exported(into, name) == file


def test_a_value_of_as_many_items_as_may_be_written_comes_back(make: Make) -> None:
    store, into = make("sqlite"), make("sqlite")
    ref = create_session(store, "app", "ana", session_id="s1", state={"l": [1] * MAX_ITEMS}, actor=SYSTEM)
    append_event(ref, {"author": "agent", "actions": {"state_delta": {"m": [1] * MAX_ITEMS}}}, actor=SYSTEM)
    imported(into, exported(store))
    assert {key: len(value) for key, value in state_of(ref._replace(source=into))["session"].items()} == {
        "l": MAX_ITEMS,
        "m": MAX_ITEMS,
    }


def test_three_stores_one_after_the_other_keep_everything(make: Make) -> None:
    stores = [make(form) for form in ("sqlite", "postgresql", "sqlite-database", "sqlite")]
    furnish(stores[0])
    file = exported(stores[0])
    for a, b in itertools.pairwise(stores):
        imported(b, exported(a))
    assert exported(stores[-1]) == file
    for table in ("sessions", "events", "app_states", "user_states"):
        assert len(everything(stores[-1])[table]) == len(everything(stores[0])[table])


def test_an_imported_session_is_the_original_in_every_read(full: str, make: Make, form: str) -> None:
    into = make(form)
    imported(into, exported(full))
    for names in (("app", "ana", "s1"), ("app", "Ána", "S2"), ("Zoo", "ana", "👍"), ("Zoo", "ana", "empty")):
        a, b = SessionRef(full, *names), SessionRef(into, *names)
        assert state_of(a) == state_of(b)
        assert [event for _seq, event in stored_events(a)] == [event for _seq, event in stored_events(b)]
        seen, again = views.session(a, actor=SYSTEM), views.session(b, actor=SYSTEM)
        assert again.revision == pytest.approx(seen.revision, abs=1e-6, rel=0)
        assert again.create_time == pytest.approx(seen.create_time, abs=1e-6, rel=0)
    rows = [query(s, "SELECT id, initial_state FROM sessions ORDER BY id, user_id") for s in (full, into)]
    first, second = ([(name, value and json.loads(value)) for name, value in found] for found in rows)
    assert first == second
    assert ("👍", None) in first
    if form == "sqlite":
        times = "SELECT timestamp FROM events ORDER BY rowid"
        assert sorted(query(full, times)) == sorted(query(into, times))


def test_the_order_is_that_of_characters_and_states_come_first(full: str) -> None:
    found = lines(exported(full))
    kinds = ["app", "user", "user", "session", "session", "event", "session", *["event"] * 5, "session", "event", "end"]
    assert [line.get("type") for line in found] == [None, *kinds]
    names = [(x["app"], x["user"], x["session"]) for x in found if x.get("type") == "session"]
    assert names == sorted(names)
    assert [x["data"]["id"] for x in found if x.get("type") == "event"][-6:-1] == ["e9", "e8", "e7", "e6", "e5"]


def test_filters_take_sessions_and_the_states_that_they_see(full: str, make: Make, form: str) -> None:
    for only, count in (
        ({"app": "app"}, 2),
        ({"user": "ana"}, 3),
        ({"session": "s1"}, 1),
        ({"app": "Zoo", "session": "s1"}, 0),
        ({"app": "' OR 1=1 --"}, 0),
    ):
        found = lines(exported(full, **only))
        assert found[-1]["sessions"] == count
        apps = {x["app"] for x in found if x.get("type") == "session"}
        assert {x["app"] for x in found if x.get("type") in ("app", "user")} <= apps
    into = make(form)
    part = exported(full, session="s1")
    imported(into, part)
    assert exported(into) == part
    imported(into, exported(full))
    assert exported(into) == exported(full)


def test_what_only_sqlite_can_hold_survives_there_and_is_named_for_postgresql(make: Make) -> None:
    from sessions_app.transfer.items import Fault

    store, other, server = make("sqlite"), make("sqlite-database"), make("postgresql")
    create_session(store, "app", "u", actor=ANA, session_id="s")
    bad = ['{"timestamp": 1.5, "x": NaN, "y": [-Infinity]}', '{"timestamp": 2, "x": "\\ud83d!"}']
    bad += ['{"timestamp": 3, "x\\u0000": 1}', '{"timestamp": 4, "x": 1e999}']
    for n, data in enumerate(bad):
        execute(store, "INSERT INTO events VALUES (%s, 'app', 'u', 's', 'i', %s, %s)", [f"e{n}", n + 1.5, data])
    file = exported(store)
    imported(other, file)
    assert exported(other) == file
    texts = [row[0] for row in query(other, "SELECT event_data FROM events ORDER BY rowid")]
    assert all(equal(json.loads(a), json.loads(b)) for a, b in zip(texts, bad, strict=True))
    for n, (problem, data) in enumerate(zip(("NaN", "surrogate", "U+0000", "1e999"), bad, strict=True)):
        execute(store, "DELETE FROM events")
        execute(store, "INSERT INTO events VALUES ('e', 'app', 'u', 's', 'i', %s, %s)", [n, data])
        with pytest.raises(Fault, match=problem.replace("+", r"\+").replace("1e999", "hold")) as raised:
            imported(server, exported(store))
        assert raised.value.detail["place"] == "line 3"
    assert query(server, "SELECT * FROM sessions") == []


def test_a_half_imported_session_is_not_exported_as_if_it_were_whole(source: str) -> None:
    row = ImportedSession(SessionRef(source, "app", "u", "s"), 1.0, 2.0, "{}", None)
    import_session(row, [], actor=ANA, after=None, last=False)
    with pytest.raises(Conflict, match="half-imported"):
        exported(source)
    with pytest.raises(Conflict):
        append_event(row.ref, {"id": "e", "actions": {"state_delta": {"z": 1}}}, actor=ANA)
    with pytest.raises(Conflict, match="half-imported"):
        exported(source)


@pytest.fixture
def stores(make: Make) -> dict[str, str]:
    """One of each format."""
    return {form: make(form) for form in FORMATS}


@given(strategies.states, st.lists(strategies.events, max_size=4), strategies.states)
def test_any_state_and_any_events_survive_all_formats(
    stores: dict[str, str], initial: State, events: list[dict[str, Any]], drift: State
) -> None:
    for source in stores.values():
        for table in ("events", "sessions", "user_states", "app_states"):
            execute(source, f"DELETE FROM {table}")
    first = stores["sqlite"]
    ref = create_session(first, "app", "u", actor=ANA, session_id="s", state=initial)
    for event in {event.get("id", str(n)): event for n, event in enumerate(events)}.values():
        append_event(ref, event, actor=ANA)
    if drift:
        execute(first, "UPDATE sessions SET state = %s", [json.dumps(split(drift).session)])
    file = exported(first)
    for a, b in (("sqlite", "postgresql"), ("postgresql", "sqlite-database")):
        imported(stores[b], exported(stores[a]))
        assert exported(stores[b]) == file
    there = SessionRef(stores["sqlite-database"], *ref[1:])
    assert equal(state_of(there), state_of(ref))
    assert equal([e for _n, e in stored_events(there)], [e for _n, e in stored_events(ref)])
