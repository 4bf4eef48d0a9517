"""Batches that need a second person: held whole, applied once by another editor, and never done before."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from sessions_app.access import approval, roles
from sessions_app.access.actor import TERMINAL, Actor
from sessions_app.batches import batch, held, items, reading, working
from sessions_app.checks import mask_rules
from sessions_app.domain.edit_note import edit_of
from sessions_app.domain.errors import Conflict, Error, NotAllowed, NotFound
from sessions_app.domain.session_ref import SessionRef
from sessions_app.jobs import runner
from sessions_app.models import AuditRow, Job
from sessions_app.writes.sessions import create_session
from tests.support.at_work import settle
from tests.support.booking import APP, START
from tests.support.people import somebody
from tests.support.stored import counts, events_of, in_threads, state_of

pytestmark = [pytest.mark.usefixtures("own"), pytest.mark.parametrize("form", ["sqlite", "postgresql"])]

AGENT = Actor.holding("agent", "admin")


@pytest.fixture
def refs(
    form: str, new_store: Callable[[str], str], open_source: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> list[SessionRef]:
    """Three sessions of three users."""
    monkeypatch.setattr(working, "LOOK_AGAIN", 0.05)
    source = open_source(new_store(form))
    return [create_session(source, APP, f"u{n}", actor=AGENT, state=START, session_id=f"s{n}") for n in range(3)]


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    settle("batch")


@pytest.fixture
def maria(own: str) -> Actor:
    """An admin of the app."""
    return roles.actor_of(somebody("maria", "admin", APP))


@pytest.fixture
def ben(own: str) -> Actor:
    """An editor of it."""
    return roles.actor_of(somebody("ben", "editor", APP))


def begin(refs: list[SessionRef], actor: Actor, act: reading.ActName = "edit", key: str = "step") -> uuid.UUID:
    """A batch that was tried, and is to be done."""
    made = batch.begin(act, actor=actor, refs=refs)
    batch.try_(made, {key: "pay"} if act == "edit" else {}, actor=actor, reason="by phone")
    settle("batch")
    batch.do(made, actor=actor)
    settle("batch")
    return made


def apply(made: uuid.UUID, actor: Actor) -> None:
    """Applies a batch that this actor sees as it is now."""
    batch.apply(made, dry_run=reading.get(made, actor=actor).dry_run, actor=actor)


def steps(refs: list[SessionRef]) -> list[object]:
    return [state_of(ref)["session"]["step"] for ref in refs]


def test_a_batch_above_a_size_is_held_whole_until_another_editor_applies_it(
    refs: list[SessionRef], maria: Actor, ben: Actor
) -> None:
    approval.make(by=TERMINAL, sessions=2, apps=APP)
    small = begin(refs[:2], maria, key="n")
    assert reading.get(small, actor=maria).stage == "done"
    made = begin(refs, maria)
    assert (reading.get(made, actor=maria).stage, steps(refs)) == ("held", [START["step"]] * 3)
    assert ([each.id for each in reading.waiting(actor=ben)], held.count(actor=ben), held.count(actor=maria)) == (
        [made],
        1,
        0,
    )
    with pytest.raises(NotAllowed):
        apply(made, maria)
    with pytest.raises(NotFound):
        apply(made, roles.actor_of(somebody("sam", "admin", "weather")))
    apply(made, ben)
    settle("batch")
    shown = reading.get(made, actor=ben)
    assert (shown.stage, shown.counts[items.CHANGED], shown.approved_by) == ("done", 3, "ben")
    assert steps(refs) == ["pay"] * 3
    notes = [edit_of(events_of(ref)[-1][1]) for ref in refs]
    assert {(note["actor"], note["approved_by"]) for note in notes} == {("maria", "ben")}
    acts = list(AuditRow.objects.order_by("number").values_list("act", "by"))
    assert acts[-2:] == [("proposed", "maria"), ("proposal-applied", "ben")]


def test_a_batch_of_a_key_that_needs_a_second_person_is_held_and_so_is_its_undo(
    refs: list[SessionRef], maria: Actor, ben: Actor
) -> None:
    approval.make(by=TERMINAL, keys="step")
    made = begin(refs, maria)
    apply(made, ben)
    settle("batch")
    undo = batch.undo(made, actor=maria)
    settle("batch")
    assert (reading.get(undo, actor=maria).stage, steps(refs)) == ("held", ["pay"] * 3)
    batch.decline(undo, actor=ben, why="not now")
    assert "ben declined it. not now" in reading.get(undo, actor=maria).message
    batch.do(undo, actor=maria)
    assert reading.get(undo, actor=maria).stage == "held"
    apply(undo, ben)
    settle("batch")
    assert steps(refs) == [START["step"]] * 3


def test_another_person_of_the_same_name_has_no_batch_of_the_one_before(
    refs: list[SessionRef], maria: Actor, ben: Actor
) -> None:
    made = batch.begin("edit", actor=ben, refs=refs)
    assert reading.get(made, actor=ben).id == made
    with pytest.raises(NotFound):
        reading.get(made, actor=replace(ben, account=f"{ben.account}1"))


def test_a_deletion_needs_a_second_admin(refs: list[SessionRef], maria: Actor, ben: Actor) -> None:
    approval.make(by=TERMINAL, sessions=0)
    made = begin(refs, maria, "delete")
    with pytest.raises(NotFound):
        apply(made, ben)
    assert counts(refs[0].source)["sessions"] == 3
    apply(made, roles.actor_of(somebody("bea", "admin", APP)))
    settle("batch")
    assert counts(refs[0].source)["sessions"] == 0


def test_what_is_declined_withdrawn_or_lapsed_is_not_done_and_can_go_on(
    refs: list[SessionRef], maria: Actor, ben: Actor
) -> None:
    approval.make(by=TERMINAL, sessions=0)
    declined, withdrawn, lapsed = (begin(refs, maria) for _time in range(3))
    batch.decline(declined, actor=ben)
    batch.decline(withdrawn, actor=maria)
    Job.objects.filter(pk=lapsed).update(due=time.time() - 1)
    with pytest.raises(Conflict):
        apply(lapsed, ben)
    assert (batch.lapse_due(), batch.lapse_due()) == (1, 0)
    for made in (declined, withdrawn, lapsed):
        assert reading.get(made, actor=maria).stage == "stopped"
        with pytest.raises(Conflict):
            apply(made, ben)
    assert steps(refs) == [START["step"]] * 3
    batch.try_(declined, {"step": "pay"}, actor=maria)
    settle("batch")
    batch.do(declined, actor=maria)
    assert reading.get(declined, actor=maria).stage == "held"


def test_a_held_batch_cannot_become_another_one_and_begins_once(
    refs: list[SessionRef], maria: Actor, ben: Actor
) -> None:
    approval.make(by=TERMINAL, sessions=0)
    made = begin(refs, maria)
    with pytest.raises(Conflict):
        batch.try_(made, {"step": "other"}, actor=maria)
    batch.do(made, actor=maria)

    def act() -> bool:
        try:
            apply(made, ben)
        except Error:
            return False
        return True

    assert sum(in_threads([act] * 4)) == 1
    settle("batch")
    assert ([len(events_of(ref)) for ref in refs], steps(refs)) == ([1] * 3, ["pay"] * 3)


def test_a_rule_that_is_made_meanwhile_leaves_the_sessions_alone(refs: list[SessionRef], maria: Actor) -> None:
    made = batch.begin("edit", actor=maria, refs=refs)
    batch.try_(made, {"step": "pay"}, actor=maria)
    settle("batch")
    job = Job.objects.get(pk=made)
    approval.make(by=TERMINAL, keys="step")
    act = working.Edit(str(made), maria, {"step": "pay"})
    item = items.of(made, items.TO_DO).order_by("number").first()
    with pytest.raises(NotAllowed):
        act.do(refs[0], item.expects, first=True, begin=lambda: None)
    assert (json.loads(job.task)["act"], steps(refs)) == ("edit", [START["step"]] * 3)


def test_a_batch_that_was_tried_and_held_again_is_not_applied_from_a_page_of_before(
    refs: list[SessionRef], maria: Actor, ben: Actor
) -> None:
    approval.make(by=TERMINAL, sessions=0)
    made = begin(refs, maria)
    seen = reading.get(made, actor=ben).dry_run
    batch.decline(made, actor=maria)
    batch.try_(made, {"step": "refund"}, actor=maria)
    settle("batch")
    batch.do(made, actor=maria)
    with pytest.raises(Conflict):
        batch.apply(made, dry_run=seen, actor=ben)
    assert (reading.get(made, actor=ben).stage, steps(refs)) == ("held", [START["step"]] * 3)
    apply(made, ben)
    settle("batch")
    assert steps(refs) == ["refund"] * 3


def test_what_a_second_person_applied_stays_its_authors_whoever_goes_on_with_it(
    refs: list[SessionRef], maria: Actor, ben: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    approval.make(by=TERMINAL, sessions=0)
    made = begin(refs, maria)
    with monkeypatch.context() as patch:
        patch.setattr(runner, "start", lambda job, **fields: bool(Job.objects.filter(pk=job.pk).update(**fields)))
        apply(made, ben)
    Job.objects.filter(pk=made).update(state="stopped")  # before its first session
    batch.do(made, actor=ben)
    settle("batch")
    notes = [edit_of(events_of(ref)[-1][1]) for ref in refs]
    assert {(note["actor"], note["approved_by"]) for note in notes} == {("maria", "ben")}


def test_nobody_has_a_batch_held_that_they_may_not_do_themselves(refs: list[SessionRef], maria: Actor) -> None:
    approval.make(by=TERMINAL, sessions=0)
    made = batch.begin("edit", actor=maria, refs=refs)
    batch.try_(made, {"step": "pay"}, actor=maria)
    settle("batch")
    with pytest.raises(NotAllowed):
        batch.do(made, actor=roles.actor_of(somebody("maria", "viewer", APP)))
    assert reading.get(made, actor=maria).stage == "ready"


def test_a_held_batch_is_withdrawn_and_not_discarded(refs: list[SessionRef], maria: Actor) -> None:
    approval.make(by=TERMINAL, sessions=0)
    made = begin(refs, maria)
    with pytest.raises(Conflict):
        batch.discard(made, actor=maria)
    assert reading.get(made, actor=maria).stage == "held"


def test_a_rule_about_sizes_that_is_made_meanwhile_stops_a_deletion(refs: list[SessionRef], maria: Actor) -> None:
    made = batch.begin("delete", actor=maria, refs=refs)
    batch.try_(made, {}, actor=maria)
    settle("batch")
    approval.make(by=TERMINAL, sessions=2)
    task = Job.objects.get(pk=made)
    assert runner.start(task, step="doing")  # it was begun before the rule
    settle("batch")
    shown = reading.get(made, actor=maria)
    assert (shown.counts[items.REFUSED], counts(refs[0].source)["sessions"]) == (3, 3)


def test_a_masked_value_that_a_batch_writes_is_dots_on_its_page(refs: list[SessionRef], maria: Actor) -> None:
    made = batch.begin("edit", actor=maria, refs=refs)
    batch.try_(made, {"card_token": "tok_4711", "step": "pay"}, actor=maria, reason="for 4111111111111111")
    settle("batch")
    mask_rules.create("book*", "key", "*token*", actor=TERMINAL)
    mask_rules.create("book*", "form", "card", actor=TERMINAL)
    for who in (maria, roles.actor_of(somebody("vera", "viewer"))):
        shown = {each.key: each.new for each in reading.get(made, actor=who).changes}
        assert "tok_4711" not in str(shown)
        assert (shown["step"], reading.get(made, actor=who).reason) == ("pay", "for ••••")
    batch.do(made, actor=maria)
    settle("batch")
    assert {state_of(ref)["session"]["card_token"] for ref in refs} == {"tok_4711"}


def test_a_batch_that_goes_on_is_held_by_its_whole_size(refs: list[SessionRef], maria: Actor) -> None:
    made = batch.begin("edit", actor=maria, refs=refs)
    batch.try_(made, {"step": "pay"}, actor=maria)
    settle("batch")
    first = items.of(made, items.TO_DO).order_by("number").first()
    items.note(first, outcome=items.CHANGED)
    Job.objects.filter(pk=made).update(state="stopped", step="doing")
    approval.make(by=TERMINAL, sessions=2)
    batch.do(made, actor=maria)
    assert reading.get(made, actor=maria).stage == "held"
