"""Sources, apps and users, as programs see them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from sessions_app.access.actor import Actor
from sessions_app.api import apps
from sessions_app.domain.session_ref import SessionRef
from sessions_app.http.names import UNSEEN
from sessions_app.sources import database, registry
from sessions_app.writes.sessions import create_session
from tests.api.program import Program
from tests.support.stored import execute

pytestmark = pytest.mark.django_db


def test_sources_are_told_by_their_alias(program: Program, store: str, other_store: str) -> None:
    told = program.get("/api/sources").json()
    assert [(row["source"], row["vendor"]) for row in told] == [(other_store, "sqlite"), (store, "sqlite")]
    assert all(row["where"].endswith(".db") for row in told)


def test_no_source_is_an_empty_list(program: Program) -> None:
    assert program.get("/api/sources").json() == []
    assert program.get("/api/apps").json() == {"items": [], "next": None, "problems": []}


def test_apps_of_every_source_with_their_numbers(
    program: Program, ref: SessionRef, other_store: str, actor: Actor
) -> None:
    for user in ("ana", "ben"):
        create_session(other_store, "support", user, actor=actor)
    told = program.get("/api/apps").json()
    assert told["problems"] == []
    assert [(row["source"], row["app_name"], row["sessions"], row["users"]) for row in told["items"]] == [
        (other_store, "support", 2, 2),
        (ref.source, "booking", 1, 1),
    ]
    assert all(isinstance(row["last_activity"], float) for row in told["items"])


def test_apps_are_listed_by_page_across_the_sources(
    program: Program,
    new_token: Callable[..., str],
    store: str,
    other_store: str,
    actor: Actor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(apps, "APPS", 2)
    for source, names in ((other_store, "abc"), (store, "Bxyz")):
        for name in names:
            create_session(source, name, "ana", actor=actor)

    def pages(program: Program) -> list[str]:
        listed, after = [], None
        while True:
            told = program.get("/api/apps", **({"after": after} if after else {})).json()
            listed.append("".join(row["app_name"] for row in told["items"]))
            after = told["next"]
            if after is None:
                return listed

    assert pages(program) == ["ab", "cB", "xy", "z"]
    assert pages(Program(new_token("read", "[a-c]"))) == ["ab", "c"]
    assert program.get("/api/apps", after="nonsense").status == 400


def test_a_page_of_many_apps_costs_as_much_as_one_of_few(program: Program, store: str) -> None:
    execute(
        store,
        """INSERT INTO sessions (app_name, user_id, id, state, create_time, update_time)
        WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 3000)
        SELECT 'app' || n, 'ana', 's', '{}', 1790000000.0, 1790000000.0 FROM n""",
    )
    with CaptureQueriesContext(connections[store]) as sent:
        assert len(program.get("/api/apps").json()["items"]) == apps.APPS
        assert len(program.get("/list-apps").json()) == 3000
    assert len(sent) < 12


def test_a_source_that_is_away_takes_no_other_with_it(
    program: Program, ref: SessionRef, other_store: str, tmp_path: Path
) -> None:
    database.open_source(next(source for source in registry.listed() if source.alias == other_store))
    (tmp_path / "other.db").unlink()
    told = program.get("/api/apps").json()
    assert [row["app_name"] for row in told["items"]] == ["booking"]
    (problem,) = told["problems"]
    assert "other.db" in problem
    refused = program.get("/api/apps/booking/users", source=other_store)
    assert refused.status == 503
    assert "other.db" in refused.detail


def test_where_a_source_is_only_a_token_for_everything_learns(
    program: Program, new_token: Callable[..., str], ref: SessionRef, other_store: str, actor: Actor, tmp_path: Path
) -> None:
    create_session(other_store, "support", "ben", actor=actor)
    everything = program.get("/api/sources").json()
    assert all(row["where"].endswith(".db") for row in everything)
    reader, clerk = Program(new_token("read")), Program(new_token("admin", "supp*"))
    assert reader.get("/api/sources").json() == [{**row, "where": None} for row in everything]
    assert [row["source"] for row in clerk.get("/api/sources").json()] == [other_store]
    assert Program(new_token("read", "nothing")).get("/api/sources").json() == []
    (tmp_path / "other.db").unlink()
    for token in (reader, clerk):
        for path in ("/api/sources", "/api/apps", "/api/edits"):
            assert "other.db" not in token.get(path).content.decode()
        for path in ("/api/apps/support/users", f"/sources/{other_store}/apps/support/users/ben/sessions"):
            query = {} if path.startswith("/sources") else {"source": other_store}
            refused = token.get(path, **query)
            assert (refused.status, refused.detail) == (
                503,
                "This source can't be used right now. An admin can see why.",
            )


def test_users_page_by_id(program: Program, store: str, actor: Actor) -> None:
    names = sorted(f"u{number:03}" for number in range(120))
    for name in names:
        create_session(store, "booking", name, actor=actor)
    found, after, pages = [], None, 0
    while pages == 0 or after:
        page = program.get("/api/apps/booking/users", **({"after": after} if after else {})).json()
        found += [row["user_id"] for row in page["items"]]
        after, pages = page["next"], pages + 1
    assert found == names
    assert pages == 3


def test_an_app_is_looked_for_in_every_source(
    program: Program, ref: SessionRef, other_store: str, actor: Actor
) -> None:
    assert program.get("/api/apps/booking/state").json() == {"limit": 10}
    create_session(other_store, "booking", "ben", actor=actor)
    both = program.get("/api/apps/booking/state")
    assert both.status == 409
    assert ref.source in both.detail
    assert other_store in both.detail
    assert program.get("/api/apps/booking/state", source=ref.source).json() == {"limit": 10}
    assert program.get("/api/apps/booking/state", source=other_store).json() == {}


@pytest.mark.parametrize("query", [{}, {"source": "nowhere"}])
def test_what_is_not_there_is_not_found(
    program: Program, ref: SessionRef, other_store: str, query: dict[str, str]
) -> None:
    assert program.get("/api/apps/ghost/state", **query).status == 404


def test_a_cursor_that_is_none_is_not_valid(program: Program, ref: SessionRef) -> None:
    assert program.get("/api/apps/booking/users", after="nonsense").status == 400


def test_a_token_for_some_apps_sees_no_other(new_token: Callable[..., str], ref: SessionRef, actor: Actor) -> None:
    create_session(ref.source, "secret", "ana", actor=actor)
    some = Program(new_token("read", "book*"))
    assert [row["app_name"] for row in some.get("/api/apps").json()["items"]] == ["booking"]
    refused = some.get("/api/apps/secret/users")
    assert (refused.status, refused.json()["type"]) == (404, UNSEEN)
    assert refused.detail == some.get("/api/apps/atlantis/users").detail.replace("atlantis", "secret")
