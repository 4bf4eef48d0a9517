"""A query selects what waits by its kind, its tool and since when, as a plain filter over the events does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import pytest

from sessions_app.access.actor import SYSTEM
from sessions_app.domain.pending import KINDS, Pending, pending
from sessions_app.domain.session_ref import SessionRef
from sessions_app.models import SearchSession
from sessions_app.search import selecting
from sessions_app.search.completing import complete
from sessions_app.search.selecting import among
from sessions_app.writes.append import append_event
from tests.domain.test_pending import recorded
from tests.search.finding import feed, ids, query_of
from tests.search.test_inbox import EACH, answer, session
from tests.support.people import ALICE

pytestmark = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)
CALLS: Final = {name: pending(recorded(name)) for name in EACH}
TIMES: Final = sorted(call.since for calls in CALLS.values() for call in calls)
TOOL: Final = CALLS["longrunning"][0].tool


@pytest.fixture
def source(own: str, new_store: Callable[[str], str], open_source: Any) -> str:
    """A source with every recorded session that waits, and one in which nothing does."""
    alias: str = open_source(new_store("sqlite"))
    for name in EACH:
        session(alias, name)
    session(alias, "quiet", {"author": "agent", "timestamp": TIMES[0]})
    feed(alias)
    return alias


def selected(text: str, now: float) -> list[str]:
    """The ids of the sessions that are selected at a time when each is asked for itself."""
    names = {each.pk: each.names for each in SearchSession.objects.all()}
    return sorted(
        name for name in (*EACH, "quiet") for n in among(names, query_of(text), now=now) if f'"{name}"' in names[n]
    )


@pytest.mark.parametrize("many", [500, 0])
def test_kind_tool_and_time_select_what_a_plain_filter_selects(
    source: str, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selecting, "MANY", many)
    now = TIMES[len(TIMES) // 2] + 3600
    filters: dict[str, Callable[[Pending], bool]] = {
        "waits:any": lambda call: True,
        **{f"waits:{kind}": lambda call, kind=kind: call.kind == kind for kind in KINDS},  # type: ignore[misc]
        f'waits-for:"{TOOL}"': lambda call: call.tool == TOOL,
        f"waits-for:{TOOL[:3]}": lambda call: call.tool.startswith(TOOL[:3]),
        "waits-for:nothing": lambda call: False,
        "waiting:>1h": lambda call: now - call.since > 3600,
        "waiting:<=1h": lambda call: now - call.since <= 3600,
        "waiting:1m..1h": lambda call: 60 <= now - call.since <= 3600,
    }
    monkeypatch.setattr(time, "time", lambda: now)
    for text, holds in filters.items():
        expected = [name for name in EACH if any(map(holds, CALLS[name]))]
        assert ids(text) == expected, text
        assert selected(text, now) == expected, text
        others = sorted({*EACH, "quiet"} - {*expected})
        assert selected(f"-{text}", now) == ids(f"-{text}") == others, text
    assert ids("waits:none") == ["quiet"]
    assert 0 < len(ids("waiting:>1h")) < len(EACH)


def test_what_the_user_passed_over_or_answered_is_left_out_and_no_tool_of_it_is_suggested(source: str) -> None:
    def tools() -> set[str]:
        return {each.text for each in complete("waits-for:", 10, actor=SYSTEM)}

    assert tools() == {call.tool for calls in CALLS.values() for call in calls}
    for name, calls in CALLS.items():
        ref = SessionRef(source, "booking", "ana", name)
        if name.startswith("longrunning"):
            later = {"author": "user", "invocation_id": "late", "content": {"parts": [{"text": "Something else"}]}}
            append_event(ref, {**later, "timestamp": time.time()}, actor=ALICE)
        else:
            for call in calls:
                answer(ref, call.call_id)
    feed(source)
    for text in ("waits:any", "waiting:>1s", f"waits-for:{TOOL}"):
        assert ids(text) == selected(text, time.time()) == [], text
    assert tools() == set()
