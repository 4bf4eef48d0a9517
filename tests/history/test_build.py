"""The first reading of a source: its cost grows as the source does, its memory does not, and it says how long it takes."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.errors import Behind
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits import fork, fork_tree
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.history import moments
from sessions_app.history.edit_log import edits
from sessions_app.history.index import build, read_source
from sessions_app.history.index import query as index
from sessions_app.history.index.numbered import Numbered
from sessions_app.models import Projection, StateChange, StateOwner
from sessions_app.reads import lists
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session, delete_session
from tests.support.bulk import fill
from tests.support.people import ALICE
from tests.support.stored import execute, query

pytestmark = pytest.mark.django_db(transaction=True)

MEGABYTE = 2**20


def append(ref: SessionRef, **event: Any) -> str:
    return str(append_event(ref, {"author": "agent", **event}, actor=ALICE).event["id"])


def edit(ref: SessionRef, **values: Any) -> str:
    return str(edit_state(ref, [Entry(name, value, ABSENT) for name, value in values.items()], actor=ALICE).event["id"])


def edits_of(source: str) -> list[str]:
    return [view.id for view in edits(actor=SYSTEM)[0].rows if view.ref.source == source]


# --- How much it costs ------------------------------------------------------------------------------------------------


def many_sessions(source: str, first: int, count: int) -> None:
    """Sessions of five events that set a key, each of a user of its own."""
    named = f"FROM (SELECT value AS s FROM json_each('{json.dumps(list(range(first, first + count)))}')) AS sessions"
    execute(source, f"INSERT INTO sessions SELECT 'app', 'u' || s, 's' || s, '{{}}', 1.0, 1.0, '{{}}', NULL {named}")
    execute(
        source,
        f"""INSERT INTO events (id, app_name, user_id, session_id, invocation_id, timestamp, event_data)
        SELECT 'e' || e.value, 'app', 'u' || s, 's' || s, 'i', 1.0, '{{"actions": {{"state_delta": {{"n": 1}}}}}}'
        {named}, json_each('[1, 2, 3, 4, 5]') AS e""",
    )


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("form", ["sqlite"])
def test_twice_as_many_events_cost_twice_as_much(source: str) -> None:
    steps: list[int] = []

    def counted(work: Callable[[], object]) -> int:
        """What SQLite does, in hundreds of its own instructions."""
        number = 0

        def step() -> int:
            nonlocal number
            number += 1
            return 0

        for alias in (source, "default"):
            connections[alias].ensure_connection()
            connections[alias].connection.set_progress_handler(step, 100)
        work()
        for alias in (source, "default"):
            connections[alias].connection.set_progress_handler(None, 0)
        return number

    for first in range(0, 4_000, 1_000):
        many_sessions(source, first, 1_000)
        steps.append(counted(lambda: build.catch_up(source)))
    assert StateOwner.objects.count() == 2 * 4_000
    assert max(steps[1:]) < 1.3 * steps[0], steps


@pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)
@pytest.mark.parametrize("form", ["postgresql"])
def test_either_database_of_adkwebs_own_keeps_the_same(own: str, source: str) -> None:
    ref = create_session(source, "booking", "ana", state={"user:n": 0}, session_id="s1", actor=ALICE)
    for number in range(3):
        append(ref, actions={"state_delta": {"n": number, "app:é'\"": 1, "user:" + "a" * 900: 1}})
    edit(ref, m=5)
    assert build.rebuild(source) == 1 + 3 * 3 + 1
    kept = list(StateChange.objects.order_by("key", "place").values_list("key", flat=True))
    assert [key for key in kept if not key.startswith("\1")].count("state") == 4
    assert len(edits_of(source)) == 1


@pytest.mark.parametrize("form", ["sqlite", "postgresql"])
def test_memory_is_bounded_however_large_events_are(source: str) -> None:
    ref = create_session(source, "booking", "ana", session_id="s1", actor=ALICE)
    for _number in range(40):
        append(ref, content={"parts": [{"text": "hi" * MEGABYTE}]})
    tracemalloc.start()
    try:
        build.catch_up(source)
        _now, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 10 * read_source.BYTES == 40 * MEGABYTE


@pytest.mark.parametrize("form", ["sqlite"])
def test_a_reading_of_sqlite_is_short(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ref = create_session(source, "booking", "ana", session_id="s1", actor=ALICE)
    fill(ref, 2_000)
    monkeypatch.setattr(read_source, "READ_SECONDS", 0.0)
    read, more = read_source.events(source, 0, 5_000)
    assert (len(read), more) == (50, True)
    build.catch_up(source)
    assert len(index.highlights(ref, ["state"])) == 2_000


# --- How long it takes ------------------------------------------------------------------------------------------------


def test_it_says_how_long_it_will_take(source: str) -> None:
    ref = create_session(source, "booking", "ana", session_id="s1", actor=ALICE)
    fill(ref, 8_000)
    with pytest.raises(Behind) as first:
        build.catch_up(source, seconds=0)
    assert 0 < first.value.detail["share"] < 1
    with pytest.raises(Behind) as then:
        build.catch_up(source, seconds=0)
    assert then.value.detail["left"].startswith("about ")
    assert then.value.message == f"This source is still being indexed: {then.value.detail['left']}."


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "about 1 s left"),
        (7.2, "about 8 s left"),
        (18.0, "about 20 s left"),
        (89.0, "about 90 s left"),
        (170.0, "about 3 min left"),
    ],
)
def test_time_left_in_words(seconds: float, words: str) -> None:
    assert build.time_left(seconds) == words


# --- Edits ------------------------------------------------------------------------------------------------------------


def test_edits_come_from_what_is_read_and_the_list_says_that_more_is_to_come(source: str) -> None:
    ref = create_session(source, "booking", "ana", session_id="s1", actor=ALICE)
    first = edit(ref, a=1)
    fill(ref, 6_000)
    last = edit(ref, b=1)
    page, problems = edits(seconds=0, actor=SYSTEM)
    assert [view.id for view in page.rows] == [first]
    (behind,) = problems
    assert isinstance(behind, Behind)
    assert "still being indexed" in behind.message
    build.catch_up(source, 60.0)
    assert edits_of(source) == [last, first]
    assert edits(actor=SYSTEM)[1] == []


def test_only_edits_in_apps_that_somebody_sees_are_counted(source: str) -> None:
    keys = [create_session(source, app, "ana", session_id="s1", actor=ALICE) for app in ("mine", "other")]
    made = [edit(keys[number % 2], **{f"k{number}": 1}) for number in range(8)]
    page, _problems = edits(limit=4, actor=Actor.holding("mallory", "read", "mine"))
    assert ([view.id for view in page.rows], page.next) == (made[::2][::-1], None)
    page, _problems = edits(limit=3, actor=Actor.holding("mallory", "read", "mine"))
    rest, _problems = edits(page.next, limit=3, actor=Actor.holding("mallory", "read", "mine"))
    assert [view.id for view in (*page.rows, *rest.rows)] == made[::2][::-1]


def test_edits_of_sessions_that_are_gone_are_passed_over_and_forgotten(source: str) -> None:
    gone, here = (create_session(source, "booking", "ana", session_id=name, actor=ALICE) for name in "ab")
    first = edit(here, a=1)
    for number in range(lists.PAGE + 10):
        edit(gone, **{f"k{number}": 1})
    last = append(here, actions={"state_delta": {"n": 1}})
    assert len(edits_of(source)) == lists.PAGE
    delete_session(gone, actor=ALICE)
    assert edits_of(source) == [first]
    with CaptureQueriesContext(connections[source]) as queries:
        assert edits_of(source) == [first]
    assert sum("event_data" in each["sql"] for each in queries) <= 3
    assert last


@pytest.mark.parametrize("form", ["sqlite", "sqlite-database"])
def test_places_that_are_given_again_are_no_edits_of_what_was_there(source: str) -> None:
    here = create_session(source, "booking", "ana", session_id="here", actor=ALICE)
    append(here)
    gone = create_session(source, "booking", "ana", session_id="gone", actor=ALICE)
    for number in range(5):
        edit(gone, **{f"k{number}": 1})
    assert len(edits_of(source)) == 5
    delete_session(gone, actor=ALICE)
    append(here)
    mine = edit(here, a=1)
    append(here)
    assert query(source, "SELECT max(rowid) FROM events") == [(4,)]
    assert edits_of(source) == [mine]
    assert [each.seq for each in index.highlights(here, ["edit"])] == [3]


@pytest.mark.parametrize("form", ["postgresql"])
def test_creations_that_are_read_again_are_kept_once(source: str) -> None:
    gone = create_session(source, "booking", "ana", session_id="gone", actor=ALICE)
    append(create_session(source, "booking", "ana", session_id="here", actor=ALICE))
    for _event in range(5):
        append(gone)
    create_session(source, "booking", "ana", session_id="made", actor=ALICE)
    delete_session(gone, actor=ALICE)
    build.catch_up(source)
    with CaptureQueriesContext(connection) as queries:
        build.catch_up(source)
    assert [each["sql"] for each in queries if not each["sql"].startswith(("SELECT", "BEGIN", "COMMIT"))] == []


# --- Forks ------------------------------------------------------------------------------------------------------------


def test_forks_are_found_by_keys_and_nothing_is_looked_through(source: str) -> None:
    ref = create_session(source, "booking", "ana", session_id="s1", actor=ALICE)
    into = fork.fork(ref, append(ref), user_id="ana", session_id="fork", actor=ALICE)
    build.catch_up(source)
    with CaptureQueriesContext(connections[source]) as queries:
        assert [each.ref for each in fork_tree.forks_of(ref, actor=SYSTEM)] == [into]
    assert not [each["sql"] for each in queries if "forked" in each["sql"]]
    delete_session(into, actor=ALICE)
    assert fork_tree.forks_of(ref, actor=SYSTEM) == []


def test_a_fork_that_was_made_before_the_source_was_read(source: str) -> None:
    ref = create_session(source, "booking", "ana", session_id="s1", actor=ALICE)
    into = fork.fork(ref, append(ref), user_id="ben", session_id="fork", actor=ALICE)
    build.rebuild(source)
    assert [each.ref for each in fork_tree.forks_of(ref, actor=SYSTEM)] == [into]
    assert fork_tree.forks_of(ref._replace(user_id="ben"), actor=SYSTEM) == []


# --- What another version kept ----------------------------------------------------------------------------------------


def test_what_another_version_kept_is_read_anew_once(source: str) -> None:
    ref = create_session(source, "booking", "ana", session_id="s1", actor=ALICE)
    into = fork.fork(ref, append(ref, actions={"state_delta": {"n": 1}}), user_id="ana", session_id="f", actor=ALICE)
    build.catch_up(source)
    number = StateChange.objects.count()
    StateChange.objects.filter(key="fork").delete()
    Projection.objects.update(version=1)
    assert [each.ref for each in fork_tree.forks_of(ref, actor=SYSTEM)] == [into]
    assert StateChange.objects.count() == number
    assert moments.state_now(ref, actor=SYSTEM).state.session == {"n": 1}
    before = Projection.objects.get()
    with CaptureQueriesContext(connection) as queries:
        build.catch_up(source)
    assert (Projection.objects.get().pk, before.version) == (before.pk, Numbered.version)
    assert not [each["sql"] for each in queries if each["sql"].startswith(("INSERT", "UPDATE", "DELETE"))]
