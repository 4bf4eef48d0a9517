"""The demo as its visitor meets it: the line that says so, and the tour. Nothing of it is there outside a demo."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, StorageState, expect

from tests.browser.conftest import Visit, watched
from tests.browser.places import SEOUL, path
from tests.browser.serving import Adkweb


class Demo(Adkweb):
    """adkweb as it starts without a source."""

    def _prepare(self, directory: Path) -> None:
        super()._prepare(directory)
        self.demo.unlink()  # it is told of no database

    def _command(self, directory: Path) -> list[str]:
        return self.command("serve", "--port", str(self.port))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """adkweb with nothing but its demo."""
    yield from watched(Demo(tmp_path_factory.mktemp("demo")))


@pytest.fixture(scope="module")
def visitors(browser: Browser, demo: Demo) -> StorageState:
    """The cookies of somebody who opened the printed link."""
    with browser.new_context() as context:
        context.new_page().goto(demo.link)
        return context.storage_state()


@pytest.fixture
def page(demo: Demo, visitors: StorageState, visitor: Visit) -> Page:
    """A page of that person."""
    return visitor(demo, storage_state=visitors)


def heads_height(page: Page) -> float:
    """How far the content of a page stands below its top."""
    return float(page.evaluate("document.querySelector('#main').getBoundingClientRect().top"))


@pytest.mark.parametrize("language", ["en", "es", "ko"])
def test_the_line_is_one_line_in_each_language(demo: Demo, page: Page, language: str) -> None:
    page.context.add_cookies([{"name": "adkweb_language", "value": language, "url": demo.address}])
    for width in (320, 390, 900, 1100, 1440):
        page.set_viewport_size({"width": width, "height": 800})
        page.goto(path("s", *SEOUL))
        box = page.locator(".demoline").bounding_box()
        assert box
        assert box["height"] <= 45
        assert page.evaluate(
            "(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth)(document.querySelector('.demoline'))"
        )
        for part in page.locator(".demoline > *").all():
            inner = part.bounding_box()
            assert inner is None or inner["x"] + inner["width"] <= width


def test_the_line_is_closed_until_the_browser_is(page: Page) -> None:
    page.goto(path("s", *SEOUL))
    before = heads_height(page)
    page.get_by_role("complementary", name="Demo").get_by_role("button", name="Close").click()
    expect(page.locator(".demoline")).to_have_count(0)
    assert page.evaluate("document.activeElement.id") == "main"
    assert 20 < before - heads_height(page) <= 45
    page.goto("/")
    expect(page.get_by_role("heading", name="demo", exact=True)).to_be_visible()
    expect(page.locator(".demoline")).to_have_count(0)
    kept = [cookie for cookie in page.context.cookies() if cookie["name"] == "adkweb_demo"]
    assert [cookie["expires"] for cookie in kept] == [-1]  # the browser forgets it when it is closed


def test_the_command_is_copied(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(path("s", *SEOUL))
    page.get_by_role("button", name="Copy the command").click()
    expect(page.locator("#copy-status")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "make run SOURCE=path/to/session.db"


def test_nothing_of_a_demo_is_there_outside_one(visit: Visit) -> None:
    page = visit()
    for address in ("/", path("s", *SEOUL), path("s", *SEOUL, end="history/?key=booking_step")):
        page.goto(address)
        expect(page.locator(".demoline, #tour, [data-tour-start]")).to_have_count(0)
        assert "demo.js" not in page.content()
        assert "tour.js" not in page.content()
