"""Nobody learns of a hidden app by any sequence of calls: two worlds that differ in it alone answer the same.

Hypothesis chooses what Maria asks, in which order, and what happens in the app that she may not see. Answers are
compared to the byte, and so are the numbers of queries: a list that loads what it then hides takes longer."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import pytest
import time_machine
from asgiref.sync import async_to_sync
from django.db import connections
from django.urls import URLPattern, reverse
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.access import approval, masking, roles, tokens
from sessions_app.access.actor import SYSTEM
from sessions_app.access.audit import refusals
from sessions_app.api.routes import document
from sessions_app.domain.errors import AlreadyExists, NotFound
from sessions_app.domain.session_ref import SessionRef
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session, delete_session
from tests.api.program import Program
from tests.search.finding import feed
from tests.support.people import as_admin, somebody, within_a_second
from tests.web.conftest import Browser

pytestmark = pytest.mark.django_db

HIDDEN: Final = ("payroll", "weather")
SECRET: Final = "4111-1111"
NOW: Final = 1_790_000_000.0  # when everything is asked, so that no answer differs by its time
WORDS: Final = ("", "secret", SECRET, "booking", "payroll", "ana", "zoe", "status:failed", "app:payroll", "-ana", "pay")
# Gives what is asked of lists, searches, charts, suggestions, differences, histories and exports.
ASKED: Final = (
    *("home", "feed", "edits", "search", "histogram", "complete", "new-session", "queued-outcomes"),
    *(
        "apps",
        "app",
        "users",
        "sessions",
        "user",
        "user-sessions",
        "app-history",
        "app-export",
        "user-export",
        "state-health",
    ),
    *(
        "session",
        "events",
        "news",
        "stats",
        "strip",
        "stretch",
        "session-history",
        "compare",
        "session-export",
        "make-test",
    ),
)
ONCE: Final = re.compile(
    r'nonce="[^"]*"|csp-nonce" content="[^"]*"|csrfmiddlewaretoken" value="[^"]*"|"X-CSRFToken": "[^"]*"'
    r'|"request_id": ?"[^"]*"|<code class="request-id">[^<]*</code>|\d+ ms'
)


def pages() -> dict[str, URLPattern]:
    from sessions_app.web import urls

    return {str(each.name): each for each in urls.urlpatterns if isinstance(each, URLPattern) and each.name in ASKED}


OPERATIONS: Final = sorted(
    path for path, operations in document()["paths"].items() if "get" in operations and "{number}" not in path
)
NAMES: Final = st.fixed_dictionaries(
    {
        "app_name": st.sampled_from(("booking", *HIDDEN, "atlantis")),
        "user_id": st.sampled_from(("ana", "zoe")),
        "session_id": st.sampled_from(("s1", "h0", "h1")),
    }
)
QUERY: Final = st.fixed_dictionaries(
    {},
    optional={
        "q": st.sampled_from(WORDS),
        "key": st.sampled_from(("step", "user:tier", "app:limit", "card", "user:card")),
        "a": st.just("e1"),
        "b": st.sampled_from(("e2", "now")),
        "to": st.sampled_from(("e1", "h0")),
        "after": st.sampled_from(("0", "1", "5")),
        "prefix": st.sampled_from(("", "p", "pay", "s", "w")),
        "sort": st.sampled_from(("last", "user", "events")),
        "limit": st.sampled_from(("1", "50")),
    },
)
CALLS: Final = st.lists(
    st.tuples(st.one_of(st.sampled_from(ASKED), st.sampled_from(OPERATIONS)), NAMES, QUERY), min_size=1, max_size=6
)
# What happens in the hidden apps: sessions are made, go on and are deleted; `fails` is in no visible session.
HAPPENS: Final = st.lists(
    st.tuples(st.sampled_from(("make", "append", "fail", "ask", "delete")), st.sampled_from(HIDDEN), st.integers(0, 3)),
    min_size=1,
    max_size=6,
)


@pytest.fixture
def world(ref: SessionRef, add: Callable[..., str]) -> SessionRef:
    """Maria's world: two events of one session, long ago."""
    for number, name in enumerate(("e1", "e2")):
        add(ref, {"text": "hello"}, id=name, timestamp=1.7e9 + number, actions={"state_delta": {"step": name}})
    feed(ref.source)
    return ref


def happen(source: str, what: str, app: str, number: int) -> None:
    """Something happens in a hidden app, if it can."""
    ref = SessionRef(source, app, "zoe", f"h{number}")
    state = {"card": SECRET, "user:card": SECRET, "app:card": SECRET, "secret": number}
    with suppress(AlreadyExists, NotFound):
        if what == "make":
            create_session(source, app, "zoe", session_id=ref.session_id, state=state, actor=SYSTEM)
        elif what == "delete":
            delete_session(ref, actor=SYSTEM)
        else:
            event: dict[str, Any] = {"author": "agent", "actions": {"state_delta": {"step": SECRET}}}
            call = {"function_call": {"id": "c1", "name": "approve", "args": {"secret": number}}}
            asks = {"content": {"parts": [call]}, "long_running_tool_ids": ["c1"]}
            append_event(ref, event | {"fail": {"error_code": "secret"}, "ask": asks}.get(what, {}), actor=SYSTEM)


def content_of(response: Any) -> bytes:
    """The body, of a download as well."""
    if not response.streaming:
        return bytes(response.content)

    async def joined() -> bytes:
        return b"".join([piece async for piece in response])

    return async_to_sync(joined)() if response.is_async else b"".join(response)


def answer(maria: Browser, program: Program, what: str, names: dict[str, str], query: dict[str, str]) -> Any:
    """What she gets, without what is new in every answer; and how many queries it took."""
    queries = []
    roles.known.clear()  # who asks is asked again every second: here, each time
    tokens.known.clear()
    approval.known.clear()
    masking.forget()
    refusals.known.clear()  # what was refused is recorded once a minute, and how often after it: here, each time

    def counted(execute: Any, sql: str, *given: Any) -> Any:
        queries.append(sql)
        return execute(sql, *given)

    with time_machine.travel(NOW, tick=False), within_a_second(), connections["default"].execute_wrapper(counted):
        if what.startswith("/"):
            known = {key: value for key, value in query.items() if f"{{{key}}}" not in what}
            ids = dict.fromkeys(("proposal_id", "run_id"), uuid.UUID(int=0))
            got = program.ask("GET", what.format(**names, event_id="e1", file=0, **ids), **known)
            text, status = got.content.decode(), got.status
        else:
            pattern = pages()[what].pattern
            address = reverse(what, kwargs={name: names[name] for name in pattern.converters})
            response = maria.get(address, query)
            text, status = content_of(response).decode() + response.headers.get("Location", ""), response.status_code
    return status, ONCE.sub("", text), len(queries)


@given(calls=CALLS, happens=HAPPENS)
def test_no_sequence_of_calls_tells_what_happens_in_an_app_that_somebody_may_not_see(
    world: SessionRef, maria: Browser, calls: Any, happens: Any
) -> None:
    somebody("maria", "editor", "booking*")
    program = Program(tokens.create(f"agent {uuid.uuid4()}", "append", "booking*", by=as_admin("maria"))[1])
    asked = [(what, names | {"source": world.source}, query) for what, names, query in calls]
    for _warm in range(2):
        before = [answer(maria, program, *each) for each in asked]
    for what, app, number in happens:
        happen(world.source, what, app, number)
    feed(world.source)
    for each, first in zip(asked, before, strict=True):
        assert answer(maria, program, *each) == first, each
