"""A test of a session is copied as it would be downloaded."""

from __future__ import annotations

from playwright.sync_api import Page, expect


def test_each_test_is_copied_as_it_would_be_downloaded(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto("/s/demo/booking/ana/seoul-trip/")
    page.locator(".sharing > summary").click()
    page.get_by_role("link", name="Make a test").click()
    for name in ("A test for pytest", "An eval case for adk eval"):
        test = page.get_by_role("article", name=name)
        with page.expect_download() as download:
            test.get_by_role("button", name="Download").click()
        page.evaluate("navigator.clipboard.writeText('')")
        test.get_by_role("button", name="Copy").click()
        expect(page.locator("#copy-status")).to_have_text("Copied")
        assert page.evaluate("navigator.clipboard.readText()") == download.value.path().read_text()
        expect(page.locator("#copy-status")).to_have_text("")
