"""Bodies that are too large, at a real server: refused while they arrive, and nothing is written."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.browser.serving import Adkweb
from tests.servers import HOST
from tests.support import warm

LIMIT = 20_000
UPLOAD = 60_000
SESSIONS = "/api/apps/booking/users/ana/sessions"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Adkweb]:
    """adkweb with small limits, on an empty database."""
    folder: Path = tmp_path_factory.mktemp("limits")
    (folder / "data").mkdir()
    started = Adkweb(folder, ADKWEB_MAX_BODY=str(LIMIT), ADKWEB_MAX_UPLOAD=str(UPLOAD))
    started.demo = folder / "store.db"
    started.run("create", str(started.demo))
    started.start()
    yield started
    started.close()


@pytest.fixture(scope="module")
def token(server: Adkweb) -> str:
    """Of a program that may do everything."""
    command = server.command("token", "create", "limits", "--permission", "admin")
    return warm.run(command, cwd=server.folder, capture_output=True, text=True, check=True).stdout.strip()


def ask(
    server: Adkweb, token: str, path: str, body: bytes | Iterator[bytes] | None, method: str = "POST"
) -> tuple[int, dict[str, Any], http.client.HTTPMessage]:
    """One request; a body in pieces is sent without a Content-Length."""
    connection = http.client.HTTPConnection(HOST, server.port, timeout=30)
    headers = {"Authorization": f"Bearer {token}"}
    with suppress(BrokenPipeError, ConnectionResetError):  # the answer came before all was sent
        connection.request(method, path, body, headers, encode_chunked=not isinstance(body, bytes | None))
    answer = connection.getresponse()
    told = json.loads(answer.read())
    connection.close()
    return answer.status, told, answer.headers


def pieces(length: int) -> Iterator[bytes]:
    """A JSON body of so many bytes, and more."""
    yield b'{"state": {"a": "'
    for _ in range(length // 1_000):
        yield b"x" * 1_000
    yield b'"}}'


@pytest.mark.parametrize("whole", [True, False], ids=["with Content-Length", "without"])
def test_a_body_that_is_too_large_is_refused_with_the_limit(server: Adkweb, token: str, whole: bool) -> None:
    body = pieces(LIMIT + 1_000)
    status, told, headers = ask(server, token, SESSIONS, b"".join(body) if whole else body)
    assert (status, told["status"]) == (413, 413)
    assert headers["Content-Type"] == "application/problem+json"
    assert str(LIMIT) in told["detail"]
    assert "ADKWEB_MAX_BODY" in told["detail"]
    assert ask(server, token, SESSIONS, None, "GET")[1]["items"] == []


@pytest.mark.parametrize("whole", [True, False], ids=["with Content-Length", "without"])
def test_a_body_within_the_limit_is_taken(server: Adkweb, token: str, whole: bool) -> None:
    body = pieces(LIMIT - 2_000)
    status, told, _headers = ask(server, token, SESSIONS, b"".join(body) if whole else body)
    assert status == 201
    connection = http.client.HTTPConnection(HOST, server.port, timeout=30)
    connection.request("DELETE", f"{SESSIONS}/{told['id']}", headers={"Authorization": f"Bearer {token}"})
    assert connection.getresponse().status == 204
    connection.close()


def test_a_body_that_never_ends_is_cut_off(server: Adkweb, token: str) -> None:
    status, _told, headers = ask(server, token, SESSIONS, pieces(50_000_000))
    assert status == 413
    assert headers["Connection"] == "close"


@pytest.mark.parametrize("whole", [True, False], ids=["with Content-Length", "without"])
def test_a_file_to_import_has_a_limit_of_its_own(server: Adkweb, token: str, whole: bool) -> None:
    status, _told, _headers = ask(server, token, "/api/import", b"".join(pieces(LIMIT * 2)))
    assert status not in (413, 500)
    body = pieces(UPLOAD + 1_000)
    status, told, _headers = ask(server, token, "/api/import", b"".join(body) if whole else body)
    assert status == 413
    assert "ADKWEB_MAX_UPLOAD" in told["detail"]


def test_a_session_that_is_called_import_has_the_limit_of_a_session(server: Adkweb, token: str) -> None:
    status, told, _headers = ask(server, token, f"{SESSIONS}/import", pieces(LIMIT + 1_000))
    assert status == 413
    assert "ADKWEB_MAX_BODY" in told["detail"]


def test_the_log_tells_of_no_fault(server: Adkweb) -> None:
    assert "Traceback" not in server.log
