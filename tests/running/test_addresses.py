"""Agents that a server at an address runs: a real one of google-adk's, and ones that do what they shouldn't."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sessions_app import broadcast
from sessions_app.access import at_rest
from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.checks import mask_rules
from sessions_app.domain.errors import AgentError, Invalid, NotAllowed
from sessions_app.domain.session_ref import SessionRef
from sessions_app.jobs import runner
from sessions_app.models import AgentAddress, AuditRow, Job
from sessions_app.running import answers, client, runs, servers
from sessions_app.running.session_uris import session_uri
from sessions_app.sources import agents as known_agents
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.running.serving import api_server
from tests.running.test_answers import YES, asking, ended, made, paid, rows
from tests.support.at_work import until

SECRET = "Bearer 7f3a-very-secret"
BOTH = pytest.mark.parametrize(
    ("own", "source"),
    [("sqlite",) * 2, pytest.param("postgresql", "postgresql", marks=pytest.mark.long)],
    indirect=True,
)


@pytest.fixture
def source(
    request: pytest.FixtureRequest,
    own: str,
    settings: Any,
    new_store: Callable[[str], str],
    open_source: Callable[[str], str],
) -> str:
    """A source whose agents adkweb can't start itself."""
    settings.AGENTS, settings.RUN_AGENTS, settings.AGENT_HOSTS = {}, None, ["127.0.0.1"]
    return open_source(new_store(getattr(request, "param", "sqlite")))


def at(source: str, url: str, header: str = "", value: str = "") -> None:
    servers.set_address(source, "helper", url=url, header=header, value=value, actor=SYSTEM)


@pytest.mark.guarantee(
    "Agents", "A run at an address is sent only to a server that uses the database that adkweb shows."
)
@BOTH
def test_a_server_at_an_address_is_written_to_answered_and_stopped(
    source: str, agents: Path, new_store: Callable[[str], str], open_source: Callable[[str], str]
) -> None:
    with api_server(agents, session_uri(source) or "") as url:
        assert known_agents.why_not(source, "helper")
        at(source, url)
        assert known_agents.why_not(source, "helper") == ""
        ref, event, call = asking(source)
        assert ended(answers.answer(ref, event, {call: YES}, actor=SYSTEM)).message == ""
        assert paid(ref) == 1
        reached = servers.test(source, "helper", actor=SYSTEM)
        assert (reached.has_app, reached.loads, reached.same, reached.is_old) == (True, True, True, False)
        assert re.fullmatch(r"2\.\d+\.\d+.*", reached.version)

        paused = create_session(source, "helper", "ana", session_id="s2", state={"seconds": 30}, actor=SYSTEM)
        job = runs.say(paused, "pause", actor=SYSTEM)
        until(lambda: any(row.description.calls for row in rows(paused)), "the agent's call")
        assert servers.facts(source, ["helper"], actor=SYSTEM)[0].runs == 1
        runs.stop(paused, actor=SYSTEM)
        assert ended(job).message == "Stopped by adkweb."
        assert rows(paused)[-1].data["error_code"] == "INVOCATION_ABORTED"

        other = open_source(new_store("sqlite"))
        at(other, url)
        same = create_session(other, "helper", "ana", session_id="s1", actor=SYSTEM)
        append_event(same, {"author": "user"}, actor=SYSTEM)
        refused = ended(runs.say(same, "look", actor=SYSTEM))
        assert "uses another database" in refused.message
        assert runs.unsent(refused) == "look"
        assert len(rows(same)) == 1
        assert servers.test(other, "helper", actor=SYSTEM).same is False


# --- Servers that a test plays ----------------------------------------------------------------------------------------


class Played(ThreadingHTTPServer):
    """A server that answers each path with a status and a body; it notes what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: dict[str, tuple[int, Any]] = {"/list-apps": (200, ["helper"]), "/version": (200, {})}
        self.location = ""
        self.asked: list[tuple[str, dict[str, str]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Played

    def do_GET(self) -> None:
        self.server.asked.append((self.path, dict(self.headers)))
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, body = self.server.answers.get(self.path.partition("?")[0], (404, {"detail": "Session not found"}))
        self.send_response(status)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    do_POST = do_GET  # noqa: N815 - http.server's name

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def playing() -> Iterator[Played]:
    with Played() as server:
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def played(source: str) -> Iterator[Played]:
    with playing() as server:
        yield server


@pytest.fixture
def ref(source: str) -> SessionRef:
    return create_session(source, "helper", "ana", session_id="s1", actor=SYSTEM)


SAME = "/apps/helper/users/ana/sessions/s1"


@pytest.mark.guarantee(
    "Safety", "A header for an agent's server is stored encrypted, sent only there, and never shown."
)
def test_a_header_is_sent_and_kept_encrypted_and_never_told(source: str, ref: SessionRef, played: Played) -> None:
    at(source, played.url, "Authorization", SECRET)
    servers.test(source, "helper", actor=SYSTEM)
    assert played.asked
    assert {headers["Authorization"] for _path, headers in played.asked} == {SECRET}
    stored = AgentAddress.objects.get()
    assert SECRET not in str(stored.__dict__)
    assert at_rest.decrypted(stored.value, "adkweb.agent_address") == SECRET
    assert SECRET not in repr(servers.facts(source, ["helper"], actor=SYSTEM))
    assert SECRET not in repr(list(AuditRow.objects.values()))
    assert [row.act for row in AuditRow.objects.filter(act__startswith="agent-address")] == ["agent-address-set"]
    at(source, f"{played.url}/adk/", "Authorization")  # it stays, for this host
    with pytest.raises(Invalid, match="Enter the value"):
        at(source, "https://1.1.1.1", "Authorization")
    with pytest.raises(Invalid, match="Enter the value"):
        at(source, played.url, "X-Token")


def test_a_redirect_is_not_followed(source: str, ref: SessionRef, played: Played) -> None:
    with playing() as inner:
        played.answers, played.location = {"/list-apps": (302, "")}, f"{inner.url}/list-apps"
        at(source, played.url, "Authorization", SECRET)
        with pytest.raises(AgentError, match="Redirects aren't followed"):
            servers.test(source, "helper", actor=SYSTEM)
        assert inner.asked == []


@pytest.mark.parametrize("said", [SECRET, SECRET.removeprefix("Bearer ")])
def test_a_server_that_says_what_it_was_sent_tells_no_one_the_header(
    source: str, ref: SessionRef, played: Played, said: str
) -> None:
    at(source, played.url, "Authorization", SECRET)
    refusal = 401, {"detail": f"{said} isn't known to {played.url}, write to ana@example.com"}
    played.answers |= {"/list-apps": refusal, SAME: (200, {"events": []}), "/run_sse": refusal}
    mask_rules.create("*", "form", "email", actor=SYSTEM)
    with pytest.raises(AgentError, match="isn't known to http://127") as error:
        servers.test(source, "helper", actor=Actor.holding("ann", "operate", "*", account="person 1"))
    assert "ana@" not in error.value.message
    for message in (error.value.message, ended(runs.say(ref, "look", actor=SYSTEM)).message):
        assert said not in message


def test_a_server_that_answers_a_byte_at_a_time_is_left(
    source: str, ref: SessionRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drip(self: _Handler) -> None:
        with suppress(OSError):
            while True:
                self.wfile.write(b"x")
                time.sleep(0.05)

    monkeypatch.setattr(_Handler, "do_GET", drip)
    monkeypatch.setattr(client, "READ_SECONDS", 0.5)
    with playing() as slow:
        at(source, slow.url)
        began = time.monotonic()
        with pytest.raises(AgentError):
            servers.test(source, "helper", actor=SYSTEM)
        assert time.monotonic() - began < 2


@pytest.mark.parametrize(("status", "sent"), [(502, None), (504, None), (500, False), (307, False), (422, False)])
def test_what_a_proxy_says_leaves_it_unknown_whether_a_message_arrived(
    source: str, ref: SessionRef, played: Played, status: int, sent: bool | None
) -> None:
    played.answers |= {SAME: (200, {"events": []}), "/run_sse": (status, {})}
    at(source, played.url)
    job = ended(runs.say(ref, "look", actor=SYSTEM))
    assert (job.state, json.loads(job.result)["sent"]) == ("stopped", sent)
    assert [path for path, _headers in played.asked] == [SAME, "/run_sse"]


@pytest.mark.parametrize(
    "there", [(404, {}), (200, {"events": []}), (200, {"events": [{"id": "e0"}]}), (200, []), (200, {"events": [1]})]
)
def test_a_session_that_differs_there_is_not_written_to(
    source: str, ref: SessionRef, played: Played, there: tuple[int, Any]
) -> None:
    append_event(ref, {"id": "e1", "author": "user"}, actor=SYSTEM)
    played.answers[SAME] = there
    at(source, played.url)
    job = ended(runs.say(ref, "look", actor=SYSTEM))
    assert (job.state, json.loads(job.result or "{}").get("sent", False)) == ("stopped", False)
    assert [path for path, _headers in played.asked] == [SAME]


def test_pages_are_told_of_the_end_once_it_is_noted_also_if_nothing_was_sent(
    source: str, ref: SessionRef, played: Played
) -> None:
    states: list[str] = []

    def listen(move: broadcast.Move) -> None:
        if move.what == "queued":
            states.append(Job.objects.get(kind="run").state)

    append_event(ref, {"id": "e1", "author": "user"}, actor=SYSTEM)
    played.answers[SAME] = (404, {})
    at(source, played.url)
    broadcast.listen(listen)
    try:
        runs.say(ref, "look", actor=SYSTEM)
        until(lambda: states[-1:] == ["stopped"], "the last time that pages look")
    finally:
        broadcast.stop_listening(listen)


def test_another_s_newer_event_there_is_another_database(source: str, ref: SessionRef, played: Played) -> None:
    append_event(ref, {"id": "e1", "author": "user"}, actor=SYSTEM)
    played.answers[SAME] = (200, {"events": [{"id": "e1"}, {"id": "e2"}]})
    at(source, played.url)
    assert "uses another database" in ended(runs.say(ref, "look", actor=SYSTEM)).message


def test_a_message_to_an_address_may_have_arrived_although_its_adkweb_died(
    source: str, ref: SessionRef, played: Played
) -> None:
    at(source, played.url)
    job = made(ref, [{"text": "look"}])
    Job.objects.filter(pk=job.pk).update(step=runs.SENT)
    runner.start(Job.objects.get(pk=job.pk))
    assert json.loads(ended(job).result)["sent"] is None
    assert played.asked == []


# --- Which addresses, and who says so ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        *("http://127.0.0.1:8000", "https://10.0.0.4", "https://localhost", "http://1.1.1.1", "ftp://1.1.1.1"),
        *("https://1.1.1.1/?key=x", "https://1.1.1.1/#a", "https://a:b@1.1.1.1", "https://169.254.169.254", "", "x"),
    ],
)
def test_an_address_that_is_not_public_is_refused_unless_the_setting_lists_it(
    source: str, settings: Any, url: str
) -> None:
    settings.AGENT_HOSTS = []
    with pytest.raises(Invalid) as refused:
        at(source, url)
    assert refused.value.detail["field"] == "url"
    assert not AgentAddress.objects.exists()


def test_an_address_that_the_setting_no_longer_lists_gets_nothing(
    source: str, ref: SessionRef, played: Played, settings: Any
) -> None:
    at(source, played.url)
    settings.AGENT_HOSTS = []
    job = ended(runs.say(ref, "look", actor=SYSTEM))
    assert "ADKWEB_AGENT_HOSTS" in job.message
    assert played.asked == []


@pytest.mark.parametrize(
    ("header", "value"),
    [
        *(("Host", "x"), ("content-length", "0"), ("Transfer-Encoding", "x"), ("a b", "x"), ("a:b", "x")),
        *(("X", "a\r\nb"), ("X", "ü"), ("X", ""), ("", "x"), ("X\n", "\0")),
    ],
)
def test_a_header_that_would_change_a_request_is_refused(source: str, header: str, value: str) -> None:
    with pytest.raises(Invalid):
        at(source, "https://1.1.1.1", header, value)


@pytest.mark.guarantee("Safety", "Only an admin of all sources and apps says at which address an agent runs.")
def test_only_an_admin_of_everything_says_so(source: str, ref: SessionRef) -> None:
    for actor in (Actor.holding("ana", "admin", "helper", account="person 1"), Actor.holding("eve", "append")):
        with pytest.raises(NotAllowed):
            servers.set_address(source, "helper", url="https://1.1.1.1", header="", value="", actor=actor)
        with pytest.raises(NotAllowed):
            servers.remove_address(source, "helper", actor=actor)


def test_the_address_wins_over_the_folder_and_goes_with_one_act(source: str, agents: Path, settings: Any) -> None:
    settings.AGENTS, settings.RUN_AGENTS = {source: str(agents)}, True
    at(source, "https://1.1.1.1/adk/")
    assert [(each.how, each.host, each.url) for each in servers.facts(source, ["helper"], actor=SYSTEM)] == [
        ("address", "1.1.1.1", "https://1.1.1.1/adk")
    ]
    servers.remove_address(source, "helper", actor=SYSTEM)
    assert [each.how for each in servers.facts(source, ["helper"], actor=SYSTEM)] == ["here"]
    acts = [row.act for row in AuditRow.objects.filter(act__startswith="agent-address").order_by("pk")]
    assert acts == ["agent-address-set", "agent-address-removed"]


# --- What a child prints ----------------------------------------------------------------------------------------------


@pytest.mark.guarantee(
    "Agents", "What agents print is for operators of all apps of their folder, and passes the masks."
)
def test_what_agents_print_is_masked_and_for_operators_of_all_apps(
    source: str, ref: SessionRef, tmp_path: Path, settings: Any
) -> None:
    for name in ("helper", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("from . import agent")
        (tmp_path / name / "agent.py").write_text(
            "raise ImportError('no model for ' + 'sk-ant-' + 'api03-' + 'x' * 93)"
        )
    settings.AGENTS, settings.RUN_AGENTS = {source: str(tmp_path)}, True
    mask_rules.create("other", "form", "service", actor=SYSTEM)
    ann = Actor.holding("ann", "operate", "*", account="person 1")
    one = Actor.holding("one", "operate", "helper", account="person 2")
    reached = servers.test(source, "helper", actor=one)
    assert not reached.loads
    assert "no model for" in reached.broken
    assert "xxxxx" not in reached.broken
    shown = "\n".join(servers.output(source, "helper", actor=ann))
    assert "Traceback" in shown
    assert "xxxxx" not in shown
    with pytest.raises(NotAllowed):
        servers.output(source, "helper", actor=one)
    assert [each.operates_all for each in servers.facts(source, ["helper"], actor=one)] == [False]
    assert servers.facts(source, ["helper"], actor=ann)[0].since
    with pytest.raises(NotAllowed):
        servers.stop(source, "helper", actor=one)
    servers.stop(source, "helper", actor=ann)
    assert servers.facts(source, ["helper"], actor=ann)[0].since is None
    (viewed,) = servers.facts(source, ["helper"], actor=Actor.holding("vi", "read", account="person 3"))
    assert (viewed.folder, viewed.python, viewed.how) == ("", "", "here")
