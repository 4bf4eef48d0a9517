"""The inbox by keyboard: from any page to what waits, beside it what happened, and on to the session."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect


def test_keys_lead_to_what_waits_and_to_its_session(page: Page) -> None:
    page.goto("/edits/")
    page.keyboard.press("i")
    page.wait_for_url("**/inbox/")
    first = page.locator(".inbox .rowlink").first
    expect(page.locator("#preview h2")).to_have_text(first.inner_text())
    page.keyboard.press("j")
    expect(first).to_be_focused()
    expect(page.locator("#preview h2")).to_have_text(first.inner_text())
    address = first.get_attribute("href") or "?"
    page.keyboard.press("o")
    page.wait_for_url("**/s/demo/**")
    expect(page.locator("#waits .card")).to_be_visible()
    assert address.partition("#")[0] in page.url


@pytest.mark.parametrize("key", ["o", "Enter"])
def test_the_row_that_looks_chosen_opens_by_its_keys_at_once(page: Page, key: str) -> None:
    page.goto("/inbox/")
    address = page.locator(".inbox .previewed .rowlink").get_attribute("href") or ""
    page.keyboard.press(key)
    page.wait_for_url(f"**{address.partition('?')[0]}**")


def test_a_call_on_a_phone_is_decided_in_the_line_of_its_user(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/inbox/")
    row = page.locator(".inbox tbody tr").first
    user, dismiss = row.locator(".who").bounding_box(), row.get_by_label("Dismiss…").bounding_box()
    assert user
    assert dismiss
    assert abs(user["y"] - dismiss["y"]) < 20
    row.get_by_label("Dismiss…").click()
    expect(row.locator("input[name=reason]")).to_be_in_viewport(ratio=1)


def test_a_double_click_sends_once_and_meets_nothing_below(page: Page) -> None:
    posts: list[str] = []
    page.on("request", lambda request: posts.append(request.url) if request.method == "POST" else None)
    page.goto("/inbox/")
    row = page.locator(".inbox tbody tr").first
    row.get_by_label("Dismiss…").click()
    row.locator("input[name=reason]").fill("paid by invoice")
    box = row.get_by_role("button", name="Dismiss", exact=True).bounding_box()
    assert box
    page.mouse.dblclick(box["x"] + 10, box["y"] + 10)
    undo = page.locator(".toast").get_by_role("button", name="Undo")
    expect(undo).to_be_visible()
    assert page.url.endswith("/inbox/")
    assert len(posts) == 1
    undo.click()
    expect(undo).to_have_count(0)


def test_what_a_button_opens_covers_the_buttons_of_the_next_row(page: Page) -> None:
    page.goto("/inbox/")
    page.get_by_label("Dismiss…").first.click()
    below = page.get_by_label("Dismiss…").nth(1).bounding_box()
    shown = "box => document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2).closest('.menu-items')"
    assert page.evaluate(f"box => Boolean(({shown})(box))", below)
