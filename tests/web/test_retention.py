"""The page with rules of retention: tried, saved, removed."""

from __future__ import annotations

import pytest

from sessions_app.domain.session_ref import SessionRef
from sessions_app.privacy.retention import RetentionRule
from tests.support.stored import execute
from tests.web.conftest import Browser
from tests.web.html import page_of

pytestmark = pytest.mark.django_db(transaction=True)

HOSTILE = "<script>alert(1)</script>"


def test_a_rule_is_tried_saved_and_removed(maria: Browser, ref: SessionRef) -> None:
    page = maria.open(maria.open("masking").links()["Retention"])
    assert "No rules yet" in page.text
    assert "Save the rule" not in page.text
    execute(ref.source, "UPDATE sessions SET update_time = 1.0")
    given = {"source": ref.source, "app_name": "booking", "days": "30", "export": "on"}
    page = page_of(maria.send("retention", given))
    assert "1 session would be deleted now." in page.one(role="status").text
    assert "checked" in page.one("input", name="export")
    assert RetentionRule.objects.count() == 0
    assert maria.send("retention", {**given, "save": "1"}).status_code == 302
    page = maria.open("retention")
    assert "exported, then deleted after 30 days" in page.one("table", "table").text
    maria.open("session", **ref._asdict())
    assert maria.send("remove-retention", {}, number=RetentionRule.objects.get().pk).status_code == 302
    assert "No rules yet" in maria.open("retention").text


def test_what_is_wrong_is_said_and_what_was_typed_stays(maria: Browser, ref: SessionRef) -> None:
    answer = maria.send("retention", {"source": ref.source, "app_name": HOSTILE, "days": "soon", "save": "1"})
    page = page_of(answer)
    assert (answer.status_code, page.one(role="alert").text) == (400, "Enter a number of days from 1 to 36500.")
    assert page.one("input", name="app_name")["value"] == HOSTILE
    assert RetentionRule.objects.count() == 0
    assert maria.send("retention", {"source": "nowhere", "app_name": "booking", "days": "1"}).status_code == 404
