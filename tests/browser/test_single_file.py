"""A session as one file: opened from a disk, it asks nobody, runs nothing of what is in it, and tells what adkweb tells."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit
from tests.browser.looks import check as check_looks
from tests.browser.places import SEOUL, path
from tests.browser.seed import HOSTILE
from tests.browser.serving import Adkweb
from tests.browser.watching import until
from tests.parts import long_but

# What the server tells, by a process of its own: for each event the state after it, as texts; “?” where nobody knows.
STATES: Final = """
import json, sys, django
django.setup()
from sessions_app.access.actor import TERMINAL
from sessions_app.domain.json_values import dumps
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import UNKNOWN
from sessions_app.history import moments
from sessions_app.reads import timeline
from sessions_app.sources import database, registry
registry.searched_folders.clear()
(source,) = registry.add({source!r})
database.open_source(source)
ref = SessionRef(source.alias, *{names!r})
told = []
for event in timeline.events(ref, limit=1000, actor=TERMINAL).rows:
    state = moments.state_at(ref, event.id, actor=TERMINAL).state.merged()
    told.append({{key: "?" if value is UNKNOWN else dumps(value) for key, value in state.items()}})
open({out!r}, "w").write(json.dumps(told))
from django.core.management import call_command
call_command("export", *{export!r})
"""
# By key, the whole text of each value that the page shows now.
SHOWN: Final = """() => Object.fromEntries([...document.querySelectorAll(".pair:not(.removed)")].map((row) => {
    const value = row.querySelector(".value");
    row.open = true;
    row.dispatchEvent(new Event("toggle"));
    const text = row.querySelector("pre").textContent.slice(row.dataset.key.length + 1);
    const known = value.textContent !== document.querySelector(".filepane").dataset.wordUnknown;
    row.open = false;
    return [row.dataset.key, known ? text : "?"];
}))"""
FOREIGN: Final = """() => [
    ...["injected"].filter((name) => name in window),
    ...[...document.links].filter((link) => !/^https?:$/.test(link.protocol)).map((link) => link.href),
    ...[...document.scripts].filter((script, index) => index > 2 || script.src).map((script) => script.outerHTML),
    ...[...document.querySelectorAll("img:not([src^='data:image/']), iframe, object, embed, base, form, [style], link")]
        .map((each) => each.outerHTML),
    ...[...document.querySelectorAll("*")].filter((each) => [...each.attributes].some(({ name }) => name.startsWith("on")))
        .map((each) => each.outerHTML),
]"""


@pytest.fixture
def file(visit: Visit, visitor: Visit, server: Adkweb, tmp_path: Path) -> Callable[..., Page]:
    """Downloads a session as a file, and opens it from the disk; every request of the page is noted."""

    def open_file(names: tuple[str, ...], **options: Any) -> tuple[Page, list[str]]:
        answer = visit().request.get(path("s", *names, end="export/?format=html"))
        assert answer.ok, answer.text()
        there = tmp_path / "session.html"
        there.write_bytes(answer.body())
        page, asked = visitor(server, **options), []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(there.as_uri())
        return page, asked

    return open_file


def test_at_every_event_the_file_tells_the_state_that_the_server_tells(
    server: Adkweb, visitor: Visit, tmp_path: Path
) -> None:
    out, there = tmp_path / "states.json", tmp_path / "trip.html"
    source, names = str(server.demo), SEOUL[1:]
    only = [word for pair in zip(("--app", "--user", "--session"), names, strict=True) for word in pair]
    export = [source, *only, "--format", "html", "-o", str(there)]
    server.run("-c", STATES.format(source=source, names=tuple(names), out=str(out), export=export))
    wanted = json.loads(out.read_text())
    page = visitor(server)
    page.goto(there.as_uri() + "#e1")
    for number, state in enumerate(wanted, 1):
        expect(page.locator("#moment")).to_have_text(f"after event {number} of {len(wanted)}")
        shown = page.evaluate(SHOWN)
        assert {key: value if value == "?" else json.loads(value) for key, value in shown.items()} == {
            key: value if value == "?" else json.loads(value) for key, value in state.items()
        }, number
        page.keyboard.press("]")
    assert len(wanted) > 50


@pytest.mark.guarantee("Safety", "Whatever the text in a session contains, it can't run code on any page.")
@pytest.mark.parametrize("view", long_but("12", "2"))
def test_nothing_of_a_hostile_session_runs_in_its_file_and_it_asks_nobody(file: Any, view: str) -> None:
    page, asked = file(HOSTILE)
    page.keyboard.press(view)
    for key in ("Home", *["]"] * 30, "End", *["k"] * 20):
        page.keyboard.press(key)
    page.locator("#raw").evaluate("raw => { raw.open = true }")
    page.locator("details").evaluate_all("all => all.forEach((each) => { each.open = true })")
    assert page.evaluate(FOREIGN) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"
    assert [url for url in asked if not url.startswith("file:")] == []
    assert [url for url in asked if not url.startswith("data:image/")][1:] == []


def test_without_scripts_a_file_shows_chat_events_and_the_last_state(file: Any) -> None:
    page, _asked = file(SEOUL, java_script_enabled=False)
    expect(page.get_by_role("heading", level=1)).to_have_text("Seoul trip")
    expect(page.get_by_text("Find me a flight from Lisbon to Seoul on 2026-12-01").first).to_be_visible()
    expect(page.locator("#moment")).to_have_text("after the last event")
    expect(page.locator(".pair", has_text="booking_step").first).to_contain_text('"choose"')
    page.get_by_text("Events", exact=True).click()
    expect(page.locator(".filerow")).to_have_count(72)
    expect(page.locator(".filerow").first).to_be_visible()
    expect(page.locator("#chat")).to_be_hidden()
    assert page.get_by_role("button").count() == 0


def test_a_file_is_gone_through_by_keys_clicks_and_its_address(file: Any) -> None:
    page, _asked = file(SEOUL)
    moment = page.locator("#moment")
    expect(moment).to_have_text("after event 72 of 72")
    page.keyboard.press("[")
    expect(moment).to_have_text("after event 71 of 72")
    expect(page).to_have_url(re.compile("#e71$"))
    page.keyboard.press("{")
    expect(page.locator(".pair.changed").first).to_be_visible()
    page.keyboard.press("2")
    page.locator(".filerow[data-n='28']").click()
    expect(moment).to_have_text("after event 28 of 72")
    expect(page.locator(".filerow.here")).to_have_attribute("data-n", "28")
    page.keyboard.press("j")
    expect(moment).to_have_text("after event 29 of 72")
    page.locator("#raw summary").click()
    expect(page.locator("#raw pre")).to_contain_text('"invocation_id":')
    page.get_by_role("button", name="Next event").click()
    expect(moment).to_have_text("after event 30 of 72")
    page.keyboard.press("Home")
    page.keyboard.press("[")
    expect(moment).to_have_text("before the first event")
    page.goto(page.url.partition("#")[0] + "#e14")
    expect(moment).to_have_text("after event 14 of 72")
    box = page.locator("#strip svg").bounding_box()
    assert box
    page.mouse.click(box["x"] + box["width"] - 2, box["y"] + 10)
    expect(moment).to_have_text("after event 72 of 72")


@pytest.mark.long
def test_keys_of_one_letter_can_be_switched_off_in_a_file(file: Any) -> None:
    page, _asked = file(SEOUL)
    page.get_by_label("Single-key shortcuts").uncheck()
    for key in "[k2":
        page.keyboard.press(key)
    expect(page.locator("#moment")).to_have_text("after event 72 of 72")
    expect(page.locator("#chat")).to_be_visible()
    page.locator("#chat").focus()
    page.keyboard.press("ArrowUp")
    expect(page.locator("#moment")).not_to_have_text("after event 72 of 72")


@pytest.mark.long
@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_file_is_accessible(file: Any, width: int, scheme: str) -> None:
    page, _asked = file(SEOUL, viewport={"width": width, "height": 844}, color_scheme=scheme, bypass_csp=True)
    check_looks(page)
    page.keyboard.press("2")
    check_looks(page)


def test_the_share_menu_copies_a_link_to_what_is_shown_and_downloads_the_file(visit: Visit) -> None:
    page = visit(permissions=["clipboard-read", "clipboard-write"])
    page.goto(path("s", *SEOUL))
    page.locator(".ev").nth(-3).locator(".line").focus()
    row = page.locator(".ev").nth(-3).get_attribute("id")
    page.locator(".sharing > summary").click()
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator("#copy-status")).to_have_text("Link copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.endswith(f"/s/{'/'.join(SEOUL)}/?density=events#{row}")
    page.keyboard.press("Escape")
    page.locator(".ev").nth(-3).locator(".line").click()
    expect(page.locator("#moment .staterow").first).to_be_visible()
    page.wait_for_url("**/?at=*")
    page.evaluate("navigator.clipboard.writeText('')")
    page.locator(".sharing > summary").click()
    page.get_by_role("button", name="Copy link").click()
    until(page, "navigator.clipboard.readText()")
    expect(page.locator("#copy-status")).to_have_text("Link copied")
    assert page.evaluate("navigator.clipboard.readText()") == f"{page.url}&density=events"
    with page.expect_download() as download:
        page.get_by_role("button", name="One file").click()
    assert download.value.suggested_filename == "Seoul_trip.html"


def test_what_is_shared_hides_values_once_that_is_ticked(visit: Visit) -> None:
    page = visit()
    page.goto(path("s", *SEOUL))
    page.locator(".sharing > summary").click()
    keys = page.get_by_label("Only these keys")
    expect(keys).to_be_hidden()
    page.get_by_label("Hide values").check()
    keys.fill("passport, *token*")
    with page.expect_download() as download:
        page.get_by_role("button", name="adk-json").click()
    session = json.loads(download.value.path().read_text("utf-8"))
    assert {key for key, value in session["state"].items() if value == "••••"} == {"passport", "user:card_token"}
    assert session["state"]["adkweb:hidden"] is True


@pytest.mark.long
def test_what_was_copied_before_does_not_take_back_what_is_said_of_this(visit: Visit) -> None:
    page = visit(permissions=["clipboard-read", "clipboard-write"])
    page.goto(path("s", *SEOUL))
    page.locator(".sharing > summary").click()
    said = page.get_by_role("button", name="Copy link").evaluate(
        """async (button) => {
            const wait = (ms) => new Promise((done) => setTimeout(done, ms));
            for (const ms of [1_000, 800]) {
                button.click();
                await wait(ms);
            }
            return document.querySelector("#copy-status").textContent;
        }"""
    )
    assert said == "Link copied"
