"""google-adk's own service reads an imported session as it reads the original, and goes on with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.adk.services import APP, USER, Adk
from tests.conftest import FORMATS
from tests.transfer.files import exported, imported


@pytest.fixture
def service() -> Iterator[Callable[[str, str], Adk]]:
    """google-adk's service of a format on a database."""
    started: list[Adk] = []

    def start(form: str, place: str) -> Adk:
        started.append(Adk(form, place))
        return started[-1]

    yield start
    for adk in started:
        adk.close()


@pytest.mark.parametrize("other", FORMATS)
def test_an_agent_goes_on_with_an_imported_session(
    form: str,
    other: str,
    new_database: Callable[[str], str],
    open_source: Callable[..., str],
    service: Callable[[str, str], Adk],
) -> None:
    place, into = new_database(form), new_database(other)
    agent = service(form, place)
    session = agent.create(state={"a": 1, "user:lang": "ko", "app:plan": {"x": [1.5, None]}})
    for n in range(3):
        agent.append(session, f"안녕 {n} 👍", n=n, user__n=n, app__n=n)
    file = exported(open_source(place))
    target = open_source(into, other)
    imported(target, file)
    there = service(other, into)
    original, copy = agent.get().model_dump(), there.get().model_dump()
    times: list[Any] = [found.pop("last_update_time") for found in (original, copy)]
    assert times[1] == pytest.approx(times[0], abs=2e-6, rel=0)
    for a, b in zip(original["events"], copy["events"], strict=True):
        # DatabaseSessionService takes the time from its column, which has microseconds.
        assert b.pop("timestamp") == pytest.approx(a.pop("timestamp"), abs=2e-6, rel=0)
    assert copy == original
    there.append(there.get(), "and on", n=9)
    assert there.get().state["n"] == 9
    assert [event.author for event in there.get().events] == ["booking"] * 4
    (listed,) = there.run(there.service.list_sessions(app_name=APP, user_id=USER)).sessions
    assert listed.id == "s1"
