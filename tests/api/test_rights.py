"""Every address of the OpenAPI document against every kind of token: a new one cannot be forgotten here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from pytest_django import Settings

from sessions_app.access import tokens
from sessions_app.access.actor import RIGHTS
from sessions_app.api.openapi import RIGHT
from sessions_app.api.routes import document
from sessions_app.domain.session_ref import SessionRef
from tests.api.program import Program
from tests.support.stored import everything

pytestmark = pytest.mark.django_db

OPERATIONS: Final = [
    (method.upper(), path, operation)
    for path, operations in document()["paths"].items()
    for method, operation in operations.items()
]
EACH: Final = pytest.mark.parametrize(
    ("method", "path", "operation"), OPERATIONS, ids=[operation["operationId"] for _m, _p, operation in OPERATIONS]
)
NAMES: Final = {"app_name": "booking", "user_id": "ana", "session_id": "s1", "event_id": "e1", "number": "1"}
QUERY: Final = {"key": "step", "a": "e1", "name": "plan.txt", "version": "0"}  # what an address must have
BODIES: Final[dict[str, Any]] = {
    "checks_create_rule": {"condition": "step exists"},
    "sessions_create": {"session_id": "new"},
    "events_append": {"id": "new", "author": "agent"},
    "state_edit_session": {"set": {"a": 1}},
    "state_edit_user": {"set": {"user:a": 1}},
    "state_edit_app": {"set": {"app:a": 1}},
    "taking_back_undo": {},
    "taking_back_rewind": {"before": "i1"},
    "taking_back_fork": {"session_id": "new"},
}


@pytest.fixture
def ask(ref: SessionRef, add: Callable[..., str]) -> Callable[..., Any]:
    """Asks one operation as it is meant; of what is there."""
    add(ref, id="e1", actions={"state_delta": {"step": "pay"}})

    def ask(program: Program, method: str, path: str, operation: dict[str, Any]) -> Any:
        body = {"body": BODIES.get(operation["operationId"], {})} if "requestBody" in operation else {}
        needed = {
            p["name"]: QUERY[p["name"]] for p in operation.get("parameters", []) if p["in"] == "query" and p["required"]
        }
        return program.ask(method, path.format(**NAMES), **body, **needed)

    return ask


@EACH
def test_without_a_token_nobody_gets_anything(
    guest: Program, ref: SessionRef, ask: Callable[..., Any], method: str, path: str, operation: dict[str, Any]
) -> None:
    before = everything(ref.source)
    unknown = Program(tokens.PREFIX + "x" * 43)
    for refused in (ask(guest, method, path, operation), ask(unknown, method, path, operation)):
        assert refused.status == 401
    assert "unknown" in ask(unknown, method, path, operation).detail
    assert everything(ref.source) == before


@EACH
def test_a_revoked_token_gets_nothing(
    program: Program, ref: SessionRef, ask: Callable[..., Any], method: str, path: str, operation: dict[str, Any]
) -> None:
    tokens.revoke("program", by="maria")
    before = everything(ref.source)
    assert ask(program, method, path, operation).status == 401
    assert everything(ref.source) == before


@EACH
@pytest.mark.parametrize("right", RIGHTS)
def test_a_token_may_what_the_document_says_and_no_more(
    new_token: Callable[..., str],
    ref: SessionRef,
    ask: Callable[..., Any],
    method: str,
    path: str,
    operation: dict[str, Any],
    right: str,
) -> None:
    before = everything(ref.source)
    answer = ask(Program(new_token(right)), method, path, operation)
    if RIGHTS.index(right) < RIGHTS.index(operation[RIGHT]):  # type: ignore[arg-type]
        assert answer.status == 403
        assert operation[RIGHT] in answer.detail
        assert everything(ref.source) == before
    else:
        assert answer.status not in (401, 403)
    if operation["operationId"] in BODIES and right == "admin":
        assert answer.status == 201
    if operation[RIGHT] == "read":
        assert everything(ref.source) == before


@EACH
def test_a_token_for_another_app_gets_nothing_of_this_one(
    new_token: Callable[..., str],
    ref: SessionRef,
    ask: Callable[..., Any],
    method: str,
    path: str,
    operation: dict[str, Any],
) -> None:
    before = everything(ref.source)
    answer = ask(Program(new_token("admin", "support*")), method, path, operation)
    if "{app_name}" in path:
        assert answer.status == 403
        assert "booking" in answer.detail
    else:
        assert b"booking" not in answer.content
        assert answer.status in (200, 400, 403)
    assert everything(ref.source) == before


@EACH
def test_an_adkweb_that_only_reads_writes_for_nobody(
    program: Program,
    ref: SessionRef,
    settings: Settings,
    ask: Callable[..., Any],
    method: str,
    path: str,
    operation: dict[str, Any],
) -> None:
    settings.READ_ONLY = True
    before = everything(ref.source)
    answer = ask(program, method, path, operation)
    if operation[RIGHT] == "read":
        assert answer.status != 403
    else:
        assert answer.status == 403
        assert "--read-only" in answer.detail
    assert everything(ref.source) == before


@EACH
def test_an_answer_has_a_revision_where_the_document_says_so(
    program: Program, ask: Callable[..., Any], method: str, path: str, operation: dict[str, Any]
) -> None:
    answer = ask(program, method, path, operation)
    told = operation["responses"][str(answer.status)].get("headers", {})
    assert ("etag" in answer.headers) == ("ETag" in told)
    assert ("location" in answer.headers) == ("Location" in told)


@pytest.mark.parametrize("path", sorted(document()["paths"]))
def test_a_method_that_an_address_does_not_have_is_refused_with_those_that_it_has(
    program: Program, ref: SessionRef, path: str
) -> None:
    has = {method.upper() for method in document()["paths"][path]}
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "NONSENSE"} - has:
        refused = program.ask(method, path.format(**NAMES))
        assert refused.status == 405
        assert {name.strip() for name in refused.headers["allow"].split(",")} == has


@pytest.mark.parametrize("path", ["/api", "/api/", "/api/ghost", "/api/apps/", "/api/apps/a", "/api/apps//users"])
def test_an_address_that_leads_nowhere_says_so(program: Program, path: str) -> None:
    assert program.get(path).status == 404


def test_a_host_name_that_is_not_ours_is_refused(program: Program, ref: SessionRef) -> None:
    refused = program.get("/api/apps", headers={"Host": "evil.example"})
    assert refused.status == 400
    assert "ADKWEB_ALLOWED_HOSTS" in refused.detail


def test_a_sentence_is_in_the_language_that_was_asked_for(program: Program, ref: SessionRef) -> None:
    path = "/api/apps/booking/users/ana/sessions/ghost"
    details = {program.get(path, headers={"Accept-Language": name}).detail for name in ("en", "es", "ko")}
    assert len(details) == 3


def test_a_sign_in_at_a_browser_is_none_here(guest: Program, ref: SessionRef, client: Client) -> None:
    client.force_login(get_user_model().objects.create_user("maria"))
    (cookie,) = client.cookies.values()
    refused = guest.get("/api/apps", headers={"Cookie": f"{cookie.key}={cookie.value}"})
    assert refused.status == 401


def test_the_document_is_for_programs_with_a_token_and_people_who_are_signed_in(
    guest: Program, reader: Program, client: Client
) -> None:
    assert guest.get("/api/openapi.json").status == 401
    assert reader.get("/api/openapi.json").json() == document()
    client.force_login(get_user_model().objects.create_user("maria"))
    assert client.get("/api/openapi.json").json() == document()
    assert guest.post("/api/openapi.json", {}).status == 405
