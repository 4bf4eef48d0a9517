"""What axe-core and rulers say of a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from axe_playwright_python.base import AXE_SCRIPT  # type: ignore[import-untyped]
from playwright.sync_api import Page

from tests.browser.places import PLACES
from tests.browser.targets import small

WIDTHS: Final = (1440, 768, 390)
SIDEWAYS: Final = """() => [...document.querySelectorAll("html, main, .scroll, dialog")]
    .filter((box) => box.scrollWidth > box.clientWidth && box.clientWidth)
    .map((box) => `${box.localName}.${box.className} is ${box.scrollWidth - box.clientWidth} px too wide`)"""
IMPACTS: Final = ("serious", "critical")
# What is found is of the impact that its rule has: the other rules need not run. Contrast is looked for by CONTRAST.
RULES: Final = """(impacts) => axe.run(document, {
    resultTypes: ["violations"],
    rules: Object.fromEntries(axe._audit.rules
        .filter(({ id, impact }) => id === "color-contrast" || (impact && !impacts.includes(impact)))
        .map(({ id }) => [id, { enabled: false }])),
})"""
# Rows of a list differ in their words: of elements that are drawn alike, on what is drawn alike, the contrast of the
# first is that of all. What is laid over something else is looked at each time.
CONTRAST: Final = """() => {
    const known = new Map([[null, ""]]);
    let laid = 0;
    const look = (element) => {
        let drawn = known.get(element);
        if (drawn === undefined) {
            const style = getComputedStyle(element);
            drawn = [look(element.parentElement), element.localName, element.getAttribute("class"), style.color,
                style.backgroundColor, style.backgroundImage, style.opacity, style.fontSize, style.fontWeight,
                style.textShadow, style.filter, style.position, element.disabled, element.ariaDisabled].join("|");
            if (/absolute|fixed/.test(style.position)) drawn += (laid += 1);
            known.set(element, drawn);
        }
        return drawn;
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
    result = page.evaluate(script, IMPACTS)
    return [
        f"{rule['id']} ({rule['impact']}): {' '.join(map(str, node['target']))} — {node['failureSummary']}"
        for rule in result["violations"]
        if rule["impact"] in IMPACTS
        for node in rule["nodes"]
    ]


def barriers(page: Page) -> list[str]:
    """What is not accessible on the page as it stands, in both themes. All that the dark one changes are colours."""
    page.evaluate(AXE_SCRIPT)
    lines = []
    themes: dict[Literal["light", "dark"], tuple[str, ...]] = {"light": (RULES, CONTRAST), "dark": (CONTRAST,)}
    for theme, scripts in themes.items():
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        page.evaluate("Promise.allSettled(document.getAnimations().map((each) => each.finished))")
        lines += [f"{theme}: {line}" for script in scripts for line in violations(page, script)]
    return lines


def check(page: Page) -> None:
    """Both themes, on the page as it stands."""
    lines = barriers(page)
    assert not lines, "\n".join(lines)


def sideways(page: Page) -> list[str]:
    """What is wider than the window, on the page as it stands."""
    lines = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        lines += [f"at {width} px: {line}" for line in page.evaluate(SIDEWAYS)]
    return lines


@dataclass(frozen=True)
class Look:
    """What is wrong with a page."""

    barriers: list[str]
    sideways: list[str]
    small: list[str]


class Looks:
    """Each of PLACES, opened once for all tests that look at it: opening it takes longer than looking."""

    def __init__(self) -> None:
        self._known: dict[str, Look] = {}

    def at(self, name: str, page: Page) -> Look:
        """What is wrong there; the page may go there for it, with light colours and reduced motion."""
        if name not in self._known:
            page.set_viewport_size({"width": WIDTHS[0], "height": 900})
            page.emulate_media(color_scheme="light", reduced_motion="reduce")
            PLACES[name](page)
            self._known[name] = Look(barriers(page), sideways(page), small(page))
        return self._known[name]
