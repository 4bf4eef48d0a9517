"""axe-core finds nothing serious on any page, in light and in dark."""

from __future__ import annotations

from typing import Final, Literal

import pytest
from axe_playwright_python.base import AXE_SCRIPT  # type: ignore[import-untyped]
from playwright.sync_api import Page, StorageState, expect

from tests.browser.conftest import Visit, Watch
from tests.browser.places import PLACES, STATUSES
from tests.browser.serving import Adkweb

IMPACTS: Final = ("serious", "critical")
# What is found is of the impact that its rule has: the other rules need not run.
LIGHT: Final = """(impacts) => axe.run(document, {
    resultTypes: ["violations"],
    rules: Object.fromEntries(axe._audit.rules
        .filter(({ impact }) => impact && !impacts.includes(impact)).map(({ id }) => [id, { enabled: false }])),
})"""
# All that a theme changes are colours. Rows of a list differ in their words: of elements that are drawn alike, on what is
# drawn alike, the contrast of the first is that of all.
DARK: Final = """() => {
    const known = new Map([[null, ""]]);
    const look = (element) => {
        let found = known.get(element);
        if (found === undefined) {
            const style = getComputedStyle(element);
            found = [look(element.parentElement), element.localName, element.getAttribute("class"), style.color,
                style.backgroundColor, style.backgroundImage, style.opacity, style.fontSize, style.fontWeight,
                style.textShadow, style.filter, style.position, element.disabled, element.ariaDisabled].join("|");
            known.set(element, found);
        }
        return found;
    };
    const first = new Map();
    for (const element of document.querySelectorAll("body, body *")) {
        const words = [...element.childNodes].some(({ nodeType, data }) => nodeType === Node.TEXT_NODE && data.trim());
        if ((words || element.matches("input, select, textarea")) && element.checkVisibility()) {
            const drawn = look(element);
            if (!first.has(drawn)) first.set(drawn, element);
        }
    }
    return axe.run([...first.values()], { resultTypes: ["violations"], runOnly: ["color-contrast"] });
}"""


def violations(page: Page, script: str) -> list[str]:
    """What axe-core finds, a line for each element."""
    found = page.evaluate(script, IMPACTS)
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
    themes: dict[Literal["light", "dark"], str] = {"light": LIGHT, "dark": DARK}
    for theme, script in themes.items():
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        page.evaluate("Promise.allSettled(document.getAnimations().map((each) => each.finished))")
        found += [f"{theme}: {line}" for line in violations(page, script)]
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
