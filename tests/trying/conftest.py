"""Sessions of a shop, as its agent would have written them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessions_app.access.actor import SYSTEM
from sessions_app.domain.session_ref import SessionRef
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session

AGENTS = Path(__file__).parent / "agents"


@pytest.fixture
def shop(
    request: pytest.FixtureRequest, own: str, new_store: Callable[[str], str], open_source: Callable[[str], str]
) -> str:
    """A source without sessions."""
    return open_source(new_store(getattr(request, "param", "sqlite")))


def say(ref: SessionRef, author: str, *parts: dict[str, Any], turn: str = "1", **actions: Any) -> str:
    """Appends an event of a turn, and returns its id."""
    event: dict[str, Any] = {"author": author, "invocation_id": f"e-{ref.session_id}-{turn}", "actions": actions}
    if parts:
        event["content"] = {"role": "user" if author == "user" else "model", "parts": list(parts)}
    if author != "user":
        event["node_info"] = {"path": "shop@1"}
    return str(append_event(ref, event, actor=SYSTEM).event["id"])


def visit(source: str, session: str, number: int, user: str = "ana", **state: Any) -> SessionRef:
    """A session in which a user says hello, on this visit of theirs."""
    ref = create_session(source, "shop", user, session_id=session, state=state, actor=SYSTEM)
    say(ref, "user", {"text": "Hello"})
    say(ref, "shop", state_delta={"visit": number, "user:visits": number})
    say(ref, "shop", {"text": "Hi!"}, state_delta={"said": "Hi!"})
    return ref


def bread_in(source: str, session: str = "s1") -> SessionRef:
    """A session in which ana had bread baked, in the size small. Its agent is the baker."""
    ref = create_session(
        source, "baker", "ana", session_id=session, state={"size": "small", "user:name": "Ana"}, actor=SYSTEM
    )
    say(ref, "user", {"text": "bread"})
    call = {"function_call": {"id": "c1", "name": "bake", "args": {"what": "bread"}}}
    say(ref, "baker", call)
    response = {"function_response": {"id": "c1", "name": "bake", "response": {"baked": "bread"}}}
    say(ref, "baker", response, state_delta={"user:baked": "bread"})
    said = "{'baked': 'bread'} in small by obeys"
    say(ref, "baker", {"text": said}, state_delta={"said": said})
    return ref
