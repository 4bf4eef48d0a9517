"""google-adk's VertexAiSessionService itself, with Google's own client, against a stand-in for the HTTP side."""

from __future__ import annotations

import functools
import gc
import io
import json
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from django.core.management import call_command
from google.adk.events import Event, EventActions
from google.adk.sessions import VertexAiSessionService
from google.genai import types

from sessions_app.domain.errors import SourceError
from sessions_app.transfer import import_job
from sessions_app.transfer.formats import vertex
from sessions_app.transfer.items import EventItem, Fault, SessionItem
from tests.support.stored import counts
from tests.transfer.places import bring, events, items, opened, states

# Google's client warns about itself.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:agentplatform.*")

ENGINE = "projects/my-project/locations/us-central1/reasoningEngines/123"
PLACE = f"agentengine://{ENGINE}?app=booking"
KEY = functools.cache(lambda: rsa.generate_private_key(65537, 2048))


def session(name: str, user: str, seconds: int, state: dict[str, Any]) -> dict[str, Any]:
    at = {"createTime": "2026-01-02T03:04:00Z", "updateTime": f"2026-01-02T03:05:{seconds:02}.123456Z"}
    return {"name": f"{ENGINE}/sessions/{name}", "userId": user, "sessionState": state, **at}


def event(number: int, **other: Any) -> dict[str, Any]:
    """As the service keeps one: fields of its own, and all of ADK's in rawEvent."""
    found = Event(
        id=f"e{number}",
        invocation_id="i",
        author="agent",
        content=types.Content(
            role="model",
            parts=[types.Part(function_call=types.FunctionCall(id="c1", name="book", args={"seatNo": {"a": None}}))],
        ),
        actions=EventActions(state_delta={"n": number, "app:planName": "pro"}),
        long_running_tool_ids={f"c{n}" for n in range(9)},
        custom_metadata={"twoWords": "안녕 👍"},
        output={"x": 1},
        **other,
    )
    return {
        "name": f"{ENGINE}/sessions/s1/events/{number}00",
        "author": "agent",
        "invocationId": "i",
        "timestamp": f"2026-01-02T03:04:0{number}.123456Z",
        "rawEvent": found.model_dump(mode="json", by_alias=True, exclude_none=True),
    }


def old_event() -> dict[str, Any]:
    """One from before rawEvent."""
    return {
        "name": f"{ENGINE}/sessions/s1/events/77",
        "author": "user",
        "invocationId": "i",
        "timestamp": "2026-01-02T03:04:00.500Z",
        "content": {"role": "user", "parts": [{"text": "안녕"}]},
        "actions": {"stateDelta": {"twoWords": 1}, "transferAgent": "other"},
        "eventMetadata": {"turnComplete": True, "branch": "a.b"},
    }


class Service(ThreadingHTTPServer):
    """The paths that are read; a page has one thing."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.sessions = [
            session("s1", "ana", 3, {"n": 2, "app:plan": "old", "user:lang": "ko", "temp:x": 1}),
            session("s2", "ana", 9, {"app:plan": "new", "app:more": [1], "user:lang": None}),
            session("s9", "Ána", 1, {}),
        ]
        self.events: list[dict[str, Any]] = [old_event(), event(1), event(2)]
        self.asked: list[str] = []
        self.fail = ""  # the end of a path, for which the service answers with an error

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        assert self.path == "/token"
        self._answer({"access_token": "t", "expires_in": 3600, "token_type": "Bearer"})

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        service, path = self.server, parts.path.partition(f"/{ENGINE}/sessions")[2]
        service.asked.append(self.path)
        assert self.headers["Authorization"] == "Bearer t"
        page = int(parse_qs(parts.query).get("pageToken", ["0"])[0])
        if service.fail and path.endswith(service.fail):
            self._answer({"error": {"code": 400, "message": "no such luck", "status": "INVALID"}}, 400)
        elif not path:
            self._page("sessions", service.sessions, page)
        elif path.endswith("/events"):
            self._page("sessionEvents", service.events if path == "/s1/events" else [], page)
        else:
            (found,) = (each for each in service.sessions if each["name"].endswith(f"/sessions{path}"))
            self._answer(found)

    def _page(self, name: str, things: list[dict[str, Any]], page: int) -> None:
        more = {"nextPageToken": str(page + 1)} if page + 1 < len(things) else {}
        self._answer({name: things[page : page + 1], **more})

    def _answer(self, found: dict[str, Any], code: int = 200) -> None:
        text = json.dumps(found).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *args: Any) -> None: ...


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """The stand-in, to which Google's client comes with credentials of its own making."""
    with Service() as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()  # looks so often for the end
        account = {
            "type": "service_account",
            "client_email": "a@example.com",
            "project_id": "my-project",
            "private_key": KEY().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
            "token_uri": f"{server.url}/token",
        }
        (tmp_path / "account.json").write_text(json.dumps(account))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))
        # Where ADK lets a subclass say how Google's client speaks: here only with whom.
        options = types.HttpOptions(base_url=server.url)
        monkeypatch.setattr(VertexAiSessionService, "_api_client_http_options_override", lambda _self: options)
        yield server
        server.shutdown()
    # Google's client leaves its connections to whoever collects it, and ADK never closes it: here, and not in another test.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def test_sessions_events_and_states_are_those_of_the_service(service: Service) -> None:
    found = items(PLACE, "vertex")
    assert any(f"/{ENGINE}/sessions/s1/events" in path for path in service.asked)
    assert states(found) == {
        "booking": {"plan": "new", "more": [1]},
        "booking/ana": {"lang": None},
        "booking/Ána/s9": {},
        "booking/ana/s1": {"n": 2},
        "booking/ana/s2": {},
    }
    old, first, second = events(found)
    assert [item.id for item in found if isinstance(item, EventItem)] == ["77", "e1", "e2"]
    assert (old["actions"]["state_delta"], old["actions"]["transfer_to_agent"]) == ({"twoWords": 1}, "other")
    assert (old["branch"], old["turn_complete"], old["content"]["parts"]) == ("a.b", True, [{"text": "안녕"}])
    assert first["timestamp"] == 1767323041.123456
    assert first["long_running_tool_ids"] == [f"c{n}" for n in range(9)]
    assert first["custom_metadata"] == {"twoWords": "안녕 👍"}
    assert first["content"]["parts"][0]["function_call"]["args"] == {"seatNo": {"a": None}}
    assert (second["output"], second["actions"]["state_delta"]) == ({"x": 1}, {"n": 2, "app:planName": "pro"})
    heads = [item for item in found if isinstance(item, SessionItem)]
    assert [(head.session, head.events, head.initial_state) for head in heads] == [
        ("s1", 3, None),
        ("s2", 0, None),
        ("s9", 0, None),
    ]
    assert (heads[0].created, heads[0].updated) == (1767323040.5, 1767323103.123456)


def test_it_enters_a_store_once(
    service: Service, form: str, new_database: Callable[[str], str], open_source: Callable[..., str]
) -> None:
    source = open_source(new_database(form), form)
    report = bring(PLACE, "vertex", source)
    assert (report.new, report.events, report.states_made) == (3, 3, 2)
    assert bring(PLACE, "vertex", source).same == 3


def test_without_an_app_in_the_place_it_is_called_as_the_engine(service: Service) -> None:
    with opened(f"agentengine://{ENGINE}", "vertex")() as reader:
        assert {item.app for item in reader if isinstance(item, SessionItem)} == {"123"}


@pytest.mark.parametrize("path", ["", "/s1", "/s1/events"])
def test_what_the_service_says_is_told_and_nothing_enters(
    service: Service, new_database: Callable[[str], str], open_source: Callable[..., str], path: str
) -> None:
    service.fail = path
    if not path:
        service.sessions[0]["updateTime"] = "soon"
    source = open_source(new_database("sqlite"))
    with pytest.raises(SourceError, match="Vertex AI does not answer as it should"):
        import_job.check(opened(PLACE, "vertex"))
    assert counts(source)["sessions"] == 0


def test_a_fault_names_the_session_and_the_event(service: Service) -> None:
    service.events[1]["rawEvent"]["id"] = "x" * 129
    with pytest.raises(Fault, match="id has 129 characters") as raised:
        items(PLACE, "vertex")
    assert raised.value.detail["place"] == f"booking/ana/s1, event {'x' * 129}"


@pytest.mark.parametrize(
    "place",
    [
        "agentengine://123",
        "agentengine://projects/p/locations/l/reasoningEngines/x",
        "agentengine://projects/p/locations/l/reasoningEngines/../1",
        f"agentengine://{ENGINE}?ap=x",
    ],
)
def test_a_place_that_is_none_is_refused(place: str) -> None:
    with pytest.raises(Fault, match="an address is agentengine://"), vertex.read(place, False):
        pass


def test_without_its_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "google.adk.dependencies._agentplatform", raising=False)
    monkeypatch.setitem(sys.modules, "agentplatform", None)
    with pytest.raises(Fault, match=r'pip install "adkweb\[vertex\]"'), vertex.read(PLACE, False):
        pass


def test_the_command_brings_it(service: Service, new_database: Callable[[str], str], open_source: object) -> None:
    told = io.StringIO()
    call_command("import", PLACE, into=new_database("sqlite"), stdout=told)
    assert "3 │ new sessions imported" in told.getvalue()
