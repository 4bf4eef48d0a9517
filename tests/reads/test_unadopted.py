"""A database that nobody adopted is read as far as its events tell, and nothing is written to it."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st
from pytest_django import Settings

from sessions_app.access.actor import SYSTEM
from sessions_app.agent_view import conversation
from sessions_app.domain import positions
from sessions_app.domain.errors import Behind, Invalid, NotFound
from sessions_app.domain.json_values import equal
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT, UNKNOWN
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.history import adk_merge_bug, key_history, moments, overview
from sessions_app.history import unadopted as by_time
from sessions_app.history.edit_log import edits
from sessions_app.history.index import build, read_source
from sessions_app.history.index.numbered import Numbered
from sessions_app.history.moments import Moment
from sessions_app.models import Projection
from sessions_app.reads import newest, timeline
from sessions_app.sources import adoption, database, online, registry, schema
from sessions_app.transfer import exporting
from sessions_app.transfer.items import EventItem
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.adk.services import APP, USER, Adk, key_of
from tests.support.bulk import fill
from tests.support.fold import ALICE, Fold, histories
from tests.support.stored import everything, execute, query

pytestmark = pytest.mark.django_db(transaction=True)

Unadopted = Callable[[], Any]


@pytest.fixture
def unadopted(source: str, settings: Settings) -> Unadopted:
    """Within it the source is as if nobody had ever adopted it, and opened with `--read-only`."""

    @contextmanager
    def release() -> Iterator[None]:
        online.release(source)
        settings.READ_ONLY = True
        registry.opened_files.pop(source, None)
        database.get(source)
        adk_merge_bug.seen.clear()  # as a process that opens it now
        before = everything(source)
        try:
            yield
            assert everything(source) == before
            assert not database.is_adopted(source)
        finally:
            settings.READ_ONLY = False
            registry.opened_files.pop(source, None)
            database.get(source, adopting=True)
        assert adoption.missing(source) == []

    return release


def told_alike(before: Moment, after: Moment, *, hidden: Callable[[str], bool]) -> None:
    """Of what events wrote the same is told; of what sessions began with, and of keys that may be `hidden` by that, at most
    that it is not known.
    """
    known = {name for name in before.writers if not (hidden(name) and after.state.get(name) is UNKNOWN)}
    for name, value in before.state.merged().items():
        other = after.state.get(name)
        if name in known:
            assert other is not UNKNOWN, name
        assert other is UNKNOWN or other is ABSENT or equal(other, value), name
        assert other is not ABSENT or name in before.initial, name
    assert {name: who.event_id for name, who in after.writers.items()} == {
        name: before.writers[name].event_id for name in known
    }


# What a session began with, which only an adopted file keeps, may be all that shows whether deltas were merged.
SHOWN_BY_ITS_BEGINNING = [
    ("create", "ana", "s1", {"m": {"a": 1}}),
    ("append", "ana", "s1", {"n": {"b": 2}, "m": {"b": 2}}, [], "i1"),
    ("append", "ana", "s1", {"n": 5}, [], "i1"),
]


@hypothesis(max_examples=12)
@given(history=histories, said=st.sampled_from(["auto", "replaced"]))
@example(history=SHOWN_BY_ITS_BEGINNING, said="auto")
@example(history=SHOWN_BY_ITS_BEGINNING, said="replaced")
def test_state_at_every_event_is_that_of_the_same_database_adopted(
    source: str, unadopted: Unadopted, settings: Settings, history: list[tuple[Any, ...]], said: str
) -> None:
    settings.SQLITE_STATE = said
    fold = Fold(source)
    for what, *rest in history:
        if what != "look":
            getattr(fold, what)(*rest)
    asked = [(ref, event_id) for ref, event_id, _before, _after in fold.seen]
    adopted = [moments.state_at(*each, actor=SYSTEM) for each in asked]
    # Nothing says what sessions began with: where one wrote a shared key last, no event tells what is stored. Where a
    # session is gone, nothing says which of them it has written.
    begun = {name for what, *rest in history if what == "create" for name in rest[2]}
    gone = any(what == "delete" for what, *_ in history)
    merged = adk_merge_bug.may_merge(source)
    doubtful = {
        name
        for what, *rest in history
        if merged and what == "append"
        for name, value in (rest[2] | dict.fromkeys(rest[3])).items()
        if adk_merge_bug.is_doubtful(value)
    }
    with unadopted():
        for each, before in zip(asked, adopted, strict=True):
            told_alike(
                before,
                moments.state_at(*each, actor=SYSTEM),
                hidden=lambda name: name in doubtful or (":" in name and (gone or name in begun)),
            )


def append(ref: SessionRef, delta: dict[str, Any], **more: Any) -> str:
    event = {"author": "agent", "actions": {"state_delta": delta}, **more}
    return str(append_event(ref, event, actor=ALICE).event["id"])


def test_a_shared_key_that_a_later_session_began_with_is_unknown(source: str, unadopted: Unadopted) -> None:
    ref = create_session(source, "booking", "ana", actor=ALICE)
    event_id = append(ref, {"user:tier": "gold", "user:city": "Rome"})
    create_session(source, "booking", "ana", state={"user:tier": "silver"}, actor=ALICE)
    assert moments.state_at(ref, event_id, actor=SYSTEM).state.user == {"tier": "gold", "city": "Rome"}
    with unadopted():  # the event says gold and silver is stored: its write may have been lost as well
        build.rebuild(source)  # what was read while it was adopted is not known to who opens it now
        assert moments.state_at(ref, event_id, actor=SYSTEM).state.user == {"tier": UNKNOWN, "city": "Rome"}


def test_whatever_only_reads_works(source: str, unadopted: Unadopted) -> None:
    one = create_session(source, "booking", "ana", session_id="one", actor=ALICE)
    two = create_session(source, "booking", "ana", session_id="two", actor=ALICE)
    first = append(one, {"n": 1, "user:tier": "silver"})
    other = append(two, {"user:tier": "gold", "app:limit": 3})
    last = append(one, {"n": 2})
    with unadopted():
        assert moments.state_at(one, first, actor=SYSTEM).state.user == {"tier": "silver"}
        then = moments.state_at(one, last, actor=SYSTEM).state
        assert (then.app, then.user, then.session) == ({"limit": 3}, {"tier": "gold"}, {"n": 2})
        assert [write.event_id for write in key_history.history(one, "user:tier", actor=SYSTEM).rows] == [other, first]
        assert [
            change.key
            for change in moments.compare(
                moments.state_at(one, first, actor=SYSTEM), moments.state_now(one, actor=SYSTEM)
            )
        ] == [
            "app:limit",
            "n",
            "user:tier",
        ]
        bars = overview.bars(one, actor=SYSTEM)
        assert [(bar.events, bar.kind) for bar in bars] == [(1, "state"), (1, "state")]
        assert overview.event_at(one, bars[0].first, actor=SYSTEM) == first
        assert overview.event_at(one, bars[0].first, 1, to="state", actor=SYSTEM) == last
        assert {turn.last.id for turn in newest.happening(source, actor=SYSTEM).turns} >= {last, other}
        assert moments.state_now(one, actor=SYSTEM).writers["n"].event_id == last
        build.rebuild(source)
        assert moments.state_at(one, last, actor=SYSTEM).state == then


# --- PostgreSQL: by time ----------------------------------------------------------------------------------------------


@pytest.fixture
def place(new_database: Callable[[str], str]) -> str:
    """An empty PostgreSQL database."""
    return new_database("postgresql")


@pytest.fixture
def adk(place: str) -> Iterator[Adk]:
    """google-adk's own service, which made the tables."""
    agent = Adk("postgresql", place)
    agent.create("s0")
    yield agent
    agent.close()


@pytest.fixture
def opened(adk: Adk, place: str, open_source: Callable[..., str]) -> str:
    """The database, opened and not adopted."""
    return open_source(place, adopting=False)


def test_an_agent_goes_on_writing_while_it_is_read(adk: Adk, opened: str) -> None:
    sessions = [adk.create(f"s{number}", user=f"u{number % 2}") for number in range(1, 4)]
    fold: dict[str, Any] = {}
    for number in range(24):
        session = sessions[number % 3]
        delta = {"n": number, f"user__{number % 4}": number, "app__last": number}
        event = adk.append(session, **delta)
        fold["last"] = number
        ref = key_of(opened, session.id, session.user_id)
        then = moments.state_at(ref, event.id, actor=SYSTEM).state
        assert (then.session, then.app) == ({"n": number}, fold)
        assert then.user[f"{number % 4}"] == number
        session = sessions[number % 3] = adk.get(session.id, session.user_id)
    ref = key_of(opened, "s1", "u1")
    assert [write.change.new for write in key_history.history(ref, "app:last", actor=SYSTEM).rows] == list(
        range(23, -1, -1)
    )
    assert not database.is_adopted(opened)


def insert(source: str, session: str, *events: tuple[str, str, dict[str, Any]], user: str = USER) -> None:
    """Events at times, as another program writes them: id, time, delta."""
    for event_id, at, delta in events:
        data = {"id": event_id, "author": "agent", "actions": {"state_delta": delta}}
        execute(
            source,
            """INSERT INTO events (id, app_name, user_id, session_id, invocation_id, timestamp, event_data)
            VALUES (%s, %s, %s, %s, 'i', %s::timestamp, %s::jsonb)""",
            [event_id, APP, user, session, f"2026-01-01 {at}", json.dumps(data)],
        )
    execute(source, "UPDATE sessions SET state = state WHERE id = %s", [session])


def test_what_is_written_late_with_an_early_time_takes_its_place(opened: str) -> None:
    ref = key_of(opened, "s0")
    insert(opened, "s0", ("a", "10:00", {"n": 1}), ("c", "12:00", {"m": 1}))
    assert moments.state_at(ref, "c", actor=SYSTEM).state.session["m"] is UNKNOWN, (
        "another value is stored than it wrote"
    )
    insert(opened, "s0", ("b", "11:00", {"n": 2}))
    execute(opened, """UPDATE sessions SET state = '{"n": 2, "m": 1}'""")
    assert moments.state_at(ref, "a", actor=SYSTEM).state.session["n"] == 1
    assert moments.state_at(ref, "c", actor=SYSTEM).state.session == {"n": 2, "m": 1}
    assert [row.event_id for row in key_history.history(ref, "n", actor=SYSTEM).rows] == ["b", "a"]


def test_of_what_has_the_same_time_nobody_knows_the_order(adk: Adk, opened: str) -> None:
    adk.create("s9")
    adk.create("other", user="ben")
    ref = key_of(opened, "s0")
    insert(opened, "s0", ("a", "10:00", {"n": 0, "k": 0, "user:x": 0}))
    insert(opened, "s0", ("b", "11:00", {"n": 1, "only": 1}), ("c", "11:00", {"n": 2, "k": 1}))
    insert(opened, "s9", ("d", "11:00", {"n": 7, "user:x": 3}))
    insert(opened, "other", ("e", "11:00", {"user:x": 9, "n": 5}), user="ben")
    insert(opened, "s0", ("f", "12:00", {"n": 3, "k": 3}))
    execute(opened, """UPDATE sessions SET state = '{"n": 3, "k": 3, "only": 1}' WHERE id = 's0'""")
    execute(opened, """UPDATE sessions SET state = '{"n": 7}' WHERE id = 's9'""")
    assert moments.state_at(ref, "a", actor=SYSTEM).state.session["n"] == 0
    then = moments.state_at(ref, "b", actor=SYSTEM).state
    assert (then.session["n"], then.session["k"], then.session["only"]) == (UNKNOWN, UNKNOWN, 1)
    assert moments.state_at(ref, "c", actor=SYSTEM).state.session["k"] == 1
    assert moments.state_at(key_of(opened, "s9"), "d", actor=SYSTEM).state.session["n"] == 7, (
        "its own key, whoever else writes then"
    )
    later = moments.state_at(ref, "f", actor=SYSTEM).state
    assert (later.session["n"], later.session["k"]) == (3, 3)
    assert [row.change.new for row in key_history.history(ref, "n", actor=SYSTEM).rows] == [3, UNKNOWN, 0]
    assert moments.state_at(ref, "c", before=True, actor=SYSTEM).state.session["n"] == 0


def test_it_is_adopted_while_it_is_read(adk: Adk, opened: str) -> None:
    session = adk.get("s0")
    ids = []
    for number in range(6):
        ids.append(adk.append(session, n=number, user__x=number).id)
        session = adk.get("s0")
    ref = key_of(opened, "s0")
    before = [moments.state_at(ref, each, actor=SYSTEM).state for each in ids]
    page = overview.bars(ref, actor=SYSTEM)[2].first
    database.adopt_open(opened)
    assert database.is_numbered(opened)
    ids.append(adk.append(session, n=6, user__x=6).id)
    assert [moments.state_at(ref, each, actor=SYSTEM).state for each in ids[:6]] == before
    assert moments.state_at(ref, ids[6], actor=SYSTEM).state.session == {"n": 6}
    assert [view.seq for view in timeline.events(ref, actor=SYSTEM).rows] == list(range(1, 8))
    with pytest.raises(NotFound, match="Reload it"):
        overview.event_at(ref, page, actor=SYSTEM)
    online.release(opened)
    registry.opened_files.pop(opened)
    database.get(opened)
    assert [moments.state_at(ref, each, actor=SYSTEM).state for each in ids[:6]] == before


def test_what_was_begun_before_it_was_adopted_is_read_to_its_end(adk: Adk, opened: str) -> None:
    ids = [adk.append(adk.get("s0"), n=number).id for number in range(40)]  # more than an export reads at once
    ref = key_of(opened, "s0")
    items = exporting.items(opened, exporting.Filter(ref.app_name, ref.user_id, ref.session_id), actor=SYSTEM)
    exported = [next(item.id for item in items if isinstance(item, EventItem))]
    shown = timeline.events(ref, actor=SYSTEM, limit=10)
    database.adopt_open(opened)
    assert exported + [item.id for item in items if isinstance(item, EventItem)] == ids
    assert shown.next is not None
    earlier = timeline.events(ref, before=shown.next, actor=SYSTEM)
    assert [view.id for view in (*earlier.rows, *shown.rows)] == ids


def test_what_is_new_is_read_and_nothing_else(
    adk: Adk, opened: str, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    ref, other = key_of(opened, "s0"), adk.create("s1")
    for number in range(3):
        adk.append(adk.get("s0"), n=number)
    build.catch_up(opened)
    asked: list[str] = []
    real = read_source.without_numbers
    monkeypatch.setattr(read_source, "without_numbers", lambda *a: asked.append(a[2][2]) or real(*a))
    with django_assert_num_queries(1, using=opened):
        build.catch_up(opened)
    assert asked == []
    monkeypatch.setattr(by_time, "REST", math.inf)
    adk.append(adk.get("s0"), n=9)
    adk.append(other, n=9)
    build.catch_up(opened)
    assert asked == [], "all sessions were looked at just now"
    build.catch_up(opened, ref=ref)
    build.catch_up(opened, ref=ref)
    assert asked == ["s0"], "but the one that is asked about is read"
    monkeypatch.setattr(by_time, "REST", 0)
    build.catch_up(opened)
    assert asked == ["s0", "s1"]


def test_a_first_reading_goes_on_where_it_was_interrupted(opened: str, monkeypatch: pytest.MonkeyPatch) -> None:
    insert(opened, "s0", *((f"e{number:02}", f"10:00:{number:02}", {"n": number}) for number in range(40)))
    monkeypatch.setattr(build, "FIRST_BATCH", 7)
    monkeypatch.setattr(build, "BATCH", 7)
    monkeypatch.setattr(build, "SMALLEST_BATCH", 7)
    with pytest.raises(Behind) as behind:
        build.catch_up(opened, 0.0)
    assert 0 < behind.value.detail["share"] < 1
    insert(opened, "s0", ("late", "09:00", {"n": -1}), ("last", "11:00", {"n": 99}))
    by_time.memories.clear()
    build.paces.clear()  # another page asks, later
    ref = key_of(opened, "s0")
    values = [row.change.new for row in key_history.history(ref, "n", actor=SYSTEM).rows]
    assert values == [99, *range(39, -1, -1), -1]


def test_edits_of_before_a_release_are_listed(source: str, unadopted: Unadopted) -> None:
    ref = create_session(source, "booking", "ana", actor=ALICE)
    edit_state(ref, [Entry("n", 1, ABSENT)], actor=ALICE, reason="a test")
    with unadopted():
        (edit,) = edits(actor=SYSTEM)[0].rows
        assert (edit.ref, [change.key for change in edit.changes]) == (ref, ["n"])


def test_without_an_index_a_large_table_has_no_order(opened: str, monkeypatch: pytest.MonkeyPatch) -> None:
    execute(opened, "DROP INDEX idx_events_app_user_session_ts_id")
    insert(opened, "s0", ("a", "10:00", {"n": 1}))
    assert adoption.inspect(opened).ordered, "it is small"
    postgresql = schema.ORDERED.postgresql.replace(str(schema.FEW), "0")
    monkeypatch.setattr(adoption, "ORDERED", schema.ORDERED._replace(postgresql=postgresql))
    registry.opened_files.pop(opened)
    database.get(opened)
    with pytest.raises(Invalid, match="can't be determined"):
        moments.state_at(key_of(opened, "s0"), "a", actor=SYSTEM)
    assert moments.state_now(key_of(opened, "s0"), actor=SYSTEM).state.session == {}
    execute(opened, "CREATE INDEX any_name ON events (app_name, user_id, session_id, timestamp)")
    assert adoption.inspect(opened).ordered


def test_another_process_has_seen_that_it_was_adopted(adk: Adk, opened: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(database.due, opened, math.inf)  # this one has not looked yet, however slow the machine is
    event = adk.append(adk.get("s0"), n=1)
    ref = key_of(opened, "s0")
    online.add(opened)
    Projection.objects.create(where=registry.identity(opened), version=Numbered.version, seq=7)
    with pytest.raises(Behind):
        moments.state_at(ref, event.id, actor=SYSTEM)
    assert Projection.objects.get().seq == 7, "what it reads is not thrown away"


def _end_others(source: str) -> None:
    """Ends the agent's connections, with which what they did is counted, too."""
    others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    execute(source, f"SELECT pg_terminate_backend(pid) {others}")
    while query(source, f"SELECT 1 {others}"):
        time.sleep(0.02)


def test_a_page_reads_no_more_of_a_large_database_than_it_shows(adk: Adk, opened: str) -> None:
    keys = [key_of(opened, adk.create(f"s{number}", user=f"u{number}").id, f"u{number}") for number in range(20)]
    for ref in keys:
        fill(ref, 1_000)
    build.catch_up(opened, 60.0)

    def scans() -> int:
        # What this connection did is counted once its transaction has ended, and told.
        execute(opened, "SELECT pg_stat_force_next_flush(), pg_stat_clear_snapshot()")
        return int(query(opened, "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'events'")[0][0])

    database.due[opened] = math.inf  # looking whether it is adopted by now reads its first rows
    for _twice in range(2):
        _end_others(opened)  # what another connection did is told seconds later, or when it ends
        before = scans()
        for event in (timeline.events(keys[3], actor=SYSTEM).rows[0], timeline.event(keys[3], "e10", actor=SYSTEM)):
            assert moments.state_at(keys[3], event.id, actor=SYSTEM).state.session
        assert len(key_history.history(keys[3], "n", actor=SYSTEM).rows) == 50
        assert len(overview.bars(keys[3], actor=SYSTEM)) == overview.BARS
        assert overview.event_at(keys[3], overview.bars(keys[3], actor=SYSTEM)[5].first, 2, actor=SYSTEM)
        assert newest.happening(opened, actor=SYSTEM).turns
        conversation.left_out(keys[3], timeline.events(keys[3], actor=SYSTEM).rows, actor=SYSTEM)
        assert scans() == before
        adk.append(adk.get("s3", "u3"), n=-1)


def test_times_with_a_zone_are_read_as_well(place: str, adk: Adk, open_source: Callable[..., str]) -> None:
    with psycopg.connect(place, autocommit=True) as db:  # as adk-js makes them
        for table, column in (
            *(("sessions", name) for name in ("create_time", "update_time")),
            *((name, "update_time") for name in ("app_states", "user_states")),
            ("events", "timestamp"),
        ):
            db.execute(f"ALTER TABLE {table} ALTER {column} TYPE timestamptz USING {column} AT TIME ZONE 'UTC'")
        db.execute("ALTER ROLE CURRENT_USER SET timezone = 'Asia/Seoul'")
    try:
        source = open_source(place, adopting=False)
        insert(source, "s0", ("a", "10:00:00.001", {"n": 1}), ("b", "10:00:00.002", {"n": 2, "user:x": 1}))
        execute(source, """UPDATE sessions SET state = '{"n": 2}'""")
        ref = key_of(source, "s0")
        assert moments.state_at(ref, "a", actor=SYSTEM).state.session == {"n": 1}
        assert moments.state_at(ref, "b", actor=SYSTEM).state.session == {"n": 2}
        first, second = timeline.events(ref, actor=SYSTEM).rows
        assert (first.seq, second.seq) == (positions.seq_at(1767261600.001), positions.seq_at(1767261600.002))
        assert [bar.first for bar in overview.bars(ref, actor=SYSTEM)] == [first.seq, second.seq]
        assert overview.event_at(ref, first.seq or 0, 1, actor=SYSTEM) == "b"
        assert [row.event_id for row in key_history.history(ref, "user:x", actor=SYSTEM).rows] == ["b"]
    finally:
        with psycopg.connect(place, autocommit=True) as db:
            db.execute("ALTER ROLE CURRENT_USER RESET timezone")
