"""Pages of a source behind a pooler in transaction mode."""

from collections.abc import Callable

import pytest

from sessions_app.access.actor import Actor
from sessions_app.sources import database
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.support.pooler import pooler

from .conftest import Browser, names_of

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("only", [False, True], ids=["by default", "read-only"])
def test_pages_are_shown(
    new_store: Callable[[str], str],
    open_source: Callable[[str], str],
    actor: Actor,
    maria: Browser,
    request: pytest.FixtureRequest,
    only: bool,
) -> None:
    with pooler(new_store("postgresql")) as url:
        ref = create_session(open_source(url), "app", "ana", actor=actor, session_id="s1")
        for n in range(8):
            append_event(ref, {"author": "agent", "actions": {"state_delta": {"n": n}}}, actor=actor)
        if only:
            database.forget(ref.source)
            request.getfixturevalue("read_only")
            open_source(url)
        for _ in range(3):
            maria.open("home")
            for name in ("session", "chat", "trace", "context"):
                maria.open(name, **names_of(ref, 4))
