"""Masked values are revealed one by one, to who may, for a reason, and on record."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError, connection

from sessions_app.access import tokens
from sessions_app.access.roles import Role
from sessions_app.checks import mask_rules
from sessions_app.domain.session_ref import SessionRef
from sessions_app.models import AuditRow
from sessions_app.writes.append import append_event
from tests.api.program import Program
from tests.support.people import ALICE, as_admin, somebody
from tests.web.conftest import Browser
from tests.web.html import page_of

pytestmark = pytest.mark.django_db

SECRET = "hunter-22"
WHY = {"reason": "the bank asks"}


@pytest.fixture
def rita(ref: SessionRef) -> Browser:
    """Somebody who may read and reveal, in an app with a password in every scope."""
    keys = {"password": SECRET, "user:password": SECRET, "app:password": SECRET, "step": "pay"}
    append_event(ref, {"id": "e1", "author": "a", "actions": {"state_delta": keys}}, actor=ALICE)
    mask_rules.create("book*", "key", "password", actor=ALICE)
    rita = Browser()
    rita.force_login(somebody("rita", "viewer"))
    Role.objects.update(reveals=True)
    return rita


def addresses(ref: SessionRef) -> dict[str, str]:
    """Every address that reveals, by what it reveals."""
    app, user = f"/a/{ref.source}/booking/", f"/u/{ref.source}/booking/ana/"
    session = f"/s/{ref.source}/booking/ana/s1/"
    return {
        "password": f"{session}reveal/?key=password",
        "user:password": f"{user}reveal/?key=user:password",
        "app:password": f"{app}reveal/?key=app:password",
        "e1": f"{session}e/e1/reveal/",
    }


@pytest.mark.parametrize("name", ["password", "user:password", "app:password", "e1"])
def test_a_value_is_shown_once_for_a_reason_that_is_recorded(rita: Browser, ref: SessionRef, name: str) -> None:
    address = addresses(ref)[name]
    assert SECRET not in rita.get(address).content.decode()
    answer = rita.post(address, WHY)
    assert SECRET in answer.content.decode()
    assert answer["Cache-Control"] == "private, no-store"
    row = AuditRow.objects.get(act="revealed")
    assert (row.by, row.app_name, WHY["reason"] in row.detail, name in row.detail) == ("rita", "booking", True, True)
    assert SECRET not in row.detail
    assert SECRET not in rita.get(address).content.decode()


@pytest.mark.parametrize("reason", ["", "  ", "x" * 1001])
def test_without_a_reason_nothing_is_shown(rita: Browser, ref: SessionRef, reason: str) -> None:
    for address in addresses(ref).values():
        answer = rita.post(address, {"reason": reason})
        assert (answer.status_code, SECRET in answer.content.decode()) == (400, False)
        assert page_of(answer).one(role="alert").text
    assert not AuditRow.objects.filter(act="revealed").exists()


def test_what_cannot_be_recorded_is_not_shown(rita: Browser, ref: SessionRef) -> None:
    def full(execute: Any, sql: str, *given: Any) -> Any:
        if sql.startswith("INSERT") and "auditrow" in sql:
            raise OperationalError("database or disk is full")
        return execute(sql, *given)

    with connection.execute_wrapper(full):
        for address in addresses(ref).values():
            answer = rita.post(address, WHY)
            assert answer.status_code >= 500
            assert SECRET not in answer.content.decode()


@pytest.mark.parametrize("role", ["", "viewer", "editor", "admin", "auditor"])
def test_no_role_reveals_by_itself(rita: Browser, ref: SessionRef, role: str) -> None:
    ben = Browser()
    ben.force_login(somebody("ben", role))
    for address in addresses(ref).values():
        answer = ben.post(address, WHY)
        assert answer.status_code == (404 if role in ("", "auditor") else 403)
        assert SECRET not in answer.content.decode()
    assert not AuditRow.objects.filter(act="revealed").exists()


def test_what_is_not_hidden_or_not_there_is_not_revealed(rita: Browser, ref: SessionRef) -> None:
    session = f"/s/{ref.source}/booking/ana/s1/"
    assert rita.post(f"{session}reveal/?key=step", WHY).status_code == 400
    absent = rita.post(f"{session}reveal/?key=no-such-key", WHY)
    assert absent.status_code == 404, page_of(absent).one(role="alert").text
    assert rita.post(f"{session}e/nothing/reveal/", WHY).status_code == 404
    assert rita.post(f"{session[:-3]}s9/reveal/?key=step", WHY).status_code == 404
    assert not AuditRow.objects.filter(act="revealed").exists()


def test_the_way_to_reveal_is_shown_to_who_may_go_it(rita: Browser, ref: SessionRef) -> None:
    ben = Browser()
    ben.force_login(somebody("ben", "viewer"))
    assert "data-reveals" in str(rita.open("session", **ref._asdict()))
    assert "data-reveals" not in str(ben.open("session", **ref._asdict()))
    address = addresses(ref)["e1"]
    assert address in str(rita.open("event", event_id="e1", **ref._asdict()))
    assert address not in str(ben.open("event", event_id="e1", **ref._asdict()))


@pytest.mark.parametrize(("right", "sees"), [("read", False), ("operate", False), ("append", True), ("admin", True)])
def test_an_agent_works_with_what_is_stored_and_other_programs_do_not(
    rita: Browser, ref: SessionRef, right: str, sees: bool
) -> None:
    program = Program(tokens.create("program", right, "*", by=as_admin("maria"))[1])
    for address in ("/api/apps/booking/users/ana/sessions/s1", "/api/apps/booking/sessions/states"):
        assert SECRET not in program.get(address).content.decode()
        assert (SECRET in program.get(address, headers={"X-Adkweb-Agent": "1"}).content.decode()) == sees
