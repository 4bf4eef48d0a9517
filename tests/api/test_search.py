"""Searching over REST: what a query selects, what is said of a mistake, and what a token may learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from sessions_app.access.actor import Actor
from sessions_app.domain.session_ref import SessionRef
from sessions_app.search.index.feed import Feeder
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.api.program import Program

pytestmark = pytest.mark.django_db(transaction=True)

NOON: Final = 1_767_268_800.0  # 2026-01-01 12:00 in UTC


def said(author: str, text: str, at: float, **more: Any) -> dict[str, Any]:
    content = {"parts": [{"text": text}]}
    return {"author": author, "invocation_id": "i1", "timestamp": at, "content": content, **more}


@pytest.fixture
def fed(each_ref: SessionRef, actor: Actor) -> SessionRef:
    """A session that failed, and one of another user, both in the index."""
    append_event(each_ref, said("user", "Find me a flight", NOON), actor=actor)
    error = {"error_code": "EXPIRED", "error_message": "the fare expired", "usage_metadata": {"total_token_count": 7}}
    append_event(each_ref, said("billing", "Sorry", NOON + 5, **error), actor=actor)
    other = create_session(each_ref.source, "weather", "ben", session_id="s2", actor=actor)
    append_event(other, said("user", "Will it rain?", NOON + 60), actor=actor)
    feed(each_ref.source)
    return each_ref


def feed(source: str) -> None:
    feeder = Feeder(source)
    while feeder.feed():
        pass


def ids(program: Program, **query: Any) -> list[str]:
    answer = program.get("/api/sessions", **query)
    assert answer.status == 200, answer
    return [row["id"] for row in answer.json()["items"]]


def test_a_session_is_found_with_its_numbers_and_the_line_that_matched(fed: SessionRef, program: Program) -> None:
    columns = "columns=step&columns=user:tier&columns=nothing.more&columns=app:gone"
    told = program.get(f"/api/sessions?{columns}", q='"fare exp" status:failed').json()
    (row,) = told.pop("items")
    assert told == {"next": None, "count": 1, "more": False, "broad": [], "behind": []}
    created, error_seq, match = row.pop("created"), row.pop("error_seq"), row.pop("match")
    assert created > NOON
    assert row == {
        "source": fed.source,
        "app_name": "booking",
        "user_id": "ana",
        "id": "s1",
        "title": "Find me a flight",
        "status": "failed",
        "last": NOON + 5,
        "took": 5.0,
        "took_sign": "≥",
        "turns": 1,
        "events": 2,
        "tokens": 7,
        "error": "EXPIRED the fare expired",
        "tags": [],
        "columns": {"step": "choose", "user:tier": "gold"},
    }
    seq = program.get("/api/apps/booking/users/ana/sessions/s1/events").json()["items"][-1]["seq"]
    assert error_seq == seq
    assert match == {"seq": seq, "kind": "error", "before": "EXPIRED the ", "text": "fare expired", "after": ""}


def test_without_a_query_there_are_all_sessions_in_pages_and_in_any_order(fed: SessionRef, program: Program) -> None:
    assert ids(program) == ["s2", "s1"]
    assert ids(program, sort="last") == ["s1", "s2"]
    assert ids(program, sort="-tokens") == ["s1", "s2"]
    first = program.get("/api/sessions", limit=1).json()
    assert (first["count"], [row["id"] for row in first["items"]]) == (2, ["s2"])
    assert ids(program, limit=1, cursor=first["next"]) == ["s1"]


@pytest.mark.parametrize(
    ("q", "errors"),
    [
        ("usr:ana late", [("usr:ana", "There's no filter “usr:”. Did you mean “user:”?")]),
        (
            "late (kind:x user:",
            [
                ("(", "This bracket isn't closed."),
                ("kind:x", "“x” isn't a kind of event. Use one of: "),
                ("user:", "Something is missing after “user:”."),
            ],
        ),
        ("a" * 10_001, [("a", "A query can have up to 10,000 characters. The rest is ignored.")]),
        ("💳 ()", [("(", "Something is missing after “(”.")]),
    ],
)
def test_a_query_with_a_mistake_is_refused_with_its_place_and_never_answered_with_all(
    program: Program, q: str, errors: list[tuple[str, str]]
) -> None:
    answer = program.get("/api/sessions", q=q)
    assert answer.status == 400
    told = answer.json()["errors"]
    assert told[0]["message"] == answer.detail
    assert [q[each["start"] : each["end"]] for each in told] == [part for part, _message in errors]
    assert [each["message"][: len(message)] for each, (_, message) in zip(told, errors, strict=True)] == [
        message for _, message in errors
    ]
    assert {each["place"] for each in told} == {"q"}


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({"zone": "Mars/Olympus"}, "isn't a time zone"),
        ({"zone": "../../etc/passwd"}, "isn't a time zone"),
        ({"zone": "America"}, "isn't a time zone"),
        ({"zone": ""}, "isn't a time zone"),
        ({"zone": "a\0b"}, "isn't a time zone"),
        ({"zone": "x" * 5_000}, "isn't a time zone"),
        ({"sort": "id"}, "can't be sorted by “id”"),
        ({"cursor": "x"}, "isn't valid"),
        ({"limit": 101}, "limit"),
    ],
)
def test_what_cannot_be_meant_is_refused(fed: SessionRef, program: Program, query: Any, sentence: str) -> None:
    answer = program.get("/api/sessions", **query)
    assert answer.status == 400
    assert sentence in answer.detail


def test_a_program_asks_for_at_most_twelve_columns(program: Program) -> None:
    answer = program.get("/api/sessions?" + "&".join(f"columns=c{number}" for number in range(13)))
    assert (answer.status, "12" in answer.detail) == (400, True)


def test_times_are_read_in_utc_or_in_the_zone_that_is_named(fed: SessionRef, program: Program) -> None:
    assert ids(program, q="after:2026-01-01T12:01") == ["s2"]
    assert ids(program, q="after:2026-01-01T12:01", zone="America/New_York") == []
    assert ids(program, q="after:2026-01-01T21:01", zone="Asia/Seoul") == ["s2"]


def test_a_token_finds_and_counts_only_what_is_in_its_apps(
    fed: SessionRef, new_token: Callable[..., str], other_store: str
) -> None:
    stranger = Program(new_token("read", "weather*"))
    told = stranger.get("/api/sessions").json()
    assert ([row["id"] for row in told["items"]], told["count"]) == (["s2"], 1)
    assert told["behind"] == [], "not even that there is another source"
    for q in ("user:ana", "expired", 'user:tier = "gold"', "app:booking", "session:s1", "error:any"):
        told = stranger.get("/api/sessions", q=q).json()
        assert (told["items"], told["count"]) == ([], 0), q
    everybody = Program(new_token("read"))
    assert everybody.get("/api/sessions").json()["behind"] == [{"source": other_store, "share": 0.0}]
