"""Every query: pages that lose and repeat nothing, filters that mean what they say, values that are known or UNKNOWN."""

from __future__ import annotations

import base64
import json
import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from sessions_app.access.actor import SYSTEM, Actor, Grant
from sessions_app.domain.errors import Invalid, NotFound
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT, UNKNOWN
from sessions_app.edits.edit import Entry, edit_app_state, edit_state
from sessions_app.history import moments as history_moments
from sessions_app.history.drift import own
from sessions_app.history.edit_log import edits
from sessions_app.history.index import read_source
from sessions_app.models import stored_instant
from sessions_app.reads import filters, lists, statistics, timeline, views
from sessions_app.reads import newest as reads_newest
from sessions_app.reads.deltas import RECENT, last_writer, writers
from sessions_app.reads.event_views import EventView
from sessions_app.reads.paging import Page
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session, delete_session
from tests.conftest import FORMATS
from tests.parts import long_but
from tests.support.bulk import fill
from tests.support.stored import execute, query

DEMO = Path(__file__).resolve().parents[2] / "examples" / "demo.db"
APP = "booking"
INSERT_EVENT = """INSERT INTO events (id, app_name, user_id, session_id, invocation_id, timestamp, event_data)
    VALUES (%s, %s, %s, %s, %s, %s, %s)"""


@pytest.fixture(params=FORMATS)
def form(request: pytest.FixtureRequest) -> str:
    """Returns each of the formats in which ADK keeps sessions."""
    return str(request.param)


@pytest.fixture
def ref(source: str, actor: Actor) -> SessionRef:
    """A session without state and events."""
    return create_session(source, APP, "ana", actor=actor, session_id="s1")


@pytest.fixture
def demo(tmp_path: Path, open_source: Callable[[str], str]) -> str:
    """The recorded demo, adopted."""
    return open_source(str(shutil.copy(DEMO, tmp_path / "demo.db")))


@pytest.fixture
def demo_everywhere(source: str, tmp_path: Path, open_source: Callable[[str], str], actor: Actor) -> str:
    """The demo's events in each format, every session's with an edit at its end."""
    recorded = open_source(str(shutil.copy(DEMO, tmp_path / "demo.db")))
    for ref in _sessions(recorded):
        copy = create_session(source, ref.app_name, ref.user_id, actor=actor, session_id=ref.session_id)
        for (data,) in _stored(ref):
            append_event(copy, json.loads(data), actor=actor, origin="person")
        edit_state(copy, [Entry("edited", 1, ABSENT)], actor=actor)
    return source


# --- Pages ------------------------------------------------------------------------------------------------------------


def test_pages_of_sessions_lose_and_repeat_nothing_when_many_were_active_at_the_same_moment(source: str) -> None:
    db = connections[source]
    moments = [stored_instant(1_700_000_000.5 + n // 60, db) for n in range(180)]
    expected = []
    for n in range(180):
        user, name = f"user{n % 7}", f"s{(n * 53) % 180:03}"
        expected.append((n // 60, user, name))
        execute(
            source,
            "INSERT INTO sessions (app_name, user_id, id, state, create_time, update_time) VALUES (%s, %s, %s, %s, %s, %s)",
            [APP, user, name, "{}", moments[n], moments[n]],
        )
    expected.sort(reverse=True)
    assert _all(lambda before: lists.sessions(source, APP, before=before, actor=SYSTEM), _name) == [
        row[1:] for row in expected
    ]
    only = [row[1:] for row in expected if row[1] == "user3"]
    assert _all(lambda before: lists.sessions(source, APP, "user3", before=before, actor=SYSTEM), _name) == only
    assert _all(lambda before: lists.sessions(source, APP, before=before, limit=7, actor=SYSTEM), _name) == [
        row[1:] for row in expected
    ]
    for limit in (60, 90, 180, 181):  # where a page ends exactly with a moment, and with the list
        pages = _pages(lambda before: lists.sessions(source, APP, before=before, limit=limit, actor=SYSTEM))  # noqa: B023
        assert sum(len(page.rows) for page in pages) == 180
        assert all(page.rows for page in pages)


def test_a_session_that_becomes_active_between_two_pages_is_not_lost_from_the_list(source: str, actor: Actor) -> None:
    for n in range(70):
        create_session(source, APP, "ana", actor=actor, session_id=f"s{n:02}")
    first = lists.sessions(source, APP, actor=SYSTEM)
    append_event(SessionRef(source, APP, "ana", "s00"), {"author": "x"}, actor=actor)
    second = lists.sessions(source, APP, before=first.next, actor=SYSTEM)
    names = {row.ref.session_id for row in [*first.rows, *second.rows]}
    assert names == {f"s{n:02}" for n in range(1, 70)}  # s00 moved to the top, above the first page
    assert lists.sessions(source, APP, actor=SYSTEM).rows[0].ref.session_id == "s00"


def test_pages_of_events_lose_and_repeat_nothing_while_others_are_appended(ref: SessionRef, actor: Actor) -> None:
    _insert(ref, [{"id": f"e{n:03}", "timestamp": 1_700_000_000 + n % 3} for n in range(250)])
    first = timeline.events(ref, actor=SYSTEM)
    append_event(ref, {"id": "new", "author": "x"}, actor=actor)
    second = timeline.events(ref, before=first.next, actor=SYSTEM)
    third = timeline.events(ref, before=second.next, actor=SYSTEM)
    assert [len(page.rows) for page in (first, second, third)] == [100, 100, 50]
    assert third.next is None
    seen = [view.id for page in (third, second, first) for view in page.rows]
    assert seen == [f"e{n:03}" for n in range(250)]
    assert timeline.events(ref, actor=SYSTEM).rows[-1].id == "new"


@pytest.mark.parametrize("count", [0, 1, 99, 100, 101, 200])
def test_there_is_an_earlier_page_exactly_where_there_are_earlier_events(ref: SessionRef, count: int) -> None:
    _insert(ref, [{"id": f"e{n}"} for n in range(count)])
    pages = _pages(lambda before: timeline.events(ref, before=before, actor=SYSTEM))
    assert [len(page.rows) for page in pages] == ([100] * (count // 100) + [count % 100] * bool(count % 100) or [0])


@pytest.mark.django_db
def test_a_state_that_cannot_be_read_is_an_error_in_words_and_an_event_takes_no_other_with_it(
    ref: SessionRef, actor: Actor
) -> None:
    append_event(ref, {"id": "e1", "author": "a", "actions": {"state_delta": {"x": 1}}}, actor=actor)
    append_event(ref, {"id": "e2", "author": "a"}, actor=actor)
    deep = '{"actions": {"state_delta": {"x": %s}}}'
    for value in ("[" * 3_000 + "]" * 3_000, "9" * 5_000):
        execute(ref.source, "UPDATE events SET event_data = %s WHERE id = 'e1'", [deep.replace("%s", value)])
        assert [view.id for view in timeline.events(ref, actor=SYSTEM).rows] == ["e1", "e2"]
        execute(ref.source, "UPDATE sessions SET state = %s", ['{"x": %s}'.replace("%s", value)])
        if value[0] == "9":
            assert views.session(ref, actor=SYSTEM).state.session == {"x": float("inf")}
            assert history_moments.state_at(ref, "e1", actor=SYSTEM).ref == ref
            continue
        for ask in (
            views.session,
            history_moments.state_now,
            lambda key, actor: history_moments.state_at(key, "e2", actor=actor),
            own,
        ):
            with pytest.raises(Invalid, match="too deep"):
                ask(ref, actor=SYSTEM)


def test_pages_of_users_lose_and_repeat_nothing(source: str, actor: Actor) -> None:
    names = sorted([f"user{n:03}" for n in range(120)] + ["지우", "Ana", "ana", "a/b", "🧳"])
    for name in names:
        create_session(source, APP, name, actor=actor)
    create_session(source, APP, "ana", actor=actor)
    create_session(source, "other", "zoe", actor=actor)
    rows = _all(
        lambda after: lists.users(source, APP, after=after, actor=SYSTEM), lambda row: (row.user_id, row.sessions)
    )
    assert sorted(name for name, _ in rows) == names
    assert len(rows) == len(names)
    assert dict(rows) == {name: 2 if name == "ana" else 1 for name in names}


def test_pages_of_edits_lose_and_repeat_nothing_across_sources_with_equal_moments(
    new_database: Callable[[str], str], open_source: Callable[..., str], actor: Actor
) -> None:
    aliases = [open_source(new_database(form), form) for form in ("sqlite", "sqlite-database", "postgresql")]
    expected = []
    for alias in aliases:
        ref = create_session(alias, APP, "ana", actor=actor, session_id="s1")
        rows = []
        for n in range(60):
            # The same ids and the same moments in every source.
            rows.append(
                {
                    "id": f"e{(n * 37) % 60:02}",
                    "timestamp": 1_700_000_000.25 + n // 20,
                    "custom_metadata": {"adkweb": {}},
                }
            )
            expected.append((n // 20, alias, n, rows[-1]["id"]))
        rows.append({"id": "not an edit"})
        _insert(ref, rows)
    expected.sort(reverse=True)

    def place(view: EventView) -> tuple[str, str]:
        return view.id, view.ref.source

    for limit in (lists.PAGE, 7, 60):
        seen = _all(lambda before: edits(before, limit=limit, actor=SYSTEM)[0], place)  # noqa: B023
        assert seen == [(event_id, alias) for _moment, alias, _n, event_id in expected]


def _encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


FORGED = {
    name: _encoded(text)
    for name, text in {
        "null": "null",
        "an object": '{"a": 1}',
        "an empty list": "[]",
        "too many": "[1, 2]",
        "a null": "[null]",
        "a text": '["a"]',
        "a boolean": "[true]",
        "a negative": "[-1]",
        "infinity": "[1e400]",
        "NaN": "[NaN]",
        "a large float": "[1e20]",
        "a large integer": f"[{10**30}]",
        "no character": '["\\u0000"]',
        "half a character": '["\\ud800"]',
        "deep": "[" * 3000,
        "a late moment": '[1e300, "a"]',
        "a very late moment": '[1e300, "a", "b"]',
        "no moment": '[NaN, "a", "b"]',
        "a name without characters": '[1.5, "a", "\\u0000"]',
        "a moment of null": '[null, "a", "b"]',
    }.items()
} | {"not base64": "!!!", "one letter": "x", "not ascii": "ü"}


@pytest.mark.parametrize("token", FORGED.values(), ids=FORGED.keys())
def test_a_place_in_a_list_that_nobody_gave_out_is_refused_and_breaks_nothing(ref: SessionRef, token: str) -> None:
    works: list[Callable[[], Any]] = [
        lambda: timeline.events(ref, before=token, actor=SYSTEM),
        lambda: lists.sessions(ref.source, APP, before=token, actor=SYSTEM),
        lambda: lists.users(ref.source, APP, after=token, actor=SYSTEM),
        lambda: edits(token, actor=SYSTEM),
    ]
    for work in works:
        try:
            work()
        except Invalid as error:
            assert error.message == "The page in this link isn't valid."  # noqa: PT017


# --- What is there ----------------------------------------------------------------------------------------------------


def test_the_demo_is_counted_right(demo: str) -> None:
    apps = {row.app_name: row for row in lists.apps(demo, actor=SYSTEM).rows}
    for name, row in apps.items():
        sessions = query(demo, "SELECT count(*), max(update_time) FROM sessions WHERE app_name = %s", [name])
        users = query(demo, "SELECT count(DISTINCT user_id) FROM sessions WHERE app_name = %s", [name])
        assert (row.sessions, row.last_activity, row.users) == (*sessions[0], users[0][0])
        found, state = views.app(demo, name, actor=SYSTEM)
        assert found == row
        stored = query(demo, "SELECT state FROM app_states WHERE app_name = %s", [name])
        assert state == (json.loads(stored[0][0]) if stored else {})
    assert set(apps) == {"booking", "claims", "support"}
    for row in lists.sessions(demo, "booking", actor=SYSTEM).rows:
        events = query(
            demo,
            "SELECT count(*) FROM events WHERE app_name = %s AND user_id = %s AND session_id = %s",
            row.ref[1:],
        )
        assert row.events == events[0][0]
        title = (
            views.session(row.ref, actor=SYSTEM).state.session.get("__session_metadata__", {}).get("displayName", "")
        )
        assert row.title == title == views.session(row.ref, actor=SYSTEM).title


def test_apps_and_users_with_state_only_are_shown(source: str, actor: Actor) -> None:
    ref = create_session(source, APP, "ana", actor=actor, state={"user:a": 1, "app:b": 2}, session_id="s1")
    delete_session(ref, actor=actor)
    assert [(row.app_name, row.sessions) for row in lists.apps(source, actor=SYSTEM).rows] == [(APP, 0)]
    assert views.app(source, APP, actor=SYSTEM)[1] == {"b": 2}
    assert views.user_state(source, APP, "ana", actor=SYSTEM) == {"a": 1}


def test_what_is_not_there_is_not_found_by_name(source: str, ref: SessionRef) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        views.app(source, "nowhere", actor=SYSTEM)
    with pytest.raises(NotFound, match="nobody"):
        views.user_state(source, APP, "nobody", actor=SYSTEM)
    with pytest.raises(NotFound, match="s9"):
        views.session(ref._replace(session_id="s9"), actor=SYSTEM)
    with pytest.raises(NotFound, match="e9"):
        timeline.event(ref, "e9", actor=SYSTEM)
    with pytest.raises(NotFound, match="no source"):
        lists.apps("elsewhere", actor=SYSTEM)
    assert timeline.events(ref._replace(session_id="s9"), actor=SYSTEM).rows == []


def test_a_name_that_no_database_can_hold_is_not_found_or_invalid_and_no_fault_of_the_source(ref: SessionRef) -> None:
    works: list[Callable[[], Any]] = [
        lambda: views.session(ref._replace(user_id="a\0"), actor=SYSTEM),
        lambda: views.app(ref.source, "a\0", actor=SYSTEM),
        lambda: views.user_state(ref.source, APP, "a\0", actor=SYSTEM),
        lambda: timeline.event(ref, "a\0", actor=SYSTEM),
        lambda: views.session(ref._replace(session_id="x" * 10_000), actor=SYSTEM),
    ]
    for work in works:
        with pytest.raises((NotFound, Invalid)):
            work()
    assert views.session(ref, actor=SYSTEM).ref == ref


def test_sessions_of_the_same_name_do_not_mix(source: str, actor: Actor) -> None:
    keys = [SessionRef(source, app, user, "s1") for app in ("a", "b") for user in ("ana", "omar")]
    for ref in keys:
        create_session(*ref[:3], session_id="s1", actor=actor, state={"me": [*ref[1:3]], "user:u": ref.user_id})
        append_event(ref, {"id": "same", "author": ref.user_id, "actions": {"state_delta": {"x": 1}}}, actor=actor)
    for ref in keys:
        view = views.session(ref, actor=SYSTEM)
        assert view.state.merged() == {"me": [*ref[1:3]], "x": 1, "user:u": ref.user_id}
        assert [each.data["author"] for each in timeline.events(ref, actor=SYSTEM).rows] == [ref.user_id]
        assert statistics.stats(ref, actor=SYSTEM).events == 1
        assert [row.ref for row in lists.sessions(source, ref.app_name, ref.user_id, actor=SYSTEM).rows] == [ref]


# --- Filters ----------------------------------------------------------------------------------------------------------


def _parts(event: dict[str, Any]) -> list[dict[str, Any]]:
    parts = (event.get("content") or {}).get("parts") or []
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def _naive_error(event: dict[str, Any]) -> bool:
    """An error as a reader of the JSON would call it, without asking the code under test."""
    if event.get("error_code") is not None or event.get("error_message") is not None:
        return True
    actions = event.get("actions") or {}
    asks = actions.get("requested_tool_confirmations") or actions.get("requested_auth_configs")
    results = [part["code_execution_result"] for part in _parts(event) if "code_execution_result" in part]
    if any(result.get("outcome") != "OUTCOME_OK" for result in results):
        return True
    responses = [(part.get("function_response") or {}).get("response") or {} for part in _parts(event)]
    return not asks and any("error" in response for response in responses)


NAIVE: dict[str, Callable[[dict[str, Any]], bool]] = {
    "messages": lambda e: any("text" in part and part.get("thought") is not True for part in _parts(e)),
    "tools": lambda e: any("function_call" in part or "function_response" in part for part in _parts(e)),
    "state": lambda e: bool((e.get("actions") or {}).get("state_delta")),
    "errors": lambda e: _naive_error(e),
    "edits": lambda e: (e.get("custom_metadata") or {}).get("adkweb") is not None,
}


def test_filters_select_in_the_demo_what_a_naive_reading_selects(demo_everywhere: str) -> None:
    assert set(NAIVE) == set(filters.FILTERS)
    found = dict.fromkeys(NAIVE, 0)
    for ref in _sessions(demo_everywhere):
        stored = [json.loads(data) for (data,) in _stored(ref)]
        for name, naive in NAIVE.items():
            expected = [event["id"] for event in stored if naive(event)]
            assert [view.id for view in timeline.events(ref, kind=name, actor=SYSTEM).rows] == expected
            assert statistics.stats(ref, actor=SYSTEM).kinds[name] == len(expected)
            found[name] += len(expected)
        row = next(r for r in lists.sessions(ref.source, ref.app_name, actor=SYSTEM).rows if r.ref == ref)
        assert row.errors == sum(NAIVE["errors"](event) for event in stored[-100:])
        for author in {event["author"] for event in stored}:
            of_author = [event["id"] for event in stored if event["author"] == author]
            assert [view.id for view in timeline.events(ref, author=author, actor=SYSTEM).rows] == of_author
    assert all(found.values())  # the demo has something of every kind


def test_a_range_has_the_events_from_one_to_another_whatever_the_filter(
    source: str, ref: SessionRef, actor: Actor
) -> None:
    chance = random.Random(7)
    other = create_session(source, APP, "ana", actor=actor, session_id="s2")
    stored: list[tuple[int, dict[str, Any]]] = []
    for number in range(60):
        event: dict[str, Any] = {"id": f"e{number}", "author": chance.choice(["user", "agent"])}
        event |= chance.choice([{}, {"error_code": "500"}, {"actions": {"state_delta": {"n": number}}}])
        event |= {"usage_metadata": {"total_token_count": number}}
        seq = append_event(ref, event, actor=actor).seq
        assert seq is not None
        stored.append((seq, event))
        append_event(other, {"id": f"o{number}", "author": "agent"}, actor=actor)
    for _ in range(30):
        first, last = sorted(chance.sample(range(60), 2))
        between = stored[first][0], stored[last][0]
        kind, author = chance.choice(["", *NAIVE]), chance.choice(["", "user", "agent"])
        within = [event for seq, event in stored if between[0] <= seq <= between[1]]
        expected = [e["id"] for e in within if author in ("", e["author"]) and (not kind or NAIVE[kind](e))]
        chosen: dict[str, Any] = {"between": between, "kind": kind, "author": author, "limit": 7, "actor": SYSTEM}
        back = _all(lambda before: _backwards(ref, before, chosen), lambda view: view.id)  # noqa: B023
        assert back[::-1] == expected
        on = _all(lambda after: timeline.events_after(ref, after or 0, **chosen), lambda view: view.id)  # noqa: B023
        assert on == expected
        stats = statistics.stats(ref, between, actor=SYSTEM)
        assert (stats.events, stats.tokens) == (len(within), sum(range(first, last + 1)))
        assert stats.kinds == {name: sum(map(naive, within)) for name, naive in NAIVE.items()}


def _backwards(ref: SessionRef, before: str | None, chosen: dict[str, Any]) -> Page[EventView]:
    page = timeline.events(ref, before=before, **chosen)
    return Page(page.rows[::-1], page.next)


def test_the_ends_of_a_range_are_known_by_id_and_strange_ids_are_gone(ref: SessionRef, actor: Actor) -> None:
    seq = append_event(ref, {"id": "e1", "author": "agent", "timestamp": 5.0}, actor=actor).seq
    strange = ["e1", "e2", "", "\0", "\ud800", "x" * 100_000, "' OR 1=1 --"]
    assert timeline.ends_of(ref, strange, actor=SYSTEM) == {"e1": (seq, 5.0)}
    assert timeline.ends_of(ref._replace(session_id="s9"), ["e1"], actor=SYSTEM) == {}


def test_a_range_of_a_long_session_is_found_by_the_index(ref: SessionRef) -> None:
    fill(ref, 5_000)
    if connections[ref.source].vendor != "sqlite":
        return
    plan = query(
        ref.source,
        """EXPLAIN QUERY PLAN SELECT id FROM events WHERE app_name = %s AND user_id = %s AND session_id = %s
        AND rowid BETWEEN 2000 AND 2010 ORDER BY rowid DESC""",
        ref[1:],
    )
    assert "rowid>? AND rowid<?" in str(plan)


def test_numbers_of_the_demo_are_those_of_a_naive_count(demo_everywhere: str) -> None:
    for ref in _sessions(demo_everywhere):
        stored = [json.loads(data) for (data,) in _stored(ref)]
        stats = statistics.stats(ref, actor=SYSTEM)
        assert stats.events == len(stored)
        assert stats.tokens == sum((e.get("usage_metadata") or {}).get("total_token_count", 0) for e in stored)
        assert not stats.more


# What no well-behaved program writes, and a database may hold.
STRANGE: dict[str, Any] = {
    "nothing": {},
    "not an object": [1, "a"],
    "a text": "text",
    "null": None,
    "fields are null": {"content": None, "actions": None, "custom_metadata": None, "usage_metadata": None},
    "fields are texts": {"content": "c", "actions": "a", "custom_metadata": "adkweb", "usage_metadata": "u"},
    "fields are lists": {"content": [], "actions": [1], "custom_metadata": [{"adkweb": 1}], "usage_metadata": [3]},
    "parts is a text": {"content": {"parts": "text"}},
    "parts is an object": {"content": {"parts": {"text": {"text": "a"}}}},
    "parts are not objects": {"content": {"parts": ["text", 1, None, ["function_call"]]}},
    "thought is no boolean": {"content": {"parts": [{"text": "a", "thought": "yes"}]}},
    "a thought": {"content": {"parts": [{"text": "a", "thought": True}]}},
    "response is a text": {"content": {"parts": [{"function_response": {"response": "error"}}]}},
    "response is null": {"content": {"parts": [{"function_response": {"response": None}}]}},
    "delta is empty": {"actions": {"state_delta": {}}},
    "delta is null": {"actions": {"state_delta": None}},
    "delta is a list": {"actions": {"state_delta": [1]}},
    "errors are null": {"error_code": None, "error_message": None},
    "tokens are a text": {"usage_metadata": {"total_token_count": "many"}},
    "tokens are many": {"usage_metadata": {"total_token_count": 10**30}},
    "tokens are a list": {"usage_metadata": {"total_token_count": [1]}},
    "names are strange": {"custom_metadata": {"adkweb.x": 1}, "actions": {'state"delta': {"a": 1}}},
    "adkweb is a text": {"custom_metadata": {"adkweb": "text"}, "actions": {"state_delta": {"a": None}}},
    "removed is a number": {"custom_metadata": {"adkweb": {"removed": 7}}, "actions": {"state_delta": {"a": None}}},
    "removed is strange": {
        "custom_metadata": {"adkweb": {"removed": {"a": 1}}},
        "actions": {"state_delta": {"a": None}},
    },
    "deep": {"content": {"parts": [{"text": json.dumps("[" * 500)}]}, "output": json.loads("[" * 190 + "]" * 190)},
}


def test_nothing_that_is_stored_breaks_a_page_or_the_pages_of_others(
    source: str, actor: Actor, subtests: pytest.Subtests
) -> None:
    good = {"id": "good", "content": {"parts": [{"text": "hello"}]}, "actions": {"state_delta": {"a": 1}}}
    for said, event in STRANGE.items():
        with subtests.test(said):
            ref = create_session(source, APP, "ana", actor=actor, session_id="s1")
            _insert(ref, [{"id": "strange", "data": event}, {"data": good, **good}])
            assert [view.id for view in timeline.events(ref, actor=SYSTEM).rows] == ["strange", "good"]
            for name in filters.FILTERS:
                ids = [view.id for view in timeline.events(ref, kind=name, actor=SYSTEM).rows]
                assert ("good" in ids) == (name in ("messages", "state"))
            assert statistics.stats(ref, actor=SYSTEM).events == 2
            assert timeline.event(ref, "strange", actor=SYSTEM).id == "strange"
            assert writers(ref, actor=SYSTEM)["a"].event_id == "good"
            assert last_writer(ref, "a", actor=SYSTEM) is not None
            assert len(lists.sessions(source, APP, actor=SYSTEM).rows) == 1
            edits(actor=SYSTEM)
            edit_state(ref, [Entry("b", 1, ABSENT)], actor=actor)
            assert len(timeline.events(ref, actor=SYSTEM).rows) == 3
            delete_session(ref, actor=actor)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("form", ["sqlite", "sqlite-database"])
def test_numbers_that_are_not_json_and_that_adk_stores_in_sqlite_break_nothing(
    ref: SessionRef, number: str, form: str, actor: Actor
) -> None:
    data = '{"id": "odd", "author": "x", "actions": {"state_delta": {"a": %s}}, "content": {"parts": [{"text": "t"}]}}'
    _insert(ref, [{"id": "odd", "text": data % number}, {"id": "good", "data": {"actions": {"state_delta": {"b": 1}}}}])
    execute(ref.source, "UPDATE sessions SET state = %s", [f'{{"a": {number}}}'])
    odd, good = timeline.events(ref, actor=SYSTEM).rows
    assert (odd.id, good.id) == ("odd", "good")
    for name in filters.FILTERS:
        timeline.events(ref, kind=name, actor=SYSTEM)
    assert statistics.stats(ref, actor=SYSTEM).events == 2
    assert repr(views.session(ref, actor=SYSTEM).state.get("a")) == repr(float(number))
    lists.sessions(ref.source, APP, actor=SYSTEM)
    writers(ref, actor=SYSTEM)
    edits(actor=SYSTEM)
    edit_state(ref, [Entry("c", 1, ABSENT)], actor=actor)
    assert views.session(ref, actor=SYSTEM).state.get("c") == 1


def test_an_unknown_filter_is_refused(ref: SessionRef) -> None:
    with pytest.raises(Invalid, match="no filter “everything”"):
        timeline.events(ref, kind="everything", actor=SYSTEM)


# --- The values before ------------------------------------------------------------------------------------------------


def test_changes_show_the_values_before(source: str, actor: Actor) -> None:
    ref = create_session(source, APP, "ana", actor=actor, state={"a": 1, "user:u": 5}, session_id="s1")
    for delta in ({"a": 2, "b": {"x": 1}}, {"a": None, "user:u": 6}, {"a": [3], "b": {"x": 2}, "c": "new"}):
        append_event(ref, {"author": "x", "actions": {"state_delta": delta}}, actor=actor)
    edit_state(ref, [Entry("a", ABSENT, [3]), Entry("user:u", 7, 6)], actor=actor)
    append_event(ref, {"author": "x", "actions": {"state_delta": {"a": 4}}}, actor=actor)
    assert [{c.key: (c.old, c.new) for c in view.changes} for view in timeline.events(ref, actor=SYSTEM).rows] == [
        {"a": (1, 2), "b": (ABSENT, {"x": 1})},
        {"a": (2, None), "user:u": (UNKNOWN, 6)},  # another session may have written it meanwhile
        {"a": (None, [3]), "b": ({"x": 1}, {"x": 2}), "c": (ABSENT, "new")},
        {"a": ([3], ABSENT), "user:u": (6, 7)},  # an edit recorded what it replaced
        {"a": (ABSENT, 4)},
    ]


def test_the_value_before_is_found_on_earlier_pages(ref: SessionRef, actor: Actor) -> None:
    _insert(ref, [{"id": f"e{n}", "data": {"actions": {"state_delta": {"n": n}}}} for n in range(150)])
    newest = timeline.events(ref, actor=SYSTEM)
    assert [(c.old, c.new) for view in newest.rows for c in view.changes] == [(n - 1, n) for n in range(50, 150)]
    earlier = timeline.events(ref, before=newest.next, actor=SYSTEM)
    assert [(c.old, c.new) for view in earlier.rows for c in view.changes] == [
        (n - 1 if n else ABSENT, n) for n in range(50)
    ]
    assert [(c.old, c.new) for c in timeline.event(ref, "e77", actor=SYSTEM).changes] == [(76, 77)]


def test_the_values_before_are_right_under_every_filter(ref: SessionRef, actor: Actor) -> None:
    """A filter hides events between, and their changes count all the same."""
    message = {"content": {"parts": [{"text": "hello"}]}}
    for n in range(6):
        event = {"author": f"agent{n % 2}", "actions": {"state_delta": {"n": n}}, **(message if n % 2 == 0 else {})}
        append_event(ref, event, actor=actor)
    assert [
        (c.old, c.new) for view in timeline.events(ref, kind="messages", actor=SYSTEM).rows for c in view.changes
    ] == [
        (ABSENT, 0),
        (1, 2),
        (3, 4),
    ]
    assert [
        (c.old, c.new) for view in timeline.events(ref, author="agent1", actor=SYSTEM).rows for c in view.changes
    ] == [
        (0, 1),
        (2, 3),
        (4, 5),
    ]


def test_the_value_before_is_unknown_where_nothing_tells_it(ref: SessionRef) -> None:
    """A session from before the adoption, whose initial state nobody recorded; and one with too long a past."""
    execute(ref.source, "UPDATE sessions SET initial_state = NULL")
    rows = [{"id": "first", "data": {"actions": {"state_delta": {"a": 1, "b": 1}}}}]
    rows += [{"id": f"e{n}"} for n in range(RECENT + 1)]
    _insert(ref, [*rows, {"id": "last", "data": {"actions": {"state_delta": {"a": 2, "c": 1}}}}])
    assert [(c.key, c.old) for c in timeline.event(ref, "last", actor=SYSTEM).changes] == [
        ("a", UNKNOWN),
        ("c", UNKNOWN),
    ]
    assert [(c.key, c.old) for c in timeline.event(ref, "first", actor=SYSTEM).changes] == [
        ("a", UNKNOWN),
        ("b", UNKNOWN),
    ]


# --- Who wrote a key --------------------------------------------------------------------------------------------------


def test_the_last_writer_of_every_key_is_known(source: str, actor: Actor) -> None:
    ref = create_session(source, APP, "ana", actor=actor, state={"initial": 1}, session_id="s1")
    first = append_event(ref, _event("agent", a=1, b=1, user__u=1), actor=actor)
    second = append_event(ref, _event("other", b=2, app__p=1), actor=actor)
    edit = edit_state(ref, [Entry("a", ABSENT, 1)], actor=actor)
    found = writers(ref, actor=SYSTEM)
    assert {name: (writer.event_id, writer.author, writer.actor) for name, writer in found.items()} == {
        "a": (edit.event["id"], "system", "maria@example.com"),
        "b": (second.event["id"], "other", ""),
        "app:p": (second.event["id"], "other", ""),
        "user:u": (first.event["id"], "agent", ""),
    }
    assert found["b"].seq == second.seq
    assert found["b"].timestamp == pytest.approx(second.event["timestamp"], abs=1e-6)
    for name in found:
        assert last_writer(ref, name, actor=SYSTEM) == found[name]
    assert last_writer(ref, "initial", actor=SYSTEM) is None
    assert last_writer(ref, "never", actor=SYSTEM) is None


def test_the_last_writer_of_a_shared_key_may_be_in_another_session_or_another_users(source: str, actor: Actor) -> None:
    mine = create_session(source, APP, "ana", actor=actor, session_id="mine")
    hers = create_session(source, APP, "ana", actor=actor, session_id="hers")
    omars = create_session(source, APP, "omar", actor=actor, session_id="omars")
    append_event(mine, _event("a", user__u=1, app__p=1), actor=actor)
    theirs = append_event(hers, _event("b", user__u=2), actor=actor)
    omar = append_event(omars, _event("c", app__p=2, user__u=9), actor=actor)
    assert _writer(mine, "user:u") == theirs.event["id"]
    assert _writer(mine, "app:p") == omar.event["id"]
    edit = edit_app_state(source, APP, [Entry("app:p", 3, 2)], actor=actor)
    assert _writer(mine, "app:p") == edit.event["id"]
    writer = last_writer(mine, "app:p", actor=SYSTEM)
    assert writer
    assert writer.actor == "maria@example.com"


# --- Large sessions ---------------------------------------------------------------------------------------------------

LARGE = 100_000


@pytest.mark.parametrize("form", long_but(["sqlite", "postgresql"], "postgresql"))
def test_a_session_with_a_hundred_thousand_events_is_read_by_index_and_counted_in_bounds(
    ref: SessionRef, form: str, actor: Actor
) -> None:
    db = connections[ref.source]
    viewer = Actor("vera", (Grant("read", apps="quiet"),))
    appended = append_event(create_session(ref.source, "quiet", "omar", actor=actor), _event("a", n=1), actor=actor)
    # Another session as large, whose rows stand before this one's.
    other = create_session(*ref[:3], session_id="other", actor=actor)
    for each in (other, ref):
        fill(each, LARGE)
    statements: list[tuple[str, Any]] = []

    def record(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        statements.append((sql, params))
        return execute(sql, params, many, context)

    start = time.monotonic()
    with db.execute_wrapper(record):
        newest = timeline.events(ref, actor=SYSTEM)
        middle = timeline.events(ref, before=newest.next, actor=SYSTEM)
        found = writers(ref, actor=SYSTEM)
        last = last_writer(ref, "n", actor=SYSTEM)
        stats = statistics.stats(ref, actor=SYSTEM)
        timeline.around(middle.rows[50], actor=SYSTEM)
        rows = lists.sessions(ref.source, APP, actor=SYSTEM).rows
        seq = reads_newest.newest_seq(ref.source)
        holes = [2, 5] if db.vendor == "postgresql" else []
        found_there = reads_newest.appended(ref.source, seq - 3, holes)
        assert [each for each, _ref in found_there] == [*holes, seq - 2, seq - 1, seq]
        assert {each.session_id for _seq, each in found_there} == {"s1", *(["other"] if holes else [])}
        assert timeline.misses_more_than(ref, seq - 1000, 999, actor=SYSTEM)
        assert not timeline.misses_more_than(ref, seq - 1000, 1000, actor=SYSTEM)
        assert len(timeline.events_after(ref, seq - 7, actor=SYSTEM).rows) == 7
        reads_newest.revisions(ref.source, [ref], actor=SYSTEM)
        quiet = [turn.last.id for turn in reads_newest.happening(ref.source, actor=viewer).turns]
    assert quiet == [appended.event["id"]]
    assert reads_newest.happening(ref.source, actor=SYSTEM).turns[0].last.id == f"e{LARGE}"
    spent = time.monotonic() - start
    assert [view.id for view in newest.rows] == [f"e{n}" for n in range(LARGE - 99, LARGE + 1)]
    assert middle.rows[-1].id == f"e{LARGE - 100}"
    assert found["n"] == last
    assert found["n"].event_id == f"e{LARGE}"
    assert (stats.events, stats.more, stats.kinds["state"]) == (lists.COUNT_LIMIT, True, lists.COUNT_LIMIT)
    assert [row.events for row in rows] == [lists.ROW_COUNT_LIMIT + 1] * 2
    assert len(statements) > 8
    for sql, params in statements:
        if "events" in sql:
            _assert_bounded(ref.source, sql, params)
    if db.vendor == "postgresql":  # what catching up asks as long as a transaction may still be open
        _assert_bounded(ref.source, read_source.LATE, [[1, seq], [5, seq + 9], 500, 500])
    assert spent < 5  # about 0.3 s when nothing else runs; a scan of everything for each of them would not do


def _assert_bounded(source: str, sql: str, params: Any) -> None:
    """No part of the plan looks at more events than a query may count."""
    db = connections[source]
    with db.cursor() as cursor:
        if db.vendor == "sqlite":
            cursor.execute(f"EXPLAIN QUERY PLAN {sql}", params)
            plan = [line[3] for line in cursor.fetchall()]
            scans = [line for line in plan if line.startswith("SCAN events")]
            assert not scans or "CO-ROUTINE events" in plan, (sql, plan)  # of a subquery of that name, cut by LIMIT
            assert not any("TEMP B-TREE FOR ORDER BY" in line for line in plan), (sql, plan)
            return
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", params)
        (plan_json,) = cursor.fetchone()
    for node in _nodes((plan_json if isinstance(plan_json, list) else json.loads(plan_json))[0]["Plan"]):
        seen = (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        assert seen <= lists.COUNT_LIMIT + 1, (sql, node)


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", []):
        yield from _nodes(inner)


# --- Helpers ----------------------------------------------------------------------------------------------------------


def _pages(read: Callable[[str | None], Page[Any]]) -> list[Page[Any]]:
    pages = [read(None)]
    while (place := pages[-1].next) is not None:
        pages.append(read(place))
        assert len(pages) < 1000
    return pages


def _all(read: Callable[[str | None], Page[Any]], what: Callable[[Any], Any]) -> list[Any]:
    return [what(row) for page in _pages(read) for row in page.rows]


def _name(row: lists.SessionRow) -> tuple[str, str]:
    return row.ref.user_id, row.ref.session_id


def _sessions(source: str) -> list[SessionRef]:
    return [
        SessionRef(source, *row) for row in query(source, "SELECT app_name, user_id, id FROM sessions ORDER BY 1, 2, 3")
    ]


def _stored(ref: SessionRef) -> list[tuple[str]]:
    place = "seq" if connections[ref.source].vendor == "postgresql" else "rowid"
    return query(
        ref.source,
        f"SELECT event_data FROM events WHERE app_name = %s AND user_id = %s AND session_id = %s ORDER BY {place}",
        ref[1:],
    )


def _insert(ref: SessionRef, rows: list[dict[str, Any]]) -> None:
    """Stores rows as another program would: `text` or `data` is what event_data gets, else the row itself."""
    db = connections[ref.source]
    values = []
    for n, row in enumerate(rows):
        moment = stored_instant(row.get("timestamp", 1_700_000_000.0 + n), db)
        values.append([row["id"], *ref[1:], "i", moment, row.get("text") or json.dumps(row.get("data", row))])
    with db.cursor() as cursor:
        cursor.executemany(INSERT_EVENT, values)


def _event(author: str, **delta: Any) -> dict[str, Any]:
    return {"author": author, "actions": {"state_delta": {k.replace("__", ":"): v for k, v in delta.items()}}}


def _writer(ref: SessionRef, name: str) -> str:
    writer = last_writer(ref, name, actor=SYSTEM)
    assert writer is not None
    return writer.event_id
