"""The log: JSON for programs, the request that a line belongs to, and no secrets."""

from __future__ import annotations

import http.client
import io
import json
import logging
import re
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from adkweb.logs import LONGEST, Line
from tests.support.own import started_before
from tests.web.test_commands import Served, serve
from tests.web.test_private_files import FORGED

SECONDS = 20


@pytest.fixture
def data(tmp_path: Path, blank: Path) -> Path:
    """adkweb's own data, after a first start."""
    return started_before(tmp_path / "data", blank)


def ask(adkweb: Served, address: str, given: str = "") -> tuple[str, str]:
    """The id of the request in the header of the answer, and the body."""
    with closing(http.client.HTTPConnection(urlsplit(adkweb.link).netloc, timeout=SECONDS)) as connection:
        cookies = "; ".join(f"{name}={morsel.value}" for name, morsel in adkweb.cookies.items())
        connection.request("GET", address, headers={"Cookie": cookies} | ({"X-Request-ID": given} if given else {}))
        answer = connection.getresponse()
        (name,) = answer.headers.get_all("X-Request-ID") or []
        return name, answer.read().decode()


def logged(message: str, *values: object, error: Exception | None = None) -> str:
    """The line as JSON."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(Line(as_json=True))
    handler.emit(
        logging.LogRecord(
            "adkweb.test", 30, __file__, 1, message, values, (type(error), error, None) if error else None
        )
    )
    return stream.getvalue()


def test_an_error_names_its_request_in_the_header_on_the_page_and_in_the_log(data: Path) -> None:
    log = data.parent / "log"
    with serve(data) as adkweb:
        adkweb.sign_in()
        name, page = ask(adkweb, "/s/none/a/u/s/", given="proxy-4711")
        assert name == "proxy-4711"
        assert "Request id: proxy-4711" in page
        name, body = ask(adkweb, "/api/sources")
        assert json.loads(body)["request_id"] == name
        assert re.fullmatch(r"[0-9a-f]{16}", name)
        link = urlsplit(adkweb.link).query.removeprefix("token=").partition("&")[0]
        lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    (signed_in,) = [line for line in lines if "signed in" in line["event"]]
    assert signed_in.keys() == {"time", "level", "logger", "event", "request_id"}
    assert link not in log.read_text().rpartition("Ctrl+C")[2]


@pytest.mark.parametrize("given", ["short", "x" * 65, "a b c d e f g", "../../etc/passwd", "<script>alert(1)</script>"])
def test_a_name_that_could_be_hostile_is_not_taken(data: Path, given: str) -> None:
    with serve(data) as adkweb:
        assert re.fullmatch(r"[0-9a-f]{16}", ask(adkweb, "/health", given)[0])


@pytest.mark.parametrize("name", [FORGED, "\u2028", "\x1b[2K", "\u202e", "\U000e0001", '"}'])
def test_as_json_a_message_is_one_printable_line_and_comes_back_equal(name: str) -> None:
    line = logged("somebody is called %s", name)
    assert line.count("\n") == 1
    assert line.strip("\n").isprintable()
    assert json.loads(line)["event"] == f"somebody is called {name}"


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://maria:QUIET-word-1@host/db isn't answering",
        "connection failed: host=db password=QUIET-word-1 user=x",
        "the token adkweb_QUIET-word-1QUIET-word-1abc is unknown",
        "GET /sign-in/?token=QUIET-word-1&next=/",
        "sent Authorization: Bearer QUIET-word-1",
        'duplicate key value\nDETAIL:  Failing row contains (1, "a\n\nb QUIET-word-1").\nCONTEXT:  QUIET-word-1',
        "1 validation error\n  [type=int, input_value='QUIET-word-1', input_type=str]",
        "x" * LONGEST + "QUIET-word-1",
    ],
)
def test_secrets_and_values_of_rows_stay_out_of_the_log(text: str) -> None:
    for line in (logged("%s", text), logged("it failed", error=ValueError(text))):
        assert "QUIET-word-1" not in line
        assert json.loads(line)["level"] == "warning"
