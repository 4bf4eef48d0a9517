"""The figures of a range of time against a plain count over the same turns, on both databases."""

import random
import time
from collections import Counter
from itertools import pairwise

import pytest

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.clock import Took
from sessions_app.domain.cost import Usage
from sessions_app.domain.kinds import describe
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.trace import TOOL, trace
from sessions_app.models import SearchSource
from sessions_app.search import health
from sessions_app.search.health import Of, Range
from sessions_app.search.index.feed import Feeder
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session, delete_session
from tests.support.people import ALICE
from tests.support.stored import events_of

DAY = 1_767_225_600.0
COUNTS = ("start", "end", "sessions", "turns", "failed", "tokens")
BOTH = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)
FORMS = pytest.mark.parametrize("form", ["sqlite", "postgresql"])


class Turn:
    """A turn as it was made: its session, when it began, what it took, its tokens, and the tool that failed."""

    def __init__(self, ref: SessionRef, at: float, chance: random.Random) -> None:
        self.ref, self.at = ref, at
        self.took = chance.choice((0.5, 2.0, 4.0, 30.0))
        self.tokens = chance.choice((0, 100, 7000))
        self.failed = chance.random() < 0.3
        answer = {"error": f"quote Q-{chance.randrange(9999)} expired"} if self.failed else {"ok": True}
        self.say("user", 0.0, {"text": "Book it"})
        self.say("agent", 0.1, {"function_call": {"name": "book", "id": f"c{at}"}})
        self.say("agent", 0.4, {"function_response": {"name": "book", "id": f"c{at}", "response": answer}})
        self.say("agent", self.took, {"text": "Done"}, self.tokens)
        self.used = [Usage(chance.choice(("", "flash", "pro")), *chance.choices((0, 10, 900), k=2)) for _ in range(3)]
        for used in self.used:
            told = {"prompt_token_count": used.prompt, "candidates_token_count": used.output}
            event = {"author": "agent", "timestamp": self.at + self.took, "model_version": used.model or None}
            append_event(self.ref, {**event, "usage_metadata": told}, actor=ALICE)

    def say(self, author: str, after: float, part: object, tokens: int = 0) -> None:
        """Appends an event of the turn."""
        event = {"author": author, "timestamp": self.at + after, "content": {"parts": [part]}}
        told = {"total_token_count": tokens}
        append_event(self.ref, {**event, "model_version": "lite", "usage_metadata": told}, actor=ALICE)


def turns(source: str) -> list[Turn]:
    """Makes sessions with turns over two days, and indexes them in two steps."""
    chance, made = random.Random(7), []
    for step in range(2):
        for number in range(8):
            app, user = chance.choice(("booking", "support")), chance.choice(("ana", "ben"))
            ref = create_session(source, app, user, session_id=f"{step}-{number}", actor=ALICE)
            at = DAY + chance.random() * 86_400
            for _turn in range(chance.randrange(4)):
                made.append(Turn(ref, at, chance))
                at += chance.random() * 20_000 + 60
        feed(source)
    return made


def feed(source: str) -> None:
    """Brings the index up to date."""
    feeder = Feeder(source)
    while feeder.feed():
        pass


@BOTH
@FORMS
def test_figures_are_those_of_a_plain_count(own: str, source: str) -> None:
    made, during = turns(source), Range(DAY + 3600, DAY + 13 * 3600)
    whole, bars, apps = health.figures(during, actor=SYSTEM, ahead=0)
    inside = [turn for turn in made if during.start <= turn.at < during.end]
    assert 0 < len(inside) < len(made)
    assert (whole.turns, whole.failed) == (len(inside), sum(turn.failed for turn in inside))
    assert (whole.tokens, whole.sessions) == (sum(turn.tokens for turn in inside), len({turn.ref for turn in inside}))
    total = health.figures(during, actor=SYSTEM).whole
    assert [getattr(total, name) for name in COUNTS] == [getattr(whole, name) for name in COUNTS]
    times = sorted(turn.took for turn in inside)
    assert whole.percentile(0.5) == Took(times[(len(times) - 1) // 2], "≥")  # a model's event may have ended later
    for bar in bars:
        of_bar = [turn for turn in inside if bar.start <= turn.at < bar.end]
        assert (bar.turns, bar.sessions) == (len(of_bar), len({turn.ref for turn in of_bar}))
    assert apps.keys() == {turn.ref[:2] for turn in inside}
    for name, (of_app, in_bars) in apps.items():
        own_turns = [turn for turn in inside if turn.ref[:2] == name]
        assert (of_app.turns, of_app.failed) == (len(own_turns), sum(turn.failed for turn in own_turns))
        assert in_bars == [sum(bar.start <= turn.at < bar.end for turn in own_turns) for bar in bars]


@pytest.mark.parametrize(
    ("seconds", "step"), [(3600, 120), (86_400, 3600), (7 * 86_400, 21_600), (30 * 86_400, 86_400)]
)
@pytest.mark.parametrize("ahead", [0, 5.5 * 3600, -8 * 3600])
def test_bars_begin_at_whole_hours_of_the_readers_clock(own: str, seconds: int, step: int, ahead: float) -> None:
    during = Range(DAY + 4711.5, DAY + 4711.5 + seconds)
    bars = health.figures(during, actor=SYSTEM, ahead=ahead).bars
    assert (bars[0].start, bars[-1].end) == during
    assert {(bar.start + ahead) % step for bar in bars[1:]} == {0}
    assert {after.start - bar.start for bar, after in pairwise(bars[1:])} == {step}
    assert all(bar.end == after.start for bar, after in pairwise(bars))


@BOTH
@FORMS
def test_what_each_model_used_is_that_of_a_plain_count(own: str, source: str) -> None:
    made, during = turns(source), Range(DAY + 3600, DAY + 13 * 3600)
    inside = [turn for turn in made if during.start <= turn.at < during.end]
    plain = {"lite": Counter({"prompt": sum(turn.tokens for turn in inside)})}
    for used in (used for turn in inside for used in turn.used):
        plain.setdefault(used.model, Counter()).update(prompt=used.prompt, output=used.output)
    told = {each.model: (each.prompt, each.output) for each in health.usage(during, actor=SYSTEM)}
    assert told == {model: (count["prompt"], count["output"]) for model, count in plain.items()}
    assert len(told) == len(health.usage(during, actor=SYSTEM)) == 4
    assert health.usage(during, actor=SYSTEM, of=Of(source, "booking", "nobody")) == []


@BOTH
@FORMS
def test_figures_of_an_app_of_a_user_and_of_who_may_see_little(own: str, source: str) -> None:
    made, during = turns(source), Range(DAY, DAY + 3 * 86_400)

    def count(app: str, user: str) -> int:
        return sum(app in ("", turn.ref.app_name) and user in ("", turn.ref.user_id) for turn in made)

    for app, user in (("booking", ""), ("support", ""), ("booking", "ana"), ("support", "ben")):
        assert health.figures(during, actor=SYSTEM, of=Of(source, app, user)).whole.turns == count(app, user)
    assert health.figures(during, actor=Actor.holding("bob", "read", "book*")).whole.turns == count("booking", "")


@BOTH
@FORMS
def test_failures_are_grouped_by_tool_and_message_whatever_their_numbers(own: str, source: str) -> None:
    made, during = turns(source), Range(DAY, DAY + 3 * 86_400)
    failed = [turn for turn in made if turn.failed]
    newest = max(failed, key=lambda turn: turn.at)
    (failure,) = health.failures(during, actor=SYSTEM)
    assert (failure.text, failure.count) == ("book: quote … expired", len(failed))
    assert (failure.sessions, failure.ref) == (len({turn.ref for turn in failed}), newest.ref)
    ((name, tool),) = health.tools(during, actor=SYSTEM).items()
    assert (name, tool.calls, tool.failed) == ("book", len(made), len(failed))
    assert tool.percentile(0.95) == Took(0.3, "≤")


def test_a_number_that_is_the_same_in_all_failures_of_a_kind_is_said(source: str, own: str) -> None:
    def fail(number: int, *messages: str) -> None:
        ref = create_session(source, "booking", "ana", session_id=f"s{number}", actor=SYSTEM)
        for message in messages:
            append_event(ref, {"author": "agent", "error_code": "502", "error_message": message}, actor=SYSTEM)
        feed(source)

    def said() -> list[tuple[str, int]]:
        during = Range(0.0, time.time() + 60)
        return [(failure.text, failure.count) for failure in health.failures(during, actor=SYSTEM)]

    fail(1, "gateway gave up after 30 s", "gateway gave up after 30 s", "order o1: full at 9")
    assert said() == [("502 gateway gave up after 30 s", 2), ("502 order o1: full at 9", 1)]
    fail(2, "gateway gave up after 31 s", "order o2: full at 9")
    assert said() == [("502 gateway gave up after … s", 3), ("502 order …: full at 9", 2)]


def test_a_deleted_session_counts_no_more(source: str, own: str) -> None:
    made, during = turns(source), Range(DAY, DAY + 3 * 86_400)
    gone = made[0].ref
    delete_session(gone, actor=ALICE)
    SearchSource.objects.update(due=0.0)  # the next walk
    feed(source)
    assert health.figures(during, actor=SYSTEM).whole.turns == sum(turn.ref != gone for turn in made)


CALL = {"function_call": {"name": "hold", "id": "c1"}}
ERROR: dict[str, object] = {"error_code": "ConnectionError", "error_message": "seat map is down"}
SAYS: dict[str, object] = {"content": {"parts": [{"text": "One moment"}]}}


@pytest.mark.parametrize(
    ("call", "after", "failed"),
    [
        (CALL, [("agent", ERROR)], (1, 1, 1.5)),
        ({"function_call": {"name": "hold"}}, [("agent", ERROR)], (1, 1, 1.5)),
        (CALL, [], (1, 0, None)),  # still running
        (CALL, [("other", ERROR)], (1, 0, None)),  # of an agent that runs beside it
        (CALL, [("agent", SAYS), ("agent", ERROR)], (1, 0, None)),  # of the model
        (CALL, [("user", SAYS), ("agent", ERROR)], (1, 0, None)),  # in the next turn
        (CALL, [("agent", {**ERROR, **SAYS})], (1, 0, None)),
    ],
)
@pytest.mark.parametrize("fed", ["at once", "one by one"])
def test_a_call_failed_if_an_exception_ended_it(
    source: str,
    call: dict[str, object],
    after: list[tuple[str, dict[str, object]]],
    failed: tuple[object, ...],
    fed: str,
) -> None:
    ref = create_session(source, "booking", "ana", session_id="s1", actor=ALICE)
    said: list[tuple[str, dict[str, object]]] = [("user", SAYS), ("agent", {"content": {"parts": [call]}}), *after]
    for number, (author, event) in enumerate(said):
        append_event(ref, {**event, "author": author, "timestamp": DAY + 1.5 * number}, actor=ALICE)
        if fed == "one by one":
            feed(source)
    feed(source)
    ((name, tool),) = health.tools(Range(DAY, DAY + 60), actor=SYSTEM).items()
    p95 = tool.percentile(0.95)
    assert (name, tool.calls, tool.failed, p95 and p95.seconds) == ("hold", *failed)
    events = [(event, describe(event)) for _seq, event in events_of(ref)]
    second = max(number for number, (event, _said) in enumerate(events) if event["author"] == "user")
    traces = [trace(turn) for turn in (events[:second], events[second:])]
    assert sum(each.failed for one in traces for each in one.spans if each.kind == TOOL) == tool.failed
