"""Keys that parallel agents wrote in the same turn are marked: all but the last lost what they wrote."""

from __future__ import annotations

import pytest

from sessions_app.access import tokens
from sessions_app.access.actor import TERMINAL
from sessions_app.domain.parallel import are_parallel
from sessions_app.domain.session_ref import SessionRef
from sessions_app.reads import timeline
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.api.program import Program, address
from tests.web.conftest import Browser

pytestmark = pytest.mark.django_db
SAID = "last: also written by creative, strict in this turn; the last write won"


@pytest.fixture
def ref(source: str) -> SessionRef:
    """A session in which three agents ran at the same time, in an invocation after one of the same agents."""
    ref = create_session(source, "booking", "ana", actor=TERMINAL, session_id="s1")
    wrote = [("i1", "third", "para.third"), ("i2", "", ""), ("i2", "root", "para")]
    wrote += [("i2", name, f"para.{name}") for name in ("creative", "strict", "third")]
    for number, (invocation_id, author, branch) in enumerate(wrote):
        event = {
            "id": f"e{number}",
            "invocation_id": invocation_id,
            "author": author or "user",
            "branch": branch or None,
        }
        event["content"] = {"parts": [{"text": "go on"}]}
        event["actions"] = {"state_delta": {"last": author, f"out_{author}": 1} if author else {}}
        append_event(ref, event, actor=TERMINAL)
    return ref


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [("p.a", "p.b", True), ("p", "p.b", False), ("p.a", "p.a", False), ("p.a", "p.ab", True), ("", "p.a", False)],
)
def test_branches_are_parallel_if_neither_leads_to_the_other(a: str, b: str, expected: bool) -> None:
    assert are_parallel(a, b) is are_parallel(b, a) is expected


@pytest.mark.guarantee(
    "History",
    "If parallel agents write the same key in one invocation, adkweb marks the key, because only the last value is stored.",
)
@pytest.mark.parametrize("form", ["sqlite", "postgresql"])
def test_who_else_wrote_a_key_is_known_whatever_part_of_the_turn_is_read(ref: SessionRef) -> None:
    beside = {
        (view.id, change.key): change.beside
        for view in timeline.events(ref, actor=TERMINAL).rows
        for change in view.changes
        if change.beside
    }
    assert beside == {
        ("e3", "last"): ("strict", "third"),
        ("e4", "last"): ("creative", "third"),
        ("e5", "last"): ("creative", "strict"),
    }
    (change, _other) = timeline.event(ref, "e5", actor=TERMINAL).changes
    assert change.beside == ("creative", "strict")


@pytest.mark.parametrize("form", ["sqlite"])
def test_lines_state_and_programs_say_it(ref: SessionRef, maria: Browser) -> None:
    page = maria.open("session", **ref._asdict())
    assert SAID in page.one("li", id="event-e5").text
    assert "also written" not in page.one("li", id="event-e2").text
    (row,) = [each for each in page.all("div", "staterow") if each["data-key-row"] == "last"]
    assert "also written by creative, strict in this turn; the last write won" in row.text
    assert SAID in maria.open("event", **ref._asdict(), event_id="e5").one("main").text

    program = Program(tokens.create("reader", "read", "*", by=TERMINAL)[1])
    last = program.get(address(ref, "/events/e5")).json()["changes"][0]
    assert (last["key"], last["also_written_by"]) == ("last", ["creative", "strict"])
