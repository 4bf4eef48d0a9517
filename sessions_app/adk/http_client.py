"""Sends requests to a remote adkweb, and repeats them until one is answered.

It is safe to send any request twice. An append carries its event's id, so if an earlier try has stored the event, the
answer says so.
"""

import asyncio
import json
import logging
import os
import random
import threading
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

import httpx
from google.adk.errors.input_validation_error import InputValidationError
from pydantic import BaseModel

from ..http.names import AGENT_HEADER, UNSEEN
from .threads import Crew

log = logging.getLogger("adkweb.adk")

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

CONNECT_SECONDS: Final = 5.0
READ_SECONDS: Final = 30.0
TRIES: Final = 8
LAST_TRY_SECONDS: Final = 60.0  # no try starts later than this after the first one
PAUSE_SECONDS: Final = 0.25  # the longest pause before the second try; it doubles before each one that follows
LONGEST_PAUSE_SECONDS: Final = 5.0

_THREADS: Final = 16  # requests at the same time, each on a connection of its own
_UNUSED_SECONDS: Final = 4.0  # servers close an idle connection, uvicorn after 5 s
_AGAIN: Final = (429, 502, 503, 504)
_FAILURES: Final = (httpx.NetworkError, httpx.TimeoutException, httpx.RemoteProtocolError)


class Answer(NamedTuple):
    """An answer of adkweb, and the number of the try that it answers."""

    response: httpx.Response
    tries: int

    @property
    def status(self) -> int:
        """Returns the HTTP status."""
        return self.response.status_code

    def as_(self, model: type[M]) -> M:
        """Parses the body."""
        return model.model_validate_json(self.response.content)


class Client:
    """Sends requests to an adkweb from the threads of its crew. Each thread has a connection of its own.

    Raises PermissionError for anything that the token may not do, InputValidationError, and ConnectionError, which
    names the address.
    """

    def __init__(self, url: str, token: str, source: str | None) -> None:
        self._url = url
        self._source = {} if source is None else {"source": source}
        self._headers = {"Authorization": f"Bearer {token}", AGENT_HEADER: "1"}
        self._verify = httpx.create_ssl_context() if url.startswith("https:") else False
        self._begin()

    async def do(self, work: Callable[[], T]) -> T:
        """Lets a thread do the work, which may call `ask`."""
        if self._process != os.getpid():  # a forked process has its parent's memory, but not its threads
            self._begin()
        return await asyncio.wrap_future(self._crew.submit(work))

    async def close(self) -> None:
        """Waits until all work is done, and closes the connections."""
        await asyncio.to_thread(self._crew.close)

    def ask(
        self, method: str, address: str, body: Any = None, headers: dict[str, str] | None = None, **query: Any
    ) -> Answer:
        """Sends a request and returns its answer: a success, 404, 412, or 409 to a POST."""
        answer = self._send(
            method,
            f"{self._url}/api{address}",
            params={name: value for name, value in query.items() if value is not None} | self._source,
            content=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", **(headers or {})},
        )
        if answer.status in (401, 403):
            raise PermissionError(sentence_of(answer.response))
        if answer.status in (400, 413, 422) or (answer.status == 409 and method != "POST"):
            raise InputValidationError(sentence_of(answer.response))
        kind = answer.response.headers.get("Content-Type", "").partition(";")[0]
        as_usual = {200: "application/json", 201: "application/json", 204: kind}
        if kind != as_usual.get(answer.status, "application/problem+json") or answer.status >= 500:
            raise self.strange(answer)
        if answer.status == 404 and answer.response.json().get("type") == UNSEEN:
            raise PermissionError(sentence_of(answer.response))
        return answer

    def _send(self, method: str, url: str, **request: Any) -> Answer:
        """Sends a request until there is an answer with any other status than _AGAIN.

        Raises ConnectionError if none comes.
        """
        began = time.monotonic()
        for tries in range(1, TRIES + 1):
            failure: Exception | None = None
            try:
                response = self._connection().request(method, url, **request)
            except _FAILURES as error:
                failure, why = error, str(error) or type(error).__name__
            except httpx.HTTPError as error:
                raise ConnectionError(f"adkweb at {self._url} cannot be reached: {error}") from error
            else:
                if response.status_code not in _AGAIN:
                    return Answer(response, tries)
                why = sentence_of(response)
            if tries == TRIES or time.monotonic() - began > LAST_TRY_SECONDS:
                break
            pause = random.uniform(0, min(LONGEST_PAUSE_SECONDS, PAUSE_SECONDS * 2 ** (tries - 1)))  # noqa: S311 - jitter
            log.warning("adkweb at %s does not answer, again in %.1f s: %s", self._url, pause, why)
            time.sleep(pause)
        raise ConnectionError(f"adkweb at {self._url} does not answer, asked {tries} times: {why}") from failure

    def strange(self, answer: Answer) -> ConnectionError:
        """Makes the error for an answer that an adkweb would not give."""
        return ConnectionError(f"{self._url} does not answer like adkweb: {sentence_of(answer.response)}")

    def _begin(self) -> None:
        self._thread = threading.local()
        self._crew = Crew(_THREADS, self._leave, "adkweb-http")
        self._process = os.getpid()

    def _connection(self) -> httpx.Client:
        client: httpx.Client | None = getattr(self._thread, "client", None)
        if client is None:
            client = self._thread.client = httpx.Client(
                headers=self._headers,
                verify=self._verify,
                timeout=httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
                limits=httpx.Limits(keepalive_expiry=_UNUSED_SECONDS),
            )
        return client

    def _leave(self) -> None:
        client: httpx.Client | None = getattr(self._thread, "client", None)
        if client is not None:
            client.close()


def sentence_of(response: httpx.Response) -> str:
    """Returns adkweb's own sentence about a failure, or the HTTP status if the answer is not from adkweb."""
    try:
        return str(response.json()["detail"])
    except (ValueError, TypeError, KeyError):
        return f"{response.status_code} {response.reason_phrase}"
