"""The inbox has the calls that wait, in all sources: from the index, on both databases."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessions_app.access.actor import SYSTEM
from sessions_app.access.handles import shown_user
from sessions_app.access.roles import actor_of
from sessions_app.checks import mask_rules
from sessions_app.domain.errors import Invalid, NotAllowed, NotFound
from sessions_app.domain.mask_patterns import DOTS
from sessions_app.domain.pending import pending
from sessions_app.domain.session_ref import SessionRef
from sessions_app.edits.rewind import rewind
from sessions_app.models import AuditRow, Dismissal
from sessions_app.privacy import own_rows
from sessions_app.reads import timeline
from sessions_app.reads.paging import write_cursor
from sessions_app.search import inbox
from sessions_app.search.inbox import Waiting
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session, delete_session
from tests.domain.test_pending import RECORDED, recorded
from tests.search.finding import feed, ids
from tests.support.people import ALICE, somebody

EACH = sorted({path.stem for path in RECORDED.iterdir()})


BOTH = pytest.mark.parametrize(("own", "source"), [("sqlite",) * 2, ("postgresql",) * 2], indirect=True)


@pytest.fixture
def source(request: pytest.FixtureRequest, own: str, new_store: Callable[[str], str], open_source: Any) -> str:
    """An empty source, which is not indexed yet."""
    return str(open_source(new_store(getattr(request, "param", "sqlite"))))


def session(source: str, name: str, *events: dict[str, Any], app: str = "booking", user: str = "ana") -> SessionRef:
    ref = create_session(source, app, user, session_id=name, actor=ALICE)
    for event in events or recorded(name):
        append_event(ref, event, actor=ALICE)
    return ref


def answer(ref: SessionRef, call: str, **fields: Any) -> None:
    part = {"function_response": {"id": call, "name": "tool", "response": {"confirmed": True}}}
    told = {"author": "user", "invocation_id": "later", "content": {"parts": [part]}, "timestamp": time.time()}
    append_event(ref, {**told, **fields}, actor=ALICE)


def waits(**options: Any) -> list[Waiting]:
    return inbox.waiting(actor=SYSTEM, **options).rows


@BOTH
def test_every_kind_of_question_is_there_the_oldest_first_as_its_events_say(source: str) -> None:
    refs = {name: session(source, name) for name in EACH}
    feed(source)
    wanted = sorted(
        (each.since, ref.session_id, each.kind, each.tool, each.call_id)
        for name, ref in refs.items()
        for each in pending(recorded(name))
    )
    listed = [(each.since, each.ref.session_id, each.kind, each.tool, each.call_id) for each in waits()]
    assert sorted(listed) == wanted
    assert [each[0] for each in listed] == [each[0] for each in wanted]
    assert inbox.count(actor=SYSTEM) == len(wanted)
    assert ids("status:waiting") == EACH
    asked = {each.ref.session_id: each.asked for each in waits()}
    assert all(asked.values())
    assert asked["payload"].hint == "How many days?"  # type: ignore[union-attr]


@pytest.mark.guarantee("Agents", "A call that waits is in the inbox until it is answered or undone, however old it is.")
@BOTH
def test_an_answer_a_rewind_and_a_deletion_take_it_away(source: str) -> None:
    answered, rewound, gone = (session(source, name) for name in ("payload", "longrunning", "credential"))
    feeder = feed(source)
    assert len(waits()) == 3
    (call,) = pending(recorded("payload"))
    answer(answered, call.call_id)
    rewind(rewound, pending(recorded("longrunning"))[0].invocation_id, actor=ALICE)
    delete_session(gone, actor=ALICE)
    feed(source, feeder, walk=True)
    assert not waits()
    assert inbox.count(actor=SYSTEM) == 0


@BOTH
def test_what_the_user_passed_over_is_apart_and_not_counted(source: str) -> None:
    # adk-python#5165: a question that its user had abandoned waited for ever. What nobody answers can be dismissed, too.
    ref = session(source, "longrunning")
    feeder = feed(source)
    later = {"author": "user", "invocation_id": "e-2", "content": {"parts": [{"text": "Something else"}]}}
    append_event(ref, {**later, "timestamp": time.time()}, actor=ALICE)
    feed(source, feeder)
    assert not waits()
    assert inbox.count(actor=SYSTEM) == 0
    assert [each.ref for each in waits(passed_over=True)] == [ref]
    assert not ids("status:waiting")


def test_pages_by_key_and_shows_only_apps_that_somebody_may_see(source: str) -> None:
    for name in ("payload", "longrunning", "credential"):
        session(source, name, app="booking" if name != "payload" else "support")
    feed(source)
    first = inbox.waiting(actor=SYSTEM, limit=2)
    assert first.next
    assert [*first.rows, *waits(cursor=first.next)] == waits()
    viewer = actor_of(somebody("vera", "viewer", apps="booking"))
    assert {each.ref.app_name for each in inbox.waiting(actor=viewer).rows} == {"booking"}
    assert inbox.count(actor=viewer) == 2


def test_arguments_that_a_rule_masks_are_masked(source: str) -> None:
    mask_rules.create("booking", "tool", "buy:n", actor=SYSTEM)
    session(source, "confirm")
    feed(source)
    viewer = actor_of(somebody("vera", "viewer"))
    assert [each.asked.args for each in inbox.waiting(actor=viewer).rows if each.asked] == [{"n": DOTS}] * 2
    assert [each.asked.args for each in waits() if each.asked] == [{"n": 1}, {"n": 2}]


def test_a_call_has_one_word_that_names_it_and_no_other_word_does(source: str) -> None:
    ref = session(source, "payload 지우/\u202e", *recorded("payload"), user="a b")
    feed(source)
    (each,) = waits()
    word = inbox.id_of(each, SYSTEM)
    assert re.fullmatch(r"call-[\w-]+", word, re.ASCII)
    assert inbox.read_id(word) == (ref, each.event_id, each.call_id)
    for wrong in ("", "agent.db", word[:-9], word[5:], f"call-{write_cursor(*ref)}", "call-é"):
        with pytest.raises(Invalid, match="isn't the id of a call"):
            inbox.read_id(wrong)


def test_recorded_events_are_whole() -> None:
    assert len(EACH) == 12
    assert all(json.loads(Path(RECORDED / f"{name}.json").read_text()) for name in EACH)


def test_what_is_dismissed_with_a_reason_is_apart_and_comes_back_when_that_is_undone(source: str) -> None:
    ref = session(source, "payload")
    feed(source)
    (call,) = waits()
    before = (timeline.events(ref, actor=SYSTEM).rows, ids("status:waiting"))
    with pytest.raises(Invalid, match="reason"):
        inbox.dismiss(ref, call.key, " ", actor=ALICE)
    inbox.dismiss(ref, call.key, "The ticket was closed", actor=ALICE)
    assert (waits(), inbox.count(actor=SYSTEM)) == ([], 0)
    (dismissed,) = waits(dismissed=True)
    assert dismissed.dismissal is not None
    assert (dismissed.dismissal.by, dismissed.dismissal.reason) == (ALICE.name, "The ticket was closed")
    assert (
        timeline.events(ref, actor=SYSTEM).rows,
        ids("status:waiting"),
    ) == before  # nothing is written to the source
    inbox.undo_dismissal(ref, call.key, actor=ALICE)
    assert [each.key for each in waits()] == [call.key]
    assert [row.act for row in AuditRow.objects.order_by("pk")][-2:] == ["call-dismissed", "call-undismissed"]


def test_only_an_editor_dismisses_and_only_what_waits(source: str) -> None:
    ref = session(source, "payload")
    feed(source)
    (call,) = waits()
    viewer = actor_of(somebody("vera", "viewer"))
    with pytest.raises(NotAllowed):
        inbox.dismiss(ref, call.key, "Late", actor=viewer)
    with pytest.raises(NotFound, match="doesn't wait"):
        inbox.dismiss(ref, "0" * 32, "Late", actor=ALICE)
    assert [each.key for each in waits()] == [call.key]


def test_a_dismissal_goes_with_its_session_and_its_user(source: str) -> None:
    for user in ("ana", "ben"):
        ref = session(source, "payload", user=user)
        feed(source, walk=True)
        inbox.dismiss(ref, waits()[0].key, "Late", actor=ALICE)
    delete_session(ref, actor=ALICE)
    assert [json.loads(row.names)[1] for row in Dismissal.objects.all()] == ["ana"]
    assert own_rows.forget_user(source, "booking", "ana", ())["dismissals"] == 1
    assert not Dismissal.objects.exists()


def test_calls_of_one_moment_do_not_tell_the_order_of_hidden_ids(source: str) -> None:
    mask_rules.create("*", "form", "email", ids=True, actor=SYSTEM)
    for user in (f"{letter}@example.com" for letter in "bacfed"):
        session(source, f"of-{user[0]}", *recorded("payload"), user=user)
    feed(source)
    viewer = actor_of(somebody("vera", "viewer"))
    seen = [shown_user(*each.ref[:3], viewer) for each in inbox.waiting(actor=viewer).rows]
    assert seen == sorted(seen)
    first = inbox.waiting(actor=viewer, limit=2)
    assert [*first.rows, *inbox.waiting(actor=viewer, cursor=first.next).rows] == inbox.waiting(actor=viewer).rows
