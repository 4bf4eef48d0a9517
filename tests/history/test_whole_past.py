"""What each event of a session changed, taken together, is the state at every event, as the session's page tells it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from pytest_django import Settings

from sessions_app.access.actor import SYSTEM
from sessions_app.domain.errors import Conflict
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT, UNKNOWN, State, same
from sessions_app.history import moments, whole_past
from sessions_app.sources import database, online, registry
from sessions_app.writes.append import append_event
from sessions_app.writes.copies import ImportedEvent, ImportedSession, import_session
from sessions_app.writes.sessions import create_session
from tests.support.fold import ALICE, Fold, with_deletions
from tests.support.stored import events_of, execute, query

pytestmark = pytest.mark.django_db(transaction=True)
DEMO = Path(__file__).resolve().parents[2] / "examples" / "demo.db"


def events(ref: SessionRef) -> list[dict[str, Any]]:
    return [event for _seq, event in events_of(ref)]


def keys_of(ref: SessionRef) -> set[str]:
    return {key for event in events(ref) for key in event.get("actions", {}).get("state_delta", {})}


def check(ref: SessionRef, ids: list[str], keys: set[str] | None = None) -> None:
    """Goes through the events as the page does, and compares with `moments.state_at` at each."""
    past = whole_past.whole_past(ref, ids, keys_of(ref) if keys is None else keys, actor=SYSTEM)
    assert past is not None
    assert len(past.changes) == len(past.own) == len(ids)
    state: State = dict(past.start)
    if ids:
        same_values(state, moments.state_at(ref, ids[0], before=True, actor=SYSTEM).state.merged())
    for event_id, values, own in zip(ids, past.changes, past.own, strict=True):
        state |= values
        assert own <= values.keys()
        same_values(state, moments.state_at(ref, event_id, actor=SYSTEM).state.merged())


def same_values(told: State, wanted: State) -> None:
    told = {key: value for key, value in told.items() if value is not ABSENT}
    assert told.keys() == wanted.keys()
    assert [key for key in told if not same(told[key], wanted[key])] == []


@given(history=with_deletions)
def test_the_state_after_each_event_is_the_one_that_its_page_tells(source: str, history: list[tuple[Any, ...]]) -> None:
    fold = Fold(source)
    for what, *rest in history:
        if what != "look":
            getattr(fold, what)(*rest)
    for ref in fold.session:
        check(ref, [event_id for of, event_id, _before, _after in fold.seen if of == ref])


def test_the_state_of_the_demo_is_told_at_every_event(open_source: Callable[[str], str], tmp_path: Path) -> None:
    source = open_source(str(shutil.copy(DEMO, tmp_path / "demo.db")))
    refs = [SessionRef(source, *names) for names in query(source, "SELECT app_name, user_id, id FROM sessions")]
    for ref in refs:
        check(ref, [event["id"] for event in events(ref)])
    assert max(len(events(ref)) for ref in refs) > 50


def test_what_another_session_wrote_in_between_is_not_the_events_own(source: str) -> None:
    ref, other = (create_session(source, "app", "ana", session_id=name, actor=ALICE) for name in ("s1", "s2"))
    ids = [_append(ref, {"user:tier": "gold", "n": 1}), _append(ref, {"n": 2})]
    _append(other, {"user:tier": "silver", "app:new": True})
    ids += [_append(ref, {"n": 3}), _append(ref, {"user:tier": "gold"})]
    check(ref, ids)
    past = whole_past.whole_past(ref, ids, keys_of(ref), actor=SYSTEM)
    assert past is not None
    assert past.changes[2] == {"n": 3, "user:tier": "silver", "app:new": True}
    assert past.own == [{"user:tier", "n"}, {"n"}, {"n"}, {"user:tier"}]


def test_a_key_that_was_written_very_often_is_unknown_in_between(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_past, "MOST_WRITES", 3)
    ref, other = (create_session(source, "app", "ana", session_id=name, actor=ALICE) for name in ("s1", "s2"))
    ids = [_append(ref, {"n": 1})]
    for number in range(4):
        _append(other, {"user:busy": number})
    ids += [_append(ref, {"n": number}) for number in (2, 3)]
    past = whole_past.whole_past(ref, ids, keys_of(ref), actor=SYSTEM)
    assert past is not None
    assert past.changes[1:] == [{"n": 2, "user:busy": UNKNOWN}, {"n": 3, "user:busy": 3}]


def test_an_event_that_is_gone_meanwhile_is_a_conflict(source: str) -> None:
    ref = create_session(source, "app", "ana", session_id="s1", actor=ALICE)
    ids = [_append(ref, {"n": number}) for number in range(3)]
    execute(source, "DELETE FROM events WHERE id = %s", [ids[1]])
    with pytest.raises(Conflict, match="The session changed while it was being read"):
        whole_past.whole_past(ref, ids, keys_of(ref), actor=SYSTEM)


def test_without_events_nothing_changed(source: str) -> None:
    ref = create_session(source, "app", "ana", session_id="s1", state={"n": 1}, actor=ALICE)
    assert whole_past.whole_past(ref, [], [], actor=SYSTEM) == whole_past.WholePast()


def test_events_of_the_same_moment_are_in_no_order(source: str, settings: Settings) -> None:
    ref = SessionRef(source, "app", "ana", "s1")
    rows = [
        ImportedEvent(
            f"e{number}",
            "i1",
            at,
            json.dumps({"id": f"e{number}", "actions": {"state_delta": {"n": number, f"m{number}": 1}}}),
        )
        for number, at in enumerate((1.0, 2.0, 2.0, 3.0, 3.0, 4.0))
    ]
    import_session(
        ImportedSession(ref, 0.5, 9.0, '{"n": 5, "m0": 1, "m1": 1, "m2": 1, "m3": 1, "m4": 1, "m5": 1}', "{}"),
        rows,
        actor=ALICE,
        after=None,
        last=True,
    )
    keys = keys_of(ref)
    online.release(source)
    settings.READ_ONLY = True
    registry.opened_files.pop(source, None)
    database.get(source)
    check(ref, [row.id for row in rows], keys)


def _append(ref: SessionRef, delta: dict[str, Any]) -> str:
    event = {"author": "agent", "actions": {"state_delta": delta}}
    return str(append_event(ref, event, actor=ALICE).event["id"])
