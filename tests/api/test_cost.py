"""What an answer costs does not grow with what is stored."""

from __future__ import annotations

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from sessions_app.access import tokens
from sessions_app.access.actor import Actor
from sessions_app.domain.session_ref import SessionRef
from sessions_app.writes.sessions import create_session
from tests.api.conftest import fill
from tests.api.program import Program, address
from tests.support.people import within_a_second

pytestmark = pytest.mark.django_db


def queries(program: Program, source: str, path: str) -> int:
    """How many queries a source gets for an answer."""
    program.get(path)  # whatever is kept from request to request is kept by now
    with CaptureQueriesContext(connections[source]) as captured:
        assert program.get(path).status == 200
    return len(captured)


@pytest.mark.parametrize("path", ["/api/apps/booking/sessions", "/api/apps/booking/users/ana/sessions"])
def test_a_page_of_sessions_costs_one_query(program: Program, each_ref: SessionRef, actor: Actor, path: str) -> None:
    for _ in range(60):
        create_session(*each_ref[:3], actor=actor)
    assert queries(program, each_ref.source, path) == 1


@pytest.mark.parametrize(
    ("tail", "most"), [("/events", 5), ("/events/e50", 3), ("/state", 1), ("/standing", 1), ("?newest=5", 1)]
)
def test_an_answer_about_a_long_session_costs_as_many_queries_as_about_a_short_one(
    program: Program, each_ref: SessionRef, actor: Actor, tail: str, most: int
) -> None:
    long = create_session(*each_ref[:3], session_id="long", actor=actor)
    fill(each_ref, 60)
    with connections[each_ref.source].cursor() as cursor:
        cursor.execute("UPDATE events SET id = 's' || id")  # fill gives every session the same ids
    fill(long, 10_000)
    short = queries(program, each_ref.source, address(each_ref, tail.replace("e50", "se50")))
    assert queries(program, each_ref.source, address(long, tail)) <= short <= most


def test_a_whole_session_costs_one_query_and_one_for_a_thousand_events(program: Program, each_ref: SessionRef) -> None:
    assert queries(program, each_ref.source, address(each_ref)) == 1
    fill(each_ref, 3_000)
    # On PostgreSQL events are streamed, which is not counted.
    assert queries(program, each_ref.source, address(each_ref)) == (
        1 if connections[each_ref.source].vendor == "postgresql" else 4
    )


def test_a_request_costs_adkwebs_own_database_one_query_and_those_that_follow_none(
    program: Program, ref: SessionRef
) -> None:
    path = address(ref)
    with within_a_second():
        assert queries(program, "default", path) == 0
        tokens.known.clear()  # a second later
        with CaptureQueriesContext(connections["default"]) as captured:
            program.get(path)
    assert len(captured) == 1
