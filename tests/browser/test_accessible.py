"""axe-core finds nothing serious on any page, in light and in dark."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, StorageState, expect

from tests.browser.conftest import Sweep, Visit, Watch
from tests.browser.looks import check
from tests.browser.places import EACH_PAGE, PLACES, SEOUL, path
from tests.browser.serving import Adkweb
from tests.browser.targets import small
from tests.parts import in_two_parts, long_but


@pytest.mark.parametrize("name", long_but(PLACES, *EACH_PAGE))
def test_a_page_is_accessible_in_light_and_dark(sweep: Sweep, name: str) -> None:
    assert sweep(name).barriers == []


@in_two_parts(EACH_PAGE, PLACES)
def test_what_is_pressed_is_large_or_stands_alone(sweep: Sweep, names: list[str]) -> None:
    wrong = [f"{name}, {line}" for name in names for line in sweep(name).small]
    assert not wrong, "\n".join(wrong)


def test_the_ruler_of_targets_tells_what_is_too_small(page: Page) -> None:
    page.goto("/tokens/")
    assert small(page) == []
    page.evaluate("""() => {
        const [text, row, alone] = ["p", "p", "p"].map((name) => document.createElement(name));
        for (const [line, number] of [[text, 1], [row, 2], [alone, 1]]) {
            line.style.margin = "40px";
            line.append(...Array.from({ length: number }, () => Object.assign(document.createElement("a"), {
                href: "/", textContent: "x", className: line === row ? "close" : "" })));
        }
        text.prepend("In a line of text: ");
        document.querySelector("main").append(text, row, alone);
    }""")
    assert [line.partition(": ")[2] for line in small(page)] == ["a.close in p. “x”"] * 2


@pytest.mark.parametrize(
    ("density", "css", "told"),
    [
        ("events", ".wrote > a { min-block-size: auto !important }", "a. in span.wrote"),
        ("chat", ".message > .when { line-height: normal !important }", "a.when in li.message"),
    ],
)
def test_who_wrote_a_key_and_when_a_message_came_are_measured(page: Page, density: str, css: str, told: str) -> None:
    page.goto(path("s", *SEOUL, end=f"?density={density}"))
    expect(page.locator("#stats")).to_contain_text("event")
    assert small(page) == []
    page.evaluate("css => { (document.adoptedStyleSheets = [new CSSStyleSheet()])[0].replaceSync(css) }", css)
    assert told in "\n".join(small(page))


def test_signing_in_is_accessible_in_light_and_dark(
    visitor: Visit, server: Adkweb, signed_in: StorageState, watch: Watch
) -> None:
    watch.allow(403)
    page = visitor(server, color_scheme="light", reduced_motion="reduce")
    page.goto("/")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    check(page)
    page.goto(server.link)  # which signed_in has used up
    expect(page.get_by_role("alert")).to_contain_text("expired or has already been used")
    check(page)
