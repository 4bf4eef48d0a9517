"""A session becomes a test on a page: for pytest and for adk eval, with what rules hide only for a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.urls import reverse

from sessions_app.access.roles import Role
from sessions_app.checks import mask_rules
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import ABSENT
from sessions_app.edits.edit import Entry, edit_state
from sessions_app.models import AuditRow
from sessions_app.sources import agents
from tests.support.people import ALICE, somebody
from tests.web.conftest import Browser
from tests.web.html import page_of
from tests.web.test_export import body

pytestmark = pytest.mark.django_db

SECRET = "hunter-22"
UNKNOWN_FOLDER = "adkweb doesn't know the folder of this agent. Write it in place of “agents” below."
DOTS = "Values that rules hide from you are dots in the test. It can't pass where the agent uses them."


def address(ref: SessionRef) -> str:
    return reverse("make-test", kwargs=ref._asdict())


@pytest.fixture
def secret(ref: SessionRef, add: Any) -> SessionRef:
    """A session with a password, and a token of the sign-in of a tool."""
    add(ref, {"text": "Hello"}, actions={"state_delta": {"password": SECRET}})
    config = {"auth_scheme": {"type": "apiKey"}, "exchanged_auth_credential": {"auth_type": "apiKey", "api_key": "k-7"}}
    add(ref, {"text": "Hi"}, actions={"requested_auth_configs": {"c1": config}})
    mask_rules.create("*", "key", "password", actor=ALICE)
    return ref


def revealing(name: str) -> Browser:
    """Somebody who may read and reveal."""
    person = somebody(name, "viewer")
    Role.objects.filter(person=person).update(reveals=True)
    browser = Browser()
    browser.force_login(person)
    return browser


def test_the_menu_of_a_session_leads_to_both_tests_and_how_to_run_them(maria: Browser, ref: SessionRef) -> None:
    assert address(ref) in maria.open("session", **ref._asdict()).one("form", "exports").links().values()
    page = maria.open("make-test", **ref._asdict())
    assert page.texts("pre") == [
        "PYTHONPATH=agents pytest booking_ana_s1_test.py",
        "adk eval agents/booking booking-ana-s1.evalset.json",
    ]
    assert UNKNOWN_FOLDER in page.one("main").text
    assert DOTS not in page.one("main").text


def test_where_the_folder_of_the_agent_is_known_it_is_in_the_commands_for_an_admin(
    maria: Browser, ref: SessionRef, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr(agents, "agent_of", lambda source, app_name: agents.Agent(tmp_path / "my agents", source))
    page = maria.open("make-test", **ref._asdict())
    assert f"adk eval '{tmp_path}/my agents/booking' booking-ana-s1.evalset.json" in page.texts("pre")
    assert UNKNOWN_FOLDER not in page.one("main").text
    ben = Browser()
    ben.force_login(somebody("ben", "operator"))
    assert str(tmp_path) not in ben.open("make-test", **ref._asdict()).one("main").text


@pytest.mark.parametrize(
    ("form", "file"), [("test", "booking_ana_s1_test.py"), ("evalset", "booking-ana-s1.evalset.json")]
)
def test_what_rules_hide_is_in_a_test_only_for_a_reason_of_who_may_reveal(
    secret: SessionRef, form: str, file: str
) -> None:
    ben = Browser()
    ben.force_login(somebody("ben", "viewer"))
    page = ben.open("make-test", **secret._asdict())
    assert DOTS in page.one("main").text
    assert not page.all("input", name="reason")
    answer = ben.post(address(secret), {"format": form})
    assert answer["Content-Disposition"] == f'attachment; filename="{file}"'
    assert SECRET not in body(answer).decode()
    assert ben.post(address(secret), {"format": form, "reason": "why not"}).status_code == 403
    rita = revealing("rita")
    assert rita.open("make-test", **secret._asdict()).all("input", name="reason")
    assert SECRET not in body(rita.post(address(secret), {"format": form})).decode()
    whole = body(rita.post(address(secret), {"format": form, "reason": " a bug "})).decode()
    assert (SECRET in whole, "are dots here" in whole) == (form == "test", False)
    assert "k-7" not in whole
    row = AuditRow.objects.filter(act="exported").latest("number")
    assert (row.by, row.session_id, json.loads(row.detail)) == ("rita", "s1", {"format": form, "reason": "a bug"})


@pytest.mark.parametrize("reason", ["  ", "x" * 1001])
def test_a_reason_that_says_nothing_or_too_much_is_refused(secret: SessionRef, reason: str) -> None:
    answer = revealing("rita").post(address(secret), {"format": "test", "reason": reason})
    assert answer.status_code == 400
    assert page_of(answer).one("input", name="reason")["value"] == reason
    assert not AuditRow.objects.filter(act="exported")


def test_an_eval_case_starts_with_the_state_that_the_agent_saw_then(maria: Browser, ref: SessionRef, add: Any) -> None:
    edit_state(ref, [Entry("user:coat", "gold", ABSENT)], actor=ALICE)
    add(ref, {"text": "Hello"}, author="user")
    edit_state(ref, [Entry("user:coat", "none", "gold")], actor=ALICE)
    (case,) = json.loads(body(maria.post(address(ref), {"format": "evalset"})))["eval_cases"]
    assert case["session_input"]["state"]["user:coat"] == "gold"
