"""Drift is noticed without an event, shown to who may see it, and forgotten once it is repaired; on both databases."""

import json

import pytest

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import Change
from sessions_app.models import DriftedSession, SearchSource
from sessions_app.search import drift_looks
from sessions_app.search.drift_looks import Looker, drifted
from sessions_app.search.health import EVERYBODY, Of
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session, delete_session
from tests.search.finding import feed
from tests.support.people import ALICE, CHARLIE
from tests.support.stored import execute

BOTH = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)
FORMS = pytest.mark.parametrize("form", ["sqlite", "postgresql"])


@pytest.fixture
def sessions(own: str, source: str) -> list[SessionRef]:
    """Returns six sessions whose events say that a price is 412, indexed. In two tables, another program writes 999."""
    refs = [
        create_session(source, "booking", user, session_id=f"{user}-{number}", actor=ALICE)
        for user in ("ana", "ben")
        for number in range(3)
    ]
    for ref in refs:
        append_event(ref, {"author": "agent", "actions": {"state_delta": {"price": 412}}}, actor=ALICE)
    feed(source, walk=True)
    for ref in refs[::4]:
        put(ref, 999)
    return refs


def put(ref: SessionRef, price: int) -> None:
    """Writes a price to the session's row, as another program would: the row's time stays."""
    state = json.dumps({"price": price})
    execute(ref.source, "UPDATE sessions SET state = %s WHERE id = %s", [state, ref.session_id])


def listed(actor: Actor = SYSTEM, of: Of = EVERYBODY) -> set[tuple[SessionRef, Change]]:
    """Returns the sessions that are shown to have drifted, each with its key."""
    return {(each.ref, each.change) for each in drifted(actor=actor, of=of)}


@BOTH
@FORMS
def test_a_value_that_no_event_wrote_is_noticed_and_no_more_once_it_is_right(
    sessions: list[SessionRef], source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drift_looks, "ROUND_SECONDS", 0.0)
    looker, change = Looker(source), Change("price", 412, 999)
    assert listed() == set()
    looker.look(10.0)
    assert listed() == {(ref, change) for ref in sessions[::4]}
    assert listed(of=Of(source, "booking", "ben")) == {(sessions[4], change)}
    assert listed(CHARLIE) == set()
    put(sessions[0], 412)
    assert listed() == {(sessions[4], change)}  # at once: what is shown is looked at again
    looker.look(10.0)
    assert DriftedSession.objects.count() == 1
    delete_session(sessions[4], actor=ALICE)
    feed(source, walk=True)
    assert DriftedSession.objects.count() == 0


def test_looking_ends_in_time_goes_on_where_it_stopped_and_is_done_by_one_process(
    sessions: list[SessionRef], source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looker, looks = Looker(source), []
    monkeypatch.setattr(drift_looks, "drifted_keys", lambda ref, actor: looks.append(ref))
    looker.look(0.0)
    assert looks == []
    looker.look(10.0)
    looker.look(10.0)  # the next round is not due
    assert sorted(looks) == sorted(sessions)
    SearchSource.objects.update(claim="another")
    Looker(source).look(10.0)
    assert len(looks) == len(sessions)
