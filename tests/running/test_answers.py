"""What someone answers reaches the agent once: real agents in their own process, on SQLite and PostgreSQL."""

from __future__ import annotations

import json
import socket
import threading
import time
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from django.db import connection, connections

from sessions_app import broadcast
from sessions_app.access import approval, roles
from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.errors import AgentError, Conflict, Held, Invalid, NotAllowed, NotFound, SourceError
from sessions_app.domain.session_ref import SessionRef, digest_of
from sessions_app.edits import proposal_job, proposals
from sessions_app.edits.rewind import rewind
from sessions_app.jobs import runner
from sessions_app.models import Answer, AuditRow, Job
from sessions_app.reads import timeline
from sessions_app.running import answers, children, proposed, runs, servers
from sessions_app.running.answers import Given
from sessions_app.running.client import Server, Stream
from sessions_app.running.questions import asked_by
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session, delete_session
from tests.running.asking import Asking
from tests.support.at_work import until
from tests.support.people import somebody

BOTH = pytest.mark.parametrize(("own", "source"), [("sqlite",) * 2, ("postgresql",) * 2], indirect=True)
YES, NO = Given(confirmed=True), Given(confirmed=False)


def made(ref: SessionRef, parts: list[dict[str, Any]]) -> Job:
    return runs.make(ref, parts, runs.newest(ref, actor=SYSTEM), actor=SYSTEM)


def say(ref: SessionRef, tools: str) -> Job:
    """Has the agent call these tools, and returns when it has."""
    job = made(ref, [{"text": tools}])
    runner.start(job)
    return ended(job)


def ended(job: Job) -> Job:
    done: Job = until(lambda: Job.objects.filter(pk=job.pk).exclude(state="waiting").first())
    return done


def claims() -> list[str]:
    """Returns what has come of all answers, once their runs have closed them: a moment after they end."""
    until(lambda: not Answer.objects.filter(state="open").exists(), "the end of all claims")
    return list(Answer.objects.order_by("pk").values_list("state", flat=True))


def at(server: socket.socket, *, is_running: bool = True) -> Any:
    """A server that a test plays itself."""
    port = server.getsockname()[1]

    def connect(seconds: float) -> HTTPConnection:
        connection = HTTPConnection("127.0.0.1", port, timeout=seconds)
        connection.connect()
        return connection

    return SimpleNamespace(
        url=f"http://127.0.0.1:{port}",
        headers={},
        is_remote=False,
        is_running=is_running,
        connect=connect,
    )


def asking(source: str, name: str = "s1") -> tuple[SessionRef, str, str]:
    """A session whose agent asks whether it may pay: the session, and the ids of the event and of the call."""
    ref = create_session(source, "helper", "ana", session_id=name, actor=SYSTEM)
    assert say(ref, "pay").message == ""
    (event,) = [each for each in rows(ref) if any(call.name.startswith("adk_") for call in each.description.calls)]
    return ref, event.id, event.description.calls[-1].id


def rows(ref: SessionRef) -> list[Any]:
    return timeline.events(ref, limit=200, actor=SYSTEM).rows


def paid(ref: SessionRef) -> int:
    """How often the tool has run."""
    parts = [part for row in rows(ref) for part in row.description.responses if part.name == "pay"]
    return sum(part.value == {"result": "paid"} for part in parts)


@BOTH
def test_an_approval_reaches_the_agent_and_the_run_says_whose_it_was(source: str) -> None:
    # assistant-ui#5816, #5901: “Allow” wrote a text as the result of the tool, which never ran.
    ref, event, call = asking(source)
    job = ended(answers.answer(ref, event, {call: YES}, actor=SYSTEM))
    assert (job.state, job.message, paid(ref)) == ("done", "", 1)
    assert rows(ref)[-1].description.parts[0].value == "Done."
    assert {row.data["custom_metadata"][runs.NOTE] for row in rows(ref)[-3:]} == {job.pk.hex}
    assert claims() == ["sent"]
    assert [(each.by, json.loads(each.response)["functionResponse"]) for each in Answer.objects.all()] == [
        ("adkweb", {"id": call, "name": "adk_request_confirmation", "response": {"confirmed": True}})
    ]
    assert [runs.sender(each) for each in rows(ref)[-3:]] == ["adkweb"] * 3
    other = create_session(source, "helper", "eve", session_id="s1", actor=SYSTEM)
    with pytest.raises(Invalid, match="no such run in this session"):
        append_event(other, {"author": "user", "custom_metadata": {runs.NOTE: job.pk.hex}}, actor=SYSTEM)
    assert runs.sender(replace(rows(ref)[-1], ref=other)) == ""  # as a copy has it
    assert runs.sender(replace(rows(ref)[-1], data={"custom_metadata": ["of another program"]})) == ""
    assert "call-answered" in [row.act for row in AuditRow.objects.all()]


def test_a_declined_call_does_not_run(source: str) -> None:
    ref, event, call = asking(source)
    assert ended(answers.answer(ref, event, {call: NO}, actor=SYSTEM)).state == "done"
    assert paid(ref) == 0
    with pytest.raises(Conflict, match="adkweb has declined this already"):
        answers.answer(ref, event, {call: YES}, actor=SYSTEM)


@pytest.mark.guarantee("Agents", "An answer is sent once, however many people answer at the same moment.")
@BOTH
def test_of_two_who_answer_at_once_one_answer_is_sent(source: str) -> None:
    ref, event, call = asking(source)
    jobs: list[Job] = []
    refused: list[str] = []

    def answer() -> None:
        try:
            jobs.append(answers.answer(ref, event, {call: YES}, actor=SYSTEM))
        except Conflict as error:
            refused.append(error.message)
        finally:
            connections.close_all()

    people = [threading.Thread(target=answer) for _ in range(6)]
    for person in people:
        person.start()
    for person in people:
        person.join()
    assert (len(jobs), len(refused)) == (1, 5)
    assert ended(jobs[0]).state == "done"
    assert paid(ref) == 1


def test_an_invocation_that_waits_for_an_answer_is_not_continued_without_one(source: str) -> None:
    ref, event, call = asking(source)
    with pytest.raises(Conflict, match="nothing to continue"):
        runs.go_on(ref, actor=SYSTEM)
    assert ended(answers.answer(ref, event, {call: YES}, actor=SYSTEM)).message == ""
    assert timeline.status_of(ref, actor=SYSTEM).unfinished is None


def test_an_answer_after_a_rewind_is_not_sent(source: str) -> None:
    ref, event, call = asking(source)
    rewind(ref, rows(ref)[0].data["invocation_id"], actor=SYSTEM, reason="again")
    with pytest.raises(Conflict, match="doesn't wait for an answer any longer"):
        answers.answer(ref, event, {call: YES}, actor=SYSTEM)
    assert not Answer.objects.exists()


def test_all_questions_of_an_event_are_answered_together(source: str) -> None:
    ref, event, _call = asking(source)
    with pytest.raises(Invalid, match="Answer all of them"):
        answers.answer(ref, event, {}, actor=SYSTEM)


@pytest.mark.guarantee("Agents", "Where a rule names its tool, a call is answered by two people, or not at all.")
def test_an_answer_to_a_tool_of_a_rule_waits_for_a_second_person(source: str) -> None:
    ref, event, call = asking(source)
    approval.make(by=SYSTEM, tools="pa*", apps="helper")
    ria, ben, eve = (
        roles.actor_of(somebody(*each)) for each in (("ria", "operator"), ("ben", "operator"), ("eve", "viewer"))
    )
    with pytest.raises(Held, match="pay: an answer needs a second person") as held:
        answers.answer(ref, event, {call: YES}, actor=ria)
    number = held.value.detail["proposal"]
    with pytest.raises(Conflict, match="ria has proposed an answer to this already"):
        answers.answer(ref, event, {call: YES}, actor=ben)
    for nobody in (ria, eve):
        with pytest.raises(NotAllowed):
            proposed.apply(number, actor=nobody)
    (waiting,) = proposals.sent_in(ref, actor=ben)
    assert (waiting.kind, waiting.event_id, waiting.changes) == ("answer", event, [])
    assert [(each.key, each.new) for each in waiting.answers] == [("pay", {"confirmed": True})]
    assert not Answer.objects.exists()
    assert proposed.apply(number, actor=ben).decided_by == "ben"
    assert ended(runs.last(ref)).state == "done"
    assert paid(ref) == 1
    assert runs.sender(rows(ref)[-1]) == "ria, ben"
    with pytest.raises(Conflict, match="already been decided"):
        proposed.apply(number, actor=ben)


@pytest.mark.parametrize("how", ["declined", "rewound", "demoted"])
def test_a_proposed_answer_that_cannot_be_sent_any_more_is_not(source: str, how: str) -> None:
    ref, event, call = asking(source)
    approval.make(by=SYSTEM, tools="pay")
    ria, ben = (roles.actor_of(somebody(name, "operator")) for name in ("ria", "ben"))
    with pytest.raises(Held) as held:
        answers.answer(ref, event, {call: YES}, actor=ria)
    number = held.value.detail["proposal"]
    if how == "declined":
        proposal_job.decline(number, actor=ben)
    elif how == "rewound":
        rewind(ref, rows(ref)[0].data["invocation_id"], actor=SYSTEM, reason="again")
        assert "doesn't wait for an answer" in proposed.obstacles(proposals.get(number, actor=ben), actor=ben).problem
    else:
        somebody("ria", "viewer")
    with pytest.raises((Conflict, NotAllowed)):
        proposed.apply(number, actor=ben)
    assert not Answer.objects.exists()


def test_who_may_not_answer_does_not(source: str, settings: Any) -> None:
    ref, event, call = asking(source)
    with pytest.raises(NotAllowed, match="needs the “operate” permission"):
        answers.answer(ref, event, {call: YES}, actor=Actor.holding("vera", "read"))
    with pytest.raises(NotFound):
        answers.answer(ref, event, {call: YES}, actor=Actor.holding("eve", "admin", "weather"))
    settings.RUN_AGENTS = False
    with pytest.raises(AgentError, match="ADKWEB_RUN_AGENTS"):
        answers.answer(ref, event, {call: YES}, actor=SYSTEM)
    settings.READ_ONLY = True
    with pytest.raises(NotAllowed, match="--read-only"):
        answers.answer(ref, event, {call: YES}, actor=SYSTEM)
    assert paid(ref) == 0


def test_what_the_agent_says_is_heard_before_it_is_stored(source: str) -> None:
    ref = create_session(source, "helper", "ana", session_id="s3", actor=SYSTEM)
    heard: list[runs.Spoken] = []

    def listen(move: broadcast.Move) -> None:
        if move.what == "spoken":
            heard.append(runs.spoken[move.ref])

    broadcast.listen(listen)
    try:
        assert ended(runs.say(ref, "look…", actor=SYSTEM)).message == ""
    finally:
        broadcast.stop_listening(listen)
    assert [each.text for each in heard] == ["Do", "Done."]
    assert not runs.spoken
    with pytest.raises(Invalid):
        runs.say(ref, " ", actor=SYSTEM)


def test_who_is_told_that_a_run_ended_finds_that_it_has(source: str) -> None:
    ref = create_session(source, "helper", "ana", session_id="s5", actor=SYSTEM)
    seen: list[str] = []

    def listen(move: broadcast.Move) -> None:
        if move.what == "queued":
            seen.append(Job.objects.get(session_id=ref.session_id).state)

    broadcast.listen(listen)
    try:
        ended(runs.say(ref, "look", actor=SYSTEM))
        until(lambda: seen[-1:] == ["done"], "the last word of its end", 5)
    finally:
        broadcast.stop_listening(listen)


def test_nothing_is_sent_while_the_agent_runs_and_a_stopped_run_is_sealed(source: str) -> None:
    ref = create_session(source, "helper", "ana", session_id="s2", state={"seconds": 30}, actor=SYSTEM)
    job = made(ref, [{"text": "pause"}])
    runner.start(job)
    until(lambda: any(row.description.calls for row in rows(ref)), "the agent's call")
    with pytest.raises(Conflict, match=r"running|talking"):
        made(ref, [{"text": "look"}])
    began = time.monotonic()
    runs.stop(ref, actor=SYSTEM)
    job = ended(job)
    assert time.monotonic() - began < 2
    assert (job.state, job.message) == ("stopped", "Stopped by adkweb.")
    assert rows(ref)[-1].data["error_code"] == "INVOCATION_ABORTED"
    edit = {"author": "system", "actions": {"state_delta": {"seconds": 0}}}
    append_event(ref, edit, actor=SYSTEM)
    with pytest.raises(Conflict, match="nothing to continue"):  # something else is the last event
        runs.go_on(ref, actor=SYSTEM)
    assert say(ref, "look").state == "done"


def test_a_stop_that_comes_when_the_agent_is_done_stops_nothing(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ref = create_session(source, "helper", "ana", session_id="s2", state={"seconds": 0.3}, actor=SYSTEM)
    monkeypatch.setattr(Stream, "close", lambda stream: None)  # as if it were too late
    job = runs.say(ref, "pause", actor=SYSTEM)
    until(lambda: any(row.description.calls for row in rows(ref)), "the agent's call")
    runs.stop(ref, actor=SYSTEM)
    job = ended(job)
    assert (job.state, job.message) == ("done", "")


def test_a_run_that_was_stopped_continues_and_one_that_finished_does_not(source: str) -> None:
    ref = create_session(source, "helper", "ana", session_id="s2", state={"seconds": 30}, actor=SYSTEM)
    job = runs.say(ref, "pause look", actor=SYSTEM)
    until(lambda: any(row.description.calls for row in rows(ref)), "the agent's call")
    runs.stop(ref, actor=SYSTEM)
    ended(job)
    assert timeline.status_of(ref, actor=SYSTEM).name == "stopped"
    assert ended(runs.go_on(ref, actor=SYSTEM)).message == ""
    assert timeline.status_of(ref, actor=SYSTEM).name == "idle"
    assert rows(ref)[-1].description.parts[0].value == "Done."
    assert {row.invocation_id for row in rows(ref)} == {rows(ref)[0].invocation_id}
    with pytest.raises(Conflict, match="nothing to continue"):
        runs.go_on(ref, actor=SYSTEM)


def test_an_answer_whose_process_died_after_it_may_have_been_sent_is_not_sent_again(source: str) -> None:
    ref, event, call = asking(source)
    part = {"functionResponse": {"id": call, "name": "adk_request_confirmation", "response": {"confirmed": True}}}
    job = made(ref, [part])
    Job.objects.filter(pk=job.pk).update(step=runs.SENT)
    runner.start(Job.objects.get(pk=job.pk))
    job = ended(job)
    assert (job.state, json.loads(job.result)) == ("stopped", {"sent": False})
    assert rows(ref)[-1].description.author != "user"
    assert ended(answers.answer(ref, event, {call: YES}, actor=SYSTEM)).state == "done"
    assert paid(ref) == 1


def is_blocked(child: Server) -> bool:
    """Whether a child answers no one."""
    try:
        httpx.get(child.url, headers=child.headers, timeout=0.3)
    except httpx.TimeoutException:
        return True
    return False


def test_an_answer_that_a_blocked_agent_may_hear_later_may_have_been_sent(source: str) -> None:
    ref = create_session(source, "helper", "ana", session_id="s1", actor=SYSTEM)
    child = servers.of(source, "helper")
    asking = Asking(child.url, child.headers, ("ana", "blocked"))
    asking.create()
    asking.begin("block")
    until(lambda: is_blocked(child))
    job = made(ref, [{"text": "look"}])
    Job.objects.filter(pk=job.pk).update(step=runs.SENT)
    runner.start(Job.objects.get(pk=job.pk))
    assert json.loads(ended(job).result) == {"sent": None}
    servers.stop(source, "helper", actor=SYSTEM)
    assert not child.is_running


def test_an_answer_whose_run_failed_after_it_was_sent_is_not_sent_again(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref, event, call = asking(source)

    def away(*args: object, **options: object) -> None:
        raise SourceError("away")

    monkeypatch.setattr(runs, "Outcome", away)
    assert ended(answers.answer(ref, event, {call: YES}, actor=SYSTEM)).state == "stopped"
    assert claims() == ["unknown"]
    assert paid(ref) == 1


def test_an_answer_that_never_arrived_is_given_again_after_a_minute(source: str) -> None:
    ref, event, call = asking(source)
    lost = made(ref, [])
    Job.objects.filter(pk=lost.pk).update(state="stopped", finished=time.time())
    names = {"where": lost.where, "digest": digest_of(*ref[1:]), "names": "[]", "asked": digest_of(event, call)}
    Answer.objects.create(**names, run=lost.pk, state="unknown", response="{}", by="olga", at=time.time())
    with pytest.raises(Conflict, match="olga answered this, but it's unknown"):
        answers.answer(ref, event, {call: YES}, actor=SYSTEM)
    Job.objects.filter(pk=lost.pk).update(finished=time.time() - 61)
    assert ended(answers.answer(ref, event, {call: YES}, actor=SYSTEM)).state == "done"
    assert paid(ref) == 1


def test_a_process_that_dies_as_its_run_ends_leaves_no_claim(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ref, event, call = asking(source)
    with monkeypatch.context() as patched:
        patched.setitem(runner.kinds, runs.RUN, replace(runs.KIND, ended=lambda job: None))
        patched.delattr(servers, "session_uri")
        assert ended(answers.answer(ref, event, {call: YES}, actor=SYSTEM)).state == "stopped"
    assert Answer.objects.get().state == "open"
    assert ended(answers.answer(ref, event, {call: YES}, actor=SYSTEM)).state == "done"
    assert paid(ref) == 1


def test_a_run_that_is_stopped_while_its_agent_starts_sends_nothing(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref, event, call = asking(source)
    start = children.of

    def stopped(*args: Any, **options: Any) -> Any:
        runs.stop(ref, actor=SYSTEM)
        return start(*args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(children, "of", stopped)
        job = ended(answers.answer(ref, event, {call: YES}, actor=SYSTEM))
    assert (job.message, paid(ref)) == ("Stopped by adkweb.", 0)
    assert rows(ref)[-1].description.author != "user"
    assert ended(answers.answer(ref, event, {call: YES}, actor=SYSTEM)).state == "done"


@pytest.mark.parametrize("kept", ["HTTP/1.1 200 OK\r\n", "HTTP/1.0 200 OK\r\n"])
def test_a_server_that_hangs_after_its_first_words_can_be_left(kept: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        stream = Stream(at(server), {})
        heard: list[Any] = []
        listening = threading.Thread(target=lambda: heard.extend(stream), daemon=True)
        listening.start()
        with server.accept()[0] as accepted:
            accepted.sendall(f"{kept}Content-Type: text/event-stream\r\n\r\ndata: {{}}\n".encode())
            until = time.monotonic() + 5
            while not heard and time.monotonic() < until:
                time.sleep(0.01)
            stream.close()
            listening.join(2)
            assert not listening.is_alive()
    assert heard == [{}]


def test_an_answer_that_could_not_be_checked_is_not_sent_later(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ref, event, call = asking(source)

    def away(*args: object, **options: object) -> None:
        raise SourceError("away")

    monkeypatch.setattr(answers, "check_waits", away)
    with pytest.raises(SourceError):
        answers.answer(ref, event, {call: YES}, actor=SYSTEM)
    assert not Answer.objects.exists()
    assert runs.running(ref) is None


NOISE = """
import threading, time

def print_all_the_time():
    while True:
        print("noise")
        time.sleep(0.001)

threading.Thread(target=print_all_the_time, daemon=True).start()
raise ValueError("another app's reason")
"""


def test_why_a_message_did_not_reach_the_agent_is_kept_with_its_text(
    source: str, agents: Path, tmp_path: Path, settings: Any
) -> None:
    broken = tmp_path / "broken" / "helper"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("from . import agent")
    (broken / "agent.py").write_text("raise ImportError('no such model')")
    noisy = tmp_path / "broken" / "noisy"
    noisy.mkdir()
    (noisy / "__init__.py").write_text(NOISE)
    settings.AGENTS = {source: str(broken.parent)}
    other = create_session(source, "noisy", "ana", actor=SYSTEM)
    runs.say(other, "hello", actor=SYSTEM)
    ref = create_session(source, "helper", "ana", session_id="s4", actor=SYSTEM)
    job = ended(runs.say(ref, "hello", actor=SYSTEM))
    assert job.message.startswith("The agent can't run: ImportError: ")
    assert "no such model" in job.message
    assert runs.last(ref) == job
    assert runs.ended_badly(job)
    assert runs.unsent(job) == "hello"
    settings.AGENTS = {source: str(agents)}
    assert ended(runs.say(ref, "look", actor=SYSTEM)).message == ""
    assert not runs.ended_badly(runs.last(ref))


def test_a_change_of_rights_does_not_end_a_run_that_has_started(source: str) -> None:
    ref = create_session(source, "helper", "ana", session_id="s2", state={"seconds": 2}, actor=SYSTEM)
    job = runs.say(ref, "pause", actor=roles.actor_of(somebody("ria", "operator")))
    until(lambda: any(row.description.calls for row in rows(ref)), "the agent's call")
    somebody("ria", "editor")
    job = ended(job)
    assert (job.state, job.message) == ("done", "")


@pytest.mark.parametrize(("own", "source"), [("postgresql",) * 2], indirect=True)
def test_all_runs_keep_one_connection_to_adkweb_s_database(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sessions_app.jobs.runner.ALIVE_SECONDS", 0.1)  # between signs of life
    refs = [create_session(source, "helper", "ana", session_id=f"s{n}", actor=SYSTEM) for n in range(4)]
    with socket.create_server(("127.0.0.1", 0)) as server:  # which never answers
        child = at(server, is_running=False)
        monkeypatch.setattr(children, "of", lambda *names, **options: child)
        for ref in refs:
            runner.start(made(ref, [{"text": "look"}]))
        heard = [server.accept()[0] for _ref in refs]
        counts = []
        with connection.cursor() as cursor:
            for _ in range(20):
                cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
                counts.append(cursor.fetchone()[0])
                time.sleep(0.05)
        assert min(counts) <= 3  # this one, that of the watch, and one of the store; signs of life come and go
        for ref in refs:
            runs.stop(ref, actor=SYSTEM)
            until(lambda ref=ref: not runs.running(ref), "the end of a run")
        for each in heard:
            each.close()


def test_the_thread_that_watches_runs_ends_with_the_last_one(source: str) -> None:
    # It was taken for the next run within 0.2 s, with its connection: in a test, to the database of the test before.
    say(create_session(source, "helper", "ana", session_id="s2", actor=SYSTEM), "look")
    assert not [
        each for each in threading.enumerate() if each.name == "adkweb-runs" and not getattr(each, "ended", True)
    ]


def test_nonsense_of_a_server_is_no_event_and_breaks_nothing() -> None:
    lines = b"data: " + b"[" * 100_000 + b"\ndata: [1]\nhello\ndata: {\n\ndata: {}\n"
    with socket.create_server(("127.0.0.1", 0)) as server:
        stream = iter(Stream(at(server), {}))
        teller = threading.Thread(target=lambda: tell(server.accept()[0], lines))
        teller.start()
        assert list(stream) == [{}]
        teller.join()


@pytest.mark.parametrize("head", ["Transfer-Encoding: chunked\r\n\r\n9", "Content-Length: 99\r\n"])
def test_an_answer_that_breaks_off_has_not_ended(head: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        stream = iter(Stream(at(server), {}))
        threading.Thread(target=lambda: break_off(server.accept()[0], head)).start()
        assert next(stream) == {}
        with pytest.raises(AgentError, match="The connection to the agent broke"):
            next(stream)


def break_off(heard: socket.socket, head: str) -> None:
    with heard:
        heard.recv(65_536)
        heard.sendall(f"HTTP/1.1 200 OK\r\n{head}\r\ndata: {{}}\n\r\n".encode())


def tell(heard: socket.socket, lines: bytes) -> None:
    with heard:
        heard.recv(65_536)
        heard.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(lines)}\r\n\r\n".encode() + lines)
        heard.recv(1)  # until the other side has gone


def test_what_an_agent_says_about_resumable_apps_is_not_taken_for_adk_s_refusal(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = create_session(source, "helper", "ana", session_id="s2", actor=SYSTEM)
    words = "ValueError: I know only a resumable app."
    line = b"data: " + json.dumps({"error": words}).encode() + b"\n"
    with socket.create_server(("127.0.0.1", 0)) as server, monkeypatch.context() as patched:
        child = at(server)
        patched.setattr(children, "of", lambda *names, **options: child)
        threading.Thread(target=lambda: tell(server.accept()[0], line)).start()
        assert ended(runs.say(ref, "hello", actor=SYSTEM)).message == words


def test_what_the_agent_s_server_refused_can_be_answered_again(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ref, event, call = asking(source)
    with socket.create_server(("127.0.0.1", 0)) as server, monkeypatch.context() as patched:
        child = at(server)
        patched.setattr(children, "of", lambda *names, **options: child)
        threading.Thread(target=lambda: tell(server.accept()[0], b'data: {"error": "No such call."}\n')).start()
        job = ended(answers.answer(ref, event, {call: YES}, actor=SYSTEM))
    assert (job.state, job.message, claims()) == ("stopped", "No such call.", ["refused"])
    assert ended(answers.answer(ref, event, {call: YES}, actor=SYSTEM)).state == "done"


def test_deleting_a_session_ends_its_run(source: str) -> None:
    ref = create_session(source, "helper", "ana", session_id="s2", state={"seconds": 30}, actor=SYSTEM)
    runner.start(made(ref, [{"text": "pause"}]))
    until(lambda: any(row.description.calls for row in rows(ref)), "the agent's call")
    delete_session(ref, actor=SYSTEM)
    assert runs.running(ref) is None
    create_session(source, "helper", "ana", session_id="s2", actor=SYSTEM)
    assert say(ref, "look").state == "done"
    for thread in threading.enumerate():
        if thread.name == "adkweb-run":
            thread.join(5)
            assert not thread.is_alive()


@pytest.mark.guarantee("Agents", "An update of a long-running tool leaves its call waiting for the final result.")
def test_an_update_leaves_a_call_waiting_for_its_result(source: str) -> None:
    ref = create_session(source, "helper", "ana", session_id="s1", actor=SYSTEM)
    assert say(ref, "ask").message == ""
    asked = next(each for each in rows(ref) if each.data.get("long_running_tool_ids"))
    (call,) = asked.description.calls
    for number in (50, 90):
        update = Given(value={"percent": number}, interim=True)
        assert ended(answers.answer(ref, asked.id, {call.id: update}, actor=SYSTEM)).message == ""
        assert [each.of.call_id for each in asked_by(ref, asked.id, actor=SYSTEM)] == [call.id]
        assert timeline.status_of(ref, actor=SYSTEM).name == "waiting"
    ended(answers.answer(ref, asked.id, {call.id: Given(value={"percent": 100})}, actor=SYSTEM))
    assert not asked_by(ref, asked.id, actor=SYSTEM)
    assert claims() == ["update", "update", "sent"]
    with pytest.raises(Conflict, match="has answered this already"):
        answers.answer(ref, asked.id, {call.id: update}, actor=SYSTEM)


def test_only_a_confirmation_is_approved_or_declined_and_it_gets_no_other_answer(source: str) -> None:
    ref, event, call = asking(source)
    with pytest.raises(Invalid, match="A confirmation is approved or declined"):  # it would count as declined
        answers.answer(ref, event, {call: Given(value={"x": 1})}, actor=SYSTEM)
    say(ref, "ask")
    *_, last = stored = rows(ref)
    asked = next(row for row in stored if "ask" in [each.name for each in row.description.calls])
    with pytest.raises(Invalid, match="Every other call gets a response"):  # null would be its final result
        answers.answer(ref, asked.id, {asked.description.calls[0].id: YES}, actor=SYSTEM)
    assert (rows(ref)[-1].id, claims()) == (last.id, [])


def test_only_a_long_running_tool_takes_an_update(source: str) -> None:
    ref, event, call = asking(source)
    with pytest.raises(Invalid, match="Only a long-running tool"):
        answers.answer(ref, event, {call: Given(confirmed=True, interim=True)}, actor=SYSTEM)
