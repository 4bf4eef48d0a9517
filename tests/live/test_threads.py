"""What runs while somebody watches, and only then; and that one session's misfortune is not another's."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.db import connections

from sessions_app import broadcast
from sessions_app.access import masking
from sessions_app.access.actor import Actor
from sessions_app.access.sign_ins import SessionStore
from sessions_app.domain.session_ref import SessionRef
from sessions_app.live import client, feed, room, source_follower
from sessions_app.live.feed import Lobby
from sessions_app.live.room import Seat
from sessions_app.reads import newest
from sessions_app.sources import database, registry
from sessions_app.sources.errors import unusable
from sessions_app.web.session import updates
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.conftest import formats
from tests.live.pages import ids_in, ids_of
from tests.support.at_work import until
from tests.support.own import migrated, own_database
from tests.support.people import an_admin

WHO = Actor.holding("test", "admin")


class Reader:
    """A watcher without a socket."""

    def __init__(self, sign_in: str, language: str = "en") -> None:
        self.sign_in, self.name, self.language = sign_in, "maria", language
        self.closed = False
        self.messages: list[dict[str, Any]] = []
        self.ended: tuple[int, str] | None = None

    @property
    def seen(self) -> list[str]:
        return [event for message in list(self.messages) for event in ids_in(message.get("events", ""))]

    @property
    def parts(self) -> dict[str, str]:
        return {name: text for message in list(self.messages) for name, text in message.items()}

    def take(self, text: str) -> None:
        self.messages.append(json.loads(text))

    def end(self, code: int, reason: str) -> None:
        self.closed, self.ended = True, (code, reason)

    def _call(self, function: Callable[..., Any], *values: Any) -> None:
        function(*values)


class House:
    """adkweb's live part in this process, with somebody who may look."""

    def __init__(self, sign_in: str) -> None:
        self.sign_in = sign_in
        self._writer = ThreadPoolExecutor(1)
        self._seats: list[tuple[source_follower.Follower, SessionRef, Seat]] = []

    def watch(self, ref: SessionRef, after: int = 0, **options: str) -> Reader:
        reader = Reader(self.sign_in, **options)
        seat = Seat(reader, updates.Filter(), after)  # type: ignore[arg-type]
        found = source_follower.follow(ref.source, lambda found: found.enter(ref, seat))
        self._seats.append((found, ref, seat))
        return reader

    def go(self, reader: Reader | None = None) -> None:
        """One reader leaves, or all."""
        for found, ref, seat in list(self._seats):
            if reader is None or seat.watcher is reader:
                found.leave(ref, seat)
                self._seats.remove((found, ref, seat))

    def elsewhere(self, function: Callable[..., Any], *values: Any, **named: Any) -> Any:
        """Does something on another connection than this thread's."""
        return self._writer.submit(function, *values, **named).result()

    def session(self, source: str, name: str) -> SessionRef:
        found: SessionRef = self.elsewhere(create_session, source, "app", "ana", session_id=name, actor=WHO)
        return found

    def append(self, ref: SessionRef) -> str:
        event = {"author": "agent", "invocation_id": "i"}
        return str(self.elsewhere(append_event, ref, event, actor=WHO).event["id"])

    def close(self) -> None:
        self.elsewhere(connections.close_all)
        self._writer.shutdown()


def threads(prefix: str = "adkweb-live") -> list[str]:
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith(prefix))


def none_left() -> None:
    until(lambda: not threads(), f"that the threads end: {threads()}", 10)
    assert source_follower.followers == {}
    assert Lobby.current is None


@pytest.fixture(autouse=True)
def house(tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    """With adkweb's own database in a file, as threads share it, and a house that is left soon."""
    own = f"sqlite:///{migrated(tmp_path / 'own.db')}"
    monkeypatch.setattr(source_follower, "LINGER_SECONDS", 0.3)
    monkeypatch.setattr(source_follower, "AWAY_SECONDS", 0.1)
    monkeypatch.setattr(source_follower, "LONGEST_AWAY_SECONDS", 0.1)
    monkeypatch.setattr(feed, "LOOK_SECONDS", 0.2)
    here = database.get(source)
    monkeypatch.setattr(registry, "listed", lambda: [here])  # other tests' sources stay out of it
    broadcast.listen(source_follower.tell)
    with own_database(own):
        person = an_admin("maria")
        store = SessionStore()
        store[SESSION_KEY], store[HASH_SESSION_KEY] = str(person.pk), person.get_session_auth_hash()
        store.create()
        living = House(store.session_key or "")
        yield living
        monkeypatch.undo()
        monkeypatch.setattr(source_follower, "LINGER_SECONDS", 0.1)
        living.go()
        try:
            none_left()
        finally:  # a test that failed is not to fail the next
            if Lobby.current:
                Lobby.current._watchers.clear()
            until(lambda: not any(thread.is_alive() for thread in source_follower.followers.values()), "the end", 10)
            source_follower.followers.clear()
        living.close()
    broadcast.stop_listening(source_follower.tell)


@pytest.fixture(params=formats("sqlite"))
def form(request: pytest.FixtureRequest) -> str:
    """Returns each of the formats in which ADK keeps sessions."""
    return str(request.param)


SQLITE = pytest.mark.parametrize("form", ["sqlite"])


def test_a_thread_starts_when_somebody_watches_and_ends_when_nobody_does(house: House, source: str) -> None:
    ref = house.session(source, "one")
    assert threads() == []
    reader = house.watch(ref)
    event = house.append(ref)
    until(lambda: event in reader.seen, "the event")
    assert threads() == [f"adkweb-live-{source}"]
    house.go(reader)
    none_left()
    again = house.watch(ref)
    until(lambda: event in again.seen, "the event, by a new thread")


@SQLITE
def test_one_thread_serves_all_watchers_of_all_sessions_of_a_source(house: House, source: str) -> None:
    keys = [house.session(source, f"s{number}") for number in range(5)]
    readers = {ref: [house.watch(ref) for _ in range(3)] for ref in keys}
    events = {ref: house.append(ref) for ref in keys}
    for ref, found in readers.items():
        for reader in found:
            until(lambda key=ref, reader=reader: reader.seen == [events[key]], "the event of its own session")
    assert threads() == [f"adkweb-live-{source}"]


@SQLITE
def test_who_goes_from_page_to_page_meets_the_same_thread(
    house: House, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_follower, "LINGER_SECONDS", 60.0)
    ref = house.session(source, "one")
    first = house.watch(ref)
    until(lambda: first.parts.get("status"), "the first message")
    before = source_follower.followers[source]
    house.go(first)
    until(lambda: not before._rooms, "an empty house")
    second = house.watch(ref)
    until(lambda: second.parts.get("status"), "the first message")
    assert source_follower.followers[source] is before
    monkeypatch.setattr(source_follower, "LINGER_SECONDS", 0.1)


@SQLITE
def test_where_nothing_is_written_only_the_mark_of_the_file_is_read(
    house: House, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_follower, "SWEEP_SECONDS", 3600.0)
    monkeypatch.setattr(room, "RUNNING_SECONDS", 3600.0)
    for part in ("state", "stats"):  # at once: on a busy machine they rest for seconds
        monkeypatch.setitem(room.INTERVALS, part, 0.0)
    ref = house.session(source, "one")
    reader, event = house.watch(ref), house.append(ref)
    until(lambda: event in reader.seen and reader.parts.get("stats"), "everything")
    statements: Counter[str] = Counter()
    real = source_follower.Follower._look

    def look(self: source_follower.Follower) -> float:
        def note(execute: Any, sql: str, *rest: Any) -> Any:
            statements[sql] += 1
            return execute(sql, *rest)

        with connections[source].execute_wrapper(note), connections["default"].execute_wrapper(note):
            return real(self)

    monkeypatch.setattr(masking, "SECONDS", 3600.0)  # they are read twice a second, whether or not somebody watches
    masking.forget()  # the first look reads them, and no other
    monkeypatch.setattr(source_follower.Follower, "_look", look)
    until(lambda: statements["PRAGMA data_version"] >= 5, "some looks")
    statements.clear()  # what was still to be done
    until(lambda: statements["PRAGMA data_version"] >= 15, "more looks")
    assert set(statements) == {"PRAGMA data_version"}
    last = house.append(ref)
    until(lambda: last in reader.seen, "the next event all the same")


def test_a_thread_ends_although_its_source_does_not_answer(
    house: House, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = house.session(source, "one")
    reader = house.watch(ref)
    until(lambda: reader.parts.get("status"), "the first message")

    def fail(*_values: Any, **_named: Any) -> Any:
        from sessions_app.domain.errors import SourceError

        raise SourceError("the disk is on fire")

    monkeypatch.setattr(newest, "revisions", fail)
    monkeypatch.setattr(newest, "appended", fail)
    monkeypatch.setattr(newest, "data_version", fail)
    monkeypatch.setattr(newest, "newest_seq", fail)
    until(lambda: reader.parts.get("away") == unusable(), "that the source is away")
    house.go(reader)
    until(lambda: not threads(), "the end of the thread", 5)


@SQLITE
def test_a_source_that_is_away_for_days_is_followed_again_when_it_is_back(
    house: House, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sessions_app.domain.errors import SourceError

    ref = house.session(source, "one")
    reader = house.watch(ref)
    until(lambda: reader.parts.get("status"), "the first message")
    tries, real = Counter[str](), newest.revisions

    def fail(*_values: Any, **_named: Any) -> Any:
        tries["all"] += 1
        raise SourceError("the disk is on fire")

    monkeypatch.setattr(source_follower, "LONGEST_AWAY_SECONDS", 0.0)  # time flies
    monkeypatch.setattr(newest, "revisions", fail)
    (thread,) = source_follower.followers.values()
    until(lambda: tries["all"] > 1_500 or not thread.is_alive(), "many tries")
    monkeypatch.setattr(newest, "revisions", real)
    event = house.append(ref)
    until(lambda: event in reader.seen, "the event", 5)


def test_who_watches_while_the_source_is_away_is_told_once_and_gets_everything_after(
    house: House, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sessions_app.domain.errors import SourceError

    ref = house.session(source, "one")
    first = house.append(ref)
    reader = house.watch(ref)
    until(lambda: first in reader.seen, "the first event")
    away, tries = threading.Event(), []
    real = newest.revisions

    def revisions(*values: Any, **named: Any) -> Any:
        if away.is_set():
            tries.append(1)
            raise SourceError("the disk is on fire")
        return real(*values, **named)

    monkeypatch.setattr(newest, "revisions", revisions)
    away.set()
    events = [house.append(ref) for _ in range(3)]
    until(lambda: len(tries) > 5, "several tries")
    late = house.watch(ref)
    away.clear()
    until(lambda: reader.seen == late.seen == [first, *events], "all events, once, in order")
    assert [m["away"] for m in reader.messages if m.get("away")] == [unusable()]
    assert reader.parts["away"] == ""
    assert reader.seen == ids_of(ref)


@SQLITE
def test_a_fault_in_one_session_closes_its_own_sockets_and_no_others(
    house: House, source: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = house.session(source, "bad"), house.session(source, "good")
    real = updates.following

    def following(ref: SessionRef, *rest: Any) -> Any:
        if ref == bad:
            raise ZeroDivisionError("a fault of adkweb's own")
        return real(ref, *rest)

    other = house.watch(good)
    until(lambda: other.parts.get("status"), "the first message")
    monkeypatch.setattr(updates, "following", following)
    reader = house.watch(bad)
    until(lambda: reader.ended, "the end of the socket")
    assert reader.ended == (1011, "fault")
    assert "a fault of adkweb's own" in caplog.text
    event = house.append(good)
    until(lambda: event in other.seen, "the other's event")
    assert other.ended is None


# --- Home -------------------------------------------------------------------------------------------------------------


def test_the_feed_runs_while_somebody_looks_at_it(house: House, source: str) -> None:
    ref = house.session(source, "one")
    reader = Reader(house.sign_in)
    lobby = Lobby.admit(reader)  # type: ignore[arg-type]
    until(lambda: "feed" in reader.parts, "home")
    assert threads() == sorted(["adkweb-live-feed", f"adkweb-live-{source}"])
    event = house.append(ref)
    until(lambda: event in reader.parts["feed"], "the event")
    lobby.leave(reader)  # type: ignore[arg-type]
    none_left()


@SQLITE
def test_home_does_not_wait_for_a_source_that_is_known_to_be_away(
    house: House, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sessions_app.domain.errors import SourceError

    ref = house.session(source, "one")
    away, asked = threading.Event(), Counter[str]()

    def waits_in_vain(real: Callable[..., Any], name: str) -> Callable[..., Any]:
        def ask(*values: Any, **named: Any) -> Any:
            if away.is_set():
                asked[name] += 1
                time.sleep(1)  # as a server that does not answer makes wait
                raise SourceError("the disk is on fire")
            return real(*values, **named)

        return ask

    monkeypatch.setattr(newest, "happening", waits_in_vain(newest.happening, "home"))
    monkeypatch.setattr(newest, "data_version", waits_in_vain(newest.data_version, "follower"))
    reader = Reader(house.sign_in)
    lobby = Lobby.admit(reader)  # type: ignore[arg-type]
    until(lambda: "feed" in reader.parts, "home")
    before = reader.parts["sources"]
    away.set()
    until(lambda: reader.parts["sources"] != before, "home without it")
    until(lambda: asked["follower"] > 2, "tries")
    lobby.wake()
    until(lambda: asked["follower"] > 3, "more tries")
    assert asked["home"] <= 1
    away.clear()
    event = house.append(ref)
    until(lambda: event in reader.parts["feed"], "the event")
    lobby.leave(reader)  # type: ignore[arg-type]
    none_left()


@SQLITE
def test_who_leaves_home_while_it_is_made_has_left(house: House, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    house.session(source, "one")
    reader, stays = Reader(house.sign_in), Reader(house.sign_in)
    real = feed.activity

    def activity(*away: Any) -> Any:
        lobby.leave(reader)  # type: ignore[arg-type]
        return real(*away)

    lobby = Lobby.admit(stays)  # type: ignore[arg-type]
    until(lambda: stays.parts.get("feed"), "home")
    monkeypatch.setattr(feed, "activity", activity)
    lobby.enter(reader)  # type: ignore[arg-type]
    until(lambda: reader not in lobby._watchers, "that it went", 5)
    lobby.leave(stays)  # type: ignore[arg-type]
    monkeypatch.setattr(feed, "activity", real)
    none_left()


@SQLITE
def test_who_opens_home_does_not_wait_for_a_slow_one_to_rest(
    house: House, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = house.session(source, "one")
    real, asked = feed.activity, Counter[str]()

    def activity(*away: Any) -> Any:
        asked["home"] += 1
        time.sleep(1 if asked["home"] == 1 else 0)  # a machine that stood still for a moment, and rests for ten
        return real(*away)

    monkeypatch.setattr(feed, "activity", activity)
    first, second = Reader(house.sign_in), Reader(house.sign_in)
    lobby = Lobby.admit(first)  # type: ignore[arg-type]
    until(lambda: "feed" in first.parts, "home")
    Lobby.admit(second)  # type: ignore[arg-type]
    until(lambda: "feed" in second.parts, "home for who came later", 3)
    event = house.append(ref)
    until(lambda: event in first.parts["feed"], "the event", 3)
    for reader in (first, second):
        lobby.leave(reader)  # type: ignore[arg-type]
    none_left()


def test_what_is_pushed_rests_ten_times_as_long_as_it_took_and_five_seconds_at_most() -> None:
    assert [client.rest_after(took) for took in (0.0, 0.1, 0.5, 40.0)] == [0.0, 1.0, 5.0, 5.0]


@SQLITE
def test_many_come_and_go_and_nothing_stays(house: House, source: str) -> None:
    ref = house.session(source, "one")
    event = house.append(ref)
    for _ in range(30):
        reader = house.watch(ref)
        until(lambda reader=reader: event in reader.seen, "the event")
        house.go(reader)
    stays = house.watch(ref)
    until(lambda: event in stays.seen, "the event")
    (found,) = source_follower.followers.values()
    until(lambda: [len(room.seats) for room in found._rooms.values()] == [1], "one seat")
