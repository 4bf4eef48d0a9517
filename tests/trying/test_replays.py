"""Many sessions are replayed as a job: it can be stopped and taken over, and its outcomes are masked and forgotten."""

from __future__ import annotations

import io
import json
import time
import uuid
import zipfile
from collections.abc import Iterator

import pytest
from django.test import override_settings

from sessions_app.access import roles
from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.checks import mask_rules
from sessions_app.domain.errors import AgentError, Invalid, NotAllowed, NotFound
from sessions_app.domain.session_ref import SessionRef
from sessions_app.jobs import runner
from sessions_app.jobs.lease import DONE, Lease
from sessions_app.models import Job, TriedSession
from sessions_app.privacy import bundle, own_rows
from sessions_app.trying import many, replaying, replays
from sessions_app.trying.replaying import DIVERGED, SAME, UNDECIDED
from sessions_app.writes.sessions import delete_session
from tests.support.at_work import settle
from tests.support.people import somebody
from tests.trying.conftest import AGENTS, say, visit

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("forked_agents")]


@pytest.fixture
def operator(shop: str) -> Iterator[Actor]:
    """An operator of the shop, whose agents adkweb may start."""
    with override_settings(AGENTS={shop: str(AGENTS)}, RUN_AGENTS=True):
        yield person("olga", "operator")
        settle("replay")


def person(*role: str) -> Actor:
    return roles.actor_of(somebody(*role))


def replayed(refs: list[SessionRef], actor: Actor) -> uuid.UUID:
    """A replay that has ended."""
    number = replays.draft(refs, actor=actor)
    replays.begin(number, actor=actor)
    settle("replay")
    return number


def order(ref: SessionRef, pin: str = "4711") -> None:
    """Has the agent call a tool of which today's doesn't know an argument."""
    call = {"function_call": {"id": "c1", "name": "order", "args": {"pin": pin, "item": "tea"}}}
    say(ref, "user", {"text": "Tea"}, turn="2")
    say(ref, "shop", call, turn="2")
    say(ref, "shop", {"function_response": {"id": "c1", "name": "order", "response": {"ok": True}}}, turn="2")


def test_outcomes_are_grouped_by_what_they_have_in_common(shop: str, operator: Actor) -> None:
    refs = [visit(shop, f"s{number}", number) for number in (1, 2, 3)]
    order(refs[1])
    order(refs[2])
    replay = replays.get(replayed(refs, operator), actor=operator)
    assert (replay.stage, replay.done, replay.counts) == (DONE, 3, {"": 0, SAME: 1, DIVERGED: 2, UNDECIDED: 0})
    (first, last), number = replay.groups()
    assert number == 2
    assert (first.size, first.what, first.agent, first.tool) == (2, "arguments", "shop", "order")
    assert [row.replayed.turn for row in first.rows] == [2, 2]
    assert (last.result, [row.replayed.ref for row in last.rows]) == (SAME, refs[:1])
    assert (
        replay.command
        == 'adkweb replay ./agents -q \'session:"s1" or session:"s2" or session:"s3"\' --fail-on-divergence'
    )


def test_an_outcome_is_masked_by_a_rule_that_was_added_since(shop: str, operator: Actor) -> None:
    ref = visit(shop, "s1", 1)
    order(ref)
    number = replayed([ref], operator)

    def expected(actor: Actor) -> object:
        return replays.get(number, actor=actor).groups()[0][0].rows[0].replayed.expected

    assert expected(operator) == {"pin": "4711", "item": "tea"}
    mask_rules.create("*", "key", "pin", actor=SYSTEM)
    for actor in (operator, person("ada", "admin")):
        assert expected(actor) == {"pin": "••••", "item": "tea"}


def test_a_replay_is_for_operators_of_all_its_apps(shop: str, operator: Actor) -> None:
    number = replayed([visit(shop, "s1", 1)], operator)
    for who in (person("vera", "viewer"), person("otto", "operator", "booking")):
        with pytest.raises(NotFound):
            replays.get(number, actor=who)
        assert replays.recent(actor=who) == []
    with pytest.raises(NotAllowed):
        replays.draft([SessionRef(shop, "shop", "ana", "s1")], actor=person("vera", "viewer"))


def test_without_a_folder_of_the_agent_no_replay_is_made(shop: str, operator: Actor) -> None:
    ref = visit(shop, "s1", 1)
    with override_settings(AGENTS={}), pytest.raises(AgentError):
        replays.draft([ref], actor=operator)
    with pytest.raises(Invalid):
        replays.draft([], actor=operator)
    assert not TriedSession.objects.exists()


@pytest.mark.guarantee(
    "Databases and files", "A replay of many sessions continues after a crash, and replays none twice."
)
def test_a_replay_whose_process_died_replays_only_what_is_left(
    shop: str, operator: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = replays.draft([visit(shop, f"s{each}", each) for each in (1, 2, 3)], actor=operator)
    TriedSession.objects.filter(job=number, number=0).update(result=SAME, outcome="{}")
    lease = Lease.take(Job.objects.get(pk=number), 0.0, step=many.RUNNING)
    assert lease
    Job.objects.filter(pk=number).update(process="")
    time.sleep(0.01)
    seen: list[str] = []
    real = replaying.replays

    def told(refs: Iterator[SessionRef], **options: object) -> object:
        return real((seen.append(ref.session_id) or ref for ref in refs), **options)  # type: ignore[func-returns-value, arg-type]

    monkeypatch.setattr(replaying, "replays", told)
    runner.take_over()
    settle("replay")
    assert (replays.get(number, actor=operator).stage, seen) == (DONE, ["s2", "s3"])


def test_a_replay_can_be_stopped_and_continues(shop: str, operator: Actor) -> None:
    refs = [visit(shop, "s0", 1, do="sleep"), *(visit(shop, f"s{n}", n, user="zoe") for n in (1, 2, 3))]
    number = replays.draft(refs[1:], actor=operator)
    lease = Lease.take(Job.objects.get(pk=number), 60.0, step=many.RUNNING)
    replays.stop(number, actor=operator)
    replay = replays.get(number, actor=operator)
    assert lease
    assert (replay.stage, replay.message, replay.counts[""]) == ("stopped", "olga stopped it.", 3)
    replays.begin(number, actor=operator)
    settle("replay")
    assert replays.get(number, actor=operator).counts == {"": 0, SAME: 3, DIVERGED: 0, UNDECIDED: 0}


def test_run_again_shows_what_changed_since(shop: str, operator: Actor) -> None:
    refs = [visit(shop, "s1", 1), visit(shop, "s2", 2)]
    number = replayed(refs, operator)
    order(refs[1])
    second = replays.again(number, actor=operator)
    settle("replay")
    ((old, new),) = replays.get(second, actor=operator).changed()
    assert (old.replayed.result, new.replayed.result, new.replayed.ref) == (SAME, DIVERGED, refs[1])
    order(refs[1], pin="1234")
    mask_rules.create("*", "key", "pin", actor=SYSTEM)
    assert len(replays.get(second, actor=operator).changed()) == 1


def test_outcomes_go_with_their_session_and_their_user_and_after_a_week(shop: str, operator: Actor) -> None:
    refs = [visit(shop, "s1", 1), visit(shop, "s2", 1, user="zoe"), visit(shop, "s3", 1, user="bo")]
    number = replayed(refs, operator)
    delete_session(refs[0], actor=SYSTEM)
    own_rows.forget_user(shop, "shop", "zoe", kept=())
    assert [json.loads(each)[1] for each in TriedSession.objects.values_list("names", flat=True)] == ["bo"]
    Job.objects.filter(pk=number).update(created=time.time() - 8 * 86_400)
    replays.forget_old()
    assert not TriedSession.objects.exists()


def test_what_is_exported_of_a_user_has_their_outcomes_masked(shop: str, operator: Actor) -> None:
    ref = visit(shop, "s1", 1)
    order(ref)
    replayed([ref, visit(shop, "s2", 1, user="zoe")], operator)
    mask_rules.create("*", "key", "pin", actor=SYSTEM)
    file = io.BytesIO()
    bundle.write(file, shop, "shop", "ana", actor=person("ada", "admin"), moved=lambda done, total: None)
    with zipfile.ZipFile(file) as made:
        (row,) = json.loads(made.read("about.json"))["replays"]
    assert (row["session"], json.loads(row["outcome"])["expected"]) == ("s1", {"pin": "••••", "item": "tea"})


def test_replays_and_what_ifs_are_looked_up_without_all_runs_of_the_past(own: str) -> None:
    for rows in (many.jobs("replay").order_by("-created"), many.jobs("whatif").filter(created__lt=1.0)):
        assert "jobs_tried" in rows.explain()
