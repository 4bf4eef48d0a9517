"""Several adkweb processes, with Valkey between them and without; and servers that go away in the middle."""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from pytest_django import DjangoDbBlocker, Settings

from sessions_app import broadcast
from sessions_app.domain import errors
from sessions_app.domain.session_ref import SessionRef
from sessions_app.running import runs
from sessions_app.sources import database as sources_database
from tests.browser.serving import Adkweb
from tests.live.conftest import Stage, close_stage, open_stage
from tests.live.pages import Page, browser, ids_of, page_path, post, sign_in
from tests.servers import PostgreSQL, Valkey
from tests.support.at_work import until

Pair = tuple[Adkweb, Adkweb]


def write_through(server: Adkweb, who: str, ref: SessionRef, text: str = "") -> float:
    """Adds an event by a page of a process; when that was done."""
    with browser(server, who) as client:
        event = f'{{"author": "user", "content": {{"parts": [{{"text": "{text}"}}]}}}}'
        answer = post(client, page_path(ref, "add"), event=event)
        assert answer.status_code == 302, answer.text
    return time.monotonic()


@pytest.fixture(scope="package")
def valkey() -> Iterator[Valkey]:
    """A Valkey of these tests."""
    with Valkey() as server:
        yield server


@pytest.fixture(scope="package")
def joined_pair(_stage: Stage, valkey: Valkey, new_server: Callable[..., Adkweb]) -> Pair:
    """Two processes that tell each other by Valkey."""
    first = new_server(*_stage.places.values(), beside=_stage.server, ADKWEB_REDIS_URL=valkey.url)
    return first, new_server(*_stage.places.values(), beside=_stage.server, ADKWEB_REDIS_URL=valkey.url)


@pytest.fixture(scope="package")
def silent_pair(_stage: Stage, new_server: Callable[..., Adkweb]) -> Pair:
    """Two processes that do not."""
    return _stage.server, new_server(*_stage.places.values(), beside=_stage.server)


@pytest.fixture(params=["with-valkey", "without"])
def pair(request: pytest.FixtureRequest, stage: Stage) -> Pair:
    """Two processes on the same sources."""
    name = "joined_pair" if request.param == "with-valkey" else "silent_pair"
    found: Pair = request.getfixturevalue(name)
    return found


# --- Two processes ----------------------------------------------------------------------------------------------------


def test_two_processes_show_each_others_writes(stage: Stage, form: str, pair: Pair) -> None:
    ref = stage.new_session(form, city="Rome")
    pages = [stage.page(ref, server=server) for server in pair]
    latencies = []
    for number in range(6):
        writer, page = pair[number % 2], pages[1 - number % 2]
        done = write_through(writer, stage.me, ref, f"message {number}")
        page.until(lambda page, number=number: len(page.seen) == number + 1, "the other's event")
        latencies.append(time.monotonic() - done)
    for page in pages:
        assert len(page.until_all().seen) == 6
    median, worst = statistics.median(latencies), max(latencies)
    print(f"\n{form}: seen in the other process {median * 1000:.0f} ms after the answer, {worst * 1000:.0f} at worst")


def test_who_watches_is_told_between_processes_by_valkey_and_only_so(
    stage: Stage, joined_pair: Pair, silent_pair: Pair
) -> None:
    """Nothing but a pointer can tell it, so that this shows that pointers arrive."""
    joe = sign_in(stage.server, "joe")
    for pair, expected in ((joined_pair, "joe\nmaria"), (silent_pair, "maria")):
        ref = stage.new_session(events=1)
        here = stage.page(ref, server=pair[0])
        here.until(lambda page: page.parts.get("watching") == "maria", "only me")
        there = stage.page(ref, joe, server=pair[1]).until_all()
        here.until(lambda page, expected=expected: page.parts["watching"] == expected, "who watches")
        there.close()
        stage.append(ref)
        here.until_all()
        here.until(lambda page: page.parts["watching"] == "maria", "only me again")


def test_who_joins_in_one_process_sees_who_watches_in_another(stage: Stage, joined_pair: Pair) -> None:
    ref = stage.new_session(events=1)
    stage.page(ref, server=joined_pair[0]).until_all()
    there = stage.page(ref, sign_in(stage.server, "joe"), server=joined_pair[1])
    there.until(lambda page: page.parts.get("watching") == "joe\nmaria", "both", seconds=10)


@pytest.mark.parametrize("form", ["sqlite", "postgresql"])
def test_what_one_process_is_told_is_a_pointer_and_no_content(
    stage: Stage, form: str, joined_pair: Pair, valkey: Valkey
) -> None:
    ref = stage.new_session(form)
    with redis.Redis.from_url(valkey.url) as client, client.pubsub() as heard:
        heard.psubscribe("*")
        assert heard.get_message(timeout=10)
        write_through(joined_pair[0], stage.me, ref, "the secret")
        found: list[bytes] = []

        def listen() -> bool:
            message = heard.get_message(timeout=0.1)
            if message and message["type"] == "pmessage":
                found.append(bytes(message["data"]))
            return any(b"events" in data and ref.session_id.encode() in data for data in found)

        until(listen, "a pointer to the session")
        assert not any(b"secret" in data for data in found)


def test_what_an_agent_says_in_one_process_is_shown_in_another(
    stage: Stage, joined_pair: Pair, valkey: Valkey, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    import msgpack

    ref = stage.new_session(events=1)
    there = stage.page(ref, server=joined_pair[1]).until_all()
    sent: list[dict[str, Any]] = []
    settings.REDIS_URL = valkey.url
    monkeypatch.setattr(broadcast, "tell", lambda what, ref, **more: sent.append({"what": what, "key": [*ref], **more}))
    runs.hear(ref, {"author": "agent", "partial": True, "content": {"parts": [{"text": "Hello"}]}})
    runs.be_silent(ref)
    with redis.Redis.from_url(valkey.url) as client:
        for channel in client.pubsub_channels("*"):
            client.publish(channel, msgpack.packb({"type": "move", "people": [], "process": "another", **sent[0]}))
    spoken = {"author": "agent", "from": 0, "more": "Hello"}
    there.until(lambda page: any(message.get("spoken") == spoken for message in page.messages), "what the agent says")


def test_a_message_that_is_no_pointer_harms_nobody(stage: Stage, joined_pair: Pair, valkey: Valkey) -> None:
    import msgpack

    ref, joe = stage.new_session(events=1), sign_in(stage.server, "joe")
    here = stage.page(ref, server=joined_pair[0]).until_all()
    good = {"type": "move", "what": "events", "key": list(ref), "people": [], "process": "another"}
    bad = [
        msgpack.packb({}),
        *(msgpack.packb({**good, name: value}) for name in good for value in (None, 5, "x", [], [1], {"a": 1})),
        msgpack.packb({**good, "what": "watching", "people": [1, None]}),
        msgpack.packb({**good, "what": "watching", "process": [1]}),
        msgpack.packb({**good, "key": [*ref[:3], [1]]}),
        *(msgpack.packb({k: v for k, v in good.items() if k != name}) for name in good),
        msgpack.packb([1, 2, 3]),
        b"",
        b"garbage \xff",
    ]
    with redis.Redis.from_url(valkey.url) as client:
        channels = [name for name in client.pubsub_channels("*") if b"group" in name]
        assert channels
        for channel in channels:
            for message in bad:
                client.publish(channel, message)
    stage.append(ref)
    here.until_all()
    meet(stage, here, ref, joe, joined_pair[1])
    assert here.end is None


def meet(stage: Stage, here: Page, ref: SessionRef, who: str, server: Adkweb) -> None:
    """Somebody looks in again and again by another process, until a page is told of it by a pointer."""

    def seen() -> bool:
        visitor = stage.page(ref, who, server=server)
        here.read(1)
        visitor.close()
        return "joe" in here.parts["watching"]

    until(seen, "that a pointer arrives")


# --- Valkey goes away -------------------------------------------------------------------------------------------------


@pytest.mark.guarantee(
    "Live pages", "An open page doesn't miss anything if Redis, PostgreSQL or adkweb itself is down for a while."
)
def test_losing_valkey_loses_no_event_and_it_is_used_again_when_it_is_back(
    stage: Stage, form: str, joined_pair: Pair, valkey: Valkey
) -> None:
    ref, joe = stage.new_session(form), sign_in(stage.server, "joe")
    pages = [stage.page(ref, server=server) for server in joined_pair]
    for page in pages:
        page.until(lambda page: "status" in page.parts, "the first message")
    write_through(joined_pair[0], stage.me, ref, "before")
    valkey.stop()
    try:
        began = time.monotonic()
        for number in range(4):
            write_through(joined_pair[number % 2], stage.me, ref, f"without {number}")
        print(f"\n{form}: four writes through pages without Valkey took {time.monotonic() - began:.2f} s")
        late = stage.page(ref, server=joined_pair[1])
        for page in (*pages, late):
            assert len(page.until_all().seen) == 5
    finally:
        valkey.start()
    for number in range(4):
        write_through(joined_pair[number % 2], stage.me, ref, f"after {number}")
    for page in (*pages, late):
        assert len(page.until_all().seen) == 9
    # Pointers arrive again: nothing else tells this process who watches in the other.
    meet(stage, pages[0], ref, joe, joined_pair[1])


def test_a_valkey_that_answers_nothing_delays_no_write_and_no_event(
    stage: Stage, joined_pair: Pair, valkey: Valkey
) -> None:
    ref = stage.new_session()
    page = stage.page(ref, server=joined_pair[1])
    page.until(lambda page: "status" in page.parts, "the first message")
    assert valkey.process
    os.kill(valkey.process.pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        for number in range(5):
            write_through(joined_pair[0], stage.me, ref, f"message {number}")
        took = time.monotonic() - began
        page.until_all()
        print(f"\nfive writes beside a Valkey that hangs took {took:.2f} s")
        assert took < 5.0, "one of them waited for it"
    finally:
        os.kill(valkey.process.pid, signal.SIGCONT)


def test_adkweb_starts_and_follows_without_the_valkey_it_was_told_of(
    stage: Stage, new_server: Callable[..., Adkweb]
) -> None:
    server = new_server(stage.places["sqlite"], beside=stage.server, ADKWEB_REDIS_URL="redis://127.0.0.1:1/0")
    ref = stage.new_session()
    page = stage.page(ref, server=server)
    write_through(server, stage.me, ref, "through it")
    stage.append(ref, "beside it")
    assert len(page.until_all().seen) == 2
    server.close()


# --- Databases and processes go away ----------------------------------------------------------------------------------


@pytest.fixture
def fragile(
    tmp_path: Any, new_server: Callable[..., Adkweb], django_db_blocker: DjangoDbBlocker
) -> Iterator[tuple[Stage, PostgreSQL]]:
    """Servers that a test may break."""
    with PostgreSQL(fsync=True) as database, django_db_blocker.unblock():
        (tmp_path / "beside.db").touch()
        places = {"postgresql": database.create_database("fragile"), "sqlite": str(tmp_path / "beside.db")}
        stage = open_stage(None, places)  # type: ignore[arg-type]
        stage.server = new_server(*places.values())
        stage.me = sign_in(stage.server)
        yield stage, database
        for page in stage.pages:
            page.close()
        stage.server.close()
        close_stage(stage)


def append_when_it_is_back(stage: Stage, ref: SessionRef, text: str) -> str:
    """As an agent that tries until it succeeds; the id is its own, so that it is stored once."""
    name = f"event-of-{text}"

    def attempt() -> str:
        try:
            return stage.append(ref, text, id=name)
        except errors.Error:
            return ""

    return str(until(attempt, "that the database is back"))


@pytest.mark.guarantee(
    "Live pages", "An open page doesn't miss anything if Redis, PostgreSQL or adkweb itself is down for a while."
)
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["shut down", "crashed"])
def test_losing_postgresql_is_told_and_loses_no_event(fragile: tuple[Stage, PostgreSQL], how: signal.Signals) -> None:
    stage, database = fragile
    ref, beside = stage.new_session("postgresql", events=3), stage.new_session("sqlite", events=1)
    pages = [stage.page(ref) for _ in range(2)]
    other = stage.page(beside).until_all()
    for page in pages:
        page.until_all()
    stage.append(ref, "just before")
    database.stop_signals = (how,)
    database.stop()
    for page in pages:
        page.until(lambda page: page.parts.get("away"), "that the source is away")
    stage.append(beside, "meanwhile")
    other.until_all()
    assert not other.parts.get("away")
    database.start()
    began = time.monotonic()
    last = append_when_it_is_back(stage, ref, "after")
    for page in pages:
        page.until_event(last, seconds=30)
        page.until_all()
        page.until(lambda page: page.parts["away"] == "", "that it is back")
        assert page.resets == 0
    print(f"\nPostgreSQL back: everything is shown after {time.monotonic() - began:.1f} s")
    assert "Traceback" not in stage.server.log, stage.server.log


def test_who_opens_a_page_while_its_database_is_away_is_not_told_that_the_session_is_gone(
    fragile: tuple[Stage, PostgreSQL],
) -> None:
    """live.js never comes back from 4404."""
    stage, database = fragile
    ref = stage.new_session("postgresql", events=1)
    page = stage.page(ref).until_all()
    page.close()
    database.stop()
    try:
        page.open()
        page.until(lambda page: page.end or page.parts.get("away"), "an answer")
        assert page.end is None or page.end[0] != 4404
    finally:
        database.start()
    last = append_when_it_is_back(stage, ref, "after")
    if page.end:
        page.open()
    page.until_event(last, seconds=30)
    page.until_all()


@pytest.mark.guarantee(
    "Live pages", "An open page doesn't miss anything if Redis, PostgreSQL or adkweb itself is down for a while."
)
def test_adkweb_is_started_again_and_pages_go_on_where_they_were(
    stage: Stage, form: str, new_server: Callable[..., Adkweb]
) -> None:
    server = new_server(stage.places[form], beside=stage.server)
    ref = stage.new_session(form, events=3)
    page: Page = stage.page(ref, server=server).until_all()
    server.stop()
    assert page.until_end()
    stage.append(ref, "meanwhile")
    server.start()
    stage.append(ref, "after")
    page.open()
    page.until_all()
    assert page.seen == ids_of(ref)
    assert page.resets == 0
    server.close()
    assert sources_database.get(ref.source)
