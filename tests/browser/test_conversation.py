"""A conversation with an agent that adkweb starts: begun, with state set first, and with a message that is sent again."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Visit, serve
from tests.browser.serving import Adkweb
from tests.browser.watching import until
from tests.support import warm

AGENTS = Path(__file__).parents[1] / "running" / "agents"


# Lets the line that says since when the agent works look as if it had worked for an hour. Notes its time when it is shown.
WORKED = """() => {
    const line = document.querySelector("#working"), time = line.querySelector("time");
    time.dateTime = new Date(Date.now() - 3_600_000).toISOString();
    time.textContent = "1 h 0 min";
    window.noted = [];
    new MutationObserver(() => line.hidden || noted.push(time.textContent)).observe(line, { attributeFilter: ["hidden"] });
}"""


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


def test_a_conversation_by_keyboard(talk: Page) -> None:
    message, said = talk.locator("#message"), talk.locator("#events")
    expect(message).to_be_focused()
    talk.keyboard.type("count")
    talk.reload()
    expect(message).to_have_value("count")  # what was typed stays
    for name in ("a.txt", "b.txt"):  # one after the other
        talk.locator("#message-files").set_input_files({"name": name, "mimeType": "text/plain", "buffer": b"hi"})
    talk.get_by_role("button", name="Remove b.txt").press("Enter")
    message.press("Enter")
    expect(said.get_by_text("Done.")).to_have_count(1)
    expect(said.locator(".message.media")).to_contain_text("a.txt")
    expect(said).not_to_contain_text("b.txt")
    expect(message).to_be_focused()
    talk.keyboard.type("count")

    talk.locator(".composer .first > summary").press("Enter")
    talk.locator("#message-key").press_sequentially("counted")
    talk.keyboard.press("Enter")
    expect(talk.locator(".first .cm-content")).to_be_focused()
    talk.keyboard.press("Control+A")
    talk.keyboard.type("7")
    expect(message).to_have_value("count")
    message.press("Enter")
    expect(said.get_by_text("Done.")).to_have_count(2)
    counted = talk.locator('#state [data-key-row="counted"]')
    expect(counted).to_contain_text("8")

    talk.locator("[data-again]").last.focus()
    talk.keyboard.press("Enter")
    again = talk.locator("#message-again")
    expect(again).to_be_focused()
    expect(again).to_have_value("count")
    expect(talk.locator(".composer")).to_contain_text("The agent will no longer get 4 events.")
    talk.keyboard.press("Escape")
    expect(message).to_be_visible()
    talk.locator("[data-again]").last.click()
    again.fill("look")
    talk.keyboard.press("Enter")
    expect(said.get_by_text("Done.")).to_have_count(3)
    expect(counted).to_contain_text("7")
    expect(message).to_have_value("")


def test_a_click_on_a_turn_that_was_drawn_again_leaves_the_message_alone(talk: Page) -> None:
    message, turn = talk.locator("#message"), talk.locator(".turn[data-again]")
    message.fill("count")
    message.press("Enter")
    expect(talk.locator("#events").get_by_text("Done.")).to_have_count(1)
    expect(message).to_have_value("")
    asked: list[str] = []
    talk.on("request", lambda request: asked.append(request.url))
    for folded in ("false", "true"):
        turn.locator("button").click()
        expect(turn.locator("button")).to_have_attribute("aria-expanded", folded)
    assert [url for url in asked if "again=" in url] == []


def test_how_long_the_agent_has_worked_is_right_at_once(talk: Page) -> None:
    talk.evaluate(WORKED)
    talk.locator("#message").fill("count")
    talk.locator("#message").press("Enter")
    expect(talk.locator("#events").get_by_text("Done.")).to_have_count(1)
    assert re.fullmatch(r"\d s", talk.evaluate("noted[0]"))


def test_a_run_of_another_process_is_shown_and_stopped(own_server: Adkweb, talk: Page) -> None:
    session = talk.url.partition("/helper/")[2].partition("/?")[0]
    command = own_server.command("say", f"helper/{session}", "count…", str(own_server.demo))
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    other = warm.Popen(command, cwd=own_server.folder, forks_agents=True, **quiet)
    talk.locator("#waits").get_by_role("button", name="Stop").click()
    expect(talk.locator("#events")).to_contain_text("Run stopped")
    expect(talk.locator("#waits > .run").get_by_role("button", name="Continue")).to_be_visible()
    other.wait()


def test_an_answer_to_a_form_that_a_push_has_replaced_meanwhile_is_shown(talk: Page) -> None:
    held: list[Route] = []
    talk.route(lambda url: url.endswith("/say/"), lambda route: held.append(route))
    message = talk.locator("#message")
    message.fill("count")
    with talk.expect_request(lambda request: request.url.endswith("/say/")):
        message.press("Enter")
    form = talk.locator(".composer").element_handle()
    with talk.expect_response(lambda response: "/waits/" in response.url):
        talk.evaluate(
            "document.querySelector('#waits input[name=have]').value = ''; htmx.trigger('#waits', 'adkweb:waits')"
        )
    until(talk, "form => !form.isConnected", form)
    held[0].continue_()
    expect(talk.locator("#events").get_by_text("Done.")).to_have_count(1)
    expect(message).to_have_value("")


def test_a_card_is_asked_for_again_when_the_index_has_the_last_event(talk: Page) -> None:
    # A rewind is one event: nothing follows that would take its card away.
    with talk.expect_response(lambda response: "/waits/" in response.url, timeout=10_000):
        talk.evaluate("htmx.trigger(document.body, 'adkweb:waits')")
    with talk.expect_response(lambda response: "/waits/" in response.url, timeout=10_000):
        pass


def test_a_field_that_was_made_taller_stays_so_when_its_form_is_drawn_again(talk: Page) -> None:
    # A style attribute that is copied violates the policy of contents, and the visitor's test fails.
    talk.evaluate("document.querySelector('#message').style.height = '200px'")  # as dragging its corner does
    with talk.expect_response(lambda response: "/waits/" in response.url):
        talk.evaluate(
            "document.querySelector('#waits input[name=have]').value = ''; htmx.trigger('#waits', 'adkweb:waits')"
        )
    until(talk, "() => !document.querySelector('#waits.htmx-request')")
    expect(talk.locator("#message")).to_have_css("height", "200px")
