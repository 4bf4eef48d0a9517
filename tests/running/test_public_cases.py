"""What people report of other tools for ADK doesn't happen here: real agents in a process of their own.

`desk` is the agent of `office` in an app that can be resumed, where ADK decides in other ways what runs."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from sessions_app.access import tokens
from sessions_app.access.actor import SYSTEM
from sessions_app.domain.errors import Conflict
from sessions_app.domain.pending import CONFIRMATION, Pending, pending
from sessions_app.domain.session_ref import SessionRef
from sessions_app.jobs import runner
from sessions_app.models import Job
from sessions_app.reads import timeline
from sessions_app.running import answers, children, runs
from sessions_app.running.answers import Given
from sessions_app.running.first import First
from sessions_app.web import answers as answers_page
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.api.program import Program
from tests.running.test_answers import BOTH, YES, claims, ended, rows
from tests.search.finding import feed
from tests.servers import PostgreSQL
from tests.support.at_work import until
from tests.support.people import as_admin
from tests.support.stored import execute

DONE = Given(value={"status": "done"})
Ran = Callable[[SessionRef], dict[str, int]]


@contextmanager
def held(agents: Path) -> Iterator[None]:
    """Holds tools and the model's reply in the middle, until its block ends."""
    (agents / "office" / "hold").touch()
    try:
        yield
    finally:
        (agents / "office" / "hold").unlink()


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the agents of this module."""
    return Path(shutil.copytree(Path(__file__).parent / "cases", tmp_path_factory.mktemp("cases") / "agents"))


@pytest.fixture(autouse=True)
def ran(agents: Path) -> Ran:
    """Returns how often each tool has run in a session."""
    file = agents / "office" / "ran"
    file.write_text("")

    def counted(ref: SessionRef) -> dict[str, int]:
        lines = [line.split() for line in file.read_text().splitlines()]
        return Counter(name for session, name, _process in lines if session == ref.session_id)

    return counted


def new(source: str, name: str = "s1", app: str = "office", **state: Any) -> SessionRef:
    return create_session(source, app, "ana", session_id=name, state=state, actor=SYSTEM)


def end_well(jobs: Iterable[Job]) -> None:
    """Waits for runs, which have been started all at once."""
    for job in [*jobs]:
        job = ended(job)
        assert (job.state, job.message) == ("done", "")


def say(texts: Mapping[SessionRef, str]) -> None:
    end_well([runs.say(ref, text, actor=SYSTEM) for ref, text in texts.items()])


def waiting(ref: SessionRef) -> list[Pending]:
    return pending([row.data for row in rows(ref)])


def answer(refs: Iterable[SessionRef], given: Given = YES) -> None:
    """Answers all that waits, event by event; a long-running tool is done."""
    while asked := {ref: waits for ref in refs if (waits := waiting(ref))}:
        end_well([answered(ref, waits[0].event_id, waits, given) for ref, waits in asked.items()])


def answered(ref: SessionRef, event_id: str, waits: list[Pending], given: Given) -> Job:
    together = [each for each in waits if each.event_id == event_id]
    given_to = {each.call_id: given if each.kind == CONFIRMATION else DONE for each in together}
    return answers.answer(ref, event_id, given_to, actor=SYSTEM)


def said(ref: SessionRef) -> list[str]:
    """Returns the texts of the agents."""
    return [row.description.text for row in rows(ref) if row.description.text and not row.description.by_user]


# --- Answers ----------------------------------------------------------------------------------------------------------


def test_each_of_three_agents_asks_once_and_passes_on(source: str, ran: Ran) -> None:
    """adk-python#6198: an approval began the whole invocation again."""
    refs = [new(source, app, app) for app in ("long_steps", "flow")]
    say(dict.fromkeys(refs, "Paint the house"))
    for tool in ("plan", "execute"):
        assert [[each.tool for each in waiting(ref)] for ref in refs] == [[tool]] * 2
        end_well([answered(ref, waiting(ref)[0].event_id, waiting(ref), YES) for ref in refs])
    for ref in refs:
        assert ran(ref) == {"plan": 1, "execute": 1, "look": 1}
        assert (said(ref), waiting(ref)) == (["Done."] * 3, [])


def test_an_app_that_is_not_resumable_gets_no_further_than_the_agent_that_asked(source: str, ran: Ran) -> None:
    """adk-python#3567: it takes the answer, and repeats nothing. It is ADK that leaves out the agents after that one."""
    ref = new(source, app="steps")
    say({ref: "Paint the house"})
    answer([ref])
    assert (ran(ref), said(ref), waiting(ref)) == ({"plan": 1}, ["Done."], [])


def test_what_one_step_asks_is_answered_and_nothing_runs_again(source: str, ran: Ran) -> None:
    """adk-python#5450: an answer to one ran the others again; #5064: a streamed call had no answer in `desk`.
    ag-ui#1935: the model got half of the answers, which the one here refuses, too. kagent#2751: the answer to a tool that
    asks by itself was refused.
    """
    calls = ("pay+send", "ask+order", "pay+ask", "pay+look", "ask+look", "sign+pay")
    texts = {new(source, f"{app}-{each}", app): each for app in ("office", "desk") for each in calls}
    say(texts)
    answer(texts)
    for ref, text in texts.items():
        assert ran(ref) == dict.fromkeys(text.split("+"), 1)
        assert said(ref)[-1] == "Done."


def test_what_was_declined_does_not_run_even_if_the_tool_does_not_look(source: str, ran: Ran) -> None:
    """adk-python#7151: a tool that leaves the confirmation to ADK ran although it was declined."""
    declined, approved = new(source, "declined"), new(source, "approved")
    say(dict.fromkeys((declined, approved), "erase"))
    answer([declined], Given(confirmed=False))
    answer([approved])
    assert (ran(declined), ran(approved)) == ({}, {"erase": 1})


def test_an_abandoned_call_is_answered_days_later_in_another_process(source: str, ran: Ran) -> None:
    """adk-python#192, #2645: the process has gone; #5165: the user has said something else, and the model was refused."""
    texts = {new(source, f"{app}-{tool}", app): tool for app in ("office", "desk") for tool in ("pay", "ask")}
    say(texts)
    children.stop_all(4)
    say(dict.fromkeys(texts, "look"))
    assert [[each.passed_over for each in waiting(ref)] for ref in texts] == [[True]] * 4
    answer(texts)
    for ref, tool in texts.items():
        assert ran(ref) == {tool: 1, "look": 1}
        assert said(ref)[-1] == "Done."


def test_more_questions_than_a_page_shows_are_answered_by_a_program(source: str) -> None:
    ref = new(source)
    end_well([runs.say(ref, "+".join(["ask"] * 301), actor=SYSTEM)])
    feed(source)
    (card,) = answers_page.context_of(ref, SYSTEM)["cards"]
    assert card.why == "This event asks 301 questions at once, too many for a page. Answer them with the API."
    desk = Program(tokens.create("desk", "operate", "*", by=as_admin("maria"))[1])
    given = {each.call_id: {"response": {"status": "done"}} for each in waiting(ref)}
    address = "/api/apps/office/users/ana/sessions/s1/answers"
    assert desk.post(address, {"event_id": card.event_id, "answers": given}).status == 202
    end_well([runs.last(ref)])
    assert waiting(ref) == []


# --- Runs that end in the middle --------------------------------------------------------------------------------------


TEXTS = ("slowly", "wait", "look+wait", "block")  # a model's stream; a tool; two, of which one is done; one that blocks


def in_the_middle(ran: Ran, texts: Mapping[SessionRef, str]) -> dict[SessionRef, Job]:
    """Runs that are at a tool, or in the model's reply."""
    jobs = {ref: runs.say(ref, text, actor=SYSTEM) for ref, text in texts.items()}
    for ref, text in texts.items():
        until(lambda: ref in runs.spoken if text == "slowly" else len(ran(ref)) == len(text.split("+")))  # noqa: B023
    return jobs


def is_whole(ref: SessionRef) -> bool:
    """Whether each call has one response."""
    calls = [call.id for row in rows(ref) for call in row.description.calls]
    return sorted(calls) == sorted(response.id for row in rows(ref) for response in row.description.responses)


def go_on(continued: Iterable[SessionRef], written: Iterable[SessionRef]) -> None:
    """Checks that some sessions can be continued, and that others can be edited and written to instead."""
    for ref in written:
        append_event(ref, {"author": "system", "actions": {"state_delta": {"tier": "gold"}}}, actor=SYSTEM)
    end_well(
        [runs.go_on(ref, actor=SYSTEM) for ref in continued] + [runs.say(ref, "look", actor=SYSTEM) for ref in written]
    )
    for ref in (*continued, *written):
        assert said(ref) == ["Done."]
        assert timeline.status_of(ref, actor=SYSTEM).running is None
    for ref in written:
        (seen,) = [part.value for row in rows(ref)[-4:] for part in row.description.responses if part.name == "look"]
        assert seen["tier"] == "gold"


@pytest.mark.guarantee("Agents", "An agent is stopped in the middle, and its session can be continued or written to.")
@BOTH
def test_what_was_stopped_is_whole_and_goes_on(source: str, ran: Ran, agents: Path) -> None:
    """adk-python#323, #2425, #4738, #4796 (stop); #5485, #4100, adk-docs#784 (continue)."""
    continued = {new(source, f"continued-{text}"): text for text in TEXTS}
    continued |= {new(source, f"desk-{text}", "desk"): text for text in TEXTS[:3]}
    written = {new(source, text): text for text in TEXTS}
    texts = {**continued, **written}
    blocking = [{ref: text} for ref, text in texts.items() if text == "block"]  # a server has nothing else to do then
    for together in [{ref: text for ref, text in texts.items() if text != "block"}, *blocking]:
        with held(agents):
            jobs = in_the_middle(ran, together)
            for ref in jobs:
                runs.stop(ref, actor=SYSTEM)
            if together in blocking:
                time.sleep(1)  # until the connection is closed, which doesn't end a tool that blocks
            else:
                assert {ended(job).state for job in jobs.values()} == {"stopped"}
        for ref, job in jobs.items():
            assert ended(job).message == "Stopped by adkweb."
            assert rows(ref)[-1].data["error_code"] == "INVOCATION_ABORTED"
            assert is_whole(ref)
    go_on(continued, written)


def test_that_adk_does_not_continue_an_agent_is_said_without_ids(source: str) -> None:
    """adk-python#5485: a SequentialAgent in an app that can't be resumed."""
    ref = new(source, app="steps")
    message = {"author": "user", "invocation_id": "e-1", "content": {"parts": [{"text": "Paint the house"}]}}
    append_event(ref, {**message, "timestamp": time.time() - 3600}, actor=SYSTEM)
    job = ended(runs.go_on(ref, actor=SYSTEM))
    assert job.message == "ADK can continue this kind of agent only in a resumable app. Write a message instead."


def test_two_agents_in_a_row_go_on_only_in_an_app_that_can_be_resumed(
    source: str,
    ran: Ran,
    agents: Path,
) -> None:
    """adk-python#5485, and adk-docs#784: ADK says itself which app it won't continue, by what it stores."""
    refs = [new(source, app=app) for app in ("pair", "long_pair")]
    with held(agents):
        jobs = in_the_middle(ran, dict.fromkeys(refs, "wait"))
        for ref, job in jobs.items():
            runs.stop(ref, actor=SYSTEM)
            ended(job)
    short, long = refs
    with pytest.raises(Conflict, match="nothing to continue"):
        runs.go_on(short, actor=SYSTEM)
    end_well([runs.go_on(long, actor=SYSTEM)])
    assert [row.description.author for row in rows(long) if row.description.text] == ["user", "first", "second"]


@pytest.mark.parametrize(("step", "again"), [(2, []), (1, ["first"])])
def test_a_run_that_was_killed_between_two_agents_goes_on(
    source: str,
    step: int,
    again: list[str],
) -> None:
    """By ADK's own notes: until it has noted that the second is next, it runs the first once more."""
    ref = new(source, app="long_pair")
    end_well([runs.say(ref, "look", actor=SYSTEM)])
    notes = [row for row in rows(ref) if row.description.kind == "checkpoint" and row.description.author != "second"]
    end = notes[step]  # of: the first is next, it has ended, the second is next, all have ended
    ids = [row.id for row in rows(ref)]
    later = ids[ids.index(end.id) + 1 :]
    execute(source, f"DELETE FROM events WHERE id IN ({', '.join(['%s'] * len(later))})", later)
    assert timeline.status_of(ref, actor=SYSTEM).unfinished.id == end.id
    end_well([runs.go_on(ref, actor=SYSTEM)])
    authors = [row.description.author for row in rows(ref) if row.description.text]
    assert authors == ["user", "first", *again, "second"]
    with pytest.raises(Conflict, match="nothing to continue"):
        runs.go_on(ref, actor=SYSTEM)


def test_the_message_of_a_run_that_was_stopped_is_edited_and_sent_again(
    source: str,
    ran: Ran,
    agents: Path,
) -> None:
    """adk-python#3849."""
    ref = new(source)
    with held(agents):
        (job,) = in_the_middle(ran, {ref: "wait"}).values()
        runs.stop(ref, actor=SYSTEM)
        ended(job)
    end_well([runs.say(ref, "look", first=First(instead_of=rows(ref)[0].id), actor=SYSTEM)])
    assert (said(ref), ran(ref)) == (["Done."], {"wait": 1, "look": 1})


@pytest.mark.guarantee("Agents", "If an agent's process is killed, its runs have failed, and go on in another one.")
def test_a_child_that_was_killed_is_told_and_its_sessions_go_on(source: str, ran: Ran, agents: Path) -> None:
    """adk-python#4100: nobody could resume what a server did when it was cut."""
    continued = {new(source, f"{app}-{text}", app): text for app in ("office", "desk") for text in TEXTS[:3]}
    written = {new(source, text): text for text in TEXTS[:3]}
    with held(agents):
        jobs = in_the_middle(ran, {**continued, **written})
        os.kill(int((agents / "office" / "ran").read_text().split()[-1]), signal.SIGKILL)
        for job in jobs.values():
            job = ended(job)
            assert (job.state, job.message) == ("stopped", "The agent's process ended while the agent was running.")
    go_on(continued, written)
    for ref, text in continued.items():  # what the tools had done was not stored
        assert ran(ref) == ({} if text == "slowly" else dict.fromkeys(text.split("+"), 2))


@pytest.mark.guarantee(
    "Agents", "If a database goes away during a run, nothing is sent again, and the session goes on."
)
@pytest.mark.parametrize(
    ("own", "source"),
    [("sqlite", "postgresql"), pytest.param("postgresql", "postgresql", marks=pytest.mark.long)],
    indirect=True,
)
def test_a_database_that_goes_away_in_the_middle_and_comes_back(
    source: str,
    ran: Ran,
    agents: Path,
    postgresql_server: PostgreSQL,
) -> None:
    told, asked = new(source, "told"), new(source, "asked")
    say({asked: "pay wait"})
    with held(agents):
        in_the_middle(ran, {told: "wait"})
        (waits,) = waiting(asked)
        answered(asked, waits.event_id, [waits], YES)
        until(lambda: ran(asked) == {"pay": 1, "wait": 1})
        postgresql_server.stop()
    time.sleep(0.5)  # the tools end, and nothing can be stored
    postgresql_server.start()
    connections.close_all()
    until(lambda: not (runner.take_over() or Job.objects.filter(state="waiting").exists()))  # as every process does
    assert claims() == ["sent"]
    say({told: "look", asked: "look"})
    assert (ran(asked), ran(told)) == ({"pay": 1, "wait": 1, "look": 1}, {"wait": 1, "look": 1})
