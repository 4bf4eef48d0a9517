"""A person looks at what the model got: types a template, follows links, watches a rewind grey the timeline."""

from __future__ import annotations

import itertools
import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit, Watch
from tests.browser.places import SEOUL, own, path, type_json

CONTEXT = path("s", *own("agent-view"), end="context/")


# Each request of the page to its own address: when it was sent and when its answer had come, in milliseconds.
SENT = """() => performance.getEntriesByType("resource")
  .filter((entry) => entry.initiatorType === "xmlhttprequest" && entry.name.startsWith(location.href))
  .map((entry) => [entry.startTime, entry.responseEnd])"""


def test_a_template_is_filled_in_while_it_is_typed_one_request_at_a_time(page: Page) -> None:
    page.goto(CONTEXT)
    page.get_by_text("Instruction unknown").click()
    page.get_by_label("Template", exact=True).press_sequentially("You are at {step} of {gone", delay=30)
    expect(page.locator(".filled")).to_have_text("You are at choose of {gone")
    expect(page.locator(".ph.session")).to_have_text("choose")
    page.get_by_label("Template", exact=True).press_sequentially("}")
    expect(page.locator(".ph.bad")).to_have_text("{gone}")
    expect(page.locator("#instruction-line")).to_have_text(
        re.compile(r"Instruction\s+27 characters, filled in from the state\s+ADK stops here with an error: {gone}")
    )
    sent = page.evaluate(SENT)
    assert len(sent) > 1
    assert all(answered <= start for (_start, answered), (start, _answered) in itertools.pairwise(sent))


@pytest.mark.long
def test_what_was_typed_is_back_after_a_reload(visit: Visit, watch: Watch) -> None:
    watch.stay = False
    page = visit()
    page.goto(CONTEXT)
    page.get_by_text("Instruction unknown").click()
    page.get_by_label("Template", exact=True).fill("mine: {count}")
    expect(page.locator(".filled")).to_have_text("mine: 4")
    page.reload()
    expect(page.get_by_label("Template", exact=True)).to_have_value("mine: {count}")
    expect(page.locator(".filled")).to_have_text("mine: 4")
    page.get_by_role("button", name="Discard").click()
    expect(page.get_by_label("Template", exact=True)).to_have_value("")


@pytest.mark.parametrize("start", ["", "context/"], ids=["pane", "page"])
def test_another_agent_is_shown_as_soon_as_it_is_chosen_at_an_address_that_can_be_shared(
    page: Page, start: str
) -> None:
    page.goto(path("s", *SEOUL, end=start))
    if not start:
        page.get_by_role("link", name="What the model got").click()
    agent = page.get_by_label("as the model of")
    agent.focus()
    agent.select_option("billing")
    expect(page).to_have_url(re.compile("agent(=|%3D)billing"))
    expect(agent).to_have_value("billing")
    expect(agent).to_be_focused()
    expect(page.get_by_role("button", name="Show", exact=True)).to_have_count(0)
    page.reload()
    expect(agent).to_have_value("billing")


@pytest.mark.long
def test_a_template_is_filled_in_without_scripts(visit: Visit) -> None:
    page = visit(java_script_enabled=False)
    page.goto(CONTEXT)
    page.get_by_text("Instruction unknown").click()
    page.get_by_label("Template", exact=True).fill("{step}!")
    page.get_by_role("button", name="Fill in").click()
    expect(page.locator(".filled")).to_have_text("choose!")
    expect(page.get_by_label("Template", exact=True)).to_have_value("{step}!")


def test_what_the_model_does_not_get_is_a_line_that_opens_by_keyboard(page: Page) -> None:
    page.goto(path("s", *SEOUL, end="context/"))
    expect(page.locator(".content").first).to_be_visible()
    expect(page.locator(".out:visible")).to_have_count(0)
    page.locator(".omitted summary").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".omitted").first.locator(".out").first).to_be_visible()


@pytest.mark.long
def test_a_session_leads_there_from_now_and_from_an_event(page: Page) -> None:
    page.goto(path("s", *SEOUL))
    page.get_by_role("link", name="What the model got").click()
    expect(page.get_by_role("heading", name="What the model gets next")).to_be_visible()
    page.keyboard.press("Escape")
    page.locator(".ev .line").last.click()
    expect(page.locator("#moment")).to_be_visible()
    page.get_by_role("link", name="What the model got").click()
    expect(page.get_by_role("heading", name="What the model got · event 72")).to_be_visible()
    page.get_by_role("link", name="After this event").click()
    expect(page.get_by_role("heading", name="What the model gets next · after event 72")).to_be_visible()


@pytest.mark.long
def test_a_rewind_greys_the_timeline_that_is_open(visit: Visit) -> None:
    watching, writing = visit(), visit()
    watching.goto(path("s", *own("greyed")))
    expect(watching.locator("[data-live]")).to_have_attribute("data-state", "live")
    expect(watching.locator(".ev.gone")).to_have_count(0)
    writing.goto(path("s", *own("greyed"), end="add/"))
    type_json(
        writing,
        '{"author": "user", "invocation_id": "e-2", "actions": {"rewind_before_invocation_id": "e-1"}}',
    )
    writing.get_by_role("button", name=re.compile("Add")).click()
    expect(writing.locator(".toasts")).to_contain_text("The event was added.")
    expect(watching.locator(".ev")).to_have_count(3)
    expect(watching.locator(".ev.gone")).to_have_count(2)
    expect(watching.locator(".ev.gone .gonewhy").first).to_contain_text("rewound by")
    expect(watching.locator(".ev").last).not_to_have_class(re.compile("gone"))
