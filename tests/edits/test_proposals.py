"""Edits that need a second person: kept as proposals, applied once by another editor, and never gone round."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from django.db import OperationalError
from pytest_django import Settings

from sessions_app.access import approval, roles, tokens
from sessions_app.access.actor import SYSTEM, TERMINAL, Actor
from sessions_app.access.approval import ApprovalRule
from sessions_app.access.tokens import ApiToken
from sessions_app.checks import mask_rules
from sessions_app.domain.edit_note import edit_of
from sessions_app.domain.errors import Conflict, Error, Held, Invalid, NotAllowed, NotFound
from sessions_app.domain.mask_patterns import DOTS
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits import edit, ending, expiry, proposal_job, proposals, queue, rewind
from sessions_app.edits.edit import Entry
from sessions_app.edits.proposals import Proposal
from sessions_app.models import AuditRow, Job
from sessions_app.reads import views
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session, delete_session
from tests.support.booking import START
from tests.support.people import an_admin, as_admin, somebody
from tests.support.stored import assert_state_is_what_events_say, events_of, everything, in_threads

AGENT = Actor.holding("agent", "admin")
GOLD = [Entry("user:tier", "vip", "gold"), Entry("step", "pay", "search")]

pytestmark = pytest.mark.usefixtures("own")
on_both_of_adkwebs_own = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def ref(
    request: pytest.FixtureRequest, new_store: Callable[[str], str], open_source: Callable[[str], str]
) -> SessionRef:
    """A session with state in every scope, and a rule for its user's tier."""
    source = open_source(new_store(request.param))
    approval.make(by=TERMINAL, keys="user:tier", apps="book*")
    return create_session(source, "booking", "ana", actor=AGENT, state=START, session_id="s1")


@pytest.fixture
def maria(own: str) -> Actor:
    """An editor of the app."""
    return roles.actor_of(somebody("maria", "editor", "booking"))


@pytest.fixture
def ben(own: str) -> Actor:
    """Another one."""
    return roles.actor_of(somebody("ben", "editor", "booking"))


def propose(ref: SessionRef, actor: Actor, *entries: Entry, **more: Any) -> Proposal:
    """An edit that waits for a second person."""
    with pytest.raises(Held) as held:
        edit.edit_state(ref, entries or GOLD, actor=actor, reason="by phone", **more)
    return proposals.get(held.value.detail["proposal"], actor=actor)


def state(ref: SessionRef) -> dict[str, Any]:
    return views.session(ref, actor=SYSTEM).state.merged()


def test_an_edit_of_such_a_key_waits_until_another_editor_applies_it_and_has_both_names(
    ref: SessionRef, maria: Actor, ben: Actor
) -> None:
    before = everything(ref.source)
    waiting = propose(ref, maria)
    assert everything(ref.source) == before
    assert [(each.key, each.old, each.new) for each in waiting.changes] == [
        ("user:tier", "gold", "vip"),
        ("step", "search", "pay"),
    ]
    assert (waiting.state, waiting.own, waiting.decidable) == ("waiting", True, False)
    assert (proposals.count(actor=ben), proposals.count(actor=maria)) == (1, 0)
    applied = proposal_job.apply(waiting.id, actor=ben)
    (_seq, event), *more = events_of(ref)
    note = edit_of(event)
    assert (note["actor"], note["approved_by"], note["reason"]) == ("maria", "ben", "by phone")
    assert (note["proposed"], note["replaced"]) == (waiting.created, {"user:tier": "gold", "step": "search"})
    assert (more, applied.state, applied.decided_by, applied.event_id) == ([], "applied", "ben", event["id"])
    assert (state(ref)["user:tier"], state(ref)["step"], proposals.count(actor=ben)) == ("vip", "pay", 0)
    assert_state_is_what_events_say(ref.source, {ref: START})


@pytest.mark.guarantee(
    "Agents", "Where a rule names a tool, an event that answers a call by hand needs a second person, too."
)
def test_an_answer_that_is_written_by_hand_waits_for_a_second_person(ref: SessionRef, maria: Actor, ben: Actor) -> None:
    answer = {"id": "c1", "name": "adk_request_confirmation", "response": {"confirmed": True, "iban": "DE1"}}
    by_hand = {"author": "user", "content": {"parts": [{"function_response": answer}]}}
    edit.add_event(ref, by_hand, actor=maria)
    approval.make(by=TERMINAL, tools="pay", apps="booking")
    mask_rules.create("*", "key", "iban", actor=SYSTEM)
    with pytest.raises(Held, match="adk_request_confirmation: needs a second person") as held:
        edit.add_event(ref, by_hand, actor=maria)
    number = held.value.detail["proposal"]
    shown = proposals.get(number, actor=ben)
    assert [(each.key, each.new["confirmed"], each.new["iban"]) for each in shown.answers] == [
        ("adk_request_confirmation", True, DOTS)
    ]
    with pytest.raises(NotAllowed):
        proposal_job.apply(number, actor=maria)
    assert len(events_of(ref)) == 1
    proposal_job.apply(number, actor=ben)
    assert len(events_of(ref)) == 2
    edit.add_event(ref, {"author": "user", "content": {"parts": [{"text": "Hello"}]}}, actor=maria)


def test_nobody_is_their_own_second_person_and_a_program_is_none(ref: SessionRef, maria: Actor, ben: Actor) -> None:
    waiting = propose(ref, maria)
    hal = roles.actor_of(somebody("hal", "editor", "booking"))
    token, text = tokens.create("bot", "append", "*", by=as_admin("ben"), holders=["hal"])
    bot = tokens.actor_of(text)
    assert bot is not None
    bot_waits = propose(ref, bot)
    for who, which in (
        (maria, waiting),
        (roles.actor_of(somebody("vic", "viewer")), waiting),
        (bot, waiting),
        (TERMINAL, waiting),
        (ben, bot_waits),
        (hal, bot_waits),
    ):
        for act in (proposal_job.apply, proposal_job.decline):
            with pytest.raises(NotAllowed):
                act(which.id, actor=who)
    with pytest.raises(NotFound):
        proposal_job.apply(waiting.id, actor=roles.actor_of(somebody("sam", "admin", "weather")))
    with pytest.raises(NotAllowed):
        proposal_job.cancel(waiting.id, actor=ben)
    assert (events_of(ref), token.created_by) == ([], "ben")
    assert proposal_job.apply(bot_waits.id, actor=maria).state == "applied"


def test_a_proposal_whose_event_was_written_before_adkwebs_own_database_went_away_is_applied(
    ref: SessionRef, maria: Actor, ben: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = propose(ref, maria)
    append = edit.append_once

    def cut(*args: Any, **more: Any) -> None:
        append(*args, **more)
        raise OperationalError("the connection is lost")

    with monkeypatch.context() as patch:
        patch.setattr(edit, "append_once", cut)
        with pytest.raises(OperationalError):
            proposal_job.apply(waiting.id, actor=ben)
    with pytest.raises(Conflict):
        proposal_job.decline(waiting.id, actor=ben)
    assert (proposals.get(waiting.id, actor=ben).state, len(events_of(ref))) == ("applied", 1)


def test_who_renewed_a_programs_token_knows_its_text_and_is_no_second_person(
    ref: SessionRef, maria: Actor, ben: Actor
) -> None:
    dora, pia = (somebody(name, "editor", "booking") for name in ("dora", "pia"))
    hal, hana = (somebody(name, "editor", "booking") for name in ("hal", "hana"))
    tokens.create("bot", "append", "*", by=as_admin("terminal"), holders=["hal"])
    for person in (dora, pia):
        text = ApiToken.objects.named("bot").renew(by=as_admin(person.username, person.pk))
    assert ApiToken.objects.named("bot").held_by == ("hal",)
    ApiToken.objects.named("bot").renew(by=as_admin("terminal"), holders=[" hana "])
    assert ApiToken.objects.named("bot").held_by == ("hana",)
    bot = tokens.actor_of(text)
    assert bot is not None
    waiting = propose(ref, bot)
    for person in (dora, pia, hal, hana):  # hal has the text from before
        with pytest.raises(NotAllowed):
            proposal_job.apply(waiting.id, actor=roles.actor_of(person))
    assert proposal_job.apply(waiting.id, actor=maria).state == "applied"


def test_where_nobody_knows_who_has_a_programs_token_two_people_have_to_apply_what_it_proposes(
    ref: SessionRef, maria: Actor, ben: Actor
) -> None:
    _token, text = tokens.create("bot", "append", "*", by=as_admin("terminal"))
    bot = tokens.actor_of(text)
    assert bot is not None
    waiting = propose(ref, bot)
    first = proposal_job.apply(waiting.id, actor=maria)
    assert (first.state, first.first, first.decidable, events_of(ref)) == ("waiting", "maria", False, [])
    with pytest.raises(NotAllowed):
        proposal_job.apply(waiting.id, actor=maria)
    # Who may not edit the app any more counts no more.
    somebody("maria", "viewer", "booking")
    second = proposal_job.apply(waiting.id, actor=ben)
    assert (second.state, second.first) == ("waiting", "ben")
    maria = roles.actor_of(somebody("maria", "editor", "booking"))
    done = proposal_job.apply(waiting.id, actor=maria)
    assert (done.state, done.decided_by) == ("applied", "ben, maria")
    assert edit_of(events_of(ref)[0][1])["approved_by"] == "ben, maria"
    assert list(AuditRow.objects.filter(act__startswith="proposal-").order_by("number").values_list("act", "by")) == [
        ("proposal-seconded", "maria"),
        ("proposal-seconded", "ben"),
        ("proposal-applied", "ben, maria"),
    ]


def test_a_holder_is_an_account(own: str) -> None:
    with pytest.raises(Invalid, match="ghost"):
        tokens.create("bot", "append", "*", by=as_admin("terminal"), holders=["ghost"])
    assert ApiToken.objects.listed() == []


def test_rights_are_asked_when_somebody_decides(ref: SessionRef, maria: Actor, ben: Actor) -> None:
    waiting = propose(ref, maria)
    lost = roles.actor_of(somebody("ben", "viewer", "booking"))
    for act in (proposal_job.apply, proposal_job.decline):
        with pytest.raises(NotAllowed):
            act(waiting.id, actor=lost)
    back = roles.actor_of(somebody("ben", "editor", "booking"))
    somebody("maria", "viewer", "booking")
    with pytest.raises(NotAllowed, match="maria"):
        proposal_job.apply(waiting.id, actor=back)
    assert (events_of(ref), proposals.get(waiting.id, actor=back).state) == ([], "waiting")


def test_a_proposal_whose_key_changed_shows_it_and_is_not_applied(ref: SessionRef, maria: Actor, ben: Actor) -> None:
    waiting = propose(ref, maria)
    append_event(ref, {"author": "agent", "actions": {"state_delta": {"user:tier": "none"}}}, actor=AGENT)
    with pytest.raises(Conflict) as conflict:
        proposal_job.apply(waiting.id, actor=ben, now=True)
    assert conflict.value.detail["changed"] == ["user:tier"]
    (change,) = proposals.obstacles(waiting, actor=ben).changed
    assert (change.old, change.new, state(ref)["user:tier"], len(events_of(ref))) == ("gold", "none", "none", 1)
    assert proposals.get(waiting.id, actor=ben).state == "waiting"


def test_a_proposal_whose_session_is_gone_says_so_and_can_be_declined(
    ref: SessionRef, maria: Actor, ben: Actor
) -> None:
    waiting = propose(ref, maria)
    delete_session(ref, actor=SYSTEM)
    assert "There's no session" in proposals.obstacles(waiting, actor=ben).problem
    with pytest.raises(NotFound):
        proposal_job.apply(waiting.id, actor=ben)
    assert proposal_job.decline(waiting.id, actor=ben, why=" gone ").why == "gone"


def test_what_lapsed_was_declined_or_withdrawn_is_never_applied_and_can_be_proposed_anew(
    ref: SessionRef, maria: Actor, ben: Actor
) -> None:
    lapsing, declined, withdrawn = (propose(ref, maria, once=once) for once in "abc")
    assert lapsing.until == pytest.approx(time.time() + 7 * 86400, abs=60)
    Job.objects.filter(pk=lapsing.id).update(due=time.time() - 1)
    with pytest.raises(Conflict, match="lapsed"):
        proposal_job.apply(lapsing.id, actor=ben)
    proposal_job.decline(declined.id, actor=ben)
    proposal_job.cancel(withdrawn.id, actor=maria)
    ends = [proposals.get(each.id, actor=ben) for each in (lapsing, declined, withdrawn)]
    assert [(each.state, each.decided_by) for each in ends] == [
        ("lapsed", ""),
        ("declined", "ben"),
        ("withdrawn", "maria"),
    ]
    for each in ends:
        for act in (proposal_job.apply, proposal_job.decline):
            with pytest.raises(Conflict):
                act(each.id, actor=ben)
    with pytest.raises(Conflict, match="This proposal has already been decided"):
        edit.edit_state(ref, GOLD, actor=maria, reason="by phone", once="b")
    again = [Entry(each.key, each.new, each.old) for each in ends[1].changes]
    assert (propose(ref, maria, *again, once="d").state, events_of(ref)) == ("waiting", [])


def test_what_nobody_decided_lapses_by_itself(ref: SessionRef, maria: Actor) -> None:
    waiting = propose(ref, maria)
    assert proposal_job.lapse_due() == 0
    Job.objects.filter(pk=waiting.id).update(due=time.time() - 1)
    assert (proposal_job.lapse_due(), proposal_job.lapse_due()) == (1, 0)
    assert proposals.get(waiting.id, actor=maria).state == "lapsed"


def test_an_edit_that_is_sent_again_is_proposed_once_and_written_once(
    ref: SessionRef, maria: Actor, ben: Actor
) -> None:
    waiting = propose(ref, maria, once="form")
    assert propose(ref, maria, once="form").id == waiting.id
    proposal_job.apply(waiting.id, actor=ben)
    assert edit.edit_state(ref, GOLD, actor=maria, once="form").event["id"] == waiting.event_id
    assert len(events_of(ref)) == 1


@on_both_of_adkwebs_own
def test_many_processes_apply_a_proposal_once(ref: SessionRef, maria: Actor, ben: Actor) -> None:
    waiting = propose(ref, maria)

    def act() -> bool:
        try:
            return proposal_job.apply(waiting.id, actor=ben).state == "applied"
        except Error:
            return False

    assert sum(in_threads([act] * 6)) == 1
    assert len(events_of(ref)) == 1


def test_a_process_that_died_after_writing_is_followed_by_one_that_sees_it(
    ref: SessionRef, maria: Actor, ben: Actor
) -> None:
    waiting = propose(ref, maria)
    proposal_job.apply(waiting.id, actor=ben)
    died = {"state": "waiting", "finished": None, "claim": "x", "claimed_until": 1.0}
    for act in (
        lambda: proposal_job.apply(waiting.id, actor=ben),
        lambda: proposal_job.decline(waiting.id, actor=ben),
        lambda: proposal_job.cancel(waiting.id, actor=maria),
    ):
        Job.objects.filter(pk=waiting.id).update(**died)
        with suppress(Conflict):
            act()
        assert (len(events_of(ref)), proposals.get(waiting.id, actor=ben).decided_by) == (1, "ben")
        assert proposals.get(waiting.id, actor=ben).state == "applied"


def test_no_way_of_editing_goes_round_the_second_person(ref: SessionRef, maria: Actor) -> None:
    said = {
        "author": "user",
        "invocation_id": "i1",
        "timestamp": time.time() - 60,
        "actions": {"state_delta": {"n": 1}},
    }
    append_event(ref, said, actor=AGENT)
    approval.make(by=TERMINAL, keys="[nx]", sources="*")
    person = somebody("maria", "editor", "booking")
    note = {"adkweb": {"actor": "maria", "reason": "", "replaced": {}, "removed": []}}
    event = {"author": "system", "actions": {"state_delta": {"user:tier": 1}}, "custom_metadata": note}
    tier, other = [Entry("user:tier", ABSENT, "gold")], [Entry("user:tier", "x", edit.UNKNOWN)]
    ways: list[Callable[[], Any]] = [
        lambda: edit.edit_state(ref, tier, actor=maria),
        lambda: edit.edit_state(ref, tier, actor=maria, revision=views.session(ref, actor=SYSTEM).revision),
        lambda: edit.edit_user_state(*ref[:3], tier, actor=maria),
        lambda: edit.overwrite_state(ref, other, actor=maria),
        lambda: edit.add_event(ref, {"author": "agent", "actions": {"state_delta": {"user:tier": 1}}}, actor=maria),
        lambda: queue.queue_edit(ref, tier, person=person),
        lambda: rewind.rewind(ref, "i1", actor=maria),
        lambda: append_event(ref, event, actor=maria, origin="person"),
        lambda: create_session(*ref[:3], actor=maria, state={"x": 1}, origin="person"),
    ]
    before = events_of(ref)
    for way in ways:
        with pytest.raises(Held):
            way()
    assert (events_of(ref), state(ref)["user:tier"]) == (before, "gold")


def test_a_rewind_and_an_event_by_hand_are_applied_as_they_were_proposed(
    ref: SessionRef, maria: Actor, ben: Actor
) -> None:
    said = {
        "author": "user",
        "invocation_id": "i1",
        "timestamp": time.time() - 60,
        "actions": {"state_delta": {"n": 1}},
    }
    append_event(ref, said, actor=AGENT)
    approval.make(by=TERMINAL, keys="n")
    with pytest.raises(Held) as held:
        rewind.rewind(ref, "i1", actor=maria)
    back = proposals.get(held.value.detail["proposal"], actor=ben)
    with pytest.raises(Held) as held:
        edit.add_event(ref, {"author": "agent", "actions": {"state_delta": {"user:tier": "x"}}}, actor=maria)
    by_hand = held.value.detail["proposal"]
    assert proposals.draft_of(by_hand, actor=maria)["actions"] == {"state_delta": {"user:tier": "x"}}
    assert (back.kind, proposals.get(by_hand, actor=ben).kind) == ("rewind", "event")
    proposal_job.apply(back.id, actor=ben)
    proposal_job.apply(by_hand, actor=ben)
    assert (state(ref).get("n"), state(ref)["user:tier"], len(events_of(ref))) == (None, "x", 3)
    assert [edit_of(event)["approved_by"] for _seq, event in events_of(ref)[1:]] == ["ben", "ben"]


def test_what_an_agent_writes_is_never_held_and_an_other_app_neither(ref: SessionRef, maria: Actor) -> None:
    append_event(ref, {"author": "agent", "actions": {"state_delta": {"user:tier": "vip"}}}, actor=AGENT)
    other = create_session(ref.source, "weather", "ana", actor=AGENT)
    edit.edit_state(other, [Entry("user:tier", "x", ABSENT)], actor=roles.actor_of(an_admin("rita")))
    edit.edit_state(ref, [Entry("user:tiers", "x", ABSENT)], actor=maria)
    assert (state(ref)["user:tier"], state(other)["user:tier"]) == ("vip", "x")


def test_an_hour_begins_when_the_edit_is_applied_and_ends_without_asking(
    ref: SessionRef, maria: Actor, ben: Actor
) -> None:
    waiting = propose(ref, maria, of={"lasts": 3600.0})
    assert not Job.objects.filter(kind="expiry").exists()
    Job.objects.filter(pk=waiting.id).update(created=time.time() - 86400)
    proposal_job.apply(waiting.id, actor=ben)
    (lasting,) = expiry.listed(actor=SYSTEM)
    assert lasting.until == pytest.approx(time.time() + 3600, abs=60)
    for act in (
        lambda: expiry.keep(lasting.id, actor=maria),
        lambda: expiry.extend(lasting.id, {"lasts": 1e6}, actor=maria),
    ):
        with pytest.raises(Held):
            act()
    Job.objects.filter(pk=lasting.id).update(due=time.time() - 1)
    assert (ending.apply_due(), state(ref)["user:tier"]) == (1, "gold")


def test_an_invocation_is_ended_only_if_the_second_person_says_so(ref: SessionRef, maria: Actor, ben: Actor) -> None:
    waiting = propose(ref, maria)
    content = {"role": "user", "parts": [{"text": "…"}]}
    said = {"author": "user", "invocation_id": "i1", "timestamp": time.time(), "content": content}
    append_event(ref, said, actor=AGENT)
    with pytest.raises(Conflict) as conflict:
        proposal_job.apply(waiting.id, actor=ben)
    assert (conflict.value.detail["running"], len(events_of(ref))) == (True, 1)
    proposal_job.apply(waiting.id, actor=ben, now=True)
    assert edit_of(events_of(ref)[-1][1])["ended"] == "i1"


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"keys": " "},
        {"keys": "a\nb"},
        {"keys": "x" * 201},
        {"keys": "a", "days": 0},
        {"keys": "a", "days": 91},
        {"sessions": -1},
        {"keys": "a", "apps": "a\0"},
    ],
)
def test_a_rule_that_is_none_is_refused(own: str, given: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        approval.make(by=TERMINAL, **given)
    assert not ApprovalRule.objects.exists()


def test_rules_and_what_became_of_proposals_are_in_the_audit(ref: SessionRef, maria: Actor, ben: Actor) -> None:
    waiting = propose(ref, maria)
    proposal_job.apply(waiting.id, actor=ben)
    approval.delete(approval.listed()[0].pk, by=TERMINAL)
    rows = AuditRow.objects.order_by("number").values_list("act", "by", "session_id")
    assert [row for row in rows if "token" not in row[0]] == [
        ("approval-rule-made", "terminal", ""),
        ("proposed", "maria", "s1"),
        ("proposal-applied", "ben", "s1"),
        ("approval-rule-deleted", "terminal", ""),
    ]


def test_only_an_admin_of_everything_makes_and_deletes_rules_which_hold_at_once(ref: SessionRef, maria: Actor) -> None:
    (rule,) = approval.listed()
    for act in (lambda: approval.make(by=maria, keys="*"), lambda: approval.delete(rule.pk, by=maria)):
        with pytest.raises(NotAllowed):
            act()
    waiting = propose(ref, maria)
    approval.delete(rule.pk, by=TERMINAL)
    edit.edit_state(ref, GOLD, actor=maria)
    assert (len(events_of(ref)), proposals.get(waiting.id, actor=maria).state) == (1, "waiting")


def test_a_rule_names_a_key_with_brackets_as_it_is(ref: SessionRef, maria: Actor) -> None:
    approval.make(by=TERMINAL, keys="limit[eur]")
    with pytest.raises(Held):
        edit.edit_state(ref, [Entry("limit[eur]", 9, ABSENT)], actor=maria)


def test_what_a_rule_hides_in_a_reason_is_hidden_where_it_waits(ref: SessionRef, maria: Actor, ben: Actor) -> None:
    mask_rules.create("*", "form", "card", actor=TERMINAL)
    card = "4111111111111111"
    with pytest.raises(Held) as held:
        edit.edit_state(ref, GOLD, actor=maria, reason=f"for {card}")
    declined = proposal_job.decline(held.value.detail["proposal"], actor=ben, why=f"not {card}")
    assert (declined.reason, declined.why) == ("for ••••", "not ••••")
    edit.edit_state(ref, [Entry("step", "pay", "search")], actor=maria, reason=f"for {card}", of={"lasts": 60.0})
    assert expiry.listed(actor=maria)[0].reason == "for ••••"


def test_nobody_can_try_values_on_the_id_of_an_edit(settings: Settings) -> None:
    what = [["pin", "1234", False]]
    made = edit.id_of("once", what)
    assert made == edit.id_of("once", what) != edit.id_of("once", [["pin", "1235", False]])
    settings.SECRET_KEY = "another"
    assert made != edit.id_of("once", what)
