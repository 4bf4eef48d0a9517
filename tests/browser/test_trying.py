"""The pages of what-if, of replays and of breakpoints, in each state that they have, measured like every page."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Page, expect

from tests.browser import boxes
from tests.browser.conftest import Visit, serve
from tests.browser.looks import look
from tests.browser.places import SEOUL, path
from tests.browser.serving import ROOT, Adkweb
from tests.parts import long_but

TRIP: Final = path("s", "demo", "booking", "ana", "december-trip")
TIMES: Final = 30_000  # ms that agents may take
SLOW: Final = """
import pathlib, time
if pathlib.Path(__file__).with_name("slow").exists():
    time.sleep(20)
"""


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Adkweb]:
    """adkweb with the demo, whose agents have changed since."""
    agents = tmp_path / "agents"
    shutil.copytree(ROOT / "examples" / "agents", agents)
    file = agents / "booking" / "agent.py"
    changed = file.read_text("utf-8").replace('output_key="last_answer"', 'output_key="answer"')
    file.write_text(f"{changed}\n{SLOW}", "utf-8")
    yield from serve(tmp_path, ADKWEB_AGENTS=json.dumps({"demo": str(agents)}))


def what_ifs(page: Page) -> dict[str, str]:
    """What-ifs of a session: one that waits for a decision, and one that was tried three times."""
    page.goto(TRIP)
    page.locator(".ev .line").last.click()
    form = page.locator("#moment .takeback").get_by_role("link", name="What if…").get_attribute("href") or ""
    form += "&key=booking_step"
    made = {"form": form}
    for name, unknown, repeats in (("waits", "ask me", "1×"), ("tried", "run it", "3×")):
        page.goto(form)
        page.locator("[data-offer='\"confirm\"']").click()
        page.locator("label", has_text=unknown).click()
        page.locator("label", has_text=repeats).click()
        page.get_by_role("button", name="Run and compare").click()
        page.wait_for_url(re.compile(r"/what-if/[0-9a-f-]+/$"))
        made[name] = page.url
    expect(page.locator(".whatifoutcomes")).to_contain_text("3 of 3", timeout=TIMES)
    page.goto(made["waits"])
    expect(page.locator("#decide")).to_be_visible(timeout=TIMES)
    return made


def replays(page: Page, slow: Path) -> dict[str, str]:
    """Replays: one that nobody has begun, one that has ended, and one that was stopped."""

    def draft() -> str:
        page.goto("/sessions/?q=app:booking")
        page.locator("input[name=ref]").first.check()
        page.keyboard.press("a")
        page.get_by_role("button", name="Replay…").click()
        page.wait_for_url(re.compile(r"/replays/[0-9a-f-]+/$"))
        return page.url

    made = {"draft": draft(), "replayed": draft()}
    page.get_by_role("button", name=re.compile("^Replay ")).click()
    expect(page.get_by_role("button", name="Run again")).to_be_visible(timeout=TIMES)
    made["stopped"] = draft()
    slow.touch()
    page.get_by_role("button", name=re.compile("^Replay ")).click()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("alert")).to_contain_text("Stopped after")
    slow.unlink()
    return made | {"replays": "/replays/"}


def what_ifs_of_many(page: Page) -> dict[str, str]:
    """What-ifs of several sessions: the form, and the outcomes."""
    made = {}
    for name in ("form of many", "outcomes of many"):
        page.goto("/sessions/?q=app:booking user:ana")
        page.locator("input[name=ref]").first.check()
        page.locator("body").press("Shift+A")
        page.get_by_role("button", name="What if…").click()
        page.wait_for_url(re.compile(r"/what-ifs/[0-9a-f-]+/$"))
        made[name] = page.url
    page.locator("label", has_text="run it").click()
    page.get_by_role("button", name=re.compile("^Try ")).click()
    expect(page.get_by_role("button", name="Try again with a change")).to_be_visible(timeout=TIMES)
    return made


def paused(page: Page) -> str:
    """A session whose agent pauses at a breakpoint."""
    page.goto(path("s", *SEOUL))
    page.locator(".stops > summary").click()
    page.locator("#stop-kind").select_option("model")
    page.get_by_role("button", name="Set").click()
    expect(page.locator(".stops li")).to_be_visible()
    page.locator("#message").fill("Find me a flight from Lisbon to Seoul on 2026-12-01")
    page.locator("#message").press("Enter")
    expect(page.locator(".card.pause")).to_be_visible(timeout=TIMES)
    return path("s", *SEOUL)


@pytest.mark.parametrize("language", long_but(["en", "es", "ko"], "en"))
def test_pages_where_something_is_tried_are_accessible_and_fit(
    own_server: Adkweb, visitor: Visit, tmp_path: Path, language: str
) -> None:
    page = visitor(own_server, viewport={"width": 1440, "height": 900}, color_scheme="light", reduced_motion="reduce")
    page.goto(own_server.link)
    addresses = {
        **what_ifs(page),
        **replays(page, tmp_path / "agents" / "booking" / "slow"),
        **what_ifs_of_many(page),
        "paused": paused(page),
    }
    page.context.add_cookies([{"name": "adkweb_language", "value": language, "url": own_server.address}])
    wrong: list[str] = []
    for name, address in addresses.items():
        page.set_viewport_size({"width": 1440, "height": 900})
        page.emulate_media(color_scheme="light")
        page.goto(address)
        if name == "paused":
            expect(page.locator(".card.pause")).to_be_visible()
            page.locator(".stops > summary").click()
        if language == "en":
            seen = look(page, [])
            wrong += [f"{name}, {line}" for line in (*seen.barriers, *seen.small, *seen.sideways, *seen.boxes)]
        else:
            wrong += [f"{name}, {line}" for line in boxes.faults(page, boxes.SOME_WIDTHS)]
    assert not wrong, "\n".join(wrong)
