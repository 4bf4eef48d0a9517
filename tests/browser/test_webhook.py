"""A webhook, as a person sets it up: tested, told of what begins to match, and tried again."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visit, serve
from tests.browser.places import SEOUL, path, type_json
from tests.search.saved.receiver import receiver


@pytest.mark.long
def test_a_webhook_is_set_up_tested_and_told(tmp_path: Path, visitor: Visit) -> None:
    with receiver() as told:
        for server in serve(tmp_path, ADKWEB_WEBHOOK_HOSTS=f"127.0.0.1:{told.port}"):
            page = visitor(server)
            page.goto(server.link)
            page.goto("/sessions/?q=watchword")
            expect(page.locator(".results .empty")).to_be_visible()
            expect(page.get_by_text("Indexing")).to_have_count(0)
            page.get_by_text("Save view").click()
            page.keyboard.type("To be told of")
            page.keyboard.press("Enter")
            page.get_by_role("button", name="Watch").click()
            page.get_by_role("link", name="Webhook").click()
            page.get_by_label("URL").fill(told.url)
            page.get_by_role("button", name="Set up").click()
            expect(page.locator("#secret-text")).to_have_text(re.compile("^whsec_"))
            page.get_by_role("button", name="Send a test").click()
            expect(page.locator(".deliveries tbody tr")).to_have_count(1)
            expect(page.locator(".deliveries .badge.ok")).to_have_text("200")

            told.statuses = [503]
            other = page.context.new_page()
            other.goto(path("s", *SEOUL, end="add/"))
            type_json(other, json.dumps({"author": "user", "content": {"parts": [{"text": "the watchword"}]}}))
            other.get_by_role("button", name="Add event").click()
            expect(page.locator(".deliveries .badge.warn")).to_contain_text("503 · 1 try")
            told.statuses = [200]
            expect(page.locator(".deliveries .badge.ok")).to_have_count(2, timeout=30_000)
            assert [json.loads(body)["type"] for body in told.bodies] == ["test", "began", "began"]
            assert json.loads(told.bodies[-1])["session"]["title"] == "Seoul trip"
            page.context.close()
