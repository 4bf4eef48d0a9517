"""Sessions as public bug reports describe them: voice, A2A, answers stored twice, cut answers, sources."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from sessions_app.domain.grounding import sources
from sessions_app.domain.invocations import begins_turn
from sessions_app.domain.kinds import describe, say
from sessions_app.domain.positions import Seq
from sessions_app.search.folding import Span, Summary, fold
from tests.domain.test_invocations import answers, asks, calls, event, now, says, status, user
from tests.strategies import MANY, hostile_events


def line(made: dict[str, Any]) -> str:
    return "".join(piece.text for piece in say(describe(made), made))


def summed(*events: dict[str, Any]) -> tuple[Summary, list[Span]]:
    so_far, spans = Summary(), dict[tuple[str, int], Span]()
    for number, each in enumerate(events):
        spans |= {(span.kind, span.number): span for span in fold(so_far, each, describe(each), Seq(number + 1))}
    return so_far, list(spans.values())


def heard(text: Any, author: str = "user", way: str = "input", **said: Any) -> dict[str, Any]:
    return event(author, **{f"{way}_transcription": {"text": text, "finished": True, **said}})


# --- Voice ------------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee(
    "History", "A spoken question starts a turn, and interrupting the agent isn't treated as a failure."
)
def test_a_spoken_question_begins_a_turn_and_gives_the_title() -> None:
    so_far, _spans = summed(
        heard("two lamps", finished=False),
        heard("two lamps please"),
        heard("Two lamps, yes", "clerk", "output"),
        event("clerk", interrupted=True, turn_complete=True),
        heard("no wait, three"),
        heard("Three it is", "clerk", "output"),
    )
    assert (so_far.turns, so_far.opening, so_far.errors, so_far.failed) == (2, "two lamps please", 0, False)


@pytest.mark.parametrize("said", [None, "", " ", 7, ["x"], {"text": ["x"]}])
def test_what_is_no_spoken_word_begins_no_turn(said: Any) -> None:
    assert not begins_turn(describe(heard(said)))
    assert not begins_turn(describe(event("user", input_transcription=said)))
    assert begins_turn(describe(heard("x", finished=None)))


def test_a_barge_in_is_no_failure_and_ends_the_answer() -> None:
    stopped = event("clerk", interrupted=True)
    assert not describe(stopped).failed
    assert status(heard("lamps"), stopped) == "idle"


# --- What models and remote agents note -------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["MAX_TOKENS", "SAFETY", "RECITATION", "OTHER"])
def test_every_reason_to_stop_early_is_on_the_line(reason: str) -> None:
    assert line(says("half a", finish_reason=reason)) == f"half a cut off: {reason}"
    assert line(calls(finish_reason=reason)).endswith(f"cut off: {reason}")


@pytest.mark.parametrize("reason", [None, "", "STOP", "FINISH_REASON_UNSPECIFIED", 3, ["MAX_TOKENS"]])
def test_an_answer_that_ended_says_nothing_of_it(reason: Any) -> None:
    assert line(says("all of it", finish_reason=reason)) == "all of it"


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"a2a:task_id": "t-1", "a2a:response": {"status": {"state": "submitted"}}}, "remote task t-1: submitted"),
        ({"a2a:response": '{"taskId": "t-2", "status": {"state": "working"}}'}, "remote task t-2: working"),
        ({"a2a:response": {"result": {"id": "t-3", "status": {"state": "failed"}}}}, "remote task t-3: failed"),
        ({"a2a:task_id": "t-4"}, "remote task t-4"),
        ({"a2a:response": "no JSON", "a2a:context_id": "c"}, "remote task"),
        ({"a2a:response": {"status": [1]}, "a2a:task_id": {"a": 1}}, 'remote task {"a":1}'),
    ],
)
def test_news_of_a_remote_task_say_task_and_state(metadata: dict[str, Any], words: str) -> None:
    told = event("remote", custom_metadata=metadata)
    assert describe(told).kind == "remote"
    assert line(told).strip() == words


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"branch": "a"},
        {"usage_metadata": {}},
        {"node_info": {}},
        {"grounding_metadata": {}},
        {"logprobs_result": {}},
    ],
)
def test_what_adk_knows_is_never_unknown(fields: dict[str, Any]) -> None:
    assert describe(event("a", **fields)).kind == "empty"
    assert describe(event("a", **fields, something_new=1)).kind == "unknown"


def test_only_safe_sources_are_links() -> None:
    chunks = [
        {"web": {"uri": "https://example.com/a", "title": "Fares"}},
        {"web": {"uri": "https://example.com/a", "title": "Fares"}},
        {"web": {"uri": "http://example.com/b", "title": None}},
        {"retrieved_context": {"uri": "gs://bucket/x.pdf", "title": "x"}},
        *(
            {"web": {"uri": bad}}
            for bad in ("javascript:alert(1)", "//x", "https://", "https://[", "https://a b", 7, None)
        ),
        {"web": {"uri": " https://example.com"}},
        {"web": "https://example.com"},
        "x",
        None,
    ]
    cited = {"citations": [{"uri": "https://example.com/c", "title": "\u202eevil"}, 3]}
    made = event("a", grounding_metadata={"grounding_chunks": chunks}, citation_metadata=cited)
    assert [each.address for each in sources(made)] == [
        f"{scheme}://example.com/{name}" for scheme, name in (("https", "a"), ("http", "b"), ("https", "c"))
    ]
    assert [each.title for each in sources(made)][:2] == ["Fares", "example.com"]


@MANY
@given(hostile_events)
def test_whatever_is_stored_it_is_told(made: dict[str, Any]) -> None:
    assert isinstance(line(made), str)
    assert all(each.address.startswith(("http://", "https://")) for each in sources(made))


# --- Calls and answers ------------------------------------------------------------------------------------------------


def test_calls_without_ids_are_paired_by_name_and_order() -> None:
    def part(kind: str, name: str) -> dict[str, Any]:
        return {f"function_{kind}": {"name": name}}

    _so_far, spans = summed(
        user("go"),
        event("a", part("call", "look"), part("call", "look"), part("call", "book")),
        event("a", part("response", "book"), at=1),
        event("a", part("response", "look"), at=2),
        event("a", part("response", "look"), at=5),
    )
    assert [(span.name, span.took) for span in spans if span.kind == "c"] == [
        ("look", 2.0),
        ("look", 5.0),
        ("book", 1.0),
    ]


def test_an_answer_that_a_later_invocation_has_too_is_over() -> None:
    twice = (asks("c1"), answers("c1", "user", run="e-2"), answers("c1", "user", run="e-3"))
    assert status(user(), *twice) == "running"  # the second one
    assert status(user(), *twice, says(run="e-3")) == "idle"
    assert status(user(), *twice, says(run="e-3"), user(run="e-4"), says(run="e-4")) == "idle"
    assert status(user(), asks("c1"), answers("c1", "user", run="e-2")) == "running"


def test_a_question_waits_until_it_is_answered_or_passed_over() -> None:
    asked = (user(), asks("c1"))
    later = (user("forget it", run="e-2", at=5), says(run="e-2", at=6))
    assert now(*asked, at=1_000_000) is not None
    assert now(*asked, *later) is None
    assert now(*asked, *later, asks("c2", run="e-2", at=7), at=1_000_000) is not None
