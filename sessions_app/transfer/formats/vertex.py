"""Reads `vertex`: sessions of Vertex AI Agent Engine, with google-adk's own VertexAiSessionService (extra `vertex`).

An address is ADK's URI with the name of the app, which the service does not keep:
agentengine://projects/P/locations/L/reasoningEngines/ID?app=NAME. Without a name, the app is called ID. The credentials
are Google's Application Default Credentials. Each session there has its own copy of the `app:` and `user:` keys; the
values in the session that was updated last are used. The service returns whole sessions, so the largest one has to fit
into memory. It does not say when a session was created, so the time of its first event is used.
"""

import asyncio
import re
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import parse_qs, urlsplit

from ...domain.errors import Invalid, SourceError
from ...domain.event import ID_LENGTH, INVOCATION_ID_LENGTH
from ...domain.json_values import check_name
from ...domain.state import Scoped, split
from ..items import EventItem, Fault, Item, Reader, SessionItem, StateItem, canonical, event_item, microseconds
from .layouts import Json

if TYPE_CHECKING:
    from google.adk.sessions import Session, VertexAiSessionService

T = TypeVar("T")

_ADDRESS: Final = re.compile(r"projects/([\w:.-]+)/locations/([\w-]+)/reasoningEngines/(\d+)/?")


@contextmanager
def read(address: str, strict: bool) -> Iterator[Reader]:
    """Opens an engine for reading.

    Raises Fault for an invalid address. Reading raises SourceError if no one answers.
    """
    parts = urlsplit(address)
    match = _ADDRESS.fullmatch(parts.netloc + parts.path)
    options = parse_qs(parts.query)
    if parts.scheme != "agentengine" or not match or options.keys() - {"app"}:
        raise Fault("an address is agentengine://projects/P/locations/L/reasoningEngines/ID?app=NAME", place="")
    service = _service(*match.groups())
    with asyncio.Runner() as runner:
        yield _Sessions(service, runner, options.get("app", [match[3]])[0], strict)


def _service(project: str, location: str, engine: str) -> "VertexAiSessionService":
    try:
        from google.adk.sessions import VertexAiSessionService

        return VertexAiSessionService(project, location, engine)
    except ImportError as error:
        raise Fault('Vertex AI is read with google-adk: pip install "adkweb[vertex]"', place="") from error


class _Sessions:
    """Reads the items of an engine. Raises SourceError, and Fault, which names the session and event."""

    def __init__(self, service: "VertexAiSessionService", runner: asyncio.Runner, app: str, strict: bool) -> None:
        self.done = self.total = 0  # in sessions: the number of events is not known
        self.where, self.secrets = "", True
        self._service, self._runner, self._json = service, runner, Json(strict)
        self._app = check_name(app, "app", ID_LENGTH)

    def __iter__(self) -> Iterator[Item]:
        """Reads from the start, once."""
        try:
            # The most recently updated session comes last.
            listed = self._wait(self._service.list_sessions(app_name=self._app)).sessions
            self.total = len(listed)
            yield from self._states(listed)
            for user, session in sorted((each.user_id, each.id) for each in listed):
                self.where = f"{self._app}/{user}/{session}"
                whole = self._wait(self._service.get_session(app_name=self._app, user_id=user, session_id=session))
                if whole is not None:  # otherwise it was deleted in the meantime
                    yield from self._session(whole)
                self.done += 1
        except Invalid as error:
            raise Fault(error.message, place=self.where) from error

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self._runner.run(work)
        except Exception as error:  # the errors of Google's libraries have no class in common
            raise SourceError(f"Vertex AI does not answer as it should: {str(error)[:500]}") from error

    def _states(self, listed: Iterable["Session"]) -> Iterator[StateItem]:
        states: dict[str | None, tuple[dict[str, Any], float]] = {}
        for session in listed:
            self.where = f"{self._app}/{session.user_id}/{session.id}"
            scoped = self._scoped(session)
            for user, state in ((None, scoped.app), (session.user_id, scoped.user)):
                if state:
                    kept = states[user][0] if user in states else {}
                    states[user] = kept | state, microseconds(session.last_update_time)
        for user in sorted(states, key=lambda user: (user is not None, user or "")):
            yield StateItem(self._app, user, *states[user])

    def _session(self, session: "Session") -> Iterator[Item]:
        updated = microseconds(session.last_update_time)
        created = microseconds(min([updated, *(event.timestamp for event in session.events[:1])]))
        names = check_name(session.user_id, "user", ID_LENGTH), check_name(session.id, "session", ID_LENGTH)
        state = canonical(self._scoped(session).session)
        yield SessionItem(self._app, *names, created, updated, state, None, len(session.events))
        for event in session.events:
            self.where = f"{self._app}/{session.user_id}/{session.id}, event {event.id}"
            data = event.model_dump(mode="json", exclude_none=True)
            if isinstance(waiting := data.get("long_running_tool_ids"), list):
                waiting.sort()  # it comes from a set, in any order
            yield self._event(self._json.again(data, "the event"))

    def _event(self, data: dict[str, Any]) -> EventItem:
        event_id = check_name(data["id"], "id", ID_LENGTH)
        return event_item(
            data, event_id, check_name(data["invocation_id"], "invocation_id", INVOCATION_ID_LENGTH), None
        )

    def _scoped(self, session: "Session") -> Scoped:
        return split(self._json.again(session.state, "state"))
