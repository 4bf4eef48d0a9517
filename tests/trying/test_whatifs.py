"""The same change in many sessions: what ended otherwise, which rules are broken, and what it took."""

from __future__ import annotations

import io
import uuid
from pathlib import Path
from typing import Any

import pytest

from sessions_app.access import approval, roles
from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.checks import mask_rules, rules
from sessions_app.domain.errors import Conflict, Invalid, NotAllowed, NotFound
from sessions_app.domain.session_ref import SessionRef
from sessions_app.jobs.lease import DONE, STOPPED, WAITING
from sessions_app.models import Job, TriedSession
from sessions_app.privacy import bundle, holds
from sessions_app.sources import agents
from sessions_app.trying import whatifs
from sessions_app.trying.whatif import Change
from sessions_app.trying.whatifs import BETTER, CHANGED, SAME, UNDECIDED, WORSE, WhatIfs
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session, delete_session
from tests.support.at_work import until_worked
from tests.support.people import somebody
from tests.support.stored import everything
from tests.trying.conftest import AGENTS, bread_in, say, visit

pytestmark = pytest.mark.django_db


@pytest.fixture
def bakery(shop: str, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A source whose sessions the baker can continue. Its tool writes a file."""
    settings.RUN_AGENTS = True
    monkeypatch.setenv("BAKED", str(tmp_path / "baked"))
    monkeypatch.setattr(agents, "agent_of", lambda _source, app: agents.Agent(AGENTS, AGENTS / app))
    return shop


def failed_in(source: str, session: str) -> SessionRef:
    """A session in which the tool failed, and with it the turn."""
    ref = bread_in(source, session)
    say(ref, "user", {"text": "cake"}, turn="2")
    say(ref, "baker", {"function_call": {"id": "c2", "name": "bake", "args": {"what": "cake"}}}, turn="2")
    failed = {"author": "baker", "invocation_id": f"e-{session}-2", "error_code": "Burnt", "error_message": "It burnt."}
    append_event(ref, failed, actor=SYSTEM)
    return ref


def ended(number: uuid.UUID, *, actor: Actor = SYSTEM) -> WhatIfs:
    """A what-if of many sessions when it has ended."""
    until_worked(lambda: whatifs.get(number, actor=actor).stage == DONE)
    return whatifs.get(number, actor=actor)


def tried(refs: list[SessionRef], *, actor: Actor = SYSTEM, **given: Any) -> WhatIfs:
    """The outcome of a change in these sessions."""
    options = {name: given.pop(name) for name in ("unknown", "run_code", "reason") if name in given}
    number = whatifs.draft(refs, actor=actor)
    whatifs.begin(number, Change("", **given), actor=actor, **options)
    return ended(number, actor=actor)


@pytest.mark.parametrize("shop", ["sqlite", "postgresql"], indirect=True)
@pytest.mark.guarantee(
    "Agents", "A what-if of many sessions says for each how it ended before and after, and which rules each breaks."
)
def test_outcomes_before_and_after(bakery: str, tmp_path: Path) -> None:
    refs = [
        bread_in(bakery, "s1"),
        failed_in(bakery, "s2"),
        create_session(bakery, "baker", "ana", session_id="s3", actor=SYSTEM),
    ]
    number = rules.create(bakery, "baker", "Small only", 'size = "small"', actor=SYSTEM)
    before = everything(bakery)
    what = tried(refs, state={"size": "large"})
    assert everything(bakery) == before
    assert not (tmp_path / "baked").exists()
    assert [(row.ref.session_id, row.result) for row in what.rows()] == [
        ("s1", WORSE),
        ("s2", UNDECIDED),
        ("s3", UNDECIDED),
    ]
    one, two, three = what.rows()
    assert one.before
    assert one.after
    assert two.before
    assert two.after
    assert (one.before.words, one.before.failed, one.before.rules) == (
        "{'baked': 'bread'} in small by obeys",
        False,
        [],
    )
    assert (one.after.words, one.after.rules, one.after.tokens) == (
        "{'baked': 'bread'} in large by obeys",
        [number],
        24,
    )
    assert (two.before.words, two.before.failed) == ("It burnt.", True)
    assert "isn't run in a what-if" in two.after.words
    assert two.why == "It calls bake in a way that the recording doesn't know, and that wasn't run."
    assert three.why == "The user has written nothing in this session."
    old, new = what.totals
    assert (old.failed, old.broken, new.failed, new.broken) == (0, {}, 0, {number: 1})
    assert [rule.title for rule in what.rules] == ["Small only"]


def test_an_instruction_that_changes_nothing_said_is_the_same(bakery: str) -> None:
    what = tried([bread_in(bakery)], instructions={"baker": "The size is small."})
    assert [row.result for row in what.rows()] == [SAME]
    what = tried([bread_in(bakery, "s2")], instructions={"baker": "The size is huge."}, later=True)
    (row,) = what.rows()
    assert row.after
    assert (row.result, row.after.words) == (CHANGED, "{'baked': 'bread'} in huge by obeys")


def test_a_tool_that_may_run_makes_it_better(bakery: str, tmp_path: Path) -> None:
    (row,) = tried([failed_in(bakery, "s1")], unknown="run").rows()
    assert row.after
    assert (row.result, row.after.words) == (BETTER, "{'baked': 'cake'} in small by obeys")
    assert (tmp_path / "baked").read_text() == "cake"


def test_a_tool_that_a_second_person_decides_on_never_runs(bakery: str, tmp_path: Path) -> None:
    approval.make(tools="bake", by=SYSTEM)
    (row,) = tried([failed_in(bakery, "s1")], unknown="run").rows()
    assert (row.result, (tmp_path / "baked").exists()) == (UNDECIDED, False)


def test_sessions_are_of_one_app_and_as_many_as_may_be(bakery: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whatifs, "MOST", 2)
    refs = [bread_in(bakery, f"s{number}") for number in range(3)]
    with pytest.raises(Invalid, match="up to 2 sessions"):
        whatifs.draft(refs, actor=SYSTEM)
    with pytest.raises(Invalid, match="one app"):
        whatifs.draft([refs[0], visit(bakery, "v", 1)], actor=SYSTEM)


def test_what_it_took_is_said_before_it_runs(bakery: str, settings: Any) -> None:
    settings.PRICES = {"obeys": (1.0, 10.0)}
    ref = bread_in(bakery)
    usage = {"prompt_token_count": 100, "candidates_token_count": 10}
    for turn in ("2", "3"):
        say(ref, "user", {"text": "more"}, turn=turn)
        event = {"author": "baker", "invocation_id": turn, "usage_metadata": usage, "model_version": "obeys"}
        append_event(ref, event, actor=SYSTEM)
    shown = whatifs.get(whatifs.draft([ref], actor=SYSTEM), actor=SYSTEM)
    estimate = shown.estimate
    assert (estimate.all_tokens, estimate.tokens, estimate.uncounted) == (220, 72, 0)  # of three turns
    assert estimate.all_dollars == pytest.approx(0.0004)
    assert shown.agents == {"baker": "obeys"}


@pytest.mark.guarantee("Agents", "A what-if of many sessions that stops continues where it was, and tries none twice.")
def test_stopped_and_continued(bakery: str) -> None:
    refs = [bread_in(bakery, "s1"), bread_in(bakery, "s2")]
    waits = bread_in(bakery, "s0")
    say(waits, "user", {"text": "wait"}, turn="2")
    number = whatifs.draft([waits, *refs], actor=SYSTEM)
    whatifs.begin(number, Change("", models={"baker": "obeys-2"}), actor=SYSTEM)
    until_worked(lambda: whatifs.get(number, actor=SYSTEM).done == 2)
    whatifs.stop(number, actor=SYSTEM)
    until_worked(lambda: not Job.objects.filter(kind="whatif", state=WAITING).exists())
    assert whatifs.get(number, actor=SYSTEM).stage == STOPPED
    before = {item.what_if_id for item in TriedSession.objects.exclude(result="")}
    with pytest.raises(Conflict):
        whatifs.begin(number, Change(""), actor=SYSTEM)
    old = Job.objects.get(kind="whatif", state=STOPPED)
    whatifs.resume(number, actor=SYSTEM)
    until_worked(lambda: Job.objects.filter(kind="whatif", session_id="s0").exclude(pk=old.pk).exists())
    assert before == {item.what_if_id for item in TriedSession.objects.exclude(result="")}
    assert not Job.objects.filter(pk=old.pk).exists()
    whatifs.stop(number, actor=SYSTEM)
    until_worked(lambda: not Job.objects.filter(kind="whatif", state=WAITING).exists())


def test_a_process_that_takes_over_notes_what_another_one_started(bakery: str) -> None:
    number = whatifs.draft([bread_in(bakery, "s1"), bread_in(bakery, "s2")], actor=SYSTEM)
    whatifs.begin(number, Change("", state={"size": "large"}), actor=SYSTEM)
    ended(number)
    first = TriedSession.objects.get(number=0)
    TriedSession.objects.filter(number=0).update(result="")  # it died before it noted this one
    Job.objects.filter(pk=number).update(state=STOPPED)
    whatifs.resume(number, actor=SYSTEM)
    assert next(row.what_if for row in ended(number).rows()) == first.what_if_id
    assert Job.objects.filter(kind="whatif").count() == 2


def test_who_may(bakery: str) -> None:
    ref = bread_in(bakery)
    number = whatifs.draft([ref], actor=SYSTEM)
    viewer = roles.actor_of(somebody("vera", "viewer"))
    for act in (whatifs.stop, whatifs.resume, whatifs.again, whatifs.discard, whatifs.get):
        with pytest.raises((NotFound, NotAllowed)):
            act(number, actor=viewer)
    with pytest.raises(NotAllowed):
        whatifs.draft([ref], actor=viewer)


def test_hidden_values_are_dots_unless_someone_who_may_gives_a_reason(bakery: str) -> None:
    mask_rules.create("*", "key", "size", actor=SYSTEM)
    ref = bread_in(bakery)
    operator, rita = roles.actor_of(somebody("olga", "operator")), somebody("rita", "operator")
    roles.Role.objects.filter(person=rita).update(reveals=True)
    what = tried([ref], actor=operator, models={"baker": "obeys-2"})
    (row,) = what.rows()
    assert what.has_dots
    assert row.after
    assert "small" not in row.after.words
    what = tried([ref], actor=roles.actor_of(rita), models={"baker": "obeys-2"}, reason="Why is it small?")
    (row,) = what.rows()
    assert not what.has_dots
    assert row.after
    assert "small" in row.after.words
    with pytest.raises(NotFound):
        whatifs.get(what.id, actor=operator)


def test_it_goes_with_its_sessions_and_when_it_is_deleted_but_for_a_hold(bakery: str) -> None:
    refs = [bread_in(bakery, "s1"), bread_in(bakery, "s2")]
    what = tried(refs, state={"size": "large"})
    delete_session(refs[0], actor=SYSTEM)
    assert [row.ref for row in whatifs.get(what.id, actor=SYSTEM).rows()] == refs[1:]
    holds.hold(refs[1], "INC-7", actor=SYSTEM)
    whatifs.discard(what.id, actor=SYSTEM)
    assert not TriedSession.objects.exists()
    assert [job.session_id for job in Job.objects.filter(kind__in=("whatif", "whatifs"))] == ["s2"]


def test_a_session_that_is_deleted_while_it_is_tried_is_left_out(bakery: str) -> None:
    waits, other = bread_in(bakery, "s0"), bread_in(bakery, "s1")
    say(waits, "user", {"text": "wait"}, turn="2")
    number = whatifs.draft([waits, other], actor=SYSTEM)
    whatifs.begin(number, Change(""), actor=SYSTEM)
    until_worked(lambda: Job.objects.filter(kind="whatif", session_id="s0").exists())
    delete_session(waits, actor=SYSTEM)
    assert [row.ref for row in ended(number).rows()] == [other]


def test_code_that_cannot_be_held_back_needs_a_yes(bakery: str) -> None:
    ref = create_session(bakery, "own", "ana", session_id="s1", actor=SYSTEM)
    say(ref, "user", {"text": "Hello"})
    what = tried([ref])
    assert ([row.result for row in what.rows()], what.needs_code) == ([UNDECIDED], True)
    bundle.write(io.BytesIO(), bakery, "own", "ana", actor=SYSTEM, moved=lambda done, total: None)
    (row,) = tried([ref], run_code=True).rows()
    assert row.after
    assert row.after.words == "Hello!"
