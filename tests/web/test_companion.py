"""The page of a session whose agent someone else runs, as a companion reports."""

from __future__ import annotations

import time
from typing import Any

import pytest

from sessions_app.access.actor import SYSTEM
from sessions_app.domain.session_ref import SessionRef
from sessions_app.models import AuditRow, Report
from sessions_app.reads import at_work
from sessions_app.running import companions, runs
from tests.support.people import somebody
from tests.web.conftest import Browser
from tests.web.html import page_of

pytestmark = pytest.mark.django_db


class Said:
    """The report of a process that calls a tool."""

    def __init__(self, ref: SessionRef, **changes: Any) -> None:
        self.invocation, self.app_name, self.user_id, self.session_id = "i9", *ref[1:]
        self.since, self.ended, self.step, self.name = time.time() - 200, None, "tool", "search_flights"
        self.step_since = time.time() - 120
        self.adk, self.version = "2.13.0", ""
        self.__dict__ |= changes


def report(ref: SessionRef, **changes: Any) -> None:
    companions.hear("a" * 32, time.time(), [Said(ref, **changes)], account="token 1", apps="*")


def test_the_page_says_what_runs_since_when_and_stops_it(ref: SessionRef, maria: Browser) -> None:
    report(ref)
    page = maria.open("session", **ref._asdict())
    assert page.one(id="status").text.startswith("running")
    assert "calling search_flights, 2 min" in " ".join(page.one(id="status").text.split())
    line = page.one(id="waits").one(class_="run")
    assert (line.one("button").text, "started outside adkweb" in line.text) == ("Stop", True)
    assert not page.one(id="waits").all("textarea")  # nothing is sent into a session in which the agent runs
    maria.send("stop", {}, **ref._asdict())
    line = maria.open("session", **ref._asdict()).one(id="waits").one(class_="run")
    assert "maria asked the agent to stop" in line.text
    assert not line.all("button")
    assert AuditRow.objects.filter(act="run-stopped", by="maria").count() == 1
    report(ref, ended=time.time())
    assert not maria.open("session", **ref._asdict()).one(id="waits").all(class_="run")


def test_a_script_can_read_when_it_did_something_last_in_each_language(ref: SessionRef, maria: Browser) -> None:
    report(ref)
    answer = maria.get(f"/s/{ref.source}/booking/ana/{ref.session_id}/", headers={"Accept-Language": "es"})
    badge = page_of(answer).one(id="status").one(class_="badge")
    assert "en curso" in badge.text
    assert abs(float(badge["data-last"]) - time.time()) < 1_000


def test_the_page_of_the_app_says_which_version_was_reported(ref: SessionRef, maria: Browser, guest: Browser) -> None:
    def said(browser: Browser) -> bool:
        return "google-adk 2.13.0, reported by the companion" in browser.open("agent", **app).text

    app = {"source": ref.source, "app_name": ref.app_name}
    assert not said(maria)
    report(ref)
    guest.force_login(somebody("vera", "viewer"))
    assert (said(maria), said(guest)) == (True, False)
    report(ref, invocation="i10", version="1.2")
    assert f"{ref.app_name} 1.2 with google-adk 2.13.0" in maria.open("agent", **app).text


def test_who_may_only_look_gets_no_button(ref: SessionRef, guest: Browser) -> None:
    guest.force_login(somebody("vera", "viewer"))
    report(ref, step="model", name="gemini")
    page = guest.open("session", **ref._asdict())
    assert "asking gemini" in page.one(id="status").text
    assert not page.one(id="waits").all("button")


def test_a_run_of_ones_own_that_has_ended_runs_no_more(ref: SessionRef) -> None:
    assert not at_work.of(ref, actor=SYSTEM).is_over("i1", time.time())
    at_work.note_end(ref)
    assert at_work.of(ref, actor=SYSTEM).is_over("i1", time.time())
    assert Report.objects.get().ended
    assert runs.running(ref) is None
