"""What an agent sees of a stored session: cheaply of a long one, and the same by pages as at once."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.agent_view import conversation as agent_view_conversation
from sessions_app.agent_view.contents import contents
from sessions_app.agent_view.conversation import conversation, left_out
from sessions_app.agent_view.exclusion import Reader
from sessions_app.agent_view.instructions import LONGEST
from sessions_app.agent_view.preview import preview
from sessions_app.domain.errors import Behind, Invalid
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.history import moments
from sessions_app.history.index import build
from sessions_app.reads import timeline
from sessions_app.sources import database
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.support.bulk import fill
from tests.support.stored import execute

pytestmark = pytest.mark.django_db

Add = Callable[..., str]


@pytest.fixture
def ref(source: str, actor: Actor) -> SessionRef:
    """An empty session."""
    return create_session(source, "booking", "ana", session_id="s1", actor=actor)


@pytest.fixture
def add(ref: SessionRef, actor: Actor) -> Add:
    """Appends events, a second apart; their ids."""
    clock = iter(range(1_790_000_000, 1_800_000_000))

    def append(text: str = "", invocation: str = "i1", author: str = "booking", **event: Any) -> str:
        if text:
            event["content"] = {"role": "user" if author == "user" else "model", "parts": [{"text": text}]}
        event = {"timestamp": float(next(clock)), "author": author, "invocation_id": invocation, **event}
        return str(append_event(ref, event, actor=actor).event["id"])

    return append


def rewind(before: str) -> dict[str, Any]:
    return {"rewind_before_invocation_id": before}


def summary(start: float, end: float, text: str = "before") -> dict[str, Any]:
    content = {"role": "model", "parts": [{"text": text}]}
    return {"compaction": {"start_timestamp": start, "end_timestamp": end, "compacted_content": content}}


def whys(ref: SessionRef) -> dict[str, tuple[str, str]]:
    found = left_out(ref, timeline.events(ref, actor=SYSTEM).rows, actor=SYSTEM)
    return {name: (each.kind, each.by) for name, each in found.items()}


def texts(found: agent_view_conversation.Conversation) -> list[str]:
    """What arrives, each content's text; what is left out in brackets, with the reason."""
    return [
        "".join(str(part.value) for part in line.parts) if line.content else f"[{line.left_out and line.left_out.kind}]"
        for line in found.lines
    ]


# --- A timeline -------------------------------------------------------------------------------------------------------


def test_a_rewind_greys_what_it_takes_back_and_not_itself(ref: SessionRef, add: Add) -> None:
    add("kept", "i1")
    taken = [add("gone", "i2"), add("gone too", "i3")]
    by = add(invocation="i4", author="user", actions=rewind("i2"))
    add("after", "i5")
    assert whys(ref) == dict.fromkeys(taken, ("rewound", by))


def test_a_rewind_that_another_took_back_greys_nothing_of_its_own(ref: SessionRef, add: Add) -> None:
    first = add("one", "i1")
    second = add("two", "i2")
    inner = add(invocation="i3", actions=rewind("i1"))
    outer = add(invocation="i4", actions=rewind("i2"))
    assert whys(ref) == {second: ("rewound", outer), inner: ("rewound", outer)}
    assert first not in whys(ref)


def test_a_rewind_to_an_unknown_invocation_greys_nothing(ref: SessionRef, add: Add) -> None:
    add("one", "i1")
    add(invocation="i2", actions=rewind("never"))
    assert whys(ref) == {}


def test_a_summary_greys_what_it_covers_by_time(ref: SessionRef, add: Add) -> None:
    views = [timeline.event(ref, add(f"{number}"), actor=SYSTEM) for number in range(4)]
    by = add(author="user", actions=summary(views[0].timestamp, views[2].timestamp))
    assert whys(ref) == {view.id: ("compacted", by) for view in views[:3]}


def test_a_summary_that_was_rewound_greys_nothing(ref: SessionRef, add: Add) -> None:
    view = timeline.event(ref, add("one", "i1"), actor=SYSTEM)
    by = add(invocation="i2", actions=summary(view.timestamp, view.timestamp))
    again = add(invocation="i3", actions=rewind("i2"))
    assert whys(ref) == {by: ("rewound", again)}


def test_a_summary_of_another_branch_or_scope_greys_nothing(ref: SessionRef, add: Add) -> None:
    mine = timeline.event(ref, add("mine", branch="root.a"), actor=SYSTEM)
    scoped = timeline.event(ref, add("scoped", isolation_scope="c1"), actor=SYSTEM)
    add(author="user", branch="root.b", actions=summary(mine.timestamp, scoped.timestamp))
    assert whys(ref) == {}
    by = add(author="user", branch="root", actions=summary(mine.timestamp, scoped.timestamp))
    assert whys(ref) == {mine.id: ("compacted", by)}


def test_what_greys_a_page_may_lie_far_behind_it(ref: SessionRef, add: Add) -> None:
    fill(ref, 2_000)
    execute(ref.source, "UPDATE events SET invocation_id = 'here' WHERE id = 'e200'")
    add(invocation="late", actions=rewind("here"))
    page = timeline.events(ref, before=timeline.event(ref, "e250", actor=SYSTEM).cursor, actor=SYSTEM).rows
    assert set(left_out(ref, page, actor=SYSTEM)) == {f"e{number}" for number in range(200, 250)}


def test_a_timeline_does_not_wait_for_a_source_that_is_not_read(
    ref: SessionRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(ref, 12_000)
    build.forget(ref.source)
    monkeypatch.setattr(agent_view_conversation, "TIMELINE_SECONDS", 0.0)
    with pytest.raises(Behind):
        left_out(ref, timeline.events(ref, actor=SYSTEM).rows, actor=SYSTEM)


def test_without_places_nothing_is_greyed(ref: SessionRef, add: Add) -> None:
    add("one", "i1")
    add(invocation="i2", actions=rewind("i1"))
    views = timeline.events(ref, actor=SYSTEM).rows
    for view in views:
        view.seq = None
    assert left_out(ref, views, actor=SYSTEM) == {}


# --- The conversation -------------------------------------------------------------------------------------------------


def test_a_conversation_shows_what_arrives_between_what_does_not(ref: SessionRef, add: Add) -> None:
    add("hello", "i1", "user")
    add("wrong", "i2")
    add(invocation="i3", actions=rewind("i2"))
    add(invocation="i4", actions={"state_delta": {"x": 1}})
    add("right", "i5")
    assert texts(conversation(ref, actor=SYSTEM)) == ["hello", "[rewound]", "[rewind]", "[empty]", "right"]


def test_an_agent_reads_as_it_read_last(ref: SessionRef, add: Add) -> None:
    add("one", author="booking")
    add("two", author="billing", branch="booking.billing", node_info={"path": "booking@1/billing@1"})
    add("three", author="fares", branch="booking.fares", isolation_scope="c1")
    found = conversation(ref, agent="billing", actor=SYSTEM)
    assert found.reader == Reader("billing", "booking.billing", None, "booking@1/billing@1")
    assert texts(found) == ["one", "two", "[scope]"]
    assert conversation(ref, actor=SYSTEM).reader == Reader("fares", "booking.fares", "c1", "")
    assert conversation(ref, agent="booking", branch="booking.fares", actor=SYSTEM).reader.branch == "booking.fares"
    assert (found.agents, found.branches) == (["fares", "billing", "booking"], ["booking.billing", "booking.fares"])


def test_a_conversation_at_an_event_ends_with_it(ref: SessionRef, add: Add) -> None:
    add("one", "i1")
    two = add("two", "i2")
    add("three", "i3")
    add(invocation="i4", actions=rewind("i1"))
    assert texts(conversation(ref, timeline.event(ref, two, actor=SYSTEM), actor=SYSTEM)) == ["one", "two"]
    assert texts(conversation(ref, actor=SYSTEM)) == ["[rewound]"] * 3 + ["[rewind]"]


def test_a_response_stands_beside_its_call_and_a_summary_where_it_ends(ref: SessionRef, add: Add) -> None:
    call = {"role": "model", "parts": [{"function_call": {"name": "look", "id": "c1", "args": {}}}]}
    answer = {"role": "user", "parts": [{"function_response": {"name": "look", "id": "c1", "response": {"n": 1}}}]}
    old = timeline.event(ref, add("old"), actor=SYSTEM)
    add(content=call)
    add("meanwhile", author="user")
    add(content=answer)
    add(author="user", actions=summary(old.timestamp, old.timestamp, "in short"))
    add("go on", author="user")
    found = conversation(ref, agent="booking", actor=SYSTEM)
    assert texts(found) == ["[compacted]", "in short", "{}", "{'n': 1}", "meanwhile", "go on"]
    assert [line.content.summary for line in found.lines if line.content] == [False, True, False, False, False, False][
        1:
    ]


def test_pages_of_a_long_conversation_are_all_of_it(ref: SessionRef, add: Add, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_view_conversation, "PAGE", 7)
    monkeypatch.setattr(agent_view_conversation, "REACH", 5)
    for number in range(40):
        add(f"{number}", f"i{number // 2}", "user" if number % 2 else "booking")
    begin = timeline.event(ref, timeline.events(ref, actor=SYSTEM).rows[4].id, actor=SYSTEM)
    back = add(invocation="back", actions=rewind("i15"))
    add(author="user", invocation="sum", actions=summary(begin.timestamp, begin.timestamp + 20, "summed"))
    add("end", "last", "user")
    views = timeline.events(ref, actor=SYSTEM).rows
    whole = contents([view.data for view in views], Reader("booking"))
    found, before = [], None
    while True:
        page = conversation(ref, before=before, actor=SYSTEM)
        found = [*page.lines, *found]
        if not (before := page.earlier):
            break
    assert [line.event.id for line in found if line.content] == [views[content.index].id for content in whole.contents]
    expected = {views[place].id: reason.kind for place, reason in whole.left_out.items()}
    assert {line.event.id: line.left_out.kind for line in found if line.left_out} == expected
    assert {line.left_out.by for line in found if line.left_out and line.left_out.kind == "rewound"} == {back}
    assert len(found) == len(views)


def test_a_page_in_the_middle_of_a_long_session_costs_as_many_queries_as_of_a_short_one(
    ref: SessionRef, add: Add, actor: Actor
) -> None:
    counts = []
    for name, size in (("short", 2_000), ("long", 20_000)):
        found = create_session(*ref[:3], session_id=name, actor=actor)
        execute(ref.source, "UPDATE events SET id = 'before' || id")
        fill(found, size)
        middle = size // 2
        execute(ref.source, f"UPDATE events SET invocation_id = 'here' WHERE id = 'e{middle - 50}'")
        event = {"author": "user", "invocation_id": "late", "actions": rewind("here")}
        append_event(found, event, actor=actor)
        conversation(found, actor=SYSTEM)
        with CaptureQueriesContext(connections[ref.source]) as queries:
            page = conversation(found, before=timeline.event(found, f"e{middle}", actor=SYSTEM).cursor, actor=SYSTEM)
            before = timeline.event(found, f"e{middle}", actor=SYSTEM).cursor
            assert len(left_out(found, timeline.events(found, before=before, actor=SYSTEM).rows, actor=SYSTEM)) == 50
        assert len(page.lines) == 100
        counts.append(len(queries))
    assert counts[1] <= counts[0]


def test_an_empty_session_has_an_empty_conversation(ref: SessionRef) -> None:
    found = conversation(ref, actor=SYSTEM)
    assert (found.lines, found.earlier, found.agents, found.reader) == ([], None, [], Reader(""))


# --- The instruction --------------------------------------------------------------------------------------------------


def shown(ref: SessionRef, template: str, at: str | None = None) -> list[tuple[str, str | None, str]]:
    moment = moments.state_at(ref, at, actor=SYSTEM) if at else moments.state_now(ref, actor=SYSTEM)
    return [(s.piece.name, s.piece.shown, s.fault) for s in preview(moment, template) if s.piece.kind != "text"]


def test_a_template_is_filled_in_with_the_state_of_its_moment(ref: SessionRef, add: Add, actor: Actor) -> None:
    first = add(actions={"state_delta": {"step": "choose", "user:tier": "silver"}})
    edit_state(ref, [Entry("step", "pay", "choose"), Entry("user:tier", ABSENT, "silver")], actor=actor, reason="")
    template = "{step} {user:tier?} {app:gone} {temp:x}"
    assert shown(ref, template, first) == [
        ("step", "choose", ""),
        ("user:tier", "silver", ""),
        ("app:gone", None, "missing"),
        ("temp:x", None, "temp"),
    ]
    assert [value for _name, value, _fault in shown(ref, template)] == ["pay", "", None, None]


def test_a_value_has_the_event_that_wrote_it_in_whichever_session(ref: SessionRef, add: Add, actor: Actor) -> None:
    other = create_session(*ref[:3], session_id="s2", actor=actor)
    by = append_event(other, {"actions": {"state_delta": {"user:tier": "gold"}}}, actor=actor).event["id"]
    (found,) = preview(moments.state_now(ref, actor=SYSTEM), "{user:tier}")
    assert found.writer
    assert (found.writer.ref, found.writer.event_id, found.initial) == (other, by, False)


def test_a_value_that_was_not_recorded_is_an_error_in_its_place(ref: SessionRef, add: Add) -> None:
    first = add("one")
    with database.using(ref.source), connections[ref.source].cursor() as cursor:
        cursor.execute("UPDATE sessions SET initial_state = NULL, state = '{\"old\": 1}'")
    add(actions={"state_delta": {"old": 2}})
    assert shown(ref, "a {old} b", first) == [("old", None, "unrecorded")]
    assert shown(ref, "a {old} b") == [("old", "2", "")]


def test_an_artifact_is_known_by_the_event_that_saved_it(ref: SessionRef, add: Add) -> None:
    before = add("one")
    add(actions={"artifact_delta": {"notes.md": 0}})
    by = add(actions={"artifact_delta": {"notes.md": 3}})
    (found,) = preview(moments.state_now(ref, actor=SYSTEM), "{artifact.notes.md?}")
    assert (found.fault, found.piece.shown, found.version, found.writer and found.writer.event_id) == (
        "unread",
        None,
        3,
        by,
    )
    assert shown(ref, "{artifact.notes.md?}{artifact.notes.md}", before) == [
        ("notes.md", "", "unsaved"),
        ("notes.md", None, "unsaved"),
    ]


def test_a_large_value_a_thousand_times_is_refused_before_it_is_put_together(ref: SessionRef, add: Add) -> None:
    add(actions={"state_delta": {"big": ["x" * 100] * 5_000}})
    moment = moments.state_now(ref, actor=SYSTEM)
    assert len(preview(moment, "{big} " * 9)) == 18
    tracemalloc.start()
    with pytest.raises(Invalid, match="5000000 characters"):
        preview(moment, "{big} " * 20_000)
    with pytest.raises(Invalid, match="5000000 characters"):
        preview(moment, "".join("{" + " " * n + "big}" for n in range(900)))  # no two are written alike
    _now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50_000_000  # put together it would be ten thousand million


def test_a_template_has_so_many_characters_and_no_more(ref: SessionRef) -> None:
    moment = moments.state_now(ref, actor=SYSTEM)
    assert len(preview(moment, "x" * LONGEST)) == 1
    with pytest.raises(Invalid, match="500000 characters"):
        preview(moment, "x" * (LONGEST + 1))
