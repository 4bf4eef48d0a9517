"""axe-core finds nothing serious on any page, in light and in dark."""

from __future__ import annotations

from typing import Any, Final, Literal

import pytest
from axe_playwright_python.base import AXE_SCRIPT  # type: ignore[import-untyped]
from playwright.sync_api import Page, StorageState, expect

from tests.browser.conftest import Visit, Watch
from tests.browser.places import PLACES, STATUSES
from tests.browser.serving import Adkweb

IMPACTS: Final = ("serious", "critical")
CONTRAST: Final = {"runOnly": ["color-contrast"]}  # all that a theme changes


def violations(page: Page, options: dict[str, Any]) -> list[str]:
    """What axe-core finds, a line for each element."""
    found = page.evaluate("(options) => axe.run(document, options)", {"resultTypes": ["violations"], **options})
    return [
        f"{rule['id']} ({rule['impact']}): {' '.join(map(str, node['target']))} — {node['failureSummary']}"
        for rule in found["violations"]
        if rule["impact"] in IMPACTS
        for node in rule["nodes"]
    ]


def check(page: Page) -> None:
    """Both themes, on the page as it stands."""
    page.evaluate(AXE_SCRIPT)
    found = []
    themes: dict[Literal["light", "dark"], dict[str, Any]] = {"light": {}, "dark": CONTRAST}
    for theme, options in themes.items():
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        page.evaluate("Promise.allSettled(document.getAnimations().map((each) => each.finished))")
        found += [f"{theme}: {line}" for line in violations(page, options)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("place", PLACES)
def test_a_page_is_accessible_in_light_and_dark(visit: Visit, watch: Watch, place: str) -> None:
    watch.allow(STATUSES.get(place, 0))
    watch.stay = False
    page = visit(color_scheme="light", reduced_motion="reduce")
    PLACES[place](page)
    check(page)


def test_signing_in_is_accessible_in_light_and_dark(
    visitor: Visit, server: Adkweb, signed_in: StorageState, watch: Watch
) -> None:
    watch.allow(403)
    page = visitor(server, color_scheme="light", reduced_motion="reduce")
    page.goto("/")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    check(page)
    page.goto(server.link)  # which signed_in has used up
    expect(page.get_by_role("alert")).to_contain_text("used already")
    check(page)
