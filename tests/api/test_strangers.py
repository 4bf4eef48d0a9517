"""Who sends much is known before it is received: without a token or a sign-in nothing piles up, at a real server."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import httpx
import pytest

from sessions_app.http.limits import SMALL, UPLOADS
from tests.browser.serving import Adkweb
from tests.servers import HOST
from tests.support import warm
from tests.support.at_work import until

PATIENCE = 3.0
GIGABYTE = 1024**3
LARGE = b"x" * (SMALL * 4)
SESSIONS = "/api/apps/booking/users/ana/sessions"
PROGRAMS = [
    "/api/import",
    "/api/import/",
    SESSIONS,
    "/apps/booking/users/ana/sessions",
    "/sources/x/apps/a/users/b/sessions",
]
PAGES = ["/import/", "/import", "/sign-in/", "/sessions/new/", "/no/such/page/", "/static/css/base.css", "//api/import"]
PROGRAM = f"""
import sys, django
django.setup()
from django.core.management import execute_from_command_line
from sessions_app.http import limits
limits.PATIENCE_SECONDS = {PATIENCE}
execute_from_command_line(sys.argv)
"""


class Impatient(Adkweb):
    """adkweb that waits for bodies for a few seconds only."""

    def _command(self, directory: Path) -> list[str]:
        return self.command("-c", PROGRAM, "serve", str(self.demo), "--port", str(self.port))

    def received(self) -> int:
        """The bytes of bodies that it keeps on disk just now, in files that have no name. SQLite has some, too."""
        assert self.process
        sizes = []
        for fd in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with suppress(OSError):
                name = fd.readlink().name
                if name.endswith("(deleted)") and not name.startswith("etilqs_"):
                    sizes.append(fd.stat().st_size)
        return sum(sizes)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Impatient]:
    """adkweb on the demo."""
    folder = tmp_path_factory.mktemp("strangers")
    (folder / "data").mkdir()
    with Impatient(folder) as started:
        yield started


def new_token(server: Adkweb, scope: str, name: str = "") -> str:
    command = server.command("token", "create", name or f"a program that may {scope}", "--permission", scope)
    return warm.run(command, cwd=server.folder, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def admin(server: Impatient) -> str:
    """The token of a program that may do everything."""
    return new_token(server, "admin")


@pytest.fixture(scope="module")
def browser(server: Impatient) -> Iterator[httpx.Client]:
    """A browser that is signed in."""
    with httpx.Client(base_url=server.address, timeout=30) as client:
        assert client.get(server.link).status_code == 302
        yield client


class Line:
    """A connection by hand."""

    def __init__(self, server: Adkweb) -> None:
        self.socket = socket.create_connection((HOST, server.port), timeout=30)

    def head(self, path: str, *headers: str, length: int | None = GIGABYTE, method: str = "POST") -> None:
        """A request without its body; in chunks where no length is given."""
        size = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
        lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", size, *headers, "", ""]
        self.socket.sendall("\r\n".join(lines).encode())

    def pour(self, most: int = 64 * 1024 * 1024, piece: bytes = LARGE) -> int:
        """Sends chunks until they are not taken any more; how many bytes were."""
        sent = 0
        with suppress(OSError):
            while sent < most:
                self.socket.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
                sent += len(piece)
        return sent

    def status(self) -> int:
        """Of the next answer; 0 where the connection ended without one."""
        said = b""
        with suppress(OSError):
            while b"\r\n\r\n" not in said and (more := self.socket.recv(65536)):
                said += more
        found = re.search(rb"HTTP/1.1 (\d+)", said)
        return int(found[1]) if found else 0


@pytest.fixture
def line(server: Impatient) -> Iterator[Line]:
    """A connection."""
    opened = Line(server)
    with closing(opened.socket):
        yield opened


@pytest.mark.parametrize("path", PROGRAMS)
def test_a_program_without_a_token_is_refused_before_its_body(line: Line, path: str) -> None:
    line.head(path)
    assert line.status() == 401


@pytest.mark.parametrize("path", PAGES)
def test_a_browser_that_is_not_signed_in_is_refused_before_its_body(line: Line, path: str) -> None:
    line.head(path)
    assert line.status() == 403


@pytest.mark.parametrize("path", ["/api/import", "/import/", "/sign-in/", SESSIONS])
@pytest.mark.parametrize("method", ["POST", "GET", "OPTIONS", "PUT"])
def test_a_stranger_who_says_no_length_is_cut_off_and_nothing_piles_up(
    server: Impatient, line: Line, path: str, method: str
) -> None:
    line.head(path, length=None, method=method)
    assert line.pour() < 16 * 1024 * 1024  # in the buffers of two sockets
    assert line.status() in (401, 403, 0)
    assert server.received() < SMALL * 2


WRONG = {
    "an unknown token": "Authorization: Bearer adkweb_guess",
    "no token": "Authorization: Bearer",
    "a password": "Authorization: Basic cm9vdDpyb290",
    "two words": "Authorization: Bearer a b",
    "no text": "Authorization: Bearer \x00\xff",
    "a cookie": "Cookie: adkweb_session=guess",
}


@pytest.mark.parametrize("header", WRONG.values(), ids=WRONG)
def test_a_guess_is_no_token(line: Line, header: str) -> None:
    line.head("/api/import", header)
    assert line.status() in (400, 401)


def test_a_cookie_is_no_token_and_a_token_no_cookie(
    server: Impatient, line: Line, browser: httpx.Client, admin: str
) -> None:
    line.head("/api/import", "Cookie: " + "; ".join(f"{c.name}={c.value}" for c in browser.cookies.jar))
    assert line.status() == 401
    with closing((other := Line(server)).socket):
        other.head("/import/", f"Authorization: Bearer {admin}")
        assert other.status() == 403


def test_a_token_that_was_revoked_sends_nothing_more(server: Impatient, line: Line) -> None:
    token = new_token(server, "admin", "lost")
    server.run("token", "revoke", "lost")
    time.sleep(1.1)
    line.head("/api/import", f"Authorization: Bearer {token}")
    assert line.status() == 401


def test_a_token_that_may_not_import_is_refused_before_the_file(server: Impatient, line: Line) -> None:
    line.head("/api/import", f"Authorization: Bearer {new_token(server, 'append')}")
    assert line.status() == 403


def test_a_request_behind_a_good_one_on_the_same_connection_is_asked_for_itself(line: Line, admin: str) -> None:
    """Both are sent at once."""
    good = f"GET /api/sources HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {admin}\r\n\r\n".encode()
    line.socket.sendall(
        good + f"POST /api/import HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {GIGABYTE}\r\n\r\n".encode()
    )
    said = b""
    while b" 401 " not in said:
        more = line.socket.recv(65536)
        assert more, said
        said += more
    assert said.startswith(b"HTTP/1.1 200")


def test_many_small_parts_of_a_stranger_are_not_taken_apart(server: Impatient) -> None:
    part = '--b\r\nContent-Disposition: form-data; name="a{0}"; filename="f"\r\n\r\nx\r\n'
    body = "".join(part.format(n) for n in range(4_000)).encode() + b"--b--\r\n"
    assert len(body) > SMALL
    with suppress(httpx.TransportError):  # the answer came before all was sent
        answer = httpx.post(
            f"{server.address}/import/", content=body, headers={"Content-Type": "multipart/form-data; boundary=b"}
        )
        assert answer.status_code == 403


def test_a_stranger_may_send_what_the_form_that_signs_in_needs(server: Impatient) -> None:
    with httpx.Client(base_url=server.address) as guest:
        found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', guest.get("/sign-in/").text)
        assert found
        form = {"csrfmiddlewaretoken": found[1], "username": "x" * 30_000, "password": "x"}
        assert "<h1>Sign in</h1>" in guest.post("/sign-in/", data=form).text


@pytest.mark.guarantee(
    "Safety",
    "Unauthenticated requests cost adkweb little, because it limits the size of their bodies and cuts off slow ones.",
)
@pytest.mark.parametrize("path", ["/sign-in/", SESSIONS])
@pytest.mark.parametrize("length", [100, None])
def test_a_body_that_trickles_is_given_up(line: Line, path: str, length: int | None) -> None:
    began = time.monotonic()
    line.head(path, length=length)
    line.socket.settimeout(0.2)
    while not (status := line.status()):
        with suppress(OSError):
            line.socket.sendall(b"x" if length else b"1\r\nx\r\n")
        assert time.monotonic() - began < PATIENCE * 5
    assert status == 408
    assert time.monotonic() - began > PATIENCE * 0.9


def test_a_large_body_may_take_longer_than_a_small_one(server: Impatient, line: Line, admin: str) -> None:
    pieces, seconds = 8, PATIENCE * 1.5
    line.head("/api/import?preview=true", f"Authorization: Bearer {admin}", length=pieces * len(LARGE))
    for _ in range(pieces):
        time.sleep(seconds / pieces)
        line.socket.sendall(LARGE)
    assert line.status() == 400  # it is no file to import, as is known once all of it was received


def test_only_a_few_files_are_received_at_once_and_others_later(server: Impatient, admin: str) -> None:
    lines = [Line(server) for _ in range(UPLOADS)]

    def is_refused() -> bool:
        for number, each in enumerate(lines):  # which the server may not have heard yet, if others have the machine
            try:
                each.socket.sendall(LARGE * 4)
            except OSError:  # the server heard the extra one first, and refused this one
                each.socket.close()
                lines[number] = Line(server)
                lines[number].head("/api/import", f"Authorization: Bearer {admin}")
        with closing((extra := Line(server)).socket):
            extra.head("/api/import", f"Authorization: Bearer {admin}")
            extra.socket.sendall(LARGE)
            return extra.status() == 503

    try:
        for each in lines:
            each.head("/api/import", f"Authorization: Bearer {admin}")
        until(is_refused)
    finally:
        for each in lines:
            each.socket.close()
    time.sleep(1)
    with closing((later := Line(server)).socket):
        later.head("/api/import?preview=true", f"Authorization: Bearer {admin}", length=len(LARGE))
        later.socket.sendall(LARGE)
        assert later.status() == 400


def test_the_log_tells_of_no_fault(server: Impatient) -> None:
    assert "Traceback" not in server.log
