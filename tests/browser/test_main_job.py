"""The job that adkweb exists for: see what is in the state, correct it, and never overwrite somebody unseen."""

from __future__ import annotations

import asyncio
import getpass
from concurrent.futures import ThreadPoolExecutor

from google.adk.sessions import Session
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Visit, Watch
from tests.browser.places import SEOUL, path, type_json
from tests.browser.serving import Adkweb

ME = getpass.getuser()
MARIA = {"DJANGO_SUPERUSER_USERNAME": "maria@example.com", "DJANGO_SUPERUSER_PASSWORD": "correct horse battery staple"}


def test_two_people_correct_a_key_and_google_adk_reads_both_edits(
    own_server: Adkweb, visitor: Visit, watch: Watch
) -> None:
    watch.allow(409)
    own_server.run("createsuperuser", "--noinput", "--email", "maria@example.com", variables=MARIA)
    mine, marias = visitor(own_server), visitor(own_server)

    # Maria has the form open, with the value as it is, before anything happens.
    marias.goto("/")
    marias.get_by_label("Name").fill(MARIA["DJANGO_SUPERUSER_USERNAME"])
    marias.get_by_label("Password").fill(MARIA["DJANGO_SUPERUSER_PASSWORD"])
    marias.get_by_role("button", name="Sign in").click()
    expect(marias.get_by_role("link", name="booking", exact=True)).to_be_visible()
    marias.goto(path("s", *SEOUL))
    choose_key(marias, "user:tier")
    expect(marias.locator("json-editor .cm-content")).to_have_text("gold")

    # I open the printed link, and go to the session.
    mine.goto(own_server.link)
    expect(mine.get_by_role("heading", name="demo")).to_be_visible()
    mine.get_by_role("link", name="booking", exact=True).click()
    mine.get_by_role("row").get_by_role("link", name="Seoul trip", exact=True).first.click()
    expect(mine.get_by_role("heading", name="Seoul trip")).to_be_visible()
    expect(mine.locator(".ev")).to_have_count(50)
    expect(mine.locator(".ev").last).to_be_in_viewport(ratio=1)
    for scope, key in (("Session", "booking_step"), ("User", "user:tier"), ("App", "app:version")):
        expect(panel(mine).get_by_role("heading", name=scope).first).to_be_visible()
        expect(panel(mine).get_by_text(key, exact=True)).to_be_attached()
    expect(value(mine, "user:tier")).to_have_text('"gold"')

    # I edit a key with a reason, and see what will change before it is sent.
    choose_key(mine, "user:tier")
    type_json(mine, '"platinum"')
    expect(mine.locator("json-editor .cm-deletedChunk")).to_have_text("gold")
    expect(mine.locator("json-editor .cm-changedLine")).to_have_text("platinum")
    expect(mine.locator("json-editor .json-type")).to_have_text("string")
    type_json(mine, "[1, 2]")
    expect(mine.locator("json-editor .json-type")).to_have_text("array [2]")
    type_json(mine, '"platinum"')
    mine.get_by_label("Reason").fill("she has 3 trips")
    mine.get_by_role("button", name="Apply").click()

    # It is in the timeline and in the state.
    expect(mine.get_by_text("Saved as event #")).to_be_visible()
    expect(mine.locator(".ev")).to_have_count(51)
    last = mine.locator(".ev").last
    expect(last).to_be_in_viewport()
    expect(last.locator(".delta.user .name")).to_have_text("user:tier")
    expect(last.locator(".delta.user del")).to_have_text('"gold"')
    expect(last.locator(".delta.user b")).to_have_text('"platinum"')
    expect(mine.locator(".inv").last).to_contain_text(f"by {ME}")
    expect(mine.locator(".inv").last).to_contain_text("she has 3 trips")
    expect(value(mine, "user:tier")).to_have_text('"platinum"')

    # Maria, whose page knows nothing of it, is told instead of overwriting it.
    type_json(marias, '"silver"')
    marias.get_by_label("Reason").fill("by contract")
    marias.get_by_role("button", name="Apply").click()
    expect(marias.get_by_role("alert")).to_contain_text("Nothing was written.")
    expect(marias.locator(".theirs")).to_contain_text('"platinum"')
    expect(marias.locator(".theirs")).to_contain_text(ME)
    expect(marias.locator(".yours")).to_contain_text('"silver"')
    expect(marias.get_by_label("Reason")).to_have_value("by contract")
    marias.get_by_label("Write mine").check()
    marias.get_by_role("button", name="Apply my choice").click()
    expect(marias.get_by_text("Saved as event #")).to_be_visible()
    expect(value(marias, "user:tier")).to_have_text('"silver"')
    expect(marias.locator(".ev").last.locator("del")).to_have_text('"platinum"')

    # Both edits are in the list of edits ...
    mine.goto("/edits/")
    rows = mine.locator("tbody tr")
    expect(rows).to_have_count(2)
    for row, words in zip(
        rows.all(),
        (("maria@example.com", '"platinum"', '"silver"', "by contract"), (ME, '"gold"', '"platinum"', "3 trips")),
        strict=True,
    ):
        for word in words:
            expect(row).to_contain_text(word)

    # ... and an agent meets both: in its state, and as events.
    session = read_by_google_adk(str(own_server.demo))
    assert session.state["user:tier"] == "silver"
    edits = [event for event in session.events if "adkweb" in (event.custom_metadata or {})]
    assert [(event.author, event.actions.state_delta) for event in edits] == [
        ("system", {"user:tier": "platinum"}),
        ("system", {"user:tier": "silver"}),
    ]
    assert [event.custom_metadata["adkweb"] for event in edits if event.custom_metadata] == [
        {"actor": ME, "reason": "she has 3 trips", "replaced": {"user:tier": "gold"}, "removed": []},
        {
            "actor": "maria@example.com",
            "reason": "by contract",
            "replaced": {"user:tier": "platinum"},
            "removed": [],
        },
    ]


def panel(page: Page) -> Locator:
    """The state beside the timeline."""
    return page.locator("#state")


def value(page: Page, key: str) -> Locator:
    """A key's value in the state panel."""
    return page.locator(f"#state .kv:has(> .key[title='{key}']) > .value")


def choose_key(page: Page, key: str) -> None:
    """Opens the edit form by `e`, and asks for a key."""
    page.keyboard.press("e")
    expect(page.get_by_label("Key to edit or add")).to_be_focused()
    page.keyboard.type(key)
    page.keyboard.press("Enter")
    expect(page.locator("json-editor .cm-content")).to_be_focused()


def read_by_google_adk(file: str) -> Session:
    """The session as an agent loads it; in a thread, because Playwright's event loop runs in this one."""

    async def read() -> Session | None:
        return await SqliteSessionService(file).get_session(
            app_name=SEOUL.app_name, user_id=SEOUL.user_id, session_id=SEOUL.session_id
        )

    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(asyncio.run, read()).result()
    assert found is not None
    return found
