"""In forced colours (Windows' contrast themes) our backgrounds are not painted: the system's colours tell what is chosen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Visit
from tests.browser.places import SEOUL, path
from tests.browser.seed import TRAVEL


def style(element: Locator, name: str, pseudo: str = "") -> str:
    """A computed style of an element, as it is drawn."""
    script = "(element, [name, pseudo]) => getComputedStyle(element, pseudo || null)[name]"
    return str(element.evaluate(script, [name, pseudo]))


def system(page: Page, colour: str) -> str:
    """A colour of the system in this theme: "Highlight" may be "rgb(55, 52, 110)"."""
    script = """colour => {
        const probe = document.createElement("i");
        probe.style.backgroundColor = colour;
        document.body.append(probe);
        const { backgroundColor } = getComputedStyle(probe);
        probe.remove();
        return backgroundColor;
    }"""
    return str(page.evaluate(script, colour))


def forced(visit: Visit, width: int = 1440) -> Page:
    """A page of somebody who has a contrast theme."""
    return visit(forced_colors="active", reduced_motion="reduce", viewport={"width": width, "height": 900})


def themes(*pages: Page) -> Iterator[None]:
    """Makes the contrast theme of pages a light and a dark one, in turn."""
    both: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    for theme in both:
        for page in pages:
            page.emulate_media(color_scheme=theme)
        yield


@pytest.mark.long
def test_the_selected_event_and_what_is_current_have_the_colour_of_a_selection(visit: Visit) -> None:
    page, narrow = forced(visit), forced(visit, 390)
    page.goto(path("s", *TRAVEL, end="?at=t390"))
    narrow.goto(path("s", *TRAVEL))
    selected, other = page.locator(".ev.selected"), page.locator(".ev:not(.selected, .edit, .error)").first
    expect(selected).to_have_count(1)
    for _ in themes(page, narrow):
        highlight, canvas = system(page, "Highlight"), system(page, "Canvas")
        assert highlight != canvas
        for row, colour in ((selected, highlight), (other, canvas)):
            assert style(row, "borderInlineStartColor") == colour
        assert style(selected.locator(".seq"), "backgroundColor") == highlight
        assert style(other.locator(".seq"), "backgroundColor") != highlight
        assert style(page.locator(".cursor"), "borderInlineStartColor") == highlight
        for current, others in (
            ("[data-densities] [aria-current]", "[data-densities] a:not([aria-current])"),
            (".toolbar .chip[aria-current]", ".toolbar .chip:not([aria-current])"),
            ("[data-moment] .momenttabs [aria-current]", "[data-moment] .momenttabs a:not([aria-current])"),
        ):
            expect(page.locator(current)).to_have_count(1)
            assert style(page.locator(current), "backgroundColor") == highlight, current
            assert style(page.locator(current), "color") == system(page, "HighlightText"), current
            assert style(page.locator(others).first, "backgroundColor") != highlight, others
        colours = [style(tab, "backgroundColor") for tab in narrow.get_by_role("tab").all()]
        assert [colour == highlight for colour in colours] == [False, True, False, False]


def test_scopes_have_names_and_colours_of_their_own(visit: Visit) -> None:
    page = forced(visit)
    page.goto(path("s", *SEOUL))
    heads = page.locator("#groups .scope")
    expect(heads).to_contain_text(["Session", "User", "App"])
    for _ in themes(page):
        colours = {style(head, "backgroundColor", "::before") for head in heads.all()}
        assert len(colours) == 3
        assert system(page, "Canvas") not in colours
    for scope in ("app", "user"):
        names = page.locator(f".ev .delta.{scope}").all_inner_texts()
        assert names
        assert all(name.startswith(f"{scope}:") for name in names)


@pytest.mark.long
def test_failures_and_edits_differ_on_the_strip_and_are_drawn(visit: Visit) -> None:
    page = forced(visit)
    page.goto(path("s", *SEOUL))
    expect(page.locator(".track .bar.error")).not_to_have_count(0)
    kinds = (".bar[class*=agent-]", ".bar.error", ".bar.edit")
    drawn = [page.locator(f".legend :is({kind})").first for kind in kinds]
    for _ in themes(page):
        fills = [style(bar, "fill") for bar in drawn]
        assert len({*fills, system(page, "Canvas")}) == 4
        assert style(page.locator(".track .bar.error").first, "fill") == fills[1] != style(drawn[1], "stroke") != "none"
        assert style(page.locator(".track .call.failed").first, "fill") == fills[1]


@pytest.mark.long
def test_the_focus_is_drawn_wherever_it_is(visit: Visit) -> None:
    page = forced(visit)
    page.goto(path("s", *SEOUL))
    expect(page.locator("#travel")).to_be_visible()
    page.locator(".ev .line").last.focus()
    page.keyboard.press("k")
    link = page.locator(".ev .line:focus")  # which is as large as its row
    for _ in themes(page):
        drawn = [style(link, f"outline{part}", "::after") for part in ("Style", "Width", "Color")]
        assert drawn == ["solid", "2px", system(page, "CanvasText")]
    page.evaluate("document.activeElement.blur()")
    text = system(page, "CanvasText")
    for _stop in range(40):
        page.keyboard.press("Tab")
        focused = page.locator("*:focus")
        if focused.count() and focused.evaluate("element => !element.matches('.ev .line')"):
            name = focused.evaluate("element => element.outerHTML.slice(0, 80)")
            assert [style(focused, f"outline{part}") for part in ("Style", "Color")] == ["solid", text], name
