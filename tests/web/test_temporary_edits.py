"""Edits that take themselves back, on their page and over REST."""

from __future__ import annotations

import json
import time

import pytest
from django.urls import reverse

from sessions_app.access.actor import SYSTEM
from sessions_app.domain.edit_note import edit_of
from sessions_app.domain.session_ref import SessionRef
from sessions_app.edits import ending, expiry
from sessions_app.models import Job
from tests.support.stored import events_of, state_of
from tests.web.conftest import Browser

pytestmark = pytest.mark.django_db


def send(maria: Browser, ref: SessionRef, **more: str) -> int:
    step = json.dumps(state_of(ref)["session"]["step"])
    fields = {
        "rows": "0",
        "key-0": "step",
        "operation-0": "set",
        "value-0": '"gift"',
        "seen-0": step,
        "action": "apply",
    }
    return maria.post(
        reverse("session-edit", kwargs=ref._asdict()), {**fields, "reason": "a trial", **more}
    ).status_code


def test_the_form_writes_an_edit_that_the_page_lists_extends_and_keeps(maria: Browser, ref: SessionRef) -> None:
    assert "No temporary edits" in maria.open("temporary-edits").text
    before = state_of(ref)["session"]["step"]
    assert send(maria, ref, lasts="3600") == 302
    (waiting,) = expiry.listed(actor=SYSTEM)
    assert edit_of(events_of(ref)[-1][1])["until"] == waiting.until
    assert "a trial" in maria.open("temporary-edits", query={"own": "1"}).text
    maria.post(reverse("extend-edit", args=[waiting.id]), {"lasts": "86400"})
    assert expiry.get(waiting.id, actor=SYSTEM).until == pytest.approx(time.time() + 86400, abs=60)
    Job.objects.update(due=1.0)
    assert ending.apply_due() == 1
    assert state_of(ref)["session"]["step"] == before
    assert "undone" in maria.get("/expiring/", follow=True).content.decode()  # the address of before
    maria.post(reverse("keep-edit", args=[waiting.id]))
    assert expiry.get(waiting.id, actor=SYSTEM).state == "ended"


@pytest.mark.parametrize(("lasts", "until"), [("until", "2001-01-01T00:00"), ("until", ""), ("soon", ""), ("-5", "")])
def test_an_end_that_cannot_be_comes_back_with_the_form_and_writes_nothing(
    maria: Browser, ref: SessionRef, lasts: str, until: str
) -> None:
    before = events_of(ref)
    assert send(maria, ref, lasts=lasts, until=until) == 400
    assert (events_of(ref), Job.objects.count()) == (before, 0)
