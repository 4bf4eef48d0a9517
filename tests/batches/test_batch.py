"""Batches: tried first, done session by session, stopped, resumed and undone. Nobody else's change is lost."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from django.db import connections
from pytest_django import Settings

from sessions_app.access import roles
from sessions_app.access.actor import Actor
from sessions_app.access.roles import Role
from sessions_app.batches import acts, batch, items, reading, working
from sessions_app.batches.acts import Done
from sessions_app.batches.reading import Batch
from sessions_app.domain.errors import Conflict, Invalid, NotAllowed, NotFound
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.history import edit_log
from sessions_app.jobs import runner
from sessions_app.models import BatchItem, Job
from sessions_app.search.index import feed as feeding
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session, delete_session
from tests.search.finding import feed
from tests.support import processes
from tests.support.at_work import settle, until
from tests.support.booking import APP, START
from tests.support.people import somebody
from tests.support.stored import assert_state_is_what_events_say, events_of, everything, state_of

pytestmark = pytest.mark.usefixtures("own")

AGENT = Actor.holding("agent", "admin")
PAY = {"step": "pay"}
LONG_AGO = 60.0


@pytest.fixture
def database_name(form: str, new_store: Callable[[str], str]) -> str:
    """What names the source's database."""
    return new_store(form)


@pytest.fixture
def sessions(
    database_name: str, open_source: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> list[SessionRef]:
    """Six sessions of three users, in which nothing runs."""
    monkeypatch.setattr(working, "LOOK_AGAIN", 0.05)
    source = open_source(database_name)
    return [create_session(source, APP, f"u{n // 2}", actor=AGENT, state=START, session_id=f"s{n}") for n in range(6)]


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    settle("batch")


def begin(refs: list[SessionRef], actor: Actor, values: dict[str, Any] = PAY) -> uuid.UUID:
    """Tries an edit of some sessions."""
    made = batch.begin("edit", actor=actor, refs=refs)
    batch.try_(made, values, actor=actor, reason="by phone")
    settle("batch")
    return made


def edits_elsewhere(name: str) -> Actor:
    """Somebody who may only see these sessions, and edit those of another app."""
    person = somebody(name, "viewer")
    Role.objects.create(person=person, role="editor", apps="support", given_by="adam")
    return roles.actor_of(person)


def do(made: uuid.UUID, actor: Actor) -> Batch:
    """Does a batch to its end."""
    batch.do(made, actor=actor)
    settle("batch")
    return reading.get(made, actor=actor)


def counted(shown: Batch) -> dict[str, int]:
    """The numbers of a batch that are not zero."""
    return {outcome: number for outcome, number in shown.counts.items() if number}


def write(ref: SessionRef, ago: float = LONG_AGO, author: str = "agent", **delta: Any) -> None:
    """Appends an event as an agent's process does."""
    named = {name.replace("__", ":"): value for name, value in delta.items()}
    content = {"role": "user" if author == "user" else "model", "parts": [{"text": "…"}]}
    event = {"author": author, "invocation_id": "i1", "timestamp": time.time() - ago, "content": content}
    append_event(ref, {**event, "actions": {"state_delta": named}}, actor=AGENT)


def no_deletion() -> None:
    raise AssertionError("this act leaves an event")


@contextmanager
def statements() -> Iterator[list[str]]:
    """The statements that this thread sends to all databases."""
    sent: list[str] = []

    def note(execute: Callable[..., Any], sql: str, *given: Any) -> Any:
        sent.append(sql)
        return execute(sql, *given)

    with ExitStack() as stack:
        for each in connections.all():
            stack.enter_context(each.execute_wrapper(note))
        yield sent


def steps(refs: list[SessionRef]) -> list[Any]:
    return [state_of(ref)["session"].get("step") for ref in refs]


def notes(ref: SessionRef) -> list[dict[str, Any]]:
    """What adkweb notes in the edits of a session."""
    return [event["custom_metadata"]["adkweb"] for _seq, event in events_of(ref) if "custom_metadata" in event]


# --- Trying and doing -------------------------------------------------------------------------------------------------


def test_trying_writes_nothing_and_says_what_would_change(sessions: list[SessionRef], actor: Actor) -> None:
    write(sessions[0], step="pay")
    write(sessions[1], author="user", ago=0.0)  # its agent is at work
    delete_session(sessions[2], actor=actor)
    before = everything(sessions[0].source)
    made = begin(sessions, actor)
    shown = reading.get(made, actor=actor)
    assert everything(sessions[0].source) == before
    assert (shown.stage, shown.total, counted(shown)) == ("ready", 6, {"": 4, "same": 1, "gone": 1, "held": 1})
    assert [each.ref for each in reading.get(made, actor=actor).left("held")] == [sessions[1]]
    (sample, *_others) = reading.get(made, actor=actor).samples()
    assert [(c.key, c.old, c.new) for c in sample.changes] == [("step", "search", "pay")]


def test_each_session_gets_one_event_that_says_who_why_and_in_which_batch(
    sessions: list[SessionRef], actor: Actor
) -> None:
    made = begin(sessions, actor, {"step": "pay", "draft": ABSENT, "user:tier": "silver"})
    shown = do(made, actor)
    assert (shown.stage, counted(shown)) == ("done", {"changed": 6})
    assert steps(sessions) == ["pay"] * 6
    for ref in sessions:
        (note,) = notes(ref)
        assert (note["actor"], note["reason"], note["batch"]) == (actor.name, "by phone", str(made))
        assert note["replaced"]["step"] == "search"
    assert [len(note["replaced"]) for ref in sessions for note in notes(ref)] == [3, 2] * 3  # users share their tier
    assert_state_is_what_events_say(sessions[0].source, dict.fromkeys(sessions, START))


def test_a_session_that_was_changed_since_is_left_alone(sessions: list[SessionRef], actor: Actor) -> None:
    made = begin(sessions, actor)
    write(sessions[3], step="done")
    write(sessions[4], other=1)  # not what the edit is about
    delete_session(sessions[5], actor=actor)
    shown = do(made, actor)
    assert counted(shown) == {"changed": 4, "moved": 1, "gone": 1}
    assert steps(sessions[:5]) == ["pay", "pay", "pay", "done", "pay"]
    assert [each.ref for each in reading.get(made, actor=actor).left("moved")] == [sessions[3]]


def test_a_session_whose_agent_is_at_work_is_changed_when_it_has_ended(
    sessions: list[SessionRef], actor: Actor, settings: Settings
) -> None:
    write(sessions[0], author="user", ago=0.0)
    made = begin(sessions, actor)
    batch.do(made, actor=actor)
    until(lambda: steps(sessions) == ["search"] + ["pay"] * 5)
    assert reading.get(made, actor=actor).stage == "doing"
    settings.SETTLE_SECONDS = 0.0
    write(sessions[0], ago=0.0)  # its answer
    settle("batch")
    shown = reading.get(made, actor=actor)
    assert (shown.stage, shown.total, counted(shown)) == ("done", 6, {"changed": 6, "waited": 1})
    authors = [event["author"] for _seq, event in events_of(sessions[0])]
    assert authors == ["user", "agent", "system"]


def test_all_that_a_query_selects_are_changed(sessions: list[SessionRef], actor: Actor) -> None:
    write(sessions[0], step="done")
    feed(sessions[0].source)
    made = batch.begin("edit", actor=actor, query='state.step = "search"')
    batch.try_(made, PAY, actor=actor)
    settle("batch")
    assert counted(do(made, actor)) == {"changed": 5}
    assert steps(sessions) == ["done"] + ["pay"] * 5


def test_a_dry_run_waits_until_the_index_has_what_was_written_before(
    sessions: list[SessionRef], actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, waits, reaches = sessions[0].source, threading.Event(), feeding.reaches
    feed(source)
    write(sessions[0], step="lost")
    create_session(source, APP, "late", actor=AGENT, state={"step": "lost"}, session_id="without events")

    def waiting(*given: Any) -> bool:
        waits.set()
        return reaches(*given)

    monkeypatch.setattr(feeding, "reaches", waiting)
    made = batch.begin("edit", actor=actor, query='state.step = "lost"')
    batch.try_(made, PAY, actor=actor)
    assert waits.wait(30)
    feed(source)
    settle("batch")
    shown = reading.get(made, actor=actor)
    assert (shown.to_do, shown.behind) == (2, [])


def test_a_dry_run_that_did_not_wait_long_enough_says_so_for_good(
    sessions: list[SessionRef], actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(working, "INDEX_SECONDS", 0.0)
    feed(sessions[0].source)
    write(sessions[0], step="lost")
    made = batch.begin("edit", actor=actor, query='state.step = "search"')
    batch.try_(made, PAY, actor=actor)
    settle("batch")
    feed(sessions[0].source)  # what is known later is not what was known when the sessions were selected
    assert reading.get(made, actor=actor).behind == [sessions[0].source]


@pytest.mark.parametrize(
    ("values", "shared"),
    [
        ({"user:tier": "silver"}, {"users": 2, "sessions": 4, "running": 1, "same": 0}),
        ({"app:open": False, "user:tier": "silver"}, {"apps": 1, "sessions": 6, "running": 1, "same": 0}),
        (PAY, {}),
    ],
)
def test_a_dry_run_counts_all_sessions_that_share_what_it_changes(
    values: dict[str, Any], shared: dict[str, int], sessions: list[SessionRef], actor: Actor
) -> None:
    write(sessions[1], ago=1.0, author="user")  # of the first user, and not selected
    feed(sessions[0].source)
    made = begin([sessions[0], sessions[2], sessions[3]], actor, values)
    assert reading.get(made, actor=actor).shared == shared


# --- Undone -----------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee(
    "Edits", "An undo doesn't overwrite later changes unless the person doing the undo chooses to overwrite them."
)
def test_a_batch_is_undone_in_one_act_but_not_where_somebody_wrote_since(
    sessions: list[SessionRef], actor: Actor
) -> None:
    made = begin(sessions, actor, {"step": "pay", "draft": ABSENT})
    do(made, actor)
    write(sessions[1], step="done")
    write(sessions[2], step="other")
    write(sessions[2], step="pay")  # as the batch wrote it
    back = batch.undo(made, actor=actor, reason="wrong list")
    settle("batch")
    shown = reading.get(back, actor=actor)
    assert (shown.stage, counted(shown), shown.undoes) == ("done", {"changed": 5, "moved": 1}, made)
    assert steps(sessions) == ["search", "done", *["search"] * 4]
    assert [state_of(ref)["session"].get("draft") for ref in sessions] == [START["draft"], None, *[START["draft"]] * 4]
    note = notes(sessions[0])[-1]
    assert (note["reason"], note["batch"], note["undoes"]) == (
        "wrong list",
        str(back),
        events_of(sessions[0])[0][1]["id"],
    )
    assert batch.undo(made, actor=actor) == reading.get(made, actor=actor).undone == back


def test_a_batch_that_was_undone_half_way_does_not_go_on(sessions: list[SessionRef], actor: Actor) -> None:
    write(sessions[0], author="user", ago=0.0)  # the batch waits for it
    made = begin(sessions, actor)
    batch.do(made, actor=actor)
    batch.stop(made, actor=actor)
    settle("batch")
    batch.undo(made, actor=actor)
    settle("batch")
    write(sessions[0])
    with pytest.raises(Conflict, match="undone"):
        batch.do(made, actor=actor)
    settle("batch")
    assert steps(sessions) == ["search"] * 6


@pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)
def test_a_batch_whose_process_died_is_undone_and_nobody_goes_on_with_it(
    sessions: list[SessionRef], database_name: str, own: str, actor: Actor
) -> None:
    made = begin(sessions, actor)
    assert processes.run(processes.batch_then_die, own, database_name, str(made), 3) == [processes.KILLED]
    Job.objects.update(claimed_until=1.0)
    batch.undo(made, actor=actor)
    assert runner.take_over() == 0
    settle("batch")
    assert steps(sessions) == ["search"] * 6  # of the third, the event was written, but not noted
    assert [len(notes(ref)) for ref in sessions] == [2] * 3 + [0] * 3


def test_what_a_batch_writes_while_it_is_being_stopped_is_undone_too(
    sessions: list[SessionRef], actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = items.note
    made = begin(sessions, actor)
    monkeypatch.setattr(items, "note", lambda *given, **fields: (time.sleep(0.3), note(*given, **fields)))
    batch.do(made, actor=actor)
    batch.stop(made, actor=actor)
    batch.undo(made, actor=actor)
    settle("batch")
    assert steps(sessions) == ["search"] * 6


def test_an_undo_can_be_undone(sessions: list[SessionRef], actor: Actor) -> None:
    made = begin(sessions, actor)
    do(made, actor)
    back = batch.undo(made, actor=actor)
    settle("batch")
    batch.undo(back, actor=actor)
    settle("batch")
    assert steps(sessions) == ["pay"] * 6


def test_an_undo_asks_at_most_twice_as_often_as_the_edit_did(sessions: list[SessionRef], actor: Actor) -> None:
    edit, back = acts.Edit("b1", actor, {**PAY, "draft": ABSENT}), acts.Undo("b2", actor)
    expects = edit.try_(sessions[0]).expects
    with statements() as doing:
        done = edit.do(sessions[0], expects, first=True, begin=no_deletion)
    assert done
    with statements() as undoing:
        assert back.do(sessions[0], done.event_id, first=True, begin=no_deletion) == Done(
            items.CHANGED, acts.event_id_of("b2", sessions[0])
        )
    assert len(undoing) <= 2 * len(doing)


# --- Deleted ----------------------------------------------------------------------------------------------------------


def test_sessions_are_deleted_if_nothing_was_written_since(sessions: list[SessionRef], actor: Actor) -> None:
    made = batch.begin("delete", actor=actor, refs=sessions[:3])
    batch.try_(made, {}, actor=actor)
    settle("batch")
    write(sessions[1], step="done")
    assert counted(do(made, actor)) == {"changed": 2, "moved": 1}
    assert [bool(state_of(ref)["session"]) for ref in sessions] == [False, True, False, True, True, True]
    with pytest.raises(Invalid):
        batch.undo(made, actor=actor)


@pytest.mark.guarantee("Agents", "A batch changes each session only once, even if processes are killed.")
@pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)
def test_a_batch_whose_process_is_killed_between_a_deletion_and_its_note_has_deleted_that_session(
    sessions: list[SessionRef], database_name: str, own: str, actor: Actor
) -> None:
    made = batch.begin("delete", actor=actor, refs=sessions)
    batch.try_(made, {}, actor=actor)
    settle("batch")
    assert processes.run(processes.batch_then_die, own, database_name, str(made), 3) == [processes.KILLED]
    assert counted(reading.get(made, actor=actor)) == {"changed": 2, "": 4}
    delete_session(sessions[5], actor=actor)
    Job.objects.update(claimed_until=1.0)
    assert runner.take_over() == 1
    settle("batch")
    assert counted(reading.get(made, actor=actor)) == {"changed": 5, "gone": 1}


def test_a_session_that_somebody_else_deletes_before_a_batch_that_waits_for_it_is_gone(
    sessions: list[SessionRef], actor: Actor
) -> None:
    write(sessions[0], author="user", ago=0.0)
    made = batch.begin("delete", actor=actor, refs=sessions[:1])
    batch.try_(made, {}, actor=actor)
    settle("batch")
    BatchItem.objects.update(begun=True)  # a process died just before the deletion
    batch.do(made, actor=actor)
    until(lambda: not BatchItem.objects.get().begun)
    delete_session(sessions[0], actor=actor)
    settle("batch")
    assert counted(reading.get(made, actor=actor)) == {"gone": 1}


# --- Stopped, killed, resumed -----------------------------------------------------------------------------------------


def test_a_batch_that_is_stopped_goes_on_where_it_was(sessions: list[SessionRef], actor: Actor) -> None:
    write(sessions[0], author="user", ago=0.0)  # the batch waits for it
    made = begin(sessions, actor)
    batch.do(made, actor=actor)
    batch.stop(made, actor=actor)
    settle("batch")
    shown = reading.get(made, actor=actor)
    assert (shown.stage, counted(shown)) == ("stopped", {"": 1, "changed": 5, "held": 1})
    write(sessions[0])
    assert counted(do(made, actor)) == {"changed": 6, "waited": 1}
    assert [len(notes(ref)) for ref in sessions] == [1] * 6


@pytest.mark.guarantee("Agents", "A batch changes each session only once, even if processes are killed.")
@pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)
def test_a_batch_whose_process_is_killed_between_an_event_and_its_note_writes_no_second_event(
    sessions: list[SessionRef], database_name: str, own: str, actor: Actor
) -> None:
    made = begin(sessions, actor)
    assert processes.run(processes.batch_then_die, own, database_name, str(made), 3) == [processes.KILLED]
    assert steps(sessions) == ["pay"] * 3 + ["search"] * 3
    assert counted(reading.get(made, actor=actor))["changed"] == 2
    assert runner.take_over() == 1  # although its claim lasts: it is seen to be dead
    settle("batch")
    shown = reading.get(made, actor=actor)
    assert (shown.stage, counted(shown)) == ("done", {"changed": 6})
    assert [len(notes(ref)) for ref in sessions] == [1] * 6
    batch.undo(made, actor=actor)
    settle("batch")
    assert steps(sessions) == ["search"] * 6


# --- Refused ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["sqlite"])
@pytest.mark.parametrize("values", [{}, {"temp:x": 1}, {"": 1}, {"step": float("nan")}], ids=repr)
def test_an_edit_that_cannot_be_written_is_refused_at_once(
    values: dict[str, Any], sessions: list[SessionRef], actor: Actor
) -> None:
    made = batch.begin("edit", actor=actor, refs=sessions)
    with pytest.raises(Invalid):
        batch.try_(made, values, actor=actor)
    assert reading.get(made, actor=actor).stage == "draft"


@pytest.mark.parametrize("form", ["sqlite"])
def test_a_query_with_a_mistake_selects_nothing(sessions: list[SessionRef], actor: Actor) -> None:
    with pytest.raises(Invalid, match="usr"):
        batch.begin("edit", actor=actor, query="usr:ana expired")


@pytest.mark.parametrize("form", ["sqlite"])
def test_a_batch_has_at_most_so_many_sessions(
    sessions: list[SessionRef], actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed(sessions[0].source)
    monkeypatch.setattr(working, "MOST", 5)
    made = batch.begin("edit", actor=actor, query="app:booking")
    batch.try_(made, PAY, actor=actor)
    settle("batch")
    shown = reading.get(made, actor=actor)
    assert (shown.stage, shown.total) == ("refused", 0)


@pytest.mark.parametrize("form", ["sqlite"])
def test_what_an_actor_may_not_do_no_batch_does(sessions: list[SessionRef], actor: Actor, settings: Settings) -> None:
    stranger = roles.actor_of(somebody("stranger", "admin", "other*"))
    reader = roles.actor_of(somebody("reader", "viewer"))
    made = begin(sessions, actor)
    with pytest.raises(NotFound):
        reading.get(made, actor=stranger)
    with pytest.raises(NotFound):
        batch.begin("edit", actor=stranger, refs=sessions)
    feed(sessions[0].source)
    none = batch.begin("edit", actor=stranger, query="app:booking")
    batch.try_(none, PAY, actor=stranger)
    settle("batch")
    assert reading.get(none, actor=stranger).total == 0
    with pytest.raises(NotAllowed, match="for any app"):
        batch.begin("edit", actor=reader, refs=sessions)
    elsewhere = edits_elsewhere("reader")
    theirs = begin(sessions, elsewhere)
    assert counted(do(theirs, elsewhere)) == {"refused": 6}
    settings.READ_ONLY = True
    with pytest.raises(NotAllowed):
        batch.begin("edit", actor=actor, refs=sessions)
    with pytest.raises(NotAllowed):
        batch.do(made, actor=actor)
    assert steps(sessions) == ["search"] * 6


@pytest.mark.parametrize("form", ["sqlite"])
def test_nothing_is_done_that_was_not_tried(sessions: list[SessionRef], actor: Actor) -> None:
    made = batch.begin("edit", actor=actor, refs=sessions)
    with pytest.raises(Conflict):
        batch.do(made, actor=actor)
    done = begin(sessions, actor)
    do(done, actor)
    with pytest.raises(Conflict):
        batch.try_(done, {"step": "other"}, actor=actor)
    with pytest.raises(Conflict):
        batch.discard(done, actor=actor)
    batch.discard(made, actor=actor)
    with pytest.raises(NotFound):
        reading.get(made, actor=actor)


@pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)
@pytest.mark.parametrize("form", ["sqlite"])
def test_a_batch_whose_dry_run_is_under_way_is_not_taken_for_done(sessions: list[SessionRef], actor: Actor) -> None:
    made = begin(sessions, actor)
    Job.objects.update(state="waiting", step=working.TRYING, claim="of another process", claimed_until=time.time() + 60)
    with pytest.raises(Conflict, match="The dry run for this batch hasn't finished"):
        batch.do(made, actor=actor)
    Job.objects.update(state=working.READY, claim="", claimed_until=None)
    assert counted(do(made, actor)) == {"changed": 6}


def test_a_dry_run_that_was_stopped_notes_nothing_in_the_next_one(
    own: str, sessions: list[SessionRef], actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    try_, slow = acts.Edit.try_, [1.5]  # a source keeps the first one waiting

    def wait(act: acts.Edit, ref: SessionRef) -> acts.Tried:
        tried = try_(act, ref)
        time.sleep(slow.pop() if slow else 0.0)
        return tried

    monkeypatch.setattr(acts.Edit, "try_", wait)
    made = batch.begin("edit", actor=actor, refs=sessions)
    batch.try_(made, PAY, actor=actor)
    batch.stop(made, actor=actor)
    batch.try_(made, {"other": 1}, actor=actor)
    settle("batch")
    assert counted(do(made, actor)) == {"changed": 6}
    assert steps(sessions) == ["search"] * 6


# --- In lists of edits ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["sqlite", "postgresql"])
def test_one_event_of_each_app_stands_for_the_batch_in_lists_of_edits(sessions: list[SessionRef], actor: Actor) -> None:
    other = create_session(sessions[0].source, "support", "bo", actor=AGENT, state=START, session_id="s9")
    made = begin([*sessions, other], actor)
    do(made, actor)
    listed, _problems = edit_log.edits(actor=actor)
    assert sorted((view.ref.app_name, view.description.edit["batch"]) for view in listed.rows) == [
        (APP, str(made)),
        ("support", str(made)),
    ]
    batch.undo(made, actor=actor)
    settle("batch")
    assert len(edit_log.edits(actor=actor)[0].rows) == 4
    assert [len(notes(ref)) for ref in sessions] == [2] * 6


def test_who_may_only_see_all_apps_looks_at_others_batches_and_takes_none_further(
    form: str, sessions: list[SessionRef], actor: Actor
) -> None:
    made = begin(sessions, actor)
    vera = roles.actor_of(somebody("vera", "viewer"))
    assert (reading.get(made, actor=vera).stage, reading.get(made, actor=vera).may_act) == ("ready", False)

    def tries() -> None:
        for act in (
            lambda: batch.try_(made, {"step": "other"}, actor=vera),
            lambda: batch.do(made, actor=vera),
            lambda: batch.stop(made, actor=vera),
            lambda: batch.undo(made, actor=vera),
            lambda: batch.discard(made, actor=vera),
        ):
            with pytest.raises(NotAllowed):
                act()

    tries()
    assert (reading.get(made, actor=actor).stage, dict(reading.get(made, actor=actor).values)) == ("ready", PAY)
    assert do(made, actor).counts[items.CHANGED] == 6
    tries()
    assert reading.get(made, actor=roles.actor_of(somebody("vera", "editor"))).may_act


def test_a_dry_run_says_which_sessions_its_person_may_not_edit(form: str, sessions: list[SessionRef]) -> None:
    vera = edits_elsewhere("vera")
    shown = reading.get(begin(sessions, vera), actor=vera)
    assert (shown.stage, shown.to_do, shown.counts[items.REFUSED]) == ("ready", 0, 6)


@pytest.mark.parametrize("act", ["edit", "delete", "undo"])
def test_a_batch_whose_person_may_not_do_it_any_more_stops_and_somebody_else_goes_on(
    form: str, sessions: list[SessionRef], act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    maria = roles.actor_of(somebody("maria", "admin"))
    made = batch.begin("delete" if act == "delete" else "edit", actor=maria, refs=sessions)
    batch.try_(made, {} if act == "delete" else PAY, actor=maria)
    settle("batch")
    if act == "undo":
        do(made, maria)
        with monkeypatch.context() as patch:
            patch.setattr(runner, "start", lambda job, **fields: True)
            made = batch.undo(made, actor=maria)
        Job.objects.filter(pk=made).update(state="waiting", claimed_until=1.0)
        somebody("maria")
        assert runner.take_over() == 1
    else:
        job = Job.objects.get(pk=made)
        somebody("maria")
        assert runner.start(job, step="doing")
    settle("batch")
    shown = reading.get(made, actor=roles.actor_of(somebody("root", "admin")))
    assert (shown.stage, shown.to_do) == ("stopped", 6)
    assert do(made, roles.actor_of(somebody("root", "admin"))).counts[items.CHANGED] == 6
