"""The page Agents: how each agent runs, for whom, and what is told to whom."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_django import Settings

from sessions_app.access import tokens
from sessions_app.access.actor import SYSTEM
from sessions_app.domain.session_ref import SessionRef
from sessions_app.running import servers
from tests.api.program import Program
from tests.support.people import as_admin, somebody
from tests.web.conftest import Browser

pytestmark = pytest.mark.django_db
SECRET = "Bearer 7f3a-very-secret"
FOLDER = str(Path("examples/agents").absolute())


@pytest.fixture(autouse=True)
def _agents(ref: SessionRef, settings: Settings) -> None:
    settings.AGENTS, settings.RUN_AGENTS, settings.AGENT_HOSTS = {ref.source: FOLDER}, True, ["127.0.0.1"]


def page_of_agent(browser: Browser, ref: SessionRef) -> str:
    return str(browser.get(f"/agents/{ref.source}/{ref.app_name}/").content.decode())


def at(ref: SessionRef, url: str = "http://127.0.0.1:9/adk") -> None:
    servers.set_address(*ref[:2], url=url, header="X-Key", value=SECRET, actor=SYSTEM)


def test_each_app_is_listed_with_what_runs_it(ref: SessionRef, maria: Browser, settings: Settings) -> None:
    assert "here" in maria.open("agents").one("tbody").text
    at(ref)
    assert "127.0.0.1:9" in maria.open("agents").one("tbody").text
    servers.remove_address(*ref[:2], actor=SYSTEM)
    settings.AGENTS = {}
    row = maria.open("agents").one("tbody").text
    assert "not at all" in row
    assert f"--agents {ref.source}=FOLDER" in row


def test_a_viewer_sees_how_it_runs_and_no_path(ref: SessionRef, maria: Browser, guest: Browser) -> None:
    assert FOLDER in page_of_agent(maria, ref)
    guest.force_login(somebody("vera", "viewer"))
    page = page_of_agent(guest, ref)
    assert FOLDER not in page
    assert "Test" not in page
    assert "At an address" not in page
    assert "Only operators of all apps" in page
    at(ref)
    page = page_of_agent(guest, ref)
    assert "127.0.0.1:9" in page
    assert "/adk" not in page
    assert "X-Key" not in page


def test_the_value_of_a_header_is_on_no_page_and_in_no_answer(ref: SessionRef, maria: Browser) -> None:
    form = {"url": "http://127.0.0.1:9/adk", "header": "X-Key", "value": SECRET}
    assert maria.post(f"/agents/{ref.source}/{ref.app_name}/", form).status_code == 302
    assert "X-Key" in page_of_agent(maria, ref)
    assert SECRET not in page_of_agent(maria, ref)
    refused = maria.post(f"/agents/{ref.source}/{ref.app_name}/", form | {"url": "http://10.0.0.1"})
    assert refused.status_code == 400
    assert "ADKWEB_AGENT_HOSTS" in refused.content.decode()
    assert SECRET not in refused.content.decode()
    assert SECRET not in maria.get("/audit/").content.decode()
    program = Program(tokens.create("desk", "admin", "*", by=as_admin("rita"))[1])
    assert SECRET not in str(program.get("/api/agents").json())


def test_a_program_learns_how_the_agents_run_that_it_may_operate(ref: SessionRef) -> None:
    desk = Program(tokens.create("desk", "operate", "booking", by=as_admin("maria"))[1])
    (item,) = desk.get("/api/agents").json()["items"]
    assert (item["app_name"], item["how"], item["why"], item["host"]) == ("booking", "here", "", "")
    assert (item["folder"], item["since"], item["runs"], item["error"]) == (FOLDER, None, 0, "")
    reader = Program(tokens.create("reader", "read", "*", by=as_admin("maria"))[1])
    assert reader.get("/api/agents").status == 403
    stranger = Program(tokens.create("stranger", "admin", "support", by=as_admin("maria"))[1])
    assert stranger.get("/api/agents").json()["items"] == []
