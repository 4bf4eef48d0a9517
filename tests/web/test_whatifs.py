"""A what-if of many sessions in pages: from their selection to the outcomes before and after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse

from sessions_app.access.actor import SYSTEM
from sessions_app.checks import rules
from sessions_app.domain.session_ref import SessionRef
from sessions_app.jobs.lease import DONE
from sessions_app.models import Job
from sessions_app.sources import agents
from sessions_app.trying import whatifs
from sessions_app.writes.sessions import delete_session
from tests.support.at_work import until_worked
from tests.support.people import somebody
from tests.trying.conftest import AGENTS, bread_in
from tests.web.conftest import Browser
from tests.web.html import Element, page_of
from tests.web.test_whatif import fields_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def breads(ref: SessionRef, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[SessionRef]:
    """Two sessions in which ana had bread baked."""
    settings.RUN_AGENTS = True
    monkeypatch.setenv("BAKED", str(tmp_path / "baked"))
    monkeypatch.setattr(agents, "agent_of", lambda _source, app: agents.Agent(AGENTS, AGENTS / app))
    return [bread_in(ref.source, name) for name in ("s1", "s2")]


def chosen(browser: Browser, refs: list[SessionRef]) -> Element:
    """The form of a what-if of these sessions, chosen in the table."""
    paths = [reverse("session", kwargs=each._asdict()) for each in refs]
    answer = browser.send("chosen", {"act": "whatif", "ref": paths})
    assert answer.status_code == 302, page_of(answer).text
    return browser.open(answer["Location"])


def result(browser: Browser) -> Element:
    """The page of the only one, when it has ended."""
    number = Job.objects.get(kind="whatifs").pk
    until_worked(lambda: whatifs.get(number, actor=SYSTEM).stage == DONE)
    return browser.open("what-ifs", what_ifs_id=number)


def test_the_same_change_in_chosen_sessions(maria: Browser, breads: list[SessionRef]) -> None:
    rules.create(breads[0].source, "baker", "Small only", 'size = "small"', actor=SYSTEM)
    form = chosen(maria, breads).one("form", id="whatif")
    named = maria.send(form["action"], fields_of(form) | {"new-key": "size", "action": "add"})
    form = page_of(named).one("form", id="whatif")
    answer = maria.send(form["action"], fields_of(form) | {"value-0": "large", "type-0": "string", "action": "try"})
    assert answer.status_code == 302, page_of(answer).text
    page = result(maria)
    table = page.one("table", class_="totals").text
    assert "Breaks the rule Small only02" in table
    assert "Ended with an error00" in table
    assert page.text.count("in large by obeys") == 2
    assert "2 worse" in page.text
    assert "No session has this outcome." in maria.open(page.links()["0 better"]).text
    listed = maria.open("replays")
    assert "2 worse" in listed.text
    again = maria.open(listed.links()['size "large"'])
    assert again.text == page.text


def test_an_error_in_the_form_keeps_what_was_typed(maria: Browser, breads: list[SessionRef]) -> None:
    form = chosen(maria, breads).one("form", id="whatif")
    sent = fields_of(form) | {"instruction-0": "x" * 100_001, "action": "try"}
    answer = maria.send(form["action"], sent)
    assert answer.status_code == 400
    assert "A text can have up to 100000 characters." in page_of(answer).text


def test_it_is_stopped_repeated_and_deleted(maria: Browser, breads: list[SessionRef]) -> None:
    page = chosen(maria, breads)
    form = page.one("form", id="whatif")
    maria.send(form["action"], fields_of(form) | {"instruction-0": "The size is huge.", "action": "try"})
    page = result(maria)
    answer = maria.send(form["action"], {"action": "stop"})
    assert answer.status_code == 302
    answer = maria.send(form["action"], {"action": "again"})
    copy = maria.open(answer["Location"])
    assert "The size is huge." in copy.one("form", id="whatif").text
    maria.send(answer["Location"], {"action": "discard"})
    assert maria.get(answer["Location"]).status_code == 404
    assert maria.get(form["action"]).status_code == 200


def test_one_whose_sessions_are_gone_says_so(maria: Browser, breads: list[SessionRef]) -> None:
    form = chosen(maria, breads).one("form", id="whatif")
    for ref in breads:
        delete_session(ref, actor=SYSTEM)
    answer = maria.get(form["action"])
    assert answer.status_code == 404
    assert "All sessions of this what-if were deleted." in page_of(answer).text


def test_only_operators_see_it(maria: Browser, breads: list[SessionRef]) -> None:
    form = chosen(maria, breads).one("form", id="whatif")
    viewer = Browser()
    viewer.force_login(somebody("vera", "viewer"))
    assert viewer.get(form["action"]).status_code == 404
