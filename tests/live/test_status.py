"""The status that is pushed is that of now, also when a run ends of which nobody has told this process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sessions_app.access.actor import SYSTEM
from sessions_app.domain.positions import Seq
from sessions_app.domain.session_ref import SessionRef
from sessions_app.live import room
from sessions_app.models import Job
from sessions_app.reads import newest
from sessions_app.running import runs
from sessions_app.web.session.updates import Filter
from sessions_app.writes.append import append_event
from tests.support.at_work import until

WATCHER: Any = SimpleNamespace(language="en", closed=False)


@pytest.mark.usefixtures("own")
def test_a_run_that_ended_between_two_parts_of_the_page_runs_no_longer(
    ref: SessionRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    had: dict[str, str] = {}
    monkeypatch.setattr(room, "push", lambda _watchers, message: had.update(message))
    monkeypatch.setattr(room.Room, "_may_watch", lambda self, seats: dict.fromkeys(seats))
    here = room.Room(ref)
    here.seats.append(room.Seat(WATCHER, Filter(), Seq(0)))

    def look() -> None:
        here.follow(newest.revisions(ref.source, [ref], actor=SYSTEM)[ref], moved=True)
        here.refresh()

    look()
    runs.make(ref, [], "", actor=SYSTEM)
    append_event(ref, {"author": "user", "content": {"parts": [{"text": "Pay"}]}}, actor=SYSTEM)
    look()  # the other parts rest
    assert "data-running" in had["status"]
    Job.objects.update(state="done")
    append_event(ref, {"author": "agent", "content": {"parts": [{"text": "Paid."}]}}, actor=SYSTEM)
    until(lambda: here.refresh() or "data-running" not in had["status"], seconds=room.RUNNING_SECONDS - 1)
