"""Rules against a plain count of the same changes: over all history by a job, and live; on both databases."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from sessions_app.access.actor import SYSTEM
from sessions_app.checks import breaches, checking, rule_jobs, rules
from sessions_app.checks.live_checks import check_due
from sessions_app.domain.errors import Invalid, NotAllowed, NotFound
from sessions_app.domain.session_ref import SessionRef, own_session
from sessions_app.domain.state import ABSENT
from sessions_app.edits.edit import Entry, edit_app_state
from sessions_app.jobs import runner
from sessions_app.models import Breach, CheckedSession, DueSession, Job, Rule
from sessions_app.search import state_condition
from sessions_app.search.health import Range
from sessions_app.search.sql import rows
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session, delete_session
from tests.search.finding import feed
from tests.support.at_work import settle
from tests.support.people import ALICE, BOB, CHARLIE
from tests.support.stored import execute

BOTH: Final = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)
FORMS: Final = pytest.mark.parametrize("form", ["sqlite", "postgresql"], indirect=True)
RULES: Final = (
    "cart.total >= 0",
    "cart.total >= 0 or step = pay",
    'user:tier in ("gold", "silver")',
    "app:limit > 5",
    "step != pay or user:tier = gold",
    "app:limit > 5 or cart.total < 10",
    "step exists",
    "not (step = pay and cart.total < 0) and user:tier exists",
)


@pytest.fixture
def form(request: pytest.FixtureRequest) -> str:
    """The format of the source, unless a test asks for others."""
    return str(getattr(request, "param", "sqlite"))


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    settle("rule")


def live(source: str) -> None:
    """What the thread that feeds the index does until nothing is left."""
    feed(source)
    while check_due(source, 0.5):
        pass


@dataclass
class Plain:
    """Sessions that change at random, and what a plain fold says of a rule."""

    source: str
    random: random.Random = field(default_factory=lambda: random.Random(13))
    shared: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    own: dict[SessionRef, dict[str, Any]] = field(default_factory=dict)
    first: dict[tuple[str, SessionRef], str] = field(default_factory=dict)

    def state(self, ref: SessionRef) -> dict[str, Any]:
        """The merged state of a session."""
        users, apps = (self.shared.get((ref.app_name, name), {}) for name in (ref.user_id, ""))
        return self.own[ref] | users | apps

    def change(self) -> None:
        """Makes a session, or appends an event to one."""
        delta = self._delta()
        if len(self.own) < 8 and self.random.random() < 0.3:
            app, user = self.random.choice(("booking", "support")), self.random.choice(("ana", "ben"))
            ref = create_session(self.source, app, user, session_id=f"s{len(self.own)}", state=delta, actor=ALICE)
            self.own[ref] = {}
            event_id = ""
        elif self.own:
            ref = self.random.choice(list(self.own))
            event = {"author": "agent", "actions": {"state_delta": delta}}
            event_id = str(append_event(ref, event, actor=ALICE).event["id"])
        else:
            return
        for key, value in delta.items():
            owner = {"user": ref.user_id, "app": ""}.get(key.partition(":")[0])
            state = self.own[ref] if owner is None else self.shared.setdefault((ref.app_name, owner), {})
            state[key] = value
        for text in RULES:
            node = state_condition.read(text)
            if {*state_condition.keys_of(node)} & {*delta} and state_condition.broken(node, self.state(ref)):
                self.first.setdefault((text, ref), event_id)

    def _delta(self) -> dict[str, Any]:
        total = self.random.choice(({"total": -1}, {"total": 5}, {"total": 50}, {}, 3))
        each = {
            "cart": total,
            "step": self.random.choice(("pay", "book", None)),
            "user:tier": self.random.choice(("gold", "silver", "none", 1)),
            "app:limit": self.random.choice((3, 10, "x")),
            "other": 1,
        }
        return {key: each[key] for key in self.random.sample(list(each), self.random.randrange(1, 4))}

    def expected(self, text: str, app: str) -> dict[SessionRef, tuple[str, bool]]:
        """By session that broke a rule: the event that did first, and whether its state does now."""
        node = state_condition.read(text)
        shared = all(":" in key for key in state_condition.keys_of(node))
        told = {}
        for ref in self.own:
            now = state_condition.broken(node, self.state(ref))
            first = self.first.get((text, ref), "" if now and not shared else None)
            if ref.app_name == app and first is not None:
                told[ref] = first, now
        return told


def told(rule: Rule) -> dict[SessionRef, tuple[str, bool]]:
    """By session that broke a rule: the event that did first, and whether its state does now."""
    return {each.ref: (each.event_id, each.now) for each in breaches.broken(rule, limit=500, actor=SYSTEM).rows}


def create(source: str, text: str, app: str = "booking", title: str = "") -> Rule:
    """Creates a rule, and waits until all sessions are checked."""
    number = rules.create(source, app, title, text, actor=ALICE)
    settle("rule")
    return rules.rule(source, app, number, actor=BOB)


@pytest.mark.parametrize(
    ("own", "form", "changes"),
    [
        ("sqlite", "sqlite", 7),
        pytest.param("sqlite", "sqlite", 2, marks=pytest.mark.long),
        pytest.param("postgresql", "postgresql", 2, marks=pytest.mark.long),
        ("sqlite", "postgresql", 200),
    ],
    indirect=["own", "form"],
)
def test_history_and_what_comes_are_checked_as_a_plain_fold_does(
    own: str, source: str, changes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "CHANGES", changes)
    plain = Plain(source)
    for _ in range(60):
        plain.change()
    feed(source)
    made = [create(source, text, app) for text in RULES for app in ("booking", "support")]
    assert [(rule.percent, rule.stopped) for rule in made] == [(None, "")] * len(made)
    for rule in made:
        assert told(rule) == plain.expected(rule.condition, rule.app_name), rule.condition
    for _round in range(2):
        for _ in range(15):
            plain.change()
        live(source)
    for rule in made:
        expected = plain.expected(rule.condition, rule.app_name)
        assert {ref: first for ref, (first, _now) in told(rule).items()}.items() >= {
            ref: first for ref, (first, _now) in expected.items() if first
        }.items(), rule.condition
    for rule in made:
        rules.check_again(source, rule.app_name, rule.pk, actor=ALICE)
        settle("rule")
        assert told(rule) == plain.expected(rule.condition, rule.app_name), rule.condition
    assert not DueSession.objects.exists()


@pytest.fixture
def ref(own: str, source: str) -> SessionRef:
    """A session that is indexed."""
    ref = create_session(source, "booking", "ana", session_id="s1", state={"cart": {"total": 5}}, actor=ALICE)
    feed(source)
    return ref


def write(ref: SessionRef, **delta: Any) -> str:
    """Appends an event that writes some keys: `user__tier` is `user:tier`. Returns its id."""
    named = {key.replace("__", ":"): value for key, value in delta.items()}
    event = {"author": "agent", "actions": {"state_delta": named}}
    return str(append_event(ref, event, actor=ALICE).event["id"])


@BOTH
@FORMS
def test_a_breach_is_noticed_live_and_that_it_is_mended(own: str, ref: SessionRef) -> None:
    rule = create(ref.source, "cart.total >= 0")
    assert told(rule) == {}
    first = write(ref, cart={"total": -1})
    write(ref, cart={"total": -2})
    live(ref.source)
    assert told(rule) == {ref: (first, True)}
    assert breaches.counts(rule, actor=BOB) == breaches.Counts(1, 1, False)
    write(ref, cart={"total": 2})
    live(ref.source)
    assert told(rule) == {ref: (first, False)}
    assert breaches.counts(rule, actor=BOB) == breaches.Counts(1, 0, False)


@BOTH
def test_a_shared_key_that_another_session_mends_mends_all(own: str, ref: SessionRef) -> None:
    rule = create(ref.source, "cart.total < 10 or user:tier = gold")
    other = create_session(*ref[:3], session_id="s2", actor=ALICE)
    write(ref, cart={"total": 50}, user__tier="basic")
    live(ref.source)
    assert [now for _first, now in told(rule).values()] == [True]
    write(other, user__tier="gold")
    live(ref.source)
    assert [now for _first, now in told(rule).values()] == [False]


@BOTH
def test_a_state_that_no_event_wrote_breaks_a_rule_without_an_event(own: str, ref: SessionRef) -> None:
    rule = create(ref.source, "cart.total >= 0")
    execute(ref.source, """UPDATE sessions SET state = '{"cart": {"total": -9}}', update_time = update_time + 1""")
    feed(ref.source, walk=True)
    live(ref.source)
    assert told(rule) == {ref: ("", True)}


@BOTH
def test_a_session_of_adkwebs_own_is_blamed_for_its_edits_and_not_for_keys_that_it_never_has(
    own: str, ref: SessionRef
) -> None:
    edit_app_state(*ref[:2], [Entry("app:limit", 1, ABSENT)], actor=ALICE)
    feed(ref.source)
    assert told(create(ref.source, "step exists")) == {ref: ("", True)}
    (edited,) = told(create(ref.source, "app:limit > 5"))
    assert edited == own_session(*ref[:2])


@BOTH
def test_a_session_that_is_made_again_with_the_same_id_is_checked_anew(own: str, ref: SessionRef) -> None:
    rule = create(ref.source, "cart.total >= 0")
    write(ref, cart={"total": -1})
    live(ref.source)
    delete_session(ref, actor=ALICE)
    feed(ref.source, walk=True)
    assert told(rule) == {}
    create_session(*ref[:3], session_id=ref.session_id, state={"cart": {"total": 5}}, actor=ALICE)
    second = write(ref, cart={"total": -1})
    live(ref.source)
    assert told(rule) == {ref: (second, True)}


@BOTH
def test_a_long_session_is_checked_in_rounds_and_goes_on_where_its_process_died(
    own: str, ref: SessionRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "CHANGES", 10)
    ids = [write(ref, n=number) for number in range(45)]
    feed(ref.source)
    looked: list[Any] = []

    def steps_of(ref: SessionRef, names: Any, after: Any, *rest: Any, **named: Any) -> Any:
        looked.append(after)
        if len(looked) == 3:
            raise KeyboardInterrupt
        return checking_steps_of(ref, names, after, *rest, **named)

    checking_steps_of = checking.steps_of
    monkeypatch.setattr(checking, "steps_of", steps_of)
    monkeypatch.setattr(threading, "excepthook", lambda *_: None)
    number = rules.create(ref.source, "booking", "", "n < 40", actor=ALICE)
    settle("rule")
    rule = rules.rule(ref.source, "booking", number, actor=BOB)
    assert (rule.percent, told(rule)) == (0, {})
    Job.objects.update(claimed_until=1.0)
    assert runner.take_over() == 1
    settle("rule")
    assert looked[0] is None
    assert looked[3] == looked[2] > looked[1]
    assert told(rule) == {ref: (ids[40], True)}
    assert rules.rule(ref.source, "booking", number, actor=BOB).percent is None


@BOTH
def test_a_rule_that_is_changed_or_deleted_forgets_what_was_kept(own: str, ref: SessionRef) -> None:
    write(ref, cart={"total": -1})
    live(ref.source)
    rule = create(ref.source, "cart.total >= 0", title="No debts")
    assert (rule.name, len(told(rule))) == ("No debts", 1)
    rules.change(ref.source, "booking", rule.pk, "Debts", "cart.total >= 0", actor=ALICE)
    assert len(told(rule)) == 1
    rules.change(ref.source, "booking", rule.pk, "Debts", "cart.total < 0", actor=ALICE)
    settle("rule")
    assert [(each.title, each.condition) for each in rules.rules(ref.source, "booking", actor=BOB)] == [
        ("Debts", "cart.total < 0")
    ]
    assert list(told(rule).values()) == [("", False)]
    rules.delete(ref.source, "booking", rule.pk, actor=ALICE)
    assert [rows.objects.count() for rows in (Rule, Breach, Job)] == [0, 0, 0]
    live(ref.source)
    assert not DueSession.objects.exists()


@BOTH
def test_a_check_that_is_stopped_says_so_and_can_begin_again(
    own: str, ref: SessionRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = threading.Event()
    real = checking.check
    monkeypatch.setattr(rule_jobs, "check", lambda *given: go.wait(20) and real(*given))
    number = rules.create(ref.source, "booking", "", "cart.total < 0", actor=ALICE)
    assert rules.rule(ref.source, "booking", number, actor=BOB).percent == 0
    rules.stop(ref.source, "booking", number, actor=ALICE)
    go.set()
    settle("rule")
    assert "stopped" in rules.rule(ref.source, "booking", number, actor=BOB).stopped
    rules.check_again(ref.source, "booking", number, actor=ALICE)
    settle("rule")
    rule = rules.rule(ref.source, "booking", number, actor=BOB)
    assert (rule.percent, rule.stopped, len(told(rule))) == (None, "", 1)


@BOTH
def test_the_rules_that_were_broken_lately_are_told_with_their_first_event(own: str, ref: SessionRef) -> None:
    rule = create(ref.source, "cart.total >= 0", title="No debts")
    event = {"author": "agent", "actions": {"state_delta": {"cart": {"total": -1}}}}
    first = append_event(ref, {**event, "timestamp": 1_000.0}, actor=ALICE)
    other = create_session(*ref[:3], session_id="s2", actor=ALICE)
    append_event(other, {**event, "timestamp": 2_000.0}, actor=ALICE)
    live(ref.source)
    (recent,) = breaches.recent(Range(500.0, 3_000.0), actor=BOB)
    assert (recent.rule, recent.name, recent.sessions, recent.last) == (rule.pk, "No debts", 2, 2_000.0)
    assert (recent.first.ref, recent.first.event_id, recent.first.seq) == (ref, first.event["id"], first.seq)
    assert breaches.recent(Range(2_500.0, 3_000.0), actor=BOB) == []
    assert breaches.recent(Range(500.0, 3_000.0), actor=CHARLIE) == []


def test_the_sessions_of_a_range_are_found_from_their_breaches_and_not_among_all_of_an_app(
    own: str, ref: SessionRef
) -> None:
    feed(ref.source)
    with CaptureQueriesContext(connection) as queries:
        assert breaches.recent(Range(500.0, 3_000.0), actor=SYSTEM) == []
    steps = [row[-1] for row in rows(f"EXPLAIN QUERY PLAN {queries[-1]['sql']}", [])]
    assert any("SEARCH s USING" in step and "digest=?" in step for step in steps), steps


@BOTH
def test_who_may_not_see_an_app_learns_nothing_of_its_rules_and_who_may_only_read_changes_none(
    own: str, ref: SessionRef
) -> None:
    write(ref, cart={"total": -1})
    live(ref.source)
    rule = create(ref.source, "cart.total >= 0")
    for of in (rules.rules, lambda *names, actor: rules.rule(*names, rule.pk, actor=actor)):
        with pytest.raises(NotFound):
            of(ref.source, "booking", actor=CHARLIE)
    assert breaches.broken(rule, actor=CHARLIE).rows == []
    assert breaches.counts(rule, actor=CHARLIE) == breaches.Counts(0, 0, False)
    for actor in (BOB, CHARLIE):
        for act in (rules.delete, rules.check_again, rules.stop):
            with pytest.raises(NotAllowed):
                act(ref.source, "booking", rule.pk, actor=actor)
        with pytest.raises(NotAllowed):
            rules.create(ref.source, "booking", "", "a = 1", actor=actor)
    with pytest.raises(NotFound):
        rules.rule(ref.source, "booking", rule.pk + 1, actor=BOB)
    with pytest.raises(Invalid):
        rules.create(ref.source, "booking", "x" * 101, "a = 1", actor=ALICE)


@BOTH
def test_an_app_without_rules_costs_nothing(own: str, ref: SessionRef) -> None:
    create(ref.source, "a = 1", app="booking")
    other = create_session(ref.source, "support", "ana", session_id="x", actor=ALICE)
    write(other, a=2)
    feed(ref.source)
    assert not DueSession.objects.exists()
    assert not CheckedSession.objects.exists()


@pytest.mark.parametrize("key", ["<script>", "a' OR 1=1 --", "%s", "😀", "x" * 200, "a\\b", '"', "𝕬", "user:"])
def test_a_rule_about_a_hostile_key_is_checked_like_any_other(own: str, ref: SessionRef, key: str) -> None:
    quoted = key.replace("\\", "\\\\").replace('"', '\\"')
    rule = create(ref.source, f'state."{quoted}" != 5')
    first = append_event(ref, {"author": "agent", "actions": {"state_delta": {key: 5}}}, actor=ALICE).event["id"]
    live(ref.source)
    assert told(rule) == ({ref: (first, True)} if key != "user:" else {})


@BOTH
@FORMS
def test_a_large_state_is_judged_like_any_other(own: str, ref: SessionRef) -> None:
    event = write(ref, junk="x" * 200_000, cart={"total": -1}, step="pay")
    broken, met = create(ref.source, "cart.total >= 0"), create(ref.source, "step exists")
    live(ref.source)
    assert (told(broken), told(met)) == ({ref: (event, True)}, {})
    write(ref, cart={"total": 1})
    live(ref.source)
    assert (told(broken), told(met)) == ({ref: (event, False)}, {})


@BOTH
@FORMS
def test_a_state_that_nobody_can_read_breaks_no_rule(own: str, ref: SessionRef) -> None:
    execute(ref.source, "UPDATE sessions SET state = %s", [f'{{"step": {"[" * 3_000}{"]" * 3_000}}}'])
    assert told(create(ref.source, "step exists")) == {}


@BOTH
def test_a_rule_with_signs_that_no_database_holds_is_kept_as_it_is_read(own: str, ref: SessionRef) -> None:
    assert create(ref.source, 'step != "\0"').condition == 'step != "\ufffd"'


def test_the_state_of_many_sessions_is_read_together(
    own: str, source: str, django_assert_max_num_queries: Callable[..., Any]
) -> None:
    refs = [create_session(source, "booking", "ana", session_id=f"s{n}", actor=ALICE) for n in range(40)]
    for ref in refs:
        write(ref, other=1)
    feed(source)
    rule = create(source, "cart.total >= 0")
    job = Job(id=Rule.objects.get().job, task=f'{{"rule": {rule.pk}}}')
    Rule.objects.update(walked=0)
    with django_assert_max_num_queries(40 * 10 + 20):
        rule_jobs.KIND.run(job, lambda progress: None)
