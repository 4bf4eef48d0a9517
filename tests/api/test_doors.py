"""Doors before every operation: addresses, host names, languages, and who may read the document of them all."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from sessions_app.api.routes import document
from sessions_app.domain.session_ref import SessionRef
from tests.api.program import Program

pytestmark = pytest.mark.django_db


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
