"""The door: whom a socket is opened to, what a client may say, and that whoever misbehaves harms nobody else."""

from __future__ import annotations

import base64
import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psutil
import pytest
from django.conf import settings
from django.db import connections
from websockets.exceptions import InvalidStatus

from sessions_app.domain.session_ref import SessionRef
from sessions_app.models import AuditRow
from sessions_app.writes.sessions import delete_session
from tests.browser.serving import Adkweb
from tests.live.conftest import WRITER, Stage
from tests.live.pages import Own, Page, browser, ids_of, live_path, sign_in
from tests.servers import HOST

# --- The handshake ----------------------------------------------------------------------------------------------------


def refusal(stage: Stage, ref: SessionRef, **options: Any) -> int:
    """The status by which a handshake is refused."""
    with pytest.raises(InvalidStatus) as refused:
        stage.page(ref, **options)
    return refused.value.response.status_code


def test_the_printed_link_signs_a_browser_in_and_its_cookie_opens_a_socket(
    stage: Stage, new_server: Callable[..., Adkweb]
) -> None:
    server = new_server(stage.places["sqlite"])
    ref = stage.new_session(events=1)
    with browser(server) as client:
        link = server.link.partition(server.address)[2]
        assert client.get(link).status_code == 302
        cookie = client.cookies[settings.SESSION_COOKIE_NAME]
    assert stage.page(ref, cookie, server).until_all().seen == ids_of(ref)


@pytest.mark.parametrize("cookie", ["none-at-all", "x" * 5000, "ü", 'a";drop'])
def test_nobody_watches_without_a_sign_in_and_is_told_why(stage: Stage, cookie: str) -> None:
    ref = stage.new_session(events=1)
    for page in (
        stage.page(ref, headers={"Cookie": f"{settings.SESSION_COOKIE_NAME}={cookie}"}, who="-"),
        stage.feed(headers={"Cookie": f"{settings.SESSION_COOKIE_NAME}={cookie}"}, who="-"),
    ):
        assert page.until_end() == (4401, "signed out")
        assert page.messages == []


def test_no_cookie_at_all_is_answered_the_same(stage: Stage) -> None:
    page = Page(stage.server, "", stage.new_session(events=1))
    stage.pages.append(page)
    assert page.until_end() == (4401, "signed out")
    assert page.messages == []


@pytest.mark.parametrize(
    "origin",
    [
        None,
        "null",
        "http://evil.example",
        f"http://{HOST}:1",
        "http://localhost.evil.example",
        f"http://evil.example@{HOST}",
        "http://[::1",
        "\\",
        "x" * 3000,
    ],
)
def test_a_foreign_origin_is_refused_although_the_cookie_is_right(stage: Stage, origin: str | None) -> None:
    assert refusal(stage, stage.new_session(events=1), origin=origin) == 403


def test_a_page_of_another_site_that_opens_a_socket_in_somebodys_name_is_in_the_audit(stage: Stage) -> None:
    ref = stage.new_session(events=1)
    for who in (sign_in(stage.server, "wanda"), "nobody"):
        assert refusal(stage, ref, who=who, origin="http://evil.example") == 403
    with Own(stage.server):
        (row,) = AuditRow.objects.filter(act="refused", session_id=ref.session_id)
    assert (row.by, row.address, json.loads(row.detail)) == ("wanda", HOST, {"what": "websocket from another site"})


def test_a_name_of_this_machine_that_was_not_asked_for_is_refused(stage: Stage) -> None:
    """A page whose name was rebound to 127.0.0.1 has an origin that is the same as its host."""
    ref = stage.new_session(events=1)
    answer = shake_hands(stage, ref, host="evil.example:80", origin="http://evil.example:80")
    assert answer.startswith(b"HTTP/1.1 403"), answer
    own = f"localhost:{stage.server.port}"
    assert shake_hands(stage, ref, host=own, origin=f"http://{own}").startswith(b"HTTP/1.1 101")


def test_an_origin_that_the_operator_trusts_is_let_in(stage: Stage, new_server: Callable[..., Adkweb]) -> None:
    server = new_server(stage.places["sqlite"], ADKWEB_TRUSTED_ORIGINS="https://adkweb.example.com")
    who, ref = sign_in(server), stage.new_session(events=1)
    stage.page(ref, who, server, origin="https://adkweb.example.com").until_all()
    for origin in ("https://adkweb.example.com.evil.example", "http://adkweb.example.com"):
        with pytest.raises(InvalidStatus):
            stage.page(ref, who, server, origin=origin)


# --- Addresses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/", "/live/", "/live/feed", "/live/session/a/b/c/", "/live/session/a/b/c/d/e/", "/s/a/b/c/d/", "/%ff%00"]
)
def test_an_address_that_is_no_sockets_is_refused(stage: Stage, path: str) -> None:
    with pytest.raises(InvalidStatus):
        stage.page(path)


@pytest.mark.parametrize("form", ["sqlite", "postgresql"])
@pytest.mark.parametrize("part", [0, 1, 2, 3])
@pytest.mark.parametrize("name", ["nowhere", "\x00", "�" * 300])
def test_what_does_not_exist_is_gone(stage: Stage, form: str, part: int, name: str) -> None:
    names = list(stage.new_session(form, events=1))
    names[part] = name
    page = stage.page(SessionRef(*names))
    assert page.until_end() == (4404, "no such session")
    assert page.parts["gone"]
    assert page.seen == []


def test_a_filter_that_does_not_exist_is_told(stage: Stage) -> None:
    page = stage.page(stage.new_session(events=1), kind="nonsense")
    assert page.until_end()[0] == 4404
    assert "nonsense" in page.parts["gone"]


@pytest.mark.parametrize("after", [None, "", "x", "1.5", "NaN", "1;2", "--1", "\x00"])
def test_a_place_that_is_none_is_answered_with_a_reason(stage: Stage, after: str | None) -> None:
    page = stage.page(stage.new_session(events=1), after=after)
    assert page.until_end() == (4400, "after: must be a seq")


@pytest.mark.parametrize("language", ["xx", "", "en-\x00", "../../etc"])
def test_a_language_that_adkweb_does_not_speak_is_english(stage: Stage, language: str) -> None:
    ref = stage.new_session(events=1, city="Rome")
    page = stage.page(ref, language=language).until_all()
    page.until(lambda page: "no turns yet" in page.parts.get("status", ""), "the status, in English")


def test_bytes_in_the_query_that_are_no_text_are_answered_and_not_a_fault(stage: Stage) -> None:
    answer = shake_hands(stage, stage.new_session(events=1), query=b"after=0&author=\xff")
    assert answer.startswith((b"HTTP/1.1 101", b"HTTP/1.1 4")), answer


def test_a_file_that_was_never_adopted_is_followed(stage: Stage, new_server: Callable[..., Adkweb]) -> None:
    place = str(Path(stage.places["sqlite"]).with_name("foreign.db"))
    Path(place).unlink(missing_ok=True)

    from tests.adk.services import Adk

    adk = Adk("sqlite", place)
    session = adk.create()
    adk.append(session, "first")
    server = new_server(place, ADKWEB_READ_ONLY="true")
    page = Page(server, sign_in(server), SessionRef("foreign", "booking", "ana", "s1"))
    stage.pages.append(page)
    page.until(lambda page: len(page.seen) == 1, "the event that is there")
    adk.append(session, "second", city="Rome")
    adk.close()
    page.until(lambda page: len(page.seen) == 2, "the new one")
    page.until(lambda page: "Rome" in page.parts.get("state", ""), "the state, as it is now")


# --- What a client says -----------------------------------------------------------------------------------------------

BAD_FRAMES = {
    "bytes": b"\x00\xff{}",
    "no JSON": "{after:",
    "nothing": "",
    "a list": [1],
    "a number": 5,
    "null": None,
    "no command": {},
    "an unknown command": {"do": "drop table"},
    "a command more": {"after": 0, "and": 1},
    "no number": {"after": "x"},
    "not a number": '{"after": NaN}',
    "endless": '{"after": Infinity}',
    "a fraction": {"after": 1.5},
    "yes": {"after": True},
    "no place": {"after": None},
    "places": {"after": [1]},
    "an object": {"after": {"after": 1}},
    "too long": '{"after": ' + "1" * 2000 + "}",
    "deep": "[" * 990,
    "half a pair": '{"after": "\\ud800"}',
}


@pytest.mark.parametrize("what", BAD_FRAMES)
def test_a_frame_that_means_nothing_closes_its_own_socket_with_a_reason(stage: Stage, what: str) -> None:
    ref = stage.new_session(events=1)
    other, page = stage.page(ref).until_all(), stage.page(ref).until_all()
    page.say("null" if what == "null" else BAD_FRAMES[what])
    code, reason = page.until_end()
    assert code == 4400
    assert reason
    stage.append(ref)
    other.until_all()


def test_a_frame_that_is_huge_closes_the_socket(stage: Stage) -> None:
    ref = stage.new_session(events=1)
    other, page = stage.page(ref).until_all(), stage.page(ref).until_all()
    page.say("x" * 5_000_000)
    assert page.until_end()[0] in (1009, 1006)  # too big; or the connection is gone while the rest is still sent
    stage.append(ref)
    other.until_all()


def test_homes_socket_understands_nothing_and_says_so(stage: Stage) -> None:
    page = stage.feed()
    page.until(lambda page: "feed" in page.parts, "the feed")
    page.say({"after": 0})
    assert page.until_end() == (4400, "this socket takes no messages")


@pytest.mark.parametrize("form", ["sqlite", "postgresql"])
@pytest.mark.parametrize("place", [10**30, 2**63 - 1, 2**63, 999_999_999, -1, -(10**30)])
def test_a_place_from_the_future_or_from_nowhere_loads_the_timeline_anew(stage: Stage, form: str, place: int) -> None:
    ref = stage.new_session(form, events=3)
    page = stage.page(ref, after=place)
    page.until(lambda page: page.resets == 1, "a reset")
    assert page.seen == ids_of(ref)
    stage.append(ref)
    page.until_all()
    assert page.resets == 1


@pytest.mark.parametrize("form", ["sqlite", "postgresql"])
@pytest.mark.parametrize("place", [10**30, 2**63, -(10**30)])
def test_a_client_that_stays_at_such_a_place_costs_others_nothing(stage: Stage, form: str, place: int) -> None:
    ref = stage.new_session(form, events=3)
    watcher = stage.page(ref).until_all()
    stubborn = Stubborn(stage.server, stage.me, ref, after=place)
    stage.pages.append(stubborn)
    stubborn.until(lambda page: page.resets == 1, "a reset")
    stage.append(ref)
    watcher.until_all()
    assert not watcher.parts.get("away"), "one client's place is not a fault of the source"
    assert watcher.end is None


class Stubborn(Page):
    """A client that does not load anew when it is told to."""

    def _load_anew(self) -> None:
        self.place = None


# --- Who disappears ---------------------------------------------------------------------------------------------------


def test_a_session_that_is_deleted_while_watched_is_told_and_others_go_on(stage: Stage, form: str) -> None:
    ref, kept = stage.new_session(form, events=2), stage.new_session(form, events=1)
    page, second, other = stage.page(ref).until_all(), stage.page(ref).until_all(), stage.page(kept).until_all()
    delete_session(ref, actor=WRITER)
    for left in (page, second):
        assert left.until_end() == (4404, "no such session")
        assert left.parts["gone"] == "This session was deleted."
    stage.append(kept)
    other.until_all()
    assert not other.parts.get("away")


def test_a_session_that_is_deleted_is_told_in_the_readers_language(stage: Stage) -> None:
    ref = stage.new_session(events=1)
    page = stage.page(ref, language="es").until_all()
    page.until(lambda page: "state" in page.parts, "the state")
    delete_session(ref, actor=WRITER)
    assert page.until_end()[0] == 4404
    assert page.parts["gone"] != "This session was deleted."


# --- Who does not behave ----------------------------------------------------------------------------------------------

MEMORY = 30_000_000  # bytes: a few times what may wait for a client (4 million characters), and what reading costs
EVENTS = 3_000


@pytest.fixture
def own_server(stage: Stage, new_server: Callable[..., Adkweb]) -> Iterator[Adkweb]:
    """A server that is measured alone."""
    server = new_server(stage.places["sqlite"])
    yield server
    server.close()


@pytest.mark.long
def test_a_client_that_never_reads_is_let_go_and_costs_others_neither_events_nor_memory(
    stage: Stage, own_server: Adkweb
) -> None:
    ref = stage.new_session(events=1)
    reader = stage.page(ref, sign_in(own_server, "reader"), own_server).until_all()
    memory = psutil.Process(own_server.process.pid).memory_info  # type: ignore[union-attr]
    with never_reading(own_server, ref, sign_in(own_server, "sleeper")):
        reader.until(lambda page: page.parts.get("watching") == "reader\nsleeper", "both are there")
        before = memory().rss
        for _ in range(4):
            write_large_events(ref, EVENTS // 4)
            reader.until_all(seconds=120)
        assert len(reader.seen) == EVENTS + 1
        grown = memory().rss - before
        print(f"\n{EVENTS} large events beside a client that never reads: {grown / 1e6:.0f} MB more")
        assert grown < MEMORY
        reader.until(lambda page: page.parts["watching"] == "reader", "the other is let go", seconds=10)


def test_a_server_ends_although_a_client_never_reads(stage: Stage, own_server: Adkweb) -> None:
    ref = stage.new_session(events=1)
    with never_reading(own_server, ref, sign_in(own_server)):
        reader = stage.page(ref, sign_in(own_server), own_server).until_all()
        write_large_events(ref, 1000)
        reader.until_all(seconds=60)
        process = own_server.process
        assert process
        own_server.stop()
        assert process.returncode != -9, "had to be killed"


def test_many_frames_of_one_client_do_others_no_harm(stage: Stage, form: str) -> None:
    ref, kept = stage.new_session(form, events=150), stage.new_session(form, events=1)
    same, other = stage.page(ref).until_all(), stage.page(kept).until_all()
    flood = shaken(stage.server, ref, stage.me)
    with flood:
        flood.setblocking(False)
        frames = masked(b'{"after": 0}') * 50
        for _ in range(20):
            sent = 0
            while sent < len(frames) * 4:
                try:
                    sent += flood.send(frames)
                except BlockingIOError:
                    break
                except OSError:  # let go: as good
                    return
            stage.append(ref)
            stage.append(kept)
            same.until_all()
            other.until_all()
    assert same.end is other.end is None


# --- Sockets by hand --------------------------------------------------------------------------------------------------


def shaken(server: Adkweb, ref: SessionRef, who: str, **options: Any) -> socket.socket:
    """A connection on which the handshake was sent; nothing is read."""
    host = options.get("host", f"{HOST}:{server.port}")
    query = options.get("query", urlencode({"after": 0}).encode())
    lines = [
        b"GET " + live_path(ref).encode() + b"?" + query + b" HTTP/1.1",
        f"Host: {host}".encode(),
        f"Origin: {options.get('origin', f'http://{host}')}".encode(),
        f"Cookie: {settings.SESSION_COOKIE_NAME}={who}".encode(),
        b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13",
        b"Sec-WebSocket-Key: " + base64.b64encode(os.urandom(16)),
    ]
    client = socket.create_connection((HOST, server.port))
    client.settimeout(20)
    client.sendall(b"\r\n".join(lines) + b"\r\n\r\n")
    return client


def shake_hands(stage: Stage, ref: SessionRef, **options: Any) -> bytes:
    """The first line of the answer to a handshake."""
    with shaken(stage.server, ref, stage.me, **options) as client:
        return client.recv(1000).splitlines()[0]


def never_reading(server: Adkweb, ref: SessionRef, who: str) -> socket.socket:
    """A client with a small window that reads the answer to its handshake and then nothing any more."""
    client = shaken(server, ref, who)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    assert b" 101 " in client.recv(20)
    return client


def masked(text: bytes) -> bytes:
    """A text as a client's frame."""
    return bytes([0x81, 0x80 | len(text)]) + bytes(4) + text


def write_large_events(ref: SessionRef, count: int) -> None:
    """Appends events that set twelve long values each, past adkweb's own write path: a row of several kilobytes."""
    with connections[ref.source].cursor() as cursor:
        cursor.execute(
            """WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < %s)
            INSERT INTO events (id, app_name, user_id, session_id, invocation_id, timestamp, event_data)
            SELECT lower(hex(randomblob(12))), %s, %s, %s, 'i1', 1767225600.0 + n,
            json_object('author', 'agent', 'timestamp', 1767225600.0 + n,
            'content', json_object('parts', json_array(json_object('text', %s))),
            'actions', json_object('state_delta', json(%s))) FROM numbers""",
            [count, *ref[1:], "long " * 500, "{" + ", ".join(f'"key {n}": "{"v" * 300}"' for n in range(12)) + "}"],
        )
