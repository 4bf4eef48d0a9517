"""The index follows a source, whatever happens in it and whoever else feeds: on both databases, in each form of source."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from django.apps import apps
from django.db import connection
from django.test.utils import CaptureQueriesContext

from sessions_app.checks import mask_rules
from sessions_app.history import unadopted
from sessions_app.history.index import build
from sessions_app.live.search_feeder import SearchFeeder
from sessions_app.live.sockets import Lifespan
from sessions_app.models import (
    SearchDoc,
    SearchFact,
    SearchKey,
    SearchName,
    SearchOwner,
    SearchPending,
    SearchSession,
    SearchSource,
    SearchSpan,
    SearchValue,
    SearchWord,
    SearchWrite,
    Waiting,
)
from sessions_app.search import masked
from sessions_app.search.index import feed as feeding
from sessions_app.search.index import read, tables
from sessions_app.search.index.feed import Feeder
from sessions_app.sources import registry
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.adk.services import Adk, key_of
from tests.search.finding import asked, feed, ids, rows
from tests.support.people import ALICE
from tests.support.stored import execute, in_threads, query

OWN: Final = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)
FORMS: Final = pytest.mark.parametrize("form", ["sqlite", "postgresql", "unadopted"])
KEPT: Final = (
    *(
        SearchSession,
        SearchDoc,
        SearchFact,
        SearchKey,
        SearchOwner,
        SearchValue,
        SearchSpan,
        SearchPending,
        SearchWrite,
        SearchSource,
    ),
)
pytestmark = OWN


@pytest.fixture
def followed(
    form: str, new_database: Callable[[str], str], open_source: Callable[..., str]
) -> Iterator[tuple[str, Adk]]:
    """A source, and an agent that writes to it by itself."""
    url = new_database(form.replace("unadopted", "postgresql"))
    adk = Adk(form, url)
    adk.create("s0")
    alias = open_source(url, adopting=form != "unadopted")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unadopted, "REST", 0)  # whether there are new events is asked each time
        yield alias, adk
    adk.close()


@pytest.fixture
def source(own: str, new_store: Callable[[str], str], open_source: Callable[[str], str]) -> str:
    """An empty SQLite source, which may hold any text."""
    return open_source(new_store("sqlite"))


# --- What happens in a source -----------------------------------------------------------------------------------------


@FORMS
def test_a_new_event_can_be_found_after_one_feed(own: str, followed: tuple[str, Adk]) -> None:
    source, adk = followed
    feeder = feed(source)
    for number, word in enumerate(("expired", "refunded"), 1):
        adk.append(adk.get("s0"), f"the fare {word}", step=word)
        feed(source, feeder)
        assert ids(word) == ids(f"step = {word}") == ["s0"]
        assert [row.events for row in rows()] == [number]
    assert (ids("step = expired"), ids("was.step = expired"), ids("changed:step")) == ([], ["s0"], ["s0"])
    assert ids("expired") == ["s0"], "the event is still there"


@FORMS
def test_only_what_is_new_in_a_session_is_read(own: str, followed: tuple[str, Adk]) -> None:
    source, adk = followed
    adk.append(adk.get("s0"), "the first")
    feeder = feed(source)
    before = kept()["SearchDoc"], list(SearchSession.objects.values_list("pk", flat=True))
    adk.append(adk.get("s0"), "the second")
    feed(source, feeder)
    assert (kept()["SearchDoc"] - 1, list(SearchSession.objects.values_list("pk", flat=True))) == before
    assert [row.events for row in rows("first second")] == [2]
    feed(source, feeder, walk=True)
    assert [row.events for row in rows("first second")] == [2]


@FORMS
def test_a_long_session_is_stored_in_parts(
    own: str, followed: tuple[str, Adk], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, adk = followed
    monkeypatch.setattr(read, "MOST_PIECES", 2)
    for session in (adk.get("s0"), adk.create("s1"), adk.create("s2")):
        for number in range(7):
            adk.append(session, f"the {number}th of {session.id} " + "word " * 200)
    feeder = feed(source)
    assert [row.events for row in rows()] == [7, 7, 7]
    assert kept()["SearchDoc"] == 21
    for number in range(7):
        assert ids(f'"{number}th of s1"') == ["s1"]
    assert len({row.match.seq for number in range(7) for row in rows(f'"{number}th of s2"') if row.match}) == 7
    adk.append(adk.get("s2"), "the end")
    feed(source, feeder)
    assert ids('"the end"') == ["s2"]


@pytest.mark.parametrize("form", ["unadopted"])
def test_an_event_with_an_early_or_a_strange_time_is_read_too(own: str, followed: tuple[str, Adk]) -> None:
    source, adk = followed
    for number in range(3):
        adk.append(adk.get("s0"), f"the {number}th")
    feeder = feed(source)
    strange = ("20000-01-01", "20000-01-02", "294276-12-31 23:59:59", "infinity")  # no times to Python
    for number, at in enumerate(("2020-01-01", *strange), 4):
        columns = "app_name, user_id, session_id, invocation_id"
        execute(
            source,
            f"""INSERT INTO events (id, timestamp, event_data, {columns})
            SELECT %s, %s::timestamp, replace(event_data::text, 'the', %s)::jsonb, {columns} FROM events LIMIT 1""",
            [f"copy {number}", at, f"expired{number}"],
        )
        execute(source, "UPDATE sessions SET update_time = update_time + interval '1 second'")
        feed(source, feeder, walk=True)
        assert ids(f"expired{number}") == ["s0"]
        assert [row.events for row in rows()] == [number]


@FORMS
def test_a_session_without_events_is_listed(own: str, followed: tuple[str, Adk]) -> None:
    source, adk = followed
    feeder = feed(source)
    adk.create("bare", {"step": "pay"})
    feed(source, feeder, walk=True)
    assert ids() == ["bare", "s0"]
    assert ids("step = pay") == ids("events:0 session:bare") == ids("bare") == ["bare"]


@FORMS
def test_a_deleted_session_is_forgotten(own: str, followed: tuple[str, Adk]) -> None:
    source, adk = followed
    adk.append(adk.create("gone"), "expired", n=1)
    feeder = feed(source)
    assert ids("expired") == ["gone"]
    adk.delete(adk.get("gone"))
    assert asked("expired").rows == [], "what is shown is there"
    feed(source, feeder, walk=True)
    assert ids("expired") == ids("n exists") == []
    assert ids() == ["s0"]


@FORMS
@pytest.mark.parametrize("walk", [False, True])
def test_a_session_that_was_made_again_under_its_name_is_another_one(
    own: str, followed: tuple[str, Adk], walk: bool
) -> None:
    source, adk = followed
    adk.append(adk.create("again", {"old": 1}), "expired", author="user")
    feeder = feed(source)
    adk.delete(adk.get("again"))
    adk.append(adk.create("again", {"new": 1}), "granted", author="user")
    feed(source, feeder, walk=walk)
    assert ids("expired") == ids("old exists") == []
    assert ids("granted") == ids("new exists") == ["again"]
    (row,) = rows("session:again")
    assert (row.title, row.events, row.turns) == ("granted", 1, 1)


@pytest.mark.parametrize("form", ["sqlite"])
def test_a_rowid_that_is_given_again_is_another_event(own: str, followed: tuple[str, Adk]) -> None:
    source, adk = followed
    adk.append(adk.get("s0"), "kept")
    adk.append(adk.get("s0"), "expired")
    feeder = feed(source)
    before = query(source, "SELECT max(rowid) FROM events")
    execute(source, "DELETE FROM events WHERE rowid = (SELECT max(rowid) FROM events)")
    adk.append(adk.get("s0"), "granted")
    assert query(source, "SELECT max(rowid) FROM events") == before
    feed(source, feeder)
    assert ids("expired") == []
    assert ids("granted") == ids("kept") == ["s0"]
    assert [row.events for row in rows()] == [2]


@FORMS
def test_state_that_is_shared_is_that_of_the_last_write(own: str, followed: tuple[str, Adk]) -> None:
    source, adk = followed
    other = adk.create("s1")
    feeder = feed(source)
    adk.append(adk.get("s0"), user__tier="gold", app__limit=1)
    feed(source, feeder)
    assert ids("user:tier = gold") == ids("app:limit = 1") == ["s0", "s1"]
    adk.append(other, user__tier="silver")
    feed(source, feeder)
    assert ids("user:tier = gold") == []
    assert ids("user:tier = silver") == ["s0", "s1"]


def test_the_session_that_holds_edits_of_shared_state_is_not_listed(own: str, source: str) -> None:
    create_session(source, "booking", "ana", session_id="s1", actor=ALICE)
    create_session(source, "booking", "ana", session_id="adkweb", actor=ALICE)
    feed(source)
    assert ids() == ["s1"]


def test_a_session_that_waits_to_be_read_again_is_noted_once_read(own: str, source: str) -> None:
    ref = create_session(source, "booking", "ana", session_id="s1", actor=ALICE)
    feeder = feed(source)
    append_event(ref, {"author": "a", "content": {"parts": [{"text": "expired"}]}}, actor=ALICE)
    build.catch_up(source)  # a page asks for the past
    assert Waiting.objects.count() == 1
    feed(source, feeder)
    assert Waiting.objects.count() == 0
    assert [row.match for row in rows("expired")] == [row.match for row in rows("expired")]
    assert rows("expired")[0].ref == key_of(source, "s1")


# --- Several that feed ------------------------------------------------------------------------------------------------


def test_of_two_processes_only_one_reads(own: str, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    create_session(source, "booking", "ana", session_id="s1", actor=ALICE)
    feeder = feed(source)
    create_session(source, "booking", "ana", session_id="s2", actor=ALICE)
    SearchSource.objects.update(due=0)
    monkeypatch.setattr(feeding, "PROCESS", "another")
    assert Feeder(source).feed() is False
    assert ids() == ["s1"]
    monkeypatch.undo()
    feed(source, feeder)
    assert ids() == ["s1", "s2"]


def test_a_process_that_died_is_followed_by_another_after_its_claim(
    own: str, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Feeder(source).feed()
    create_session(source, "booking", "ana", session_id="s1", actor=ALICE)
    monkeypatch.setattr(feeding, "PROCESS", "another")
    assert Feeder(source).feed() is False
    SearchSource.objects.update(claimed_until=time.time() - 1, due=0)
    feed(source)
    assert ids() == ["s1"]
    assert SearchSource.objects.get().claim == "another"


def test_who_ends_lets_another_feed_at_once(own: str, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    feed(source).end()
    create_session(source, "booking", "ana", session_id="s1", actor=ALICE)
    monkeypatch.setattr(feeding, "PROCESS", "another")
    feed(source, walk=True)
    assert ids() == ["s1"]
    monkeypatch.undo()
    Feeder(source).end()
    assert SearchSource.objects.get().claim == "another", "nobody gives back what another has"


def test_a_server_feeds_until_it_ends_and_then_lets_another_feed(own: str, source: str) -> None:
    create_session(source, "booking", "ana", session_id="s1", actor=ALICE)
    thread = SearchFeeder()
    thread.start()
    until = time.monotonic() + 20
    while (asked("").behind or not ids()) and time.monotonic() < until:
        time.sleep(0.02)
    assert ids() == ["s1"]
    thread.end()
    thread.join(20)
    assert not thread.is_alive()
    assert SearchSource.objects.get().claim == ""


# --- From the beginning -----------------------------------------------------------------------------------------------


def kept() -> dict[str, int]:
    return {model.__name__: model.objects.count() for model in KEPT}


def test_an_index_of_another_version_is_made_anew(own: str, source: str) -> None:
    ref = create_session(
        source, "booking", "ana", session_id="s1", state={"n": 1, "user:tier": "gold", "app:v": 1}, actor=ALICE
    )
    event = {"author": "user", "content": {"parts": [{"text": "expired"}]}, "actions": {"state_delta": {"n": 1}}}
    asks = {"author": "a", "content": {"parts": [{"function_call": {"id": "c", "name": "pay"}}]}}
    append_event(ref, event, actor=ALICE)
    append_event(ref, {**asks, "long_running_tool_ids": ["c"]}, actor=ALICE)
    feed(source)
    before = kept()
    assert all(before.values())
    SearchSource.objects.update(version=masked.VERSION - 1, claimed_until=0)
    SearchSession.objects.update(title="of before", folded_title="of before")
    assert feeding.share(source) == 0
    feed(source)
    assert ids("title:before") == []
    assert ids("expired") == ids("user:tier = gold") == ["s1"]
    assert kept() == before, "and nothing stays of before"
    assert feeding.rebuild(source) == 1
    assert kept() == before


def words_kept() -> int:
    """Returns how many pieces of text have the word."""
    match = {"sqlite": "sessions_app_searchtext MATCH 'expired'", "postgresql": "words @@ 'expired'::tsquery"}
    return len(query("default", f"SELECT rowid FROM sessions_app_searchtext WHERE {match[connection.vendor]}"))


def test_no_word_of_before_stays_in_a_new_index(own: str, source: str) -> None:
    ref = create_session(source, "booking", "ana", session_id="s1", actor=ALICE)
    append_event(ref, {"author": "user", "content": {"parts": [{"text": "expired"}]}}, actor=ALICE)
    feed(source)
    assert words_kept() == 1
    feeding.rebuild(source)
    assert words_kept() == 1
    assert ids("pir") == ["s1"], "nor is a word missing that is looked for by its middle"
    feeding.clear(registry.identity(source))
    assert words_kept() == SearchWord.objects.count() == 0


def test_a_new_rule_empties_the_index_by_as_many_statements_however_many_sessions_are_in_it(
    own: str, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeding, "SOME", 1)
    models = [each for each in apps.get_models() if each.__name__.startswith("Search")]
    asked = []
    for number in (1, 2, 3):
        ref = create_session(source, "booking", "ana", session_id=f"s{number}", state={"step": 1}, actor=ALICE)
        append_event(ref, {"author": "user", "content": {"parts": [{"text": "expired"}]}}, actor=ALICE)
        if number == 2:
            continue
        feed(source)
        with CaptureQueriesContext(connection) as queries:
            mask_rules.create("*", "key", f"pin{number}", actor=ALICE)
        asked.append(sum(each["sql"].startswith("DELETE") for each in queries))
        assert [each.__name__ for each in models if each.objects.exists()] == []
        assert words_kept() == query("default", "SELECT count(*) FROM sessions_app_searchtitle")[0][0] == 0
    assert asked[0] == asked[1]
    feed(source)
    assert ids("expired") == ["s1", "s2", "s3"]


def test_sessions_that_follow_each_other_lose_their_words_by_one_statement_and_others_keep_them(
    own: str, source: str
) -> None:
    for number in range(9):
        ref = create_session(source, "booking", "ana", session_id=f"s{number}", actor=ALICE)
        append_event(ref, {"author": "user", "content": {"parts": [{"text": "expired"}]}}, actor=ALICE)
    feed(source)
    numbers = dict(SearchSession.objects.values_list("folded_id", "pk"))
    kept = numbers.pop("s5")
    with CaptureQueriesContext(connection) as asked:
        tables.forget([*numbers.values()])
    first = next(each["sql"] for each in asked if each["sql"].startswith("DELETE"))
    assert "sessions_app_searchsession" in first, "else PostgreSQL may end who adds a rule of masking now: a deadlock"
    deletes = [each["sql"] for each in asked if re.match(r"DELETE FROM \S*searchdoc", each["sql"])]
    assert len(deletes) == 1 + (min(numbers.values()) < kept < max(numbers.values()))
    assert ids("expired") == ["s5"]


def test_names_go_with_the_last_source_that_has_their_app(
    own: str, source: str, new_store: Callable[[str], str], open_source: Callable[[str], str]
) -> None:
    other, state = open_source(new_store("sqlite")), {"step": 1, "user:tier": "gold"}
    for where, app in ((source, "booking"), (source, "support"), (other, "booking")):
        ref = create_session(where, app, "ana", session_id="s1", state=state, actor=ALICE)
        append_event(ref, {"author": f"{app}_agent", "error_message": "late"}, actor=ALICE)
    feeder = feed(other)
    feed(source)
    feeding.clear(registry.identity(source))
    assert set(SearchName.objects.values_list("app_name", flat=True)) == {"booking"}
    create_session(other, "booking", "bo", session_id="s2", state=state, actor=ALICE)
    feed(other, feeder, walk=True)
    assert ids("user:tier = gold") == ["s1", "s2"], "although their names were remembered"
    feeding.clear(registry.identity(other))
    assert not SearchName.objects.exists()


@FORMS
def test_what_is_not_read_yet_is_said_while_history_reads(
    own: str, followed: tuple[str, Adk], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, adk = followed
    for number in range(12):
        adk.append(adk.get("s0"), n=number)
    monkeypatch.setattr(build, "FIRST_BATCH", 4)
    monkeypatch.setattr(build, "BATCH", 4)
    monkeypatch.setattr(build, "SMALLEST_BATCH", 4)
    real = build.catch_up
    monkeypatch.setattr(build, "catch_up", lambda source, seconds: real(source, 0.0))
    feeder = Feeder(source)
    assert feeder.feed() is True
    results = asked("")
    assert results.behind == [(source, 0.0)]
    feed(source, feeder)
    assert asked("").behind == []
    assert ids("n = 11") == ["s0"]


def test_more_owners_are_fed_than_are_remembered(own: str, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "REMEMBERED", 1)
    for user in ("ana", "bo", "cy"):
        create_session(source, "booking", user, session_id=user, actor=ALICE)
    execute(source, "DELETE FROM user_states WHERE user_id <> 'ana'")
    feed(source)
    assert ids() == ["ana", "bo", "cy"]


def test_a_walk_that_was_interrupted_goes_on(own: str, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeding, "SOME", 3)
    for number in range(10):
        create_session(source, "booking", f"u{number}", session_id="s", state={"n": number}, actor=ALICE)
    Feeder(source).feed(0)
    Feeder(source).feed(0)
    assert (asked("").count, asked("").behind) == (6, [(source, 0.6)])
    feed(source)
    assert (asked("").count, asked("").behind) == (10, [])


def test_a_server_that_ends_lets_another_process_feed_at_once(own: str, source: str) -> None:
    sent: list[str] = []

    async def serve() -> None:
        told = iter(["lifespan.startup", "lifespan.shutdown"])

        async def receive() -> dict[str, str]:
            while len(sent) == 1 and in_threads([SearchSource.objects.filter(claim__gt="").exists]) != [True]:
                await asyncio.sleep(0.02)
            return {"type": next(told)}

        async def send(message: dict[str, str]) -> None:
            sent.append(message["type"])

        await Lifespan()({}, receive, send)

    asyncio.run(serve())
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert set(SearchSource.objects.values_list("claim", flat=True)) == {""}
