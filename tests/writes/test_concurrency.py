"""Many writers at once: nothing is lost, nothing is twice, nobody waits for ever, in every format."""

import itertools
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from django.db import transaction

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.errors import AlreadyExists, Conflict, NotFound, StaleSession
from sessions_app.domain.event import new_id
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT, State
from sessions_app.edits.edit import Entry, edit_app_state, edit_state
from sessions_app.reads import views
from sessions_app.writes.append import Appended, append_event
from sessions_app.writes.sessions import create_session, delete_session
from tests.support.people import ALICE
from tests.support.stored import assert_state_is_what_events_say, events_of, execute, in_threads, query, state_of


def append(ref: SessionRef, delta: State, removed: tuple[str, ...] = (), **options: Any) -> Appended:
    event = {
        "id": new_id(),
        "author": "writer",
        "actions": {"state_delta": {**delta, **dict.fromkeys(removed)}},
        "custom_metadata": {"adkweb": {"removed": list(removed)}} if removed else {},
    }
    return append_event(ref, event, actor=ALICE, origin="person", **options)


def failures(results: list[Any]) -> list[Exception]:
    return [result for result in results if isinstance(result, Exception)]


@pytest.mark.guarantee("Writing", "No key is lost when many programs write shared state at the same time.")
def test_120_threads_that_write_120_app_keys_lose_none(source: str) -> None:
    sessions = [create_session(source, "app", f"user{n % 4}", actor=ALICE) for n in range(12)]
    results = in_threads(
        [partial(append, ref, {f"app:k{n}": n}) for n, ref in zip(range(120), itertools.cycle(sessions), strict=False)]
    )
    assert failures(results) == []
    assert views.app(source, "app", actor=SYSTEM)[1] == {f"k{n}": n for n in range(120)}
    assert_state_is_what_events_say(source)


def test_20_sessions_created_at_once_with_app_and_user_state_lose_none(source: str) -> None:
    results = in_threads(
        [
            partial(create_session, source, "app", "user", actor=ALICE, state={f"app:k{n}": n, f"user:k{n}": n})
            for n in range(20)
        ]
    )
    assert failures(results) == []
    everything = {f"k{n}": n for n in range(20)}
    assert (
        views.app(source, "app", actor=SYSTEM)[1] == views.user_state(source, "app", "user", actor=SYSTEM) == everything
    )


def test_a_session_created_by_many_at_once_is_created_once(source: str) -> None:
    results = in_threads(
        [
            partial(create_session, source, "app", "user", actor=ALICE, session_id="s", state={"app:by": n, "by": n})
            for n in range(12)
        ]
    )
    assert [type(error) for error in failures(results)] == [AlreadyExists] * 11
    (winner,) = [n for n, result in enumerate(results) if isinstance(result, SessionRef)]
    assert views.session(SessionRef(source, "app", "user", "s"), actor=SYSTEM).state.merged() == {
        "by": winner,
        "app:by": winner,
    }


def test_16_writers_of_all_scopes_in_shared_sessions_finish_and_every_event_stands_once(source: str) -> None:
    """Two users, three sessions each; writers also expect values, remove keys and create sessions meanwhile."""
    initial = {"app:n": 0, "user:n": 0, "n": 0, "app:gone": 1}
    keys = [create_session(source, "app", f"user{n % 2}", actor=ALICE, state=initial) for n in range(6)]

    def writer(number: int) -> list[tuple[SessionRef, str]]:
        rng = random.Random(number)
        done = []
        for step in range(20):
            ref = rng.choice(keys) if step % 4 else keys[0]
            names = rng.sample(
                ["n", "user:n", "app:n", f"app:{number}", f"user:{number}", f"k{number}"], rng.randint(1, 5)
            )
            delta: State = {name: [number, step] for name in names}
            removed = tuple(name for name in names if name != "n" and rng.random() < 0.2)
            expected = {f"app:never{number}": ABSENT, "user:never": ABSENT} if step % 5 == 0 else None
            done.append((ref, append(ref, delta, removed, expected=expected).event["id"]))
        return done

    def creator(number: int) -> list[tuple[SessionRef, str]]:
        for _ in range(5):
            create_session(source, "app", f"user{number % 2}", actor=ALICE)
        return []

    results = in_threads([*(partial(writer, n) for n in range(16)), *(partial(creator, n) for n in range(2))])
    assert failures(results) == []
    sent = [item for result in results if isinstance(result, list) for item in result]
    assert len(sent) == 320
    for ref in keys:
        stored = events_of(ref)
        assert sorted(event["id"] for _seq, event in stored) == sorted(name for k, name in sent if k == ref)
        assert len({seq for seq, _event in stored}) == len(stored)
    assert_state_is_what_events_say(source, dict.fromkeys(keys, initial))


def test_writers_of_one_session_see_places_and_revisions_that_only_grow(source: str) -> None:
    ref = create_session(source, "app", "user", actor=ALICE)

    def writer(number: int) -> list[Appended]:
        return [append(ref, {"last": [number, n], "user:last": n, "app:last": n}) for n in range(20)]

    results = in_threads([partial(writer, n) for n in range(8)])
    assert failures(results) == []
    for mine in results:
        assert isinstance(mine, list)
        for before, after in itertools.pairwise(mine):
            assert before.seq is not None
            assert after.seq is not None
            assert before.seq < after.seq
            assert before.revision is not None
            assert after.revision is not None
            assert before.revision < after.revision
    by_place = sorted(
        (done for mine in results if isinstance(mine, list) for done in mine), key=lambda done: done.seq or 0
    )
    revisions = [done.revision for done in by_place]
    assert revisions == sorted(set(revisions), key=float)  # type: ignore[arg-type]
    assert [event["id"] for _seq, event in events_of(ref)] == [done.event["id"] for done in by_place]
    assert views.session(ref, actor=SYSTEM).revision == revisions[-1]


@pytest.mark.guarantee("Edits", "If many people edit a key at the same time, exactly one edit wins.")
@pytest.mark.parametrize("name", ["k", "user:k", "app:k"])
@pytest.mark.parametrize("seen", [ABSENT, None, {"n": 1}], ids=repr)
def test_of_many_who_edit_a_key_with_the_same_value_in_sight_exactly_one_wins(
    source: str, name: str, seen: Any
) -> None:
    ref = create_session(source, "app", "user", actor=ALICE, state={} if seen is ABSENT else {name: seen})
    results = in_threads(
        [partial(edit_state, ref, [Entry(name, n, seen)], actor=Actor.holding(f"person{n}", "admin")) for n in range(8)]
    )
    winners = [n for n, result in enumerate(results) if not isinstance(result, Exception)]
    assert len(winners) == 1
    for error in failures(results):
        assert isinstance(error, Conflict)
        assert error.detail == {"current": {name: winners[0]}, "changed": [name]}
    ((_seq, event),) = events_of(ref)
    assert event["custom_metadata"]["adkweb"]["actor"] == f"person{winners[0]}"
    assert views.session(ref, actor=SYSTEM).state.get(name) == winners[0]


def test_people_in_different_sessions_who_edit_one_app_key_do_not_overwrite_each_other(source: str) -> None:
    keys = [create_session(source, "app", f"user{n}", actor=ALICE, state={"app:k": 0}) for n in range(8)]
    edits: list[Callable[[], Any]] = [
        partial(edit_state, ref, [Entry("app:k", n, 0)], actor=ALICE) for n, ref in enumerate(keys, start=1)
    ]
    edits += [partial(edit_app_state, source, "app", [Entry("app:k", n, 0)], actor=ALICE) for n in range(100, 104)]
    results = in_threads(edits)
    assert len(failures(results)) == 11
    assert {type(error) for error in failures(results)} == {Conflict}


def test_of_many_who_append_on_the_same_revision_exactly_one_wins(source: str) -> None:
    ref = create_session(source, "app", "user", actor=ALICE)
    revision = views.session(ref, actor=SYSTEM).revision
    results = in_threads([partial(append, ref, {"k": n, "app:k": n}, expected=revision) for n in range(8)])
    assert [type(error) for error in failures(results)] == [StaleSession] * 7
    assert len(events_of(ref)) == 1


def test_counting_by_reading_expecting_and_trying_again_loses_no_count(source: str) -> None:
    ref = create_session(source, "app", "user", actor=ALICE, state={"app:count": 0})

    def count(_number: int) -> None:
        for _ in range(5):
            while True:
                seen = views.session(ref, actor=SYSTEM).state.get("app:count")
                try:
                    append(ref, {"app:count": seen + 1}, expected={"app:count": seen})
                    break
                except Conflict:
                    continue

    assert failures(in_threads([partial(count, n) for n in range(6)])) == []
    assert views.session(ref, actor=SYSTEM).state.get("app:count") == 30


def test_a_session_deleted_among_its_writers_leaves_no_event_behind(source: str) -> None:
    ref = create_session(source, "app", "user", actor=ALICE)
    writers: list[Callable[[], Any]] = [partial(append, ref, {f"k{n}": n, f"app:k{n}": n}) for n in range(12)]
    results = in_threads([*writers, partial(delete_session, ref, actor=ALICE), *writers[:4]])
    assert {type(error) for error in failures(results)} <= {NotFound}
    assert not isinstance(results[12], Exception)
    assert events_of(ref) == []
    assert state_of(ref)["session"] == {}
    # What was written to the app while the session was there stays.
    assert set(state_of(ref)["app"]) == {f"k{n % 13}" for n, r in enumerate(results) if isinstance(r, Appended)}


@pytest.mark.parametrize("form", ["postgresql"])
def test_places_tell_the_order_of_writes_to_a_shared_scope_even_where_one_had_to_wait(source: str) -> None:
    waiting, other = (create_session(source, "app", f"user{n}", actor=ALICE) for n in range(2))
    with ThreadPoolExecutor(1) as pool, transaction.atomic(using=source):
        execute(source, "SELECT 1 FROM user_states WHERE user_id = 'user0' FOR UPDATE")
        result = pool.submit(in_threads, [partial(append, waiting, {"user:k": 1, "app:k": "waiting"})])
        while not query(source, "SELECT count(*) FROM pg_locks WHERE NOT granted")[0][0]:
            assert not result.done()
            time.sleep(0.01)
        assert failures(in_threads([partial(append, other, {"app:k": "other"})])) == []
    assert failures(result.result()) == []
    assert views.app(source, "app", actor=SYSTEM)[1] == {"k": "waiting"}
    assert_state_is_what_events_say(source)
