"""The store that an adkweb elsewhere is, over its REST API; needs neither Django's settings nor a database's driver.

Every request may be sent again: an append carries its event's id, and what was stored by a try whose answer was lost is
told as stored already.
"""

import asyncio
import json
import logging
import os
import random
import threading
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote

import httpx
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.events import Event
from google.adk.sessions import Session
from pydantic import BaseModel

from ..domain.event import ID_LENGTH
from ..domain.json_values import equal
from ..domain.state import Scoped, State, split, without_temp
from ..http.names import Name
from .base import Names, Standing, Written
from .conversion import Seen, already_exists, event_of, not_found, possible, session_of, stale
from .threads import Crew

log = logging.getLogger("adkweb.adk")

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

CONNECT_SECONDS: Final = 5.0
READ_SECONDS: Final = 30.0
TRIES: Final = 8
LAST_TRY_SECONDS: Final = 60.0  # after the first one, no further try begins
PAUSE_SECONDS: Final = 0.25  # at most, before the second try; twice as long before each one that follows
LONGEST_PAUSE_SECONDS: Final = 5.0

_THREADS: Final = 16  # requests at once, each on a connection of its own
_UNUSED_SECONDS: Final = 4.0  # servers close a connection that rests, uvicorn after 5 s
_CLOCK_SECONDS: Final = 1.0  # what two machines of one adkweb may differ
_AGAIN: Final = (429, 502, 503, 504)
_FAILURES: Final = (httpx.NetworkError, httpx.TimeoutException, httpx.RemoteProtocolError)
_LATEST: Final = 2**32 - 1  # no timestamp is later


# --- What adkweb answers ----------------------------------------------------------------------------------------------


class _Event(BaseModel):
    id: str
    invocation_id: str
    timestamp: float
    event: Event


class _State(BaseModel):
    app: State
    user: State
    session: State


class _Session(BaseModel):
    created: float
    revision: float
    seq: int | None
    state: _State
    events: list[_Event]


class _Item(BaseModel):
    user_id: str
    id: str
    created: float
    revision: float
    state: State


class _Page(BaseModel):
    items: list[_Item]
    app: State
    users: dict[str, State]
    next: str | None


class _Standing(BaseModel):
    created: float
    revision: float
    newest: str | None
    seq: int | None


class _Appended(BaseModel):
    seq: int | None
    revision: float | None


class Answer(NamedTuple):
    """What adkweb answered, and to which try."""

    response: httpx.Response
    tries: int

    @property
    def status(self) -> int:
        """Its HTTP status."""
        return self.response.status_code

    def as_(self, model: type[M]) -> M:
        """Its body, parsed once, from bytes to objects."""
        return model.model_validate_json(self.response.content)


# --- The store --------------------------------------------------------------------------------------------------------


class Remote:
    """A `Store`; each call is done by a thread of its crew, which alone has a connection.

    Raises ADK's errors, PermissionError for what the token may not do, and ConnectionError, which names the address, where
    there is no answer.
    """

    def __init__(self, url: str, token: str, source: str | None) -> None:
        self._url = url
        self._source = {} if source is None else {"source": source}
        self._headers = {"Authorization": f"Bearer {token}"}
        self._verify = httpx.create_ssl_context() if url.startswith("https:") else False
        self._begin()

    async def create(self, names: Names, state: State) -> Session:
        """Creates a session, and loads it with the state of its user and app."""

        def work() -> Session:
            began = time.monotonic()
            body = {"session_id": names.session_id, "state": state}
            answer = self._ask("POST", f"{_user(names)}/sessions", body)
            if answer.status == 404:
                raise self._strange(answer)
            found = self._load(names, newest=0)
            if answer.status == 409 and not (found and _is_ours(answer, found, state, time.monotonic() - began)):
                raise already_exists(names.session_id)
            if found is None:
                raise not_found(names.session_id)
            return _session(names, found)

        if not possible(*names):
            raise InputValidationError(
                f"A session's names have at most {ID_LENGTH} characters, no U+0000 and no halves of surrogate pairs: "
                f"{names!r:.600}"
            )
        return await self._do(work)

    async def load(
        self, names: Names, *, newest: int | None = None, since: float | None = None, after: int | None = None
    ) -> Session | None:
        """Loads a session."""

        def work() -> Session | None:
            found = self._load(
                names,
                newest=None if newest is None else min(newest, 2**31),
                since=None if since is None else min(max(since, 0.0), _LATEST),
                after=after,
            )
            return None if found is None else _session(names, found)

        return await self._do(work) if possible(*names) else None

    async def load_all(self, app_name: str, user_id: str | None) -> list[Session]:
        """Loads sessions without events, by page."""

        def work() -> list[Session]:
            found: dict[tuple[str, str], Session] = {}
            following: str | None = None
            while True:
                address = f"/apps/{_segment(app_name)}/sessions/states"
                answer = self._ask("GET", address, user=user_id, after=following)
                if answer.status == 404:  # no source has this app
                    return []
                page = answer.as_(_Page)
                for item in page.items:
                    found.pop((item.user_id, item.id), None)  # it was updated meanwhile
                    state = Scoped(session=item.state, app=page.app, user=page.users.get(item.user_id, {}))
                    found[item.user_id, item.id] = session_of(
                        app_name, item.user_id, item.id, state.merged(), Seen(item.created, item.revision, None)
                    )
                following = page.next
                if following is None:
                    return list(found.values())

        return await self._do(work) if possible(app_name, user_id or "") else []

    async def delete(self, names: Names) -> None:
        """Deletes a session, or nothing where there is none."""
        if possible(*names):
            await self._do(lambda: self._ask("DELETE", _address(names)))

    async def user_state(self, app_name: str, user_id: str) -> State:
        """A user's state, or an empty one."""

        def work() -> State:
            answer = self._ask("GET", f"{_user(Names(app_name, user_id, ''))}/state")
            found: State = {} if answer.status == 404 else answer.response.json()
            return found

        return await self._do(work) if possible(app_name, user_id) else {}

    async def stand(self, names: Names, event_id: str) -> Standing | None:
        """Where a session stands, and an event in it."""

        def work() -> Standing | None:
            answer = self._ask("GET", f"{_address(names)}/standing", event=event_id)
            if answer.status == 404:
                return None
            found = answer.as_(_Standing)
            return Standing(found.created, found.revision, found.newest, found.seq)

        return await self._do(work) if possible(*names, event_id) else None

    async def append(self, names: Names, event: dict[str, Any], revision: float | None) -> Written | None:
        """Appends an event; sent again after a lost answer, it is there already."""

        def work() -> Written | None:
            expected = {} if revision is None else {"If-Match": f'"{revision!r}"'}
            answer = self._ask("POST", f"{_address(names)}/events", event, expected)
            if answer.status == 404:
                raise not_found(names.session_id)
            if answer.status == 412:
                raise stale()
            if answer.status == 409:
                raise AlreadyExistsError(_said(answer.response))
            found = answer.as_(_Appended)
            if answer.status == 200 or found.seq is None or found.revision is None:
                return None
            return Written(found.seq, found.revision)

        return await self._do(work)

    async def close(self) -> None:
        """Waits until all is done, and closes the connections."""
        await asyncio.to_thread(self._crew.close)

    def _load(self, names: Names, **part: Any) -> _Session | None:
        answer = self._ask("GET", _address(names), **part)
        return None if answer.status == 404 else answer.as_(_Session)

    # --- Requests -----------------------------------------------------------------------------------------------------

    def _ask(
        self, method: str, address: str, body: Any = None, headers: dict[str, str] | None = None, **query: Any
    ) -> Answer:
        """An answer to go on with: what was asked for, 404, and to what is written 409 and 412."""
        answer = self._send(
            method,
            f"{self._url}/api{address}",
            params={name: value for name, value in query.items() if value is not None} | self._source,
            content=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", **(headers or {})},
        )
        if answer.status in (401, 403):
            raise PermissionError(_said(answer.response))
        if answer.status in (400, 413, 422) or (answer.status == 409 and method != "POST"):
            raise InputValidationError(_said(answer.response))
        kind = answer.response.headers.get("Content-Type", "").partition(";")[0]
        as_usual = {200: "application/json", 201: "application/json", 204: kind}
        if kind != as_usual.get(answer.status, "application/problem+json") or answer.status >= 500:
            raise self._strange(answer)
        return answer

    def _send(self, method: str, url: str, **request: Any) -> Answer:
        """An answer, whichever, if there comes one."""
        began = time.monotonic()
        for tries in range(1, TRIES + 1):
            failure: Exception | None = None
            try:
                response = self._client().request(method, url, **request)
            except _FAILURES as error:
                failure, why = error, str(error) or type(error).__name__
            except httpx.HTTPError as error:
                raise ConnectionError(f"adkweb at {self._url} cannot be asked: {error}") from error
            else:
                if response.status_code not in _AGAIN:
                    return Answer(response, tries)
                why = _said(response)
            if tries == TRIES or time.monotonic() - began > LAST_TRY_SECONDS:
                break
            pause = random.uniform(0, min(LONGEST_PAUSE_SECONDS, PAUSE_SECONDS * 2 ** (tries - 1)))  # noqa: S311 - jitter
            log.warning("adkweb at %s does not answer, again in %.1f s: %s", self._url, pause, why)
            time.sleep(pause)
        raise ConnectionError(f"adkweb at {self._url} does not answer, asked {tries} times: {why}") from failure

    def _strange(self, answer: Answer) -> ConnectionError:
        return ConnectionError(f"{self._url} does not answer as adkweb does: {_said(answer.response)}")

    # --- Threads ------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._thread = threading.local()
        self._crew = Crew(_THREADS, self._leave, "adkweb-http")
        self._process = os.getpid()

    async def _do(self, work: Callable[[], T]) -> T:
        if self._process != os.getpid():  # a fork has its parent's memory and none of its threads
            self._begin()
        return await asyncio.wrap_future(self._crew.submit(work))

    def _client(self) -> httpx.Client:
        found: httpx.Client | None = getattr(self._thread, "client", None)
        if found is None:
            found = self._thread.client = httpx.Client(
                headers=self._headers,
                verify=self._verify,
                timeout=httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
                limits=httpx.Limits(keepalive_expiry=_UNUSED_SECONDS),
            )
        return found

    def _leave(self) -> None:
        client: httpx.Client | None = getattr(self._thread, "client", None)
        if client is not None:
            client.close()


# --- Addresses and answers --------------------------------------------------------------------------------------------

_name: Final = Name()


def _segment(name: str) -> str:
    return quote(_name.to_url(name), safe="")


def _user(names: Names) -> str:
    return f"/apps/{_segment(names.app_name)}/users/{_segment(names.user_id)}"


def _address(names: Names) -> str:
    return f"{_user(names)}/sessions/{_segment(names.session_id)}"


def _said(response: httpx.Response) -> str:
    """adkweb's sentence; of what is not adkweb's, the status."""
    try:
        return str(response.json()["detail"])
    except (ValueError, TypeError, KeyError):
        return f"{response.status_code} {response.reason_phrase}"


def _is_ours(answer: Answer, found: _Session, state: State, seconds: float) -> bool:
    """Whether a session that is there already is what an earlier try of ours, within so many seconds, has created.

    It is where it holds what was sent, nobody has written to it since, and by adkweb's own clock, which the answer tells,
    it is no older than our first try.
    """
    sent = split(without_temp(state)).session
    untouched = found.seq == 0 and found.revision == found.created and equal(found.state.session, sent)
    date = answer.response.headers.get("Date")
    if answer.tries == 1 or not untouched or date is None:
        return False
    return parsedate_to_datetime(date).timestamp() - found.created <= seconds + _CLOCK_SECONDS


def _session(names: Names, found: _Session) -> Session:
    state = Scoped(app=found.state.app, user=found.state.user, session=found.state.session)
    return session_of(
        *names,
        state.merged(),
        Seen(found.created, found.revision, found.seq),
        [event_of(each.event, each.id, each.invocation_id, each.timestamp) for each in found.events],
    )
