"""Whatever an agent, a user or a model wrote is shown as text: nothing of it runs, and nothing of it is in the way."""

from __future__ import annotations

import json
from typing import Final
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page, StorageState, expect

from tests.browser.conftest import Visit, Watch
from tests.browser.hostile import PAGES, SESSION, STATUSES, address_of
from tests.browser.places import add_key, open_event, open_form, type_json
from tests.browser.seed import BREAKOUT, EMOJI, HOSTILE, IMAGE, LINK, REVERSED, SCRIPT, SVG, TEMPLATE, TEXTS
from tests.browser.serving import Adkweb
from tests.browser.watching import AS_CLICKED
from tests.parts import long_but
from tests.support import warm

# What only an escape that was forgotten puts into a page.
FOREIGN: Final = """() => [
    ...(["injected"].filter((name) => name in window)),
    ...[...document.links].filter((link) => !/^https?:$/.test(link.protocol)).map((link) => link.href),
    ...[...document.scripts].filter((script) => !script.src).map((script) => script.outerHTML),
    ...[...document.querySelectorAll("img[src=x], iframe, object, embed, [onload], [onerror]")].map((e) => e.outerHTML),
]"""

TWICE: Final = """() => [...document.querySelectorAll("[id]")].map((each) => each.id)
    .filter((id, at, all) => all.indexOf(id) !== at)"""


def check(page: Page) -> None:
    """Nothing foreign is in the page; what tries to run is refused by the CSP, which fails the test, too."""
    assert page.evaluate(FOREIGN) == []
    assert page.evaluate(TWICE) == [], "an id stands twice"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"


@pytest.fixture(scope="module")
def made(browser: Browser, server: Adkweb, signed_in: StorageState) -> dict[str, str]:
    """The ids of what people made, with attacks in it.

    Pages are told of its rules of masking, and load themselves again, before a test opens one."""
    command = server.command("-m", "tests.browser.seed_trust", str(server.folder))
    with browser.new_context(base_url=server.address, storage_state=signed_in) as context:
        home = context.new_page()
        home.goto("/")
        done = warm.run(command, cwd=server.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        made: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
        expect(home.locator("[data-live]")).to_have_attribute("data-mask", made["mask"])
    return made


@pytest.mark.long
def test_before_the_sign_in_hostile_names_are_text(
    visitor: Visit, server: Adkweb, made: dict[str, str], watch: Watch
) -> None:
    watch.allow(400, 403, 404)
    page = visitor(server)
    for address in (
        "/sign-in/?" + urlencode({"next": LINK, "token": SCRIPT}),
        "/sign-in/code/",
        "/join/?" + urlencode({"token": SCRIPT}),
        "/join/#" + made["invitation"],
    ):
        page.goto(address)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        check(page)


# That all of them show hostile names as text, web/test_hostile_pages.py sees by their HTML.
@pytest.mark.parametrize("place", long_but(PAGES, "home", "all sessions", "chat", "audit"))
def test_a_page_of_hostile_names_runs_nothing_and_fits(
    page: Page, watch: Watch, made: dict[str, str], place: str
) -> None:
    watch.allow(*filter(None, [STATUSES.get(place)]))
    page.goto(address_of(place, made))
    check(page)
    page.set_viewport_size({"width": 390, "height": 844})
    check(page)


def test_the_session_shows_hostile_keys_values_and_events_as_text(page: Page) -> None:
    page.add_init_script(AS_CLICKED)
    page.goto(SESSION)
    expect(page.get_by_role("heading", level=1)).to_have_text(IMAGE)
    page.get_by_role("link", name="Earlier events").click()
    expect(page.locator(".ev .seq").first).to_have_text("1")
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


def addresses_of_events(page: Page) -> list[str]:
    """The addresses of what the timeline shows."""
    addresses: list[str] = page.locator(".ev .line").evaluate_all("all => all.map((each) => each.getAttribute('href'))")
    return addresses


# Of the eight kinds of event, half; that all of them are text, web/test_hostile_pages.py sees by their HTML. The last are
# files, Markdown and a large one, which the tests below show, too.
@pytest.mark.parametrize("kinds", long_but([slice(1, 9, 2), slice(2, 9, 2), slice(-5, None)], slice(1, 9, 2)), ids=str)
def test_a_hostile_event_of_each_kind_opens_beside_the_timeline(page: Page, kinds: slice) -> None:
    page.goto(SESSION)
    for address in addresses_of_events(page)[kinds]:
        page.locator(f'.ev .line[href="{address}"]').dispatch_event("click")
        expect(page.locator(f'.ev.selected .line[href="{address}"]')).to_be_attached()
        expect(page.locator("#moment .staterow").first).to_be_attached()
        check(page)
        page.locator("#show-event").click()
        expect(page.locator(f'#detail .detailhead a[href="{address}"]')).to_be_visible()
        check(page)
        page.locator("#show-state").click()


@pytest.mark.long
def test_a_hostile_event_opens_as_a_page(page: Page) -> None:
    page.goto(SESSION)
    for address in addresses_of_events(page)[-5:]:
        page.goto(address)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        check(page)


@pytest.mark.guarantee("Safety", "Whatever the text in a session contains, it can't run code on any page.")
@pytest.mark.parametrize("address", long_but(["?density=chat", "e/markdown/", "e/markdown/?text=raw"], "?density=chat"))
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
    add_key(page, f"another {IMAGE}")
    expect(page.locator(".editrow")).to_have_count(4)
    type_json(page, '"<img src=x onerror=injected=1>"', 3)
    check(page)
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_text("Saved as event #")).to_be_visible()
    expect(page.locator(".inv").last).to_contain_text(BREAKOUT)
    names = page.locator(".ev").last.locator(".delta .name")
    assert [name.get_attribute("title") for name in names.all()] == [f"user:{BREAKOUT}", f"another {IMAGE}"]
    check(page)


@pytest.mark.parametrize("kind", long_but(["svg+xml", "html", "png"], "svg+xml"))
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


@pytest.mark.long
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
    page.goto(PAGES["an artifact"])
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
