"""An agent pauses at a breakpoint, in a browser: someone changes what its tool gets, and lets it go on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit, Watch, serve
from tests.browser.serving import Adkweb

AGENTS = Path(__file__).parents[1] / "running" / "agents"


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Adkweb]:
    """adkweb that may start the agents of tests for its demo."""
    yield from serve(tmp_path, ADKWEB_AGENTS=json.dumps({"demo": str(AGENTS)}))


@pytest.fixture
def talk(own_server: Adkweb, visitor: Visit) -> Page:
    """A new conversation."""
    page = visitor(own_server)
    page.goto(own_server.link)
    page.goto("/sessions/new/?source=demo&app_name=helper")
    expect(page.locator("#user_id")).to_be_focused()
    page.keyboard.type("zoe")
    page.keyboard.press("Control+Enter")
    page.wait_for_url("**/s/demo/helper/zoe/**")
    return page


def test_a_breakpoint_is_set_and_its_tool_gets_other_arguments(talk: Page, watch: Watch) -> None:
    watch.allow(400)
    talk.locator(".stops > summary").click()
    talk.locator("#stop-what").fill("add")
    talk.keyboard.press("Enter")
    expect(talk.locator(".stops li")).to_have_text([re.compile("before a tool is called: add")])
    expect(talk.locator("#stop-what")).to_be_visible()  # for the next one
    talk.locator("#message").fill("count add:3 count")
    talk.locator("#message").press("Enter")
    card, status = talk.locator(".card.pause"), talk.locator("#status")
    expect(card.locator("legend")).to_have_text("Paused before add is called")
    expect(status).to_contain_text("paused")
    expect(talk.locator("#working")).to_be_hidden()
    lists = talk.context.new_page()
    lists.goto("/sessions/?q=app:helper")
    expect(lists.locator("tr .status[title=paused]")).to_have_count(1)
    lists.close()
    assert card.locator("[data-left]").inner_text().startswith(("9:", "10:"))
    field = card.get_by_label("Arguments")
    field.fill('{"n": 4')
    card.get_by_role("button", name="Continue").click()
    expect(card.locator(".formerror")).to_be_visible()
    expect(field).to_have_value('{"n": 4')
    field.fill('{"n": 41}')
    card.get_by_role("button", name="Step").click()
    expect(card.locator("legend")).to_have_text("Paused before the model is asked")
    expect(talk.locator("#events")).to_contain_text("→ 41")
    card.get_by_role("button", name="Continue").click()
    expect(talk.locator("#events").get_by_text("Done.")).to_have_count(1)
    expect(card).to_have_count(0)
    expect(status).not_to_contain_text("paused")
    added = talk.locator(".message.tool", has_text="add")
    expect(added.get_by_text("changed by root")).to_be_visible()  # at once, in the chat
    talk.locator("#message").fill("add")
    talk.locator("#message").press("Enter")
    card.get_by_label("Result of the tool").fill('{"result": 7}')
    card.get_by_role("button", name="Continue").click()
    expect(talk.locator("#events").get_by_text("Done.")).to_have_count(2)
    expect(talk.locator("#events")).to_contain_text("→ 7")
    expect(added.get_by_text("result given by root")).to_be_visible()
    talk.reload()
    expect(added.locator(".beside:visible")).to_have_text(["changed by root", "result given by root"])
    talk.locator(".densities").get_by_text("Events").click()
    changed = talk.locator(".ev", has_text="changed by root").first
    expect(changed).to_contain_text("add(n=3)")
    talk.goto(changed.locator("a.line").get_attribute("href") or "")
    expect(talk.get_by_role("heading", name="Changed at a breakpoint")).to_be_visible()
