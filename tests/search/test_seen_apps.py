"""Tests that nothing is selected, counted or suggested that the actor may not see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from sessions_app.access.actor import Actor
from sessions_app.search import selecting
from sessions_app.search.completing import complete
from sessions_app.search.health import histogram
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.search.finding import asked, feed, ids, query_of, rows
from tests.support.people import ALICE

pytestmark = pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture
def source(own: str, new_store: Callable[[str], str], open_source: Callable[[str], str]) -> str:
    """An empty SQLite source, which may hold any text."""
    return open_source(new_store("sqlite"))


BOOKING: Final = Actor.holding("program", "read", "booking*")


@pytest.fixture
def two_apps(own: str, source: str) -> str:
    """An app that BOOKING may see, and one that it may not, of the same user."""
    for app, word in (("booking-eu", "seen"), ("payroll", "secret")):
        title = {"__session_metadata__": {"displayName": f"{word} title"}}
        state = title | {f"{word}_key": f"{word}-value", f"user:{word}_user": word, f"app:{word}_app": word}
        ref = create_session(source, app, f"{word}-user", session_id=f"{word}-id", state=state, actor=ALICE)
        call = {"function_call": {"name": f"{word}_tool", "args": {"q": word}, "id": "c"}}
        error = {"error_message": f"{word} failed"}
        append_event(ref, {"author": f"{word}_agent", "content": {"parts": [call]}, **error}, actor=ALICE)
    feed(source)
    return source


@pytest.mark.parametrize(
    "text",
    [
        *("", "secret", "user:secret", "app:payroll", "tool:secret", "author:secret", "error:secret", "session:secret"),
        *(
            "title:secret",
            "secret_key exists",
            "user:secret_user exists",
            "app:secret_app = secret",
            "-seen",
            "not kind:edit",
        ),
        *(
            "not app:booking",
            "status:running or status:failed",
            "events:1",
            "not (user:seen)",
            'app:"payroll" or secret',
        ),
    ],
)
def test_what_an_actor_may_not_see_is_never_selected_or_counted(two_apps: str, text: str) -> None:
    assert {row.ref.app_name for row in rows(text, BOOKING)} <= {"booking-eu"}
    assert (asked(text, BOOKING).total, asked(text).total) == (1, 2)
    parsed = query_of(text)
    assert sum(bar.sessions for bar in histogram(parsed, actor=BOOKING)) == len(rows(text, BOOKING))
    assert ids(text), "but somebody else finds it"


@pytest.mark.parametrize(
    "text",
    [
        *(
            "app:",
            "user:",
            "session:",
            "author:",
            "tool:",
            "error:",
            "edited:",
            "title:",
            "state.",
            "s",
            "secret",
            "pay",
        ),
        *(
            "user:se",
            "app:se",
            "author:se",
            "tool:se",
            "error:se",
            "state.se",
            "state.secret_key = ",
            "app:secret_app = ",
        ),
        *('secret_key = "', "user:secret_user = s", "user:secret_user in (", "app:pay"),
    ],
)
def test_what_an_actor_may_not_see_is_never_suggested(two_apps: str, text: str) -> None:
    told: Any = complete(text, len(text), actor=BOOKING)
    assert not [each for each in told if "secret" in each.text or "payroll" in each.text]
    seen = text.replace("secret", "seen")
    if seen != text and ("=" in text or ":" in text or "." in text):
        assert any("seen" in each.text for each in complete(seen, len(seen), actor=BOOKING))


def test_who_sees_a_whole_source_is_not_asked_about_each_of_its_apps(
    two_apps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, half = (Actor.holding("adam", "read", sources="*"), BOOKING)
    assert [sorted(app.name for app in selecting.seen_apps(actor)) for actor in (whole, half)] == [
        ["booking-eu", "payroll"],
        ["booking-eu"],
    ]
    monkeypatch.delattr(Actor, "may_see")  # home asks a dozen times, and there may be ten thousand apps
    assert len(selecting.seen_apps(whole)) == 2
