"""A team shares adkweb: an admin, an editor, support and an auditor, each in a browser of their own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit, Watch, serve
from tests.browser.looks import check
from tests.browser.places import SEOUL, path, type_json
from tests.browser.serving import Adkweb

SESSION = path("s", *SEOUL)
OTHER = path("s", "demo", "support", "omar@example.com", "refund")
SECRET = "tok_demo_9e36cab4"  # ana's card, in examples/demo.db
PASSWORD = "four words of the team"


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Adkweb]:
    """adkweb on the demo, whose printed link nobody has opened."""
    yield from serve(tmp_path)


def choose_from_menu(page: Page, name: str) -> None:
    page.locator(".topbar details.menu > summary").click()
    page.locator(".menu-items").get_by_role("link", name=name).click()


def invited(admin: Page, guest: Page, name: str, role: str = "", apps: str = "") -> Page:
    """Somebody who opened the link that the admin made for them, and chose a name and a password."""
    admin.goto("/people/")
    admin.locator("summary", has_text="Invite someone").click()
    admin.get_by_label("For", exact=True).fill(name)
    admin.get_by_label("Role", exact=True).select_option(role)
    admin.get_by_label("Apps", exact=True).fill(apps)
    admin.get_by_role("button", name="Create link").click()
    guest.goto(admin.locator("#invitation-link").inner_text())
    guest.get_by_label("Name").fill(name)
    guest.get_by_label("Password").fill(PASSWORD)
    guest.get_by_role("button", name="Create account").click()
    expect(guest.locator(".topbar details.menu > summary")).to_contain_text(name)
    return guest


def give(admin: Page, role: str, person: str, apps: str = "", *, reveals: bool = False) -> None:
    admin.goto("/roles/")
    admin.locator("summary", has_text="Give a role").click()
    admin.get_by_label("Who").select_option(f"person:{person}")
    admin.get_by_role("radio", name=role).check()
    admin.get_by_label("Apps", exact=True).fill(apps)
    admin.get_by_label("Can reveal masked values, with a reason").set_checked(reveals)
    admin.get_by_role("button", name="Give role").click()
    expect(admin.get_by_role("row", name=person).filter(has_text=role)).to_be_visible()


def propose_tier(editor: Page, value: str) -> None:
    editor.goto(f"{SESSION}edit/?" + urlencode({"key": "user:tier"}))
    expect(editor.get_by_text("Needs approval by another editor")).to_be_visible()
    type_json(editor, json.dumps(value))
    editor.get_by_label("Reason").fill("by phone, ticket 512")
    editor.get_by_role("button", name="Apply").click()
    expect(editor.get_by_role("heading", name="Proposals")).to_be_visible()


@pytest.mark.long
def test_a_team_works_with_what_each_of_them_may(team: Adkweb, visitor: Visit, watch: Watch) -> None:
    watch.allow(404)  # the sessions of other apps, asked for below
    admin, sam, eva, audra = (visitor(team) for _ in range(4))
    admin.goto(team.link)
    invited(admin, sam, "sam", "viewer", "booking")
    for page, name in ((eva, "eva"), (audra, "audra")):
        invited(admin, page, name)
    eva.goto("/")
    expect(eva.locator("main")).not_to_contain_text("booking")
    give(admin, "editor", "eva", "booking*", reveals=True)
    give(admin, "auditor", "audra")

    admin.goto("/masking/")
    admin.get_by_label("Pattern").fill("*token*")
    admin.get_by_role("button", name="Add", exact=True).click()
    expect(admin.get_by_role("row", name="*token*")).to_be_visible()
    admin.goto("/approval/")
    admin.get_by_role("textbox", name="Keys").fill("user:tier")
    admin.get_by_role("button", name="Create rule").click()
    expect(admin.get_by_role("row", name="user:tier")).to_be_visible()
    admin.goto("/tokens/")
    admin.get_by_label("Name", exact=True).fill("booking-agent")
    admin.get_by_label("Days until it expires").fill("30")
    admin.get_by_role("button", name="Create token").click()
    expect(admin.locator("#token-text")).to_have_text(re.compile(r"^\S{20,}$"))

    # Support: one app, no secret, nothing to write with. Other apps are as if they did not exist.
    sam.goto("/")
    expect(sam.locator("main")).to_contain_text("booking")
    expect(sam.locator("main")).not_to_contain_text("refund")
    refused = sam.goto(OTHER)
    assert refused is not None
    assert refused.status == 404
    sam.goto(SESSION)
    state = sam.locator("#state")
    expect(state).to_contain_text("••••")
    assert SECRET not in sam.content()
    expect(sam.get_by_role("link", name="Edit state")).to_have_count(0)

    # The editor proposes; the second person applies; support sees it arrive, with both names.
    propose_tier(eva, "platinum")
    check(eva)
    expect(state).to_contain_text('"gold"')
    admin.goto("/")
    choose_from_menu(admin, "Proposals 1")
    expect(admin.get_by_role("button", name="Apply")).to_be_visible()
    check(admin)
    admin.get_by_role("button", name="Apply").click()
    expect(state).to_contain_text('"platinum"')
    expect(sam.locator(".inv").last).to_contain_text("eva")
    expect(sam.locator(".inv").last).to_contain_text("by phone, ticket 512")
    propose_tier(eva, "diamond")
    admin.goto("/proposals/")
    admin.get_by_text("Decline…").click()
    admin.get_by_label("Reason for declining").fill("one tier at a time")
    admin.get_by_role("button", name="Decline", exact=True).click()
    eva.goto("/proposals/?own=1")
    expect(eva.get_by_text("one tier at a time")).to_be_visible()

    # A secret is shown to who may see it, for a reason; files have dots, too.
    eva.goto(SESSION)
    eva.locator("#state [data-key-row='user:card_token']").hover()
    eva.get_by_role("link", name="Reveal user:card_token").click()
    eva.get_by_label("Reason").fill("refund 2026-114")
    eva.get_by_role("button", name="Reveal").click()
    expect(eva.locator("main pre")).to_have_text(json.dumps(SECRET))
    eva.goto(SESSION)
    eva.locator("summary", has_text="Share").click()
    with eva.expect_download() as download:
        eva.get_by_role("button", name="jsonl").first.click()
    assert SECRET not in download.value.path().read_text("utf-8")

    # A rule that is made while Sam looks is seen on his page at once, in the state and in the timeline.
    sam.goto(SESSION)
    expect(sam.locator("#events")).to_contain_text("platinum")
    admin.goto("/masking/")
    admin.locator("summary", has_text="New rule").click()
    admin.get_by_label("Pattern").fill("user:tier")
    admin.get_by_role("button", name="Add", exact=True).click()
    expect(sam.locator("#events")).not_to_contain_text("platinum")
    expect(state).not_to_contain_text("platinum")

    # The auditor reads who did what, and no session.
    audra.goto("/audit/")
    for act, who in (
        ("proposed", "eva"),
        ("role-given", "root"),
        ("token-created", "root"),
        ("revealed", "eva"),
        ("exported", "eva"),
    ):
        named = audra.locator(f"[title='{act}']")
        expect(audra.get_by_role("row").filter(has=named).filter(has_text=who).first).to_be_visible()
    check(audra)
    refused = audra.goto(SESSION)
    assert refused is not None
    assert refused.status == 404
    with audra.expect_download() as download:
        audra.goto("/audit/")
        audra.get_by_role("link", name="Download as JSON lines").click()
    rows = [json.loads(line) for line in download.value.path().read_text("utf-8").splitlines()]
    assert {"proposed", "role-given", "sign-in"} <= {row["act"] for row in rows if "act" in row}
    assert SECRET not in json.dumps(rows)
    team.run("doctor", "--audit")
