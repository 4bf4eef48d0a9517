"""Whatever an agent, a user or a model wrote is shown as text: nothing of it runs, and nothing of it is in the way."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Watch
from tests.browser.places import open_event, open_form, path, type_json
from tests.browser.seed import BREAKOUT, EMOJI, GOOD, HOSTILE, IMAGE, LINK, REVERSED, SCRIPT, SVG, TEMPLATE, TEXTS

SESSION: Final = path("s", *HOSTILE)
PLACES: Final = {
    "home": "/",
    "app": path("a", *HOSTILE[:2]),
    "schema": path("a", *HOSTILE[:2], end="schema/"),
    "users": path("a", *HOSTILE[:2], end="users/"),
    "user": path("u", *HOSTILE[:3]),
    "all sessions": "/sessions/?cols=user,app,source,error,tags,%22state.<img src=x onerror=injected=1>%22",
    "all sessions, searched": f"/sessions/?q={IMAGE}",
    "sessions": path("a", *HOSTILE[:2], end="sessions/"),
    "session": SESSION,
    "chat": SESSION + "?density=chat",
    "an author's events": SESSION + "?author=%3Cscript%3Ealert(1)%3C/script%3E",
    "artifacts": SESSION + "artifacts/",
    "an artifact": SESSION + "artifacts/?" + urlencode({"name": IMAGE}),
    "two versions of an artifact": SESSION + "artifacts/compare/?" + urlencode({"name": IMAGE}),
    "trace": SESSION + "?density=trace",
    "two runs": SESSION + "compare/?with=" + path("s", *GOOD),
    "other runs": SESSION + "compare/?find=" + IMAGE,
    "edits": "/edits/",
    "add event": SESSION + "add/",
    "delete": SESSION + "delete/",
    "new session": f"/sessions/new/?source={SCRIPT}&app_name={BREAKOUT}&user_id={IMAGE}&state={SCRIPT}",
}
# What only an escape that was forgotten puts into a page.
FOREIGN: Final = """() => [
    ...(["injected"].filter((name) => name in window)),
    ...[...document.links].filter((link) => !/^https?:$/.test(link.protocol)).map((link) => link.href),
    ...[...document.scripts].filter((script) => !script.src).map((script) => script.outerHTML),
    ...[...document.querySelectorAll("img[src=x], iframe, object, embed, [onload], [onerror]")].map((e) => e.outerHTML),
]"""


def check(page: Page) -> None:
    """Nothing foreign is in the page; what tries to run is refused by the CSP, which fails the test, too."""
    assert page.evaluate(FOREIGN) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"


@pytest.mark.parametrize("place", PLACES)
def test_a_page_shows_hostile_names_as_text(page: Page, place: str) -> None:
    page.goto(PLACES[place])
    check(page)
    page.set_viewport_size({"width": 390, "height": 844})
    check(page)


def test_the_session_shows_hostile_keys_values_and_events_as_text(page: Page) -> None:
    page.goto(SESSION)
    expect(page.get_by_role("heading", level=1)).to_have_text(IMAGE)
    keys = page.locator("#state .key").all_text_contents()
    for prefix in ("", "user:", "app:"):
        assert {prefix + text for text in TEXTS} <= set(keys)
    for text in (SCRIPT, IMAGE, LINK, TEMPLATE, REVERSED, EMOJI):
        expect(page.locator(".ev .line").get_by_text(text, exact=True).first).to_be_attached()
    page.locator("#state details").evaluate_all("all => all.forEach((each) => { each.open = true })")
    check(page)
    # What turns the reading direction round stays inside its own key or value.
    after = page.locator(".ev", has_text=REVERSED).first.locator(".meta")
    assert after.evaluate("element => getComputedStyle(element.parentElement).direction") == "ltr"


def test_each_hostile_event_opens_beside_the_timeline_and_as_a_page(page: Page) -> None:
    page.goto(SESSION)
    lines = page.locator(".ev .line")
    addresses = lines.evaluate_all("all => all.map((each) => each.getAttribute('href'))")
    assert len(addresses) > 8 * len(TEXTS)
    for address in addresses[:9] + addresses[-5:]:
        page.locator(f'.ev .line[href="{address}"]').dispatch_event("click")
        expect(page.locator(f'.ev.selected .line[href="{address}"]')).to_be_attached()
        expect(page.locator("#moment .staterow").first).to_be_attached()
        check(page)
        page.locator("#show-event").click()
        expect(page.locator(f'#detail .detailhead a[href="{address}"]')).to_be_visible()
        check(page)
        page.locator("#show-merged").click()
    for address in addresses[:9] + addresses[-5:]:
        page.goto(address)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        check(page)


@pytest.mark.parametrize("address", ["?density=chat", "e/markdown/", "e/markdown/?text=raw"])
def test_a_hostile_message_runs_nothing_and_asks_nobody(page: Page, address: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(SESSION + address)
    page.locator("details").evaluate_all("all => all.forEach((each) => { each.open = true })")
    text = page.locator(".md, .plaintext").filter(has_text="a reference").last
    expect(text).to_be_visible()
    expect(text).to_contain_text(SCRIPT)
    check(page)
    for link in text.get_by_role("link").all():
        assert (link.get_attribute("href") or "").startswith("https://evil.example/")
        assert link.get_attribute("rel") == "noopener noreferrer nofollow"
    assert text.locator("img, svg, style, form, script, [id], [style]").count() == 0
    assert not [url for url in asked if "evil.example" in url]


def test_hostile_keys_are_edited_like_any_other(page: Page) -> None:
    open_form(page, HOSTILE, SCRIPT, f"user:{BREAKOUT}", f"app:{EMOJI}")
    check(page)
    expect(page.locator(".editrow")).to_have_count(3)
    type_json(page, '"</script><script>window.injected=1</script>"', 1)
    page.get_by_label("Reason").fill(BREAKOUT)
    page.get_by_label("Key to edit or add").fill(f"another {IMAGE}")
    page.get_by_role("button", name="Another key").click()
    expect(page.locator(".editrow")).to_have_count(4)
    type_json(page, '"<img src=x onerror=injected=1>"', 3)
    check(page)
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_text("Saved as event #")).to_be_visible()
    expect(page.locator(".inv").last).to_contain_text(BREAKOUT)
    names = page.locator(".ev").last.locator(".delta .name")
    assert [name.get_attribute("title") for name in names.all()] == [f"user:{BREAKOUT}", f"another {IMAGE}"]
    check(page)


@pytest.mark.parametrize("kind", ["svg+xml", "html", "png"])
def test_data_that_could_carry_a_script_runs_nowhere(page: Page, kind: str) -> None:
    page.goto(f"{SESSION}e/blob-{kind}/")
    check(page)
    link = page.get_by_role("link", name="Download").first
    answer = page.request.get(link.get_attribute("href") or "")
    assert answer.ok
    assert answer.headers["x-content-type-options"] == "nosniff"
    if kind == "png":
        assert answer.headers["content-type"] == "image/png"
    else:
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"].startswith("attachment")
        assert "sandbox" in answer.headers["content-security-policy"]


def test_an_event_of_five_megabytes_is_cut_and_can_be_had_whole(page: Page) -> None:
    page.goto(SESSION)
    assert len(page.content()) < 1_000_000
    line = page.locator('.ev .line[href$="/e/big/"]')
    open_event(page, line)
    expect(page.locator("#detail .parts")).to_contain_text("yyyy")
    assert len(page.content()) < 1_500_000
    check(page)
    page.goto(f"{SESSION}e/big/")
    expect(page.locator(".parts")).to_contain_text(SCRIPT)
    check(page)
    whole = page.get_by_role("link", name="show all").first.get_attribute("href") or ""
    assert len(page.request.get(whole).body()) > 5_000_000


@pytest.mark.parametrize("end", ["", "image/"])
def test_a_hostile_artifact_is_shown_as_text_and_never_opened(page: Page, watch: Watch, end: str) -> None:
    page.goto(PLACES["an artifact"])
    expect(page.locator(".artifacttext")).to_contain_text("<script>")
    check(page)
    address = page.get_by_role("link", name="Download").get_attribute("href") or ""
    if end:  # it says that it is an image, and is none
        watch.allow(404)
        page.goto(address + end)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
    else:
        with page.expect_download() as download:
            page.keyboard.press("d")
        assert download.value.path().read_bytes().decode() == SVG
        assert page.request.get(address).headers["content-security-policy"] == "default-src 'none'; sandbox"
    check(page)
