"""What axe-core and rulers say of a page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from axe_playwright_python.base import AXE_SCRIPT  # type: ignore[import-untyped]
from playwright.sync_api import Page

from tests.browser import boxes
from tests.browser.targets import small

WIDTHS: Final = (1440, 768, 390)
SIDEWAYS: Final = """() => [...document.querySelectorAll("html, main, .scroll, dialog")]
    .filter((box) => box.scrollWidth > box.clientWidth && box.clientWidth)
    .map((box) => `${box.localName}.${box.className} is ${box.scrollWidth - box.clientWidth} px too wide`)"""
IMPACTS: Final = ("serious", "critical")
# What is found is of the impact that its rule has: the other rules need not run. Contrast is looked for by CONTRAST.
RULES: Final = """([impacts, within]) => axe.run(within, {
    resultTypes: ["violations"],
    rules: Object.fromEntries(axe._audit.rules
        .filter(({ id, impact }) => id === "color-contrast" || (impact && !impacts.includes(impact)))
        .map(({ id }) => [id, { enabled: false }])),
})"""
# Rows of a list differ in their words: of elements that are drawn alike, on what is drawn alike, the contrast of the
# first is that of all. What is laid over something else is looked at each time.
CONTRAST: Final = """([, within]) => {
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
    for (const element of document.querySelectorAll(`${within}, ${within} *`)) {
        const words = [...element.childNodes].some(({ nodeType, data }) => nodeType === Node.TEXT_NODE && data.trim());
        if ((words || element.matches("input, select, textarea")) && element.checkVisibility()) {
            const drawn = look(element);
            if (!first.has(drawn)) first.set(drawn, element);
        }
    }
    return axe.run([...first.values()], { resultTypes: ["violations"], runOnly: ["color-contrast"] });
}"""


def violations(page: Page, script: str, within: str) -> list[str]:
    """What axe-core finds, a line for each element."""
    result = page.evaluate(script, [IMPACTS, within])
    return [
        f"{rule['id']} ({rule['impact']}): {' '.join(map(str, node['target']))} — {node['failureSummary']}"
        for rule in result["violations"]
        if rule["impact"] in IMPACTS
        for node in rule["nodes"]
    ]


def barriers(page: Page, *, contrast: bool = True, within: str = "html") -> list[str]:
    """What is not accessible on the page as it stands, in both themes. All that the dark one changes are colours.

    `within` is a selector: only what is in there is looked at."""
    page.evaluate(AXE_SCRIPT)
    lines = violations(page, RULES, within)
    themes: tuple[Literal["light", "dark"], ...] = ("light", "dark") if contrast else ()
    for theme in themes:
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        page.evaluate("Promise.allSettled(document.getAnimations().map((each) => each.finished))")
        lines += [f"{theme}: {line}" for line in violations(page, CONTRAST, within)]
    return lines


def check(page: Page) -> None:
    """Both themes, on the page as it stands."""
    lines = barriers(page)
    assert not lines, "\n".join(lines)


def sideways(page: Page, widths: Iterable[int] = WIDTHS) -> list[str]:
    """What is wider than the window, on the page as it stands."""
    lines = []
    for width in widths:
        page.set_viewport_size({"width": width, "height": 900})
        lines += [f"at {width} px: {line}" for line in page.evaluate(SIDEWAYS)]
    return lines


@dataclass(frozen=True)
class Look:
    """What is wrong with a page, by who says so: axe-core, the rulers of its targets and boxes, and the browser."""

    barriers: list[str]
    small: list[str]
    sideways: list[str]
    boxes: list[str]
    problems: list[str]


def look(page: Page, problems: list[str]) -> Look:
    """Returns what all say of a page that was opened at 1440 px, in light colours.

    The page is not painted any more afterwards."""
    barred, too_small, faults = barriers(page), small(page), boxes.faults(page, boxes.WIDTHS)
    return Look(barred, too_small, sideways(page), faults, problems)
