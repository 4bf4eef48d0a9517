"""An open home shows a new agent's database by itself, and its first session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.agent import Agent
from tests.browser.conftest import Visit
from tests.browser.serving import Adkweb
from tests.browser.watching import HURRY, LATE, NO_SOCKET
from tests.parts import long_but


class _OnFolder(Adkweb):
    """A server on a folder alone, as before an agent's first run."""

    def _command(self, directory: Path) -> list[str]:
        return self.command("serve", str(self.folder / "agents"), "--port", str(self.port))


@pytest.fixture
def on_folder(tmp_path: Path) -> Iterator[Adkweb]:
    """adkweb on a folder in which no agent has run."""
    (tmp_path / "agents" / "booking" / ".adk").mkdir(parents=True)
    with _OnFolder(tmp_path) as server:
        yield server
        assert "Traceback" not in server.log, server.log
        assert "ERROR" not in server.log, server.log


@pytest.mark.parametrize("way", long_but(["live", "polling"], "live"))
def test_home_shows_a_new_agent_without_being_loaded_again(on_folder: Adkweb, visitor: Visit, way: str) -> None:
    page = visitor(on_folder)
    if way == "polling":
        page.add_init_script(HURRY)
        page.add_init_script(NO_SOCKET["closed"])
    page.goto(on_folder.link)
    expect(page.locator("[data-live]")).to_have_attribute("data-state", way, timeout=LATE)
    expect(page.get_by_role("heading", name="No database yet")).to_be_visible()
    page.evaluate("document.body.dataset.loaded = 'once'")
    with Agent(str(on_folder.folder / "agents" / "booking" / ".adk" / "session.db")) as agent:
        agent.do("first", create={"step": "ask"})
        expect(page.get_by_role("heading", name="booking")).to_be_visible()
        expect(page.get_by_role("heading", name="No database yet")).to_have_count(0)
        expect(page.get_by_role("table").get_by_role("link", name="booking")).to_be_visible()
        (event,) = agent.do("first", append=1)
        expect(page.locator(f"#feed a[href$='#event-{event}']")).to_be_visible()
    expect(page.locator("body")).to_have_attribute("data-loaded", "once")
    expect(page.locator("#sources")).to_have_count(1)
