"""A program that asks adkweb, in this process: through the whole ASGI application, as a server would call it.

Django's own asynchronous test client leaves out what stands before Django, and has another idea of non-ASCII addresses.
Every answer is looked through: no program should be given one that breaks the promises of `checked`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode

from asgiref.sync import async_to_sync
from django.core.signals import got_request_exception

from sessions_app.domain.session_ref import SessionRef

PROBLEM: Final = "application/problem+json"
NOTHING: Final = object()


def segment(name: str) -> str:
    """A name as a program writes it into an address."""
    if not name.strip("."):
        return "~2e" * len(name) or "~"
    return quote(name.replace("~", "~7e").replace("/", "~2f"), safe="~")


def address(ref: SessionRef, tail: str = "") -> str:
    """A session's address at our own routes."""
    app, user, session = map(segment, ref[1:])
    return f"/api/apps/{app}/users/{user}/sessions/{session}{tail}"


@dataclass(frozen=True)
class Answer:
    """What came back; header names are lower case."""

    status: int
    headers: dict[str, str]
    content: bytes
    pieces: int = 1

    def json(self) -> Any:
        """The body; a `NaN` in it is a fault, and so is a key given twice."""
        return json.loads(self.content, parse_constant=_refuse, object_pairs_hook=_once)

    @property
    def detail(self) -> str:
        """The sentence of a problem."""
        assert self.status >= 400, self
        return str(self.json()["detail"])


@dataclass(frozen=True)
class Program:
    """A client with a token, or without one; methods give back answers of any status, all `checked`."""

    token: str | None = None
    source: str | None = None  # named in every query, where it is given

    def get(self, path: str, **options: Any) -> Answer:
        """`options` are those of `ask`."""
        return self.ask("GET", path, **options)

    def post(self, path: str, body: Any = NOTHING, **options: Any) -> Answer:
        """`body` is bytes, or anything that JSON is made of."""
        return self.ask("POST", path, body, **options)

    def patch(self, path: str, body: Any = NOTHING, **options: Any) -> Answer:
        """`body` is bytes, or anything that JSON is made of."""
        return self.ask("PATCH", path, body, **options)

    def delete(self, path: str, **options: Any) -> Answer:
        """`options` are those of `ask`."""
        return self.ask("DELETE", path, **options)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = NOTHING,
        *,
        token: str | None = None,
        if_match: str | None = None,
        media_type: str = "application/json",
        headers: dict[str, str] | None = None,
        chunks: Iterable[bytes] | None = None,
        **query: Any,
    ) -> Answer:
        """One request; `chunks` are a body without a Content-Length, `query` is what follows the question mark."""
        said: dict[str, str] = {"host": "localhost"}
        if used := self.token if token is None else token:
            said["authorization"] = f"Bearer {used}"
        if if_match is not None:
            said["if-match"] = if_match
        pieces = list(chunks) if chunks is not None else []
        if body is not NOTHING:
            pieces = [body if isinstance(body, bytes) else json.dumps(body).encode()]
            said["content-length"] = str(len(pieces[0]))
        if pieces:
            said["content-type"] = media_type
        said |= {name.lower(): value for name, value in (headers or {}).items()}
        if self.source is not None:
            query = {"source": self.source, **query}
        path, _mark, rest = path.partition("?")
        asked = "&".join(part for part in (rest, urlencode(query)) if part)
        with _faults() as faults:
            answer = async_to_sync(_ask)(method, path, asked, said, pieces)
        for fault in faults:
            raise fault
        return checked(answer)


def checked(answer: Answer) -> Answer:
    """What every answer keeps to: JSON, problems in one shape, nothing for shared caches, a way to sign in on 401."""
    kind = answer.headers.get("content-type", "").partition(";")[0]
    if answer.status == 204:
        assert answer.content == b""
        return answer
    assert "private" in answer.headers["cache-control"] or answer.headers["cache-control"] == "no-store", answer
    assert answer.headers["x-content-type-options"] == "nosniff"
    if answer.status < 400:
        assert kind != PROBLEM
        return answer
    assert kind == PROBLEM, answer
    told = answer.json()
    assert {"type", "title", "status", "detail", "request_id"} <= told.keys() <= {*_PROBLEM}, told
    assert told["request_id"] == answer.headers["x-request-id"]
    assert told["status"] == answer.status
    assert all(isinstance(told[name], str) and told[name] for name in ("type", "title", "detail")), told
    assert ("www-authenticate" in answer.headers) == (answer.status == 401)
    assert ("allow" in answer.headers) == (answer.status == 405)
    return answer


_PROBLEM: Final = (
    "type",
    "title",
    "status",
    "detail",
    "errors",
    "place",
    "current",
    "request_id",
    "retry_after",
    "proposal",
)


async def _ask(method: str, path: str, query: str, headers: dict[str, str], pieces: list[bytes]) -> Answer:
    from adkweb.asgi import application

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path, errors="surrogateescape").encode(errors="surrogateescape").decode(errors="replace"),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    waiting = [
        {"type": "http.request", "body": piece, "more_body": number < len(pieces)}
        for number, piece in enumerate(pieces or [b""], 1)
    ]
    sent: list[dict[str, Any]] = []
    answered = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if waiting:
            return waiting.pop(0)
        await answered.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await application(scope, receive, send)
    start, *rest = sent
    found = [message["body"] for message in rest if message.get("body")]
    told = {name.decode().lower(): value.decode("latin-1") for name, value in start["headers"]}
    return Answer(start["status"], told, b"".join(found), len(found))


@contextmanager
def _faults() -> Iterator[list[BaseException]]:
    """What was raised in adkweb and answered with 500."""
    found: list[BaseException] = []

    def note(**_sent: Any) -> None:
        if error := sys.exc_info()[1]:
            found.append(error)

    got_request_exception.connect(note, weak=False)
    try:
        yield found
    finally:
        got_request_exception.disconnect(note)


def _refuse(name: str) -> Any:
    raise AssertionError(f"{name} is not JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    assert len(found) == len(pairs), "a key stands twice"
    return found
