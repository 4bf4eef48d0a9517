"""The session that many tests begin with; and how hypothesis searches: HYPOTHESIS_PROFILE=long for a night."""

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from sessions_app.access.actor import Actor
from sessions_app.domain.session_ref import SessionKey
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.core.booking import APP, START

# A source is made once for all examples of a test: each example makes a session of its own.
_COMMON = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
}
settings.register_profile("quick", max_examples=40, **_COMMON)
settings.register_profile("long", max_examples=2000, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.fixture
def key(source: str, actor: Actor) -> SessionKey:
    """A session with state in every scope."""
    return create_session(source, APP, "ana", actor=actor, state=START, session_id="s1")


@pytest.fixture
def add(actor: Actor) -> Callable[..., str]:
    """Appends an event with a delta as an agent would, and with fields that adkweb does not know; its id."""

    def append(key: SessionKey, **delta: Any) -> str:
        named = {name.replace("__", ":"): value for name, value in delta.items()}
        event = {"author": "agent", "invocation_id": "i1", "actions": {"state_delta": named}, "x": {"y": [None, 1e22]}}
        return str(append_event(key, event, actor=actor).event["id"])

    return append
