"""How an agent runs, in a browser: a traceback is read where it broke, and then a server at an address runs it instead."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visit, serve
from tests.browser.serving import ROOT, Adkweb
from tests.running.serving import api_server


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Adkweb]:
    """adkweb with an agent that breaks when it is loaded; servers on this machine are allowed."""
    broken = tmp_path / "agents" / "booking"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("from . import agent")
    (broken / "agent.py").write_text("raise ImportError('no such model')")
    agents = json.dumps({"demo": str(broken.parent)})
    yield from serve(tmp_path, ADKWEB_AGENTS=agents, ADKWEB_AGENT_HOSTS="127.0.0.1")


def test_a_traceback_is_read_and_then_a_server_at_an_address_runs_the_agent(own_server: Adkweb, visitor: Visit) -> None:
    page = visitor(own_server)
    page.goto(own_server.link)
    page.keyboard.press("o")
    page.keyboard.press("a")
    page.wait_for_url("**/agents/")
    expect(page.locator("tr", has_text="booking")).to_contain_text("here")
    page.get_by_role("link", name="booking").click()
    page.get_by_role("button", name="Test").click()
    expect(page.locator(".tested")).to_contain_text("booking can't be loaded:")
    expect(page.locator(".tested")).to_contain_text("It uses the same database.")
    expect(page.locator("#facts")).to_contain_text("up for")
    expect(page.locator(".output pre")).to_contain_text("no such model")

    with api_server(ROOT / "examples" / "agents", f"sqlite:///{own_server.demo}") as url:
        page.get_by_label("Address", exact=True).fill(url)
        page.get_by_label("Header", exact=True).fill("Authorization")
        page.get_by_label("Value of the header").fill("Bearer 7f3a")
        page.get_by_role("button", name="Save").click()
        expect(page.locator("#facts")).to_contain_text("at an address")
        assert "7f3a" not in page.content()
        page.get_by_role("button", name="Test").click()
        expect(page.locator(".tested li.yes")).to_have_count(3)
        page.get_by_role("button", name="Run it here again").click()
        expect(page.locator("#facts")).to_contain_text("here")
