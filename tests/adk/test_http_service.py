"""HttpSessionService when something is wrong with the network, adkweb, the token, the address: nothing is lost or twice."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.sessions import Session

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.adk import HttpSessionService, http_client
from sessions_app.checks import mask_rules
from sessions_app.domain.state import ABSENT
from sessions_app.edits import edit
from sessions_app.edits.edit import Entry
from sessions_app.reads import timeline
from sessions_app.sources import registry
from sessions_app.writes.sessions import create_session
from tests.adk.proxy import Proxy, proxied
from tests.adk.services import key_of
from tests.adk.serving import Serving
from tests.adk.sides import APP, USER, event, texts
from tests.support.people import ALICE

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")

NAME = {"app_name": APP, "user_id": USER, "session_id": "s1"}
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def form() -> str:
    """adkweb's databases are not the subject here."""
    return "sqlite"


@pytest.fixture
def proxy(serving: Serving) -> Iterator[Proxy]:
    """What stands before adkweb."""
    with proxied(serving.url) as proxy:
        yield proxy


@pytest.fixture
def through(proxy: Proxy, new_token: Callable[..., str], source: str) -> Callable[..., HttpSessionService]:
    """Makes services that ask through the proxy."""
    secret = new_token()
    return lambda **how: HttpSessionService(proxy.url, token=secret, source=source, **how)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries follow each other without pauses."""
    monkeypatch.setattr(http_client, "PAUSE_SECONDS", 0.0)


async def refused(work: Coroutine[Any, Any, Any], kind: type[Exception], why: str = "") -> str:
    """The message of something that must fail."""
    with pytest.raises(kind, match=why) as error:
        await work
    return str(error.value)


# --- Answers that are lost --------------------------------------------------------------------------------------------


@pytest.mark.guarantee(
    "Agents", "If a response is lost, `HttpSessionService` stores the event only once, and the run continues."
)
@pytest.mark.parametrize("fault", ["drop", "refuse", 429, 502, 503, 504])
@pytest.mark.parametrize("on_stale", ["raise", "rebase"])
def test_an_append_whose_answer_is_lost_is_stored_once_and_the_run_goes_on(
    through: Callable[..., HttpSessionService], proxy: Proxy, source: str, at_once: None, fault: Any, on_stale: Any
) -> None:
    async def run() -> None:
        async with through(on_stale=on_stale) as service:
            session = await service.create_session(**NAME, state={"n": 0})
            for number in range(3):
                proxy.faults = [("POST", fault)] * (number + 1)
                await service.append_event(session, event(f"{number}", n=number, temp__x=number))
                assert proxy.faults == []
            stored = await service.get_session(**NAME)
            assert stored is not None
            assert texts(stored) == texts(session) == ["0", "1", "2"]
            assert (stored.state, session.state) == ({"n": 2}, {"n": 2, "temp:x": 2})

    asyncio.run(run())
    assert len(timeline.events(key_of(source), actor=SYSTEM).rows) == 3


def test_an_append_whose_answer_is_lost_receives_what_came_after_it(
    through: Callable[..., HttpSessionService], proxy: Proxy, source: str, at_once: None
) -> None:
    async def run() -> None:
        async with through(on_stale="rebase") as service:
            session = await service.create_session(**NAME)
            entry = Entry("a", 1, ABSENT)
            await asyncio.to_thread(edit.edit_state, key_of(source), [entry], actor=Actor.holding("maria", "admin"))
            # Refused as stale, sent again without a condition, stored, and the answer lost.
            proxy.faults = [("POST", "refuse"), ("POST", "drop"), ("GET", 503), ("POST", "drop")]
            await service.append_event(session, event("mine"))
            assert [each.author for each in session.events] == ["system", "booking"]
            assert session.state == {"a": 1}
            await service.append_event(session, event("and on"))

    asyncio.run(run())
    assert len(timeline.events(key_of(source), actor=SYSTEM).rows) == 3


def test_a_session_whose_creation_was_not_answered_is_ours_and_one_of_others_is_not(
    through: Callable[..., HttpSessionService], proxy: Proxy, source: str, at_once: None
) -> None:
    async def run() -> None:
        async with through() as service:
            proxy.faults = [("POST", "drop"), ("POST", 503)]
            session = await service.create_session(**NAME, state={"a": [1], "user:u": 1, "temp:t": 1})
            assert session.state == {"a": [1], "user:u": 1}
            proxy.faults = [("POST", 503)]
            message = await refused(service.create_session(**NAME, state={"a": [2]}), AlreadyExistsError)
            assert message == "Session with id s1 already exists."
            await service.append_event(session, event("written to"))
            proxy.faults = [("POST", 503)]
            await refused(service.create_session(**NAME, state={"a": [1]}), AlreadyExistsError)
            await refused(service.create_session(**NAME, state={"a": [1]}), AlreadyExistsError)
            await service.create_session(**{**NAME, "session_id": "old"})
            await asyncio.sleep(3.6)  # more than what clocks may be off
            proxy.faults = [("POST", 503)]
            await refused(service.create_session(**{**NAME, "session_id": "old"}), AlreadyExistsError)

    asyncio.run(run())


def test_everything_else_is_asked_again_too(
    through: Callable[..., HttpSessionService], proxy: Proxy, at_once: None
) -> None:
    async def run() -> None:
        async with through() as service:
            await service.create_session(**NAME, state={"user:u": 1})
            proxy.faults = [("GET", "drop"), ("GET", 503), ("GET", "refuse")]
            assert await service.get_session(**NAME) is not None
            proxy.faults = [("GET", "drop")]
            assert len((await service.list_sessions(app_name=APP)).sessions) == 1
            proxy.faults = [("GET", "drop")]
            assert await service.get_user_state(app_name=APP, user_id=USER) == {"u": 1}
            proxy.faults = [("DELETE", "drop")]
            await service.delete_session(**NAME)
            assert proxy.faults == []
            assert await service.get_session(**NAME) is None

    asyncio.run(run())


def test_an_answer_that_takes_too_long_is_asked_for_again(
    through: Callable[..., HttpSessionService], proxy: Proxy, at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "READ_SECONDS", 0.5)

    async def run() -> None:
        async with through() as service:
            session = await service.create_session(**NAME)
            proxy.faults = [("POST", "slow")]
            await service.append_event(session, event("once"))
            stored = await service.get_session(**NAME)
            assert stored is not None
            assert texts(stored) == ["once"]

    asyncio.run(run())


def test_a_cancelled_append_is_whole(
    through: Callable[..., HttpSessionService], proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy.slow_seconds = 0.5

    async def run() -> None:
        async with through() as service:
            session = await service.create_session(**NAME)
            proxy.faults = [("POST", "slow")]
            append = asyncio.create_task(service.append_event(session, event("cancelled", n=1)))
            await asyncio.sleep(0.1)
            append.cancel()
            await asyncio.gather(append, return_exceptions=True)
            assert append.cancelled()
            await service.append_event(session, event("aborted", n=2))
            stored = await service.get_session(**NAME)
            assert stored is not None
            assert texts(stored) == texts(session) == ["cancelled", "aborted"]

    asyncio.run(run())


def test_an_agent_gets_what_is_stored_whatever_rules_hide(through: Callable[..., HttpSessionService]) -> None:
    mask_rules.create("*", "key", "card", actor=ALICE)

    async def run() -> None:
        async with through() as service:
            await service.create_session(**NAME, state={"card": "4111", "user:card": "5500"})
            stored = await service.get_session(**NAME)
            assert stored is not None
            assert stored.state == {"card": "4111", "user:card": "5500"}

    asyncio.run(run())


# --- adkweb goes, and comes back or not -------------------------------------------------------------------------------


def test_a_run_goes_on_when_adkweb_was_restarted_in_its_middle(source: str, new_token: Callable[..., str]) -> None:
    server, secret = Serving().start(), new_token()

    async def run() -> None:
        async with HttpSessionService(server.url, token=secret, source=source) as service:
            session = await service.create_session(**NAME)
            await service.append_event(session, event("before"))
            await asyncio.to_thread(server.stop)
            append = asyncio.create_task(service.append_event(session, event("meanwhile")))
            await asyncio.sleep(0.5)
            assert not append.done()
            await asyncio.to_thread(server.start)
            await append
            await service.append_event(session, event("after"))
            stored = await service.get_session(**NAME)
            assert stored is not None
            assert texts(stored) == ["before", "meanwhile", "after"]

    try:
        asyncio.run(run())
    finally:
        server.stop()


def test_an_adkweb_that_is_gone_for_good_is_an_error_with_its_address_after_a_bounded_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(http_client, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(http_client, "LONGEST_PAUSE_SECONDS", 0.05)
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"

    async def run() -> None:
        async with HttpSessionService(url, token="adkweb_secret") as service:
            with caplog.at_level(logging.WARNING, "adkweb.adk"):
                began = time.monotonic()
                why = await refused(service.get_session(**NAME), ConnectionError)
            assert time.monotonic() - began < 5
            assert url in why
            assert "asked 8 times" in why
            assert caplog.text.count("does not answer, again in") == 7

    asyncio.run(run())
    assert "adkweb_secret" not in caplog.text


def test_no_try_begins_when_a_minute_has_passed(monkeypatch: pytest.MonkeyPatch, proxy: Proxy, at_once: None) -> None:
    monkeypatch.setattr(http_client, "LAST_TRY_SECONDS", 0.0)
    proxy.faults = [("GET", 503)] * 9
    service = HttpSessionService(proxy.url, token="x")
    asyncio.run(refused(service.get_session(**NAME), ConnectionError, "asked 1 times: 503 Service Unavailable"))
    asyncio.run(service.close())


def test_what_is_not_adkweb_is_said_to_be_none(
    through: Callable[..., HttpSessionService], proxy: Proxy, at_once: None
) -> None:
    async def run() -> None:
        async with through() as service:
            for status in (200, 301, 404, 405, 500):
                proxy.faults = [("GET", status), ("POST", status)]
                why = await refused(service.get_session(**NAME), ConnectionError)
                assert why.startswith(f"{proxy.url} does not answer like adkweb: {status} ")
                await refused(service.create_session(**NAME), ConnectionError)

    asyncio.run(run())


# --- What a token may not do ------------------------------------------------------------------------------------------


def test_tokens_that_may_not_are_refused_at_once_with_adkwebs_sentence(
    serving: Serving, source: str, new_token: Callable[..., str]
) -> None:
    every, reading, appending, billing = (
        HttpSessionService(serving.url, token=new_token(*how), source=source)
        for how in (("admin",), ("read",), ("append",), ("admin", "billing*"))
    )

    async def run() -> None:
        async with every as service:
            session = await service.create_session(**NAME)
        async with HttpSessionService(serving.url, token="adkweb_unknown") as service:
            await refused(service.get_session(**NAME), PermissionError, "This token doesn't exist or has been revoked")
            await refused(service.append_event(session, event("x")), PermissionError)
        async with reading as service:
            assert await service.get_session(**NAME) == session
            await refused(service.append_event(session, event("x")), PermissionError, "needs the “append” permission")
            await refused(service.create_session(app_name=APP, user_id=USER), PermissionError)
        async with appending as service:
            await refused(service.delete_session(**NAME), PermissionError, "needs the “admin” permission")
            await service.append_event(session, event("allowed"))
        async with billing as service:
            for work in (
                service.get_session(**NAME),
                service.list_sessions(app_name=APP),
                service.get_user_state(app_name=APP, user_id=USER),
                service.append_event(session, event("x")),
                service.delete_session(**NAME),
            ):
                await refused(work, PermissionError, "There's no app “booking” that token")

    asyncio.run(run())
    assert len(timeline.events(key_of(source), actor=SYSTEM).rows) == 1


def test_a_token_is_never_shown(
    serving: Serving, new_token: Callable[..., str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = new_token("read")
    with caplog.at_level(logging.DEBUG):
        service = HttpSessionService(serving.url, token=f" {secret}\n")
        shown = [repr(service), str(vars(service))]
        for work in (service.create_session(**NAME), service.get_session(**NAME)):
            try:
                asyncio.run(work)
            except (PermissionError, InputValidationError) as error:
                shown.append(repr(error))
        asyncio.run(service.close())
    client_side = [record.getMessage() for record in caplog.records]
    assert not [text for text in (*shown, *client_side) if secret in text]
    for bad in ("adkweb_with a blank", "adkweb_ü", "adkweb_\nX: y"):
        with pytest.raises(ValueError, match="no adkweb token") as error:
            HttpSessionService(serving.url, token=bad)
        assert bad not in str(error.value)
    monkeypatch.delenv("ADKWEB_TOKEN", raising=False)
    with pytest.raises(ValueError, match="ADKWEB_TOKEN"):
        HttpSessionService(serving.url)


# --- Addresses --------------------------------------------------------------------------------------------------------


def test_an_address_with_options_is_what_adks_command_line_gives(
    serving: Serving, source: str, new_token: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADKWEB_TOKEN", new_token())
    uri = f"adkweb://127.0.0.1:{serving.port}?source={source}&on_stale=rebase&tls=false"

    async def run() -> None:
        async with HttpSessionService(uri=uri, agents_dir="agents") as service:
            session = await service.create_session(**NAME)
            await asyncio.to_thread(
                edit.edit_state, key_of(source), [Entry("a", 1, ABSENT)], actor=Actor.holding("maria", "admin")
            )
            await service.append_event(session, event("x"))
            assert session.state == {"a": 1}

    asyncio.run(run())


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("adkweb://token@host:8000", "may not contain a user or a token"),
        ("http://me:secret@host:8000", "may not contain a user or a token"),
        ("adkweb://host:8000/path", "takes no path"),
        ("adkweb://host:8000?on_stale=ignore", "on_stale must be raise or rebase, not 'ignore'"),
        ("adkweb://host?tls=1", "tls must be true or false, not '1'"),
        ("adkweb://host?token=x", "takes the options source, on_stale, tls, not 'token'"),
        ("adkweb://", "like http://host:8000"),
        ("http://host:port", "like http://host:8000"),
        ("http://host#x", "like http://host:8000"),
        ("host:8000", "like http://host:8000"),
        ("postgresql://host/db", "like http://host:8000"),
        ("http://host?source=x", "takes no options"),
    ],
)
def test_an_address_that_is_none_is_refused_in_words(uri: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as error:
        HttpSessionService(uri, token="x")
    assert "secret" not in str(error.value)


def test_tls_is_asked_for_by_https_or_by_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "TRIES", 1)
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
        for uri in (f"https://127.0.0.1:{port}", f"adkweb://127.0.0.1:{port}?tls=true"):
            heard: list[bytes] = []

            def listen(heard: list[bytes] = heard) -> None:
                with closing(server.accept()[0]) as connection:
                    heard.append(connection.recv(3))

            thread = threading.Thread(target=listen)
            thread.start()
            asyncio.run(refused(HttpSessionService(uri, token="x").get_session(**NAME), ConnectionError, "https://"))
            thread.join(5)
            assert heard[0][:2] == b"\x16\x03"  # a TLS handshake


def test_a_path_before_adkwebs_own_is_kept(serving: Serving, proxy: Proxy) -> None:
    service = HttpSessionService(f"{proxy.url}/adkweb/", token="x")
    proxy.faults = [("GET", 500)]
    asyncio.run(refused(service.get_session(**NAME), ConnectionError))
    assert proxy.asked[0][1].startswith("/adkweb/api/apps/booking/users/ana/sessions/s1")


def test_where_several_sources_could_be_meant_it_says_so(
    serving: Serving, source: str, new_token: Callable[..., str], new_database: Callable[[str], str], open_source: Any
) -> None:
    other = open_source(new_database("sqlite"))
    for alias in (source, other):
        create_session(alias, APP, USER, session_id="s1", actor=Actor.holding("maria", "admin"))

    anywhere = HttpSessionService(serving.url, token=new_token())

    async def run() -> None:
        async with anywhere as service:
            for work in (
                service.get_session(**NAME),
                service.list_sessions(app_name=APP),
                service.create_session(**NAME),
                service.delete_session(**NAME),
            ):
                await refused(work, InputValidationError, "Specify the source: “booking” could be in any of")

    asyncio.run(run())
    assert {other, source} <= {each.alias for each in registry.listed()}


NAMES = ["a/b", "..", ".", "~", "%2F", "a b?c=d#e", "지우", "it's", "a\\b", "é" * 128, "+&;="]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_is_an_address(over_http: Callable[..., HttpSessionService], source: str, name: str) -> None:
    names = {"app_name": name, "user_id": name, "session_id": name}

    async def run() -> None:
        async with over_http(source) as service:
            session = await service.create_session(**names, state={"user:u": 1})
            assert (session.app_name, session.user_id, session.id) == (name, name, name)
            await service.append_event(session, event("x", id=name))
            (listed,) = (await service.list_sessions(app_name=name, user_id=name)).sessions
            await service.append_event(listed, event("y"))
            stored = await service.get_session(**names)
            assert stored is not None
            assert texts(stored) == ["x", "y"]
            assert await service.get_user_state(app_name=name, user_id=name) == {"u": 1}
            await service.delete_session(**names)
            assert (await service.list_sessions(app_name=name)).sessions == []

    asyncio.run(run())


# --- Many at once -----------------------------------------------------------------------------------------------------


def test_threads_and_loops_write_one_session_at_once_and_all_is_stored_once(
    through: Callable[..., HttpSessionService], proxy: Proxy, source: str, at_once: None
) -> None:
    """Eight writers, each with a service of its own, while answers are lost."""
    writers, each = 8, 4

    def write(number: int) -> Session:
        async def run() -> Session:
            async with through(on_stale="rebase") as service:
                session = await service.get_session(**NAME)
                assert session is not None
                for n in range(each):
                    await service.append_event(session, event(f"{number}.{n}", **{f"app__{number}.{n}": n}))
                return session

        return asyncio.run(run())

    async def check() -> None:
        async with through() as service:
            stored = await service.get_session(**NAME)
            assert stored is not None
            assert sorted(texts(stored)) == sorted(f"{w}.{n}" for w in range(writers) for n in range(each))
            assert len(stored.state) == writers * each

    asyncio.run(through().create_session(**NAME))
    proxy.faults = [("POST", "drop")] * 6
    with ThreadPoolExecutor(writers) as pool:
        sessions = list(pool.map(write, range(writers)))
    asyncio.run(check())
    for number, session in enumerate(sessions):
        assert [text for text in texts(session) if text.startswith(f"{number}.")] == [
            f"{number}.{n}" for n in range(each)
        ]


def test_connections_are_used_again_and_given_back(through: Callable[..., HttpSessionService], proxy: Proxy) -> None:
    async def run() -> None:
        service = through()
        before = set(threading.enumerate())
        session = await service.create_session(**NAME)
        for number in range(20):
            await service.append_event(session, event(f"{number}"))
        assert proxy.connections == 1
        await service.close()
        assert not [each for each in set(threading.enumerate()) - before if each.name == "adkweb-http"]
        await service.append_event(session, event("again"))
        assert proxy.connections == 2
        await service.close()

    asyncio.run(run())


def _append_in_child(service: HttpSessionService, session: Session) -> None:
    asyncio.run(service.append_event(session, event("from the child")))
    os._exit(0)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_process_that_was_forked_has_connections_of_its_own(
    over_http: Callable[..., HttpSessionService], source: str
) -> None:
    service = over_http(source, on_stale="rebase")
    session = asyncio.run(service.create_session(**NAME))
    child = multiprocessing.get_context("fork").Process(target=_append_in_child, args=(service, session))
    child.start()
    child.join(20)
    assert child.exitcode == 0
    asyncio.run(service.append_event(session, event("from the parent")))
    assert texts(session) == ["from the child", "from the parent"]
    asyncio.run(service.close())


# --- What comes back --------------------------------------------------------------------------------------------------


def test_a_list_of_many_pages_has_every_session_with_its_state_once(
    through: Callable[..., HttpSessionService], proxy: Proxy, source: str
) -> None:
    for number in range(1_203):
        state = {"n": number, f"user:{number % 3}": number, "app:last": number}
        create_session(
            source, APP, f"u{number % 3}", session_id=f"{number}", state=state, actor=Actor.holding("m", "admin")
        )

    async def run() -> None:
        async with through() as service:
            listed = (await service.list_sessions(app_name=APP)).sessions
            assert [session.state["n"] for session in listed] == list(range(1_203))
            assert len([path for _method, path in proxy.asked if "/sessions/states" in path]) == 3
            assert {session.state["app:last"] for session in listed} == {1_202}
            assert listed[5].state == {"n": 5, "app:last": 1_202, "user:2": 1_202}
            mine = (await service.list_sessions(app_name=APP, user_id="u1")).sessions
            assert [session.state["n"] for session in mine] == list(range(1, 1_203, 3))

    asyncio.run(run())


def test_a_session_that_is_updated_while_it_is_listed_is_in_the_list_once(
    through: Callable[..., HttpSessionService], source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [
        create_session(source, APP, USER, session_id=f"{n:03}", actor=Actor.holding("m", "admin")) for n in range(600)
    ]
    ask = http_client.Client.ask

    def updated_between(self: Any, *request: Any, **query: Any) -> Any:
        if query.get("after"):
            for ref in (keys[0], keys[599]):
                edit.edit_state(ref, [Entry("new", 1, ABSENT)], actor=Actor.holding("maria", "admin"))
        return ask(self, *request, **query)

    monkeypatch.setattr(http_client.Client, "ask", updated_between)

    async def run() -> None:
        async with through() as service:
            listed = (await service.list_sessions(app_name=APP)).sessions
            assert len({session.id for session in listed}) == len(listed) == 600
            assert [session.id for session in listed[-2:]] == ["000", "599"]
            assert [session.state for session in listed[-2:]] == [{"new": 1}] * 2
            await service.append_event(listed[-1], event("it can be appended to"))

    asyncio.run(run())


def test_stale_sessions_and_large_events_are_told_as_adk_tells_them(
    over_http: Callable[..., HttpSessionService], source: str, settings: Any
) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1_000_000

    async def run() -> None:
        async with over_http(source) as service:
            session = await service.create_session(**NAME)
            await asyncio.to_thread(
                edit.edit_state, key_of(source), [Entry("a", 1, ABSENT)], actor=Actor.holding("maria", "admin")
            )
            await refused(service.append_event(session, event("x")), StaleSessionError, "Please reload the session")
            big = event("x" * 100, data="y" * 3_000_000)
            fresh = await service.get_session(**NAME)
            assert fresh is not None
            await refused(service.append_event(fresh, big), InputValidationError, "ADKWEB_MAX_BODY")

    asyncio.run(run())


# --- An agent's own process -------------------------------------------------------------------------------------------


def test_it_needs_no_django_that_is_set_up_and_no_database_driver(
    tmp_path: Path, serving: Serving, source: str, new_token: Callable[..., str]
) -> None:
    script = f"""
import asyncio, sys
sys.modules["psycopg"] = None  # as if it were not there
from google.adk.events import Event, EventActions
from sessions_app.adk import HttpSessionService
async def main():
    async with HttpSessionService({serving.url!r}, source={source!r}, on_stale="rebase") as service:
        session = await service.create_session(app_name="booking", user_id="ana", session_id="s1", state={{"a": 1}})
        other = await service.get_session(app_name="booking", user_id="ana", session_id="s1")
        await service.append_event(other, Event(author="b", actions=EventActions(state_delta={{"a": 2}})))
        await service.append_event(session, Event(author="b", actions=EventActions(state_delta={{"b": 3}})))
        print(session.state, (await service.list_sessions(app_name="booking")).sessions[0].state)
        for name in ("x" * 200, "a" + chr(0)):
            try:
                await service.create_session(app_name=name, user_id="ana")
            except ValueError as error:
                print(type(error).__name__)
            assert await service.get_session(app_name=name, user_id="ana", session_id="s1") is None
asyncio.run(main())
from django.conf import settings
print(settings.configured)
"""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ADKWEB_", "DJANGO_", "PYTEST_"))}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        cwd=tmp_path,
        env={**kept, "PYTHONPATH": str(ROOT), "ADKWEB_TOKEN": new_token()},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "{'a': 2, 'b': 3} {'a': 2, 'b': 3}",
        "InputValidationError",
        "InputValidationError",
        "False",
    ]
