"""adkweb on a network: requests that never end, TLS, host names, other ports, and what answers say to browsers."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from websockets.sync.client import connect

from tests.browser.serving import Adkweb
from tests.servers import HOST
from tests.support.own import migrated

SECONDS = 2.0
NAME = "adkweb.example.com"
PROGRAM = f"""
import sys, django
django.setup()
from django.core.management import execute_from_command_line
from sessions_app.management.commands import _server
_server.HEAD_SECONDS = {SECONDS}
execute_from_command_line(sys.argv)
"""


class Served(Adkweb):
    """adkweb on the demo, with more words on its command line."""

    words: tuple[str, ...] = ()

    def _command(self, directory: Path) -> list[str]:
        return self.command("-c", PROGRAM, "serve", str(self.demo), "--port", str(self.port), *self.words)


@contextmanager
def serving(folder: Path, *words: str, admin: bool = False, **variables: str) -> Iterator[Served]:
    (folder / "data").mkdir(parents=True)
    server = Served(folder, **variables)
    server.words = words
    if admin:
        migrated(folder / "data" / "adkweb.db")
        account = {"DJANGO_SUPERUSER_USERNAME": "maria", "DJANGO_SUPERUSER_EMAIL": "maria@example.com"}
        server.run("createsuperuser", "--noinput", variables={**account, "DJANGO_SUPERUSER_PASSWORD": "correct horse"})
    with server:
        yield server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """adkweb as a developer starts it, but less patient."""
    with serving(tmp_path_factory.mktemp("network")) as started:
        yield started


@pytest.fixture(scope="module")
def browser(server: Served) -> Iterator[httpx.Client]:
    """A browser that is signed in."""
    with httpx.Client(base_url=server.address, timeout=30) as client:
        assert client.get(server.link).status_code == 302
        yield client


# --- Requests that never end ------------------------------------------------------------------------------------------

Send = Callable[[socket.socket], None]


def nothing(line: socket.socket) -> None:
    time.sleep(0.2)


def half_a_head(line: socket.socket) -> None:
    line.sendall(b"X-More: a\r\n")
    time.sleep(0.2)


def empty_lines(line: socket.socket) -> None:
    line.sendall(b"\r\n")
    time.sleep(0.2)


HEALTH = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (b"", nothing),
        (b"", empty_lines),
        (b"GET / HT", nothing),
        (HEALTH, half_a_head),
        (HEALTH + b"\r\n", half_a_head),
    ],
    ids=["silent", "empty lines", "half a line", "headers for ever", "a second request that never ends"],
)
def test_a_connection_whose_request_does_not_come_is_closed(server: Served, first: bytes, then: Send) -> None:
    began = time.monotonic()
    with closing(socket.create_connection((HOST, server.port), timeout=0.05)) as line:
        line.sendall(first)
        if first.startswith(HEALTH + b"\r\n"):
            line.settimeout(10)
            assert line.recv(1000).startswith(b"HTTP/1.1 200")
            line.sendall(b"GET / HTTP/1.1\r\n")
            line.settimeout(0.05)
        while time.monotonic() - began < SECONDS * 5:
            try:
                then(line)
                if not line.recv(1000):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        else:
            pytest.fail("it is still open")
    assert time.monotonic() - began > SECONDS * 0.9


def test_four_hundred_half_requests_are_gone_after_a_while(server: Served) -> None:
    lines = [socket.create_connection((HOST, server.port), timeout=10) for _ in range(400)]
    for line in lines:
        line.sendall(b"GET / HTTP/1.1\r\nHost: 127")
    assert httpx.get(f"{server.address}/health").status_code == 200
    time.sleep(SECONDS * 1.5)
    for line in lines:
        with closing(line), suppress(ConnectionResetError):
            assert line.recv(1) == b""


def test_a_live_page_stays_open_and_a_body_may_take_its_time(server: Served, browser: httpx.Client) -> None:
    cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in browser.cookies.jar)
    address = f"ws://{HOST}:{server.port}/live/feed/"
    with connect(address, origin=server.address, additional_headers={"Cookie": cookies}) as live:  # type: ignore[arg-type]
        with closing(socket.create_connection((HOST, server.port), timeout=10)) as line:
            line.sendall(b"POST /sign-in/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3\r\n\r\na")
            time.sleep(SECONDS * 1.5)
            line.sendall(b"=1")
            assert line.recv(1000).startswith(b"HTTP/1.1 403")
        live.ping().wait(5)
        assert live.recv(5)


# --- TLS --------------------------------------------------------------------------------------------------------------


def cookies_of(response: httpx.Response) -> dict[str, str]:
    """What is said of each cookie, by the start of its name."""
    found = (line.split("=", 1) for line in response.headers.get_list("set-cookie"))
    return {re.sub(r"_[0-9a-f]{8}$", "", name): rest for name, rest in found}


def test_behind_tls_cookies_belong_to_the_host_and_go_through_tls_alone(tmp_path: Path) -> None:
    with serving(tmp_path, ADKWEB_HTTPS="true", ADKWEB_ALLOWED_HOSTS=f"127.0.0.1,{NAME}", admin=True) as server:
        assert server.link.startswith(f"https://{NAME}/sign-in/?token=")
        link = server.link.replace(f"https://{NAME}", server.address)
        with httpx.Client(headers={"Host": NAME}) as client:
            answer = client.get(link)
            found = cookies_of(answer)
            assert set(found) == {"__Host-adkweb_session", "__Host-adkweb_csrf"}
            for said in found.values():
                assert {"Secure", "HttpOnly", "Path=/"} <= set(said.split("; "))
                assert "Domain" not in said
            assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"
            jar = [line.split(";")[0] for line in answer.headers.get_list("set-cookie")]
            sent = {"Origin": f"https://{NAME}", "Cookie": "; ".join(jar)}
            page = client.get(f"{server.address}/tokens/", headers=sent).text
            token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
            assert token
            data = {"csrfmiddlewaretoken": token[1], "name": "x", "permission": "read", "apps": "*"}
            assert client.post(f"{server.address}/tokens/", data=data, headers=sent).status_code == 200
            evil = {**sent, "Origin": "https://evil.example"}
            assert client.post(f"{server.address}/tokens/", data=data, headers=evil).status_code == 403


def test_a_proxy_of_this_machine_that_ends_tls_has_cookies_made_secure(server: Served) -> None:
    answer = httpx.get(f"{server.address}/sign-in/", headers={"X-Forwarded-Proto": "https"})
    assert "Secure" in cookies_of(answer)["adkweb_csrf"].split("; ")
    assert "Strict-Transport-Security" not in answer.headers  # a developer's other ports of localhost have no TLS
    plain = httpx.get(f"{server.address}/sign-in/")
    assert "Secure" not in cookies_of(plain)["adkweb_csrf"].split("; ")


# --- Names ------------------------------------------------------------------------------------------------------------


def test_on_every_address_only_the_hosts_that_were_named_are_answered(tmp_path: Path) -> None:
    with serving(tmp_path, "--host", "0.0.0.0", admin=True, ADKWEB_ALLOWED_HOSTS=NAME) as server:
        assert f"Open http://{NAME}:{server.port}/" in server.log
        assert "cross the network unencrypted" in server.log
        for host, status in ((NAME, 200), ("evil.example", 400), ("127.0.0.1", 400)):
            assert httpx.get(f"{server.address}/sign-in/", headers={"Host": host}).status_code == status


def test_a_slash_too_many_leads_to_a_path_whatever_the_host_is_called(server: Served) -> None:
    answer = httpx.get(f"{server.address}/health/?a=b", headers={"Host": "localhost"})
    assert (answer.status_code, answer.headers["Location"]) == (307, "/health?a=b")
    assert "Location" not in httpx.get(f"{server.address}//evil.example/health/").headers


def test_the_link_of_another_loopback_address_signs_in(tmp_path: Path) -> None:
    with serving(tmp_path, "--host", "127.0.0.2") as server, httpx.Client() as client:
        assert server.link.startswith(f"http://127.0.0.2:{server.port}/")
        assert client.get(server.link, follow_redirects=True).status_code == 200


# --- Other ports ------------------------------------------------------------------------------------------------------


def test_two_adkwebs_of_one_machine_do_not_sign_each_other_out(
    server: Served, browser: httpx.Client, tmp_path: Path
) -> None:
    with serving(tmp_path) as other:
        assert browser.get(other.link).status_code == 302
        assert browser.get(f"{other.address}/").status_code == 200
        assert browser.get("/").status_code == 200
        assert len(browser.cookies) == 4  # a browser sends each to either port


def test_a_cookie_is_called_as_before_after_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path) as server, httpx.Client() as client:
        client.get(server.link)
        server.stop()
        server.start()
        assert client.get(f"{server.address}/").status_code == 200


# --- What answers say -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "length", "host", "status"),
    [
        ("/sign-in/", 0, "127.0.0.1", 200),
        ("/static/css/base.css", 0, "127.0.0.1", 200),
        ("/static/no/such.css", 0, "127.0.0.1", 404),
        ("/sign-in/", 0, "evil.example", 400),
        ("/api/apps", 0, "127.0.0.1", 401),
        ("/api/import", 70_000, "127.0.0.1", 401),
        ("/import/", 70_000, "127.0.0.1", 403),
        ("/health", 0, "127.0.0.1", 200),
        ("/", 0, "127.0.0.1", 302),
    ],
)
def test_every_answer_is_framed_by_nobody_and_says_nothing_of_the_server(
    server: Served, path: str, length: int, host: str, status: int
) -> None:
    method = "POST" if length else "GET"
    answer = httpx.request(method, f"{server.address}{path}", content=b"x" * length, headers={"Host": host})
    assert answer.status_code == status
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "same-origin"
    assert "camera=()" in answer.headers["Permissions-Policy"]
    assert "Server" not in answer.headers
    assert len(answer.headers.get_list("Content-Security-Policy")) == 1


@pytest.mark.parametrize("path", ["/version", "/sources/demo/version", "/api/openapi.json"])
def test_versions_and_addresses_are_for_whom_adkweb_knows(server: Served, browser: httpx.Client, path: str) -> None:
    assert httpx.get(f"{server.address}{path}").status_code == 401
    assert browser.get("/api/openapi.json").status_code == 200


def test_the_log_tells_of_no_fault(server: Served) -> None:
    assert "Traceback" not in server.log
