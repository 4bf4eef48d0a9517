"""What a page costs does not grow with what is stored."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from sessions_app.access.actor import Actor
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.support.bulk import fill
from tests.web.conftest import Browser

pytestmark = pytest.mark.django_db


def queries(maria: Browser, source: str, address: str) -> int:
    """How many queries a source gets for a page, which answers."""
    maria.get(address)  # whatever is kept from request to request is kept by now
    with CaptureQueriesContext(connections[source]) as captured:
        assert maria.get(address).status_code == 200
    return len(captured)


def test_a_page_of_a_long_session_costs_as_many_queries_as_of_a_short_one(
    ref: SessionRef, maria: Browser, actor: Actor
) -> None:
    long = create_session(*ref[:3], session_id="long", actor=actor)
    fill(ref, 100)
    with connections[ref.source].cursor() as cursor:
        cursor.execute("UPDATE events SET id = 's' || id")  # fill gives every session the same ids
    fill(long, 10_000)
    counts: dict[str, list[int]] = {}
    pages = (
        "session",
        "session?density=chat",
        "session?density=trace",
        "events",
        "stats",
        "session-edit",
        "event",
        "context",
    )
    for name in pages:
        for session, prefix in ((ref, "s"), (long, "")):
            names = {**session._asdict(), **({"event_id": f"{prefix}e50"} if name == "event" else {})}
            page, _, density = name.partition("?")
            address = f"{reverse(page, kwargs=names)}?{density}"
            counts.setdefault(name, []).append(queries(maria, ref.source, address))
    assert {name: of for name, of in counts.items() if not of[1] <= of[0] <= 18} == {}


def test_what_a_model_got_for_an_event_of_a_long_session_costs_as_much_as_for_one_of_a_short_one(
    ref: SessionRef, maria: Browser, actor: Actor
) -> None:
    long = create_session(*ref[:3], session_id="long", actor=actor)
    fill(ref, 100)
    with connections[ref.source].cursor() as cursor:
        cursor.execute("UPDATE events SET id = 's' || id")
    fill(long, 10_000)
    content = {"content": {"role": "model", "parts": [{"text": "hello"}]}, "author": "agent"}
    counts = []
    for session in (ref, long):
        said = append_event(session, content, actor=actor).event["id"]
        address = f"{reverse('context', kwargs=session._asdict())}?at={said}"
        assert "What the model got · event" in maria.get(address).content.decode()
        counts.append(queries(maria, ref.source, address))
    assert counts[1] <= counts[0] <= 18


def test_home_costs_more_with_each_app_and_no_more_with_sessions(store: str, maria: Browser, actor: Actor) -> None:
    def more(app: str, sessions: int) -> int:
        for number in range(sessions):
            create_session(store, app, f"u{number}", actor=actor)
        return queries(maria, store, reverse("home"))

    one, three = more("a", 1), 0
    assert more("a", 60) == one
    for app in ("b", "c"):
        three = more(app, 2)
    assert three - one == 2 * ((three - one) // 2)
    assert (three - one) // 2 <= 5


@pytest.mark.parametrize("name", ["app", "sessions", "user"])
def test_a_list_of_sessions_costs_the_same_for_one_and_for_many(
    store: str, maria: Browser, actor: Actor, add: Callable[..., str], name: str
) -> None:
    address = reverse(name, args=[store, "booking", *(["ana"] if name == "user" else [])])
    counts = []
    for sessions in (1, 45):
        for _ in range(sessions):
            add(create_session(store, "booking", "ana", actor=actor), {"text": "x"})
        counts.append(queries(maria, store, address))
    assert counts[0] == counts[1]


def test_the_list_of_edits_costs_a_source_the_same_for_one_and_for_many(
    ref: SessionRef, maria: Browser, actor: Actor
) -> None:
    counts = []
    for edits in (1, 20):
        for number in range(edits):
            edit_state(ref, [Entry(f"{edits} {number}", number, ABSENT)], actor=actor)
        maria.open("edits")  # reads what is new
        counts.append(queries(maria, ref.source, reverse("edits")))
    assert counts[0] == counts[1] <= 6  # what they weigh is asked for first
