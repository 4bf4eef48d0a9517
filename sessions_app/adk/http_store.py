"""Keeps sessions in a remote adkweb, over its REST API. It needs neither Django's settings nor a database driver."""

import time
from typing import Any, Final
from urllib.parse import quote

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.sessions import Session

from ..domain.event import ID_LENGTH
from ..domain.state import Scoped, State
from ..http.names import Name
from .base import Head, Names, Written
from .conversion import Seen, already_exists, not_found, possible, session_of, stale
from .http_answers import AppendedAnswer, HeadAnswer, PageAnswer, SessionAnswer, is_ours, session_from
from .http_client import Client, sentence_of

_LATEST: Final = 2**32 - 1  # no timestamp is later


class Remote:
    """The `Backend` that keeps sessions in a remote adkweb.

    Raises ADK's errors, PermissionError for anything that the token may not do, and ConnectionError, which names the
    address.
    """

    def __init__(self, url: str, token: str, source: str | None) -> None:
        self._client = Client(url, token, source)

    async def create(self, names: Names, state: State) -> Session:
        """Creates a session and loads it with the state of its user and app."""

        def work() -> Session:
            began = time.monotonic()
            body = {"session_id": names.session_id, "state": state}
            answer = self._client.ask("POST", f"{_user(names)}/sessions", body)
            if answer.status == 404:
                raise self._client.strange(answer)
            stored = self._load(names, newest=0)
            if answer.status == 409 and not (stored and is_ours(answer, stored, state, time.monotonic() - began)):
                raise already_exists(names.session_id)
            if stored is None:
                raise not_found(names.session_id)
            return session_from(names, stored)

        if not possible(*names):
            raise InputValidationError(
                f"A session's names have at most {ID_LENGTH} characters, no U+0000 and no halves of surrogate pairs: "
                f"{names!r:.600}"
            )
        return await self._client.do(work)

    async def load(
        self, names: Names, *, newest: int | None = None, since: float | None = None, after: int | None = None
    ) -> Session | None:
        """Loads a session."""

        def work() -> Session | None:
            stored = self._load(
                names,
                newest=None if newest is None else min(newest, 2**31),
                since=None if since is None else min(max(since, 0.0), _LATEST),
                after=after,
            )
            return None if stored is None else session_from(names, stored)

        return await self._client.do(work) if possible(*names) else None

    async def load_all(self, app_name: str, user_id: str | None) -> list[Session]:
        """Loads sessions without events, page by page."""

        def work() -> list[Session]:
            sessions: dict[tuple[str, str], Session] = {}
            following: str | None = None
            while True:
                address = f"/apps/{_segment(app_name)}/sessions/states"
                answer = self._client.ask("GET", address, user=user_id, after=following)
                if answer.status == 404:  # no source has this app
                    return []
                page = answer.as_(PageAnswer)
                for item in page.items:
                    sessions.pop((item.user_id, item.id), None)  # also on an earlier page: updated in the meantime
                    state = Scoped(session=item.state, app=page.app, user=page.users.get(item.user_id, {}))
                    sessions[item.user_id, item.id] = session_of(
                        app_name, item.user_id, item.id, state.merged(), Seen(item.created, item.revision, None)
                    )
                following = page.next
                if following is None:
                    return list(sessions.values())

        return await self._client.do(work) if possible(app_name, user_id or "") else []

    async def delete(self, names: Names) -> None:
        """Deletes a session. Does nothing if there is no such session."""
        if possible(*names):
            await self._client.do(lambda: self._client.ask("DELETE", _address(names)))

    async def user_state(self, app_name: str, user_id: str) -> State:
        """Returns a user's state, or {} if there is none."""

        def work() -> State:
            answer = self._client.ask("GET", f"{_user(Names(app_name, user_id, ''))}/state")
            state: State = {} if answer.status == 404 else answer.response.json()
            return state

        return await self._client.do(work) if possible(app_name, user_id) else {}

    async def head(self, names: Names, event_id: str) -> Head | None:
        """Returns the head of a session, with the seq of one of its events."""

        def work() -> Head | None:
            answer = self._client.ask("GET", f"{_address(names)}/standing", event=event_id)
            if answer.status == 404:
                return None
            head = answer.as_(HeadAnswer)
            return Head(head.created, head.revision, head.newest, head.seq)

        return await self._client.do(work) if possible(*names, event_id) else None

    async def append(self, names: Names, event: dict[str, Any], revision: float | None) -> Written | None:
        """Appends an event. Returns None if it is already there, sent by an earlier try whose answer was lost."""

        def work() -> Written | None:
            expected = {} if revision is None else {"If-Match": f'"{revision!r}"'}
            answer = self._client.ask("POST", f"{_address(names)}/events", event, expected)
            if answer.status == 404:
                raise not_found(names.session_id)
            if answer.status == 412:
                raise stale()
            if answer.status == 409:
                raise AlreadyExistsError(sentence_of(answer.response))
            appended = answer.as_(AppendedAnswer)
            if answer.status == 200 or appended.seq is None or appended.revision is None:
                return None
            return Written(appended.seq, appended.revision)

        return await self._client.do(work)

    async def close(self) -> None:
        """Waits until all work is done and closes the connections."""
        await self._client.close()

    def _load(self, names: Names, **part: Any) -> SessionAnswer | None:
        answer = self._client.ask("GET", _address(names), **part)
        return None if answer.status == 404 else answer.as_(SessionAnswer)


# --- Addresses --------------------------------------------------------------------------------------------------------

_name: Final = Name()


def _segment(name: str) -> str:
    return quote(_name.to_url(name), safe="")


def _user(names: Names) -> str:
    return f"/apps/{_segment(names.app_name)}/users/{_segment(names.user_id)}"


def _address(names: Names) -> str:
    return f"{_user(names)}/sessions/{_segment(names.session_id)}"
