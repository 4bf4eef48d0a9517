"""Where there is little room: what tells things apart stays in sight, and what asks for a choice comes first."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser import boxes
from tests.browser.conftest import Visit, Watch
from tests.browser.places import SEOUL, path
from tests.browser.seed import FAMILY, FAMILY_KEYS, TRAVEL
from tests.parts import long_but

NARROW = {"width": 390, "height": 844}
# The text of an element that is in sight: characters whose box lies within it and within each .start around them.
IN_SIGHT = """(element) => {
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    const range = document.createRange();
    let seen = "";
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const edge = node.parentElement.closest(".start, .key, .name").getBoundingClientRect().right;
        for (let at = 0; at < node.length; at += 1) {
            range.setStart(node, at);
            range.setEnd(node, at + 1);
            if (range.getBoundingClientRect().right <= edge + 1) seen += node.data[at];
        }
    }
    return seen;
}"""


def seen(locator: Locator) -> list[str]:
    """What can be read of each."""
    return [str(each.evaluate(IN_SIGHT)) for each in locator.all()]


@pytest.mark.parametrize("width", long_but([390, 1440], 390))
@pytest.mark.parametrize(
    ("address", "names"),
    [
        ("", "#state .key[title^=feature]"),
        ("history/", ".keylist .name[title^=feature]"),
        ("e/all/undo/", ".editrow .name"),
    ],
)
def test_keys_that_differ_at_their_ends_can_be_told_apart(visit: Visit, width: int, address: str, names: str) -> None:
    page = visit(viewport={"width": width, "height": 900})
    page.goto(path("s", *FAMILY, end=address))
    if not address and width == NARROW["width"]:
        page.get_by_role("tab", name="State").click()
    expect(page.locator(names)).to_have_count(len(FAMILY_KEYS))
    assert len(set(seen(page.locator(names)))) == len(FAMILY_KEYS)
    # Cut or not, it is one word: what is copied is the key.
    assert set(page.locator(names).all_inner_texts()) == set(FAMILY_KEYS)


NAMED = """(links) => {
    const soft = () => document.createElement("wbr");
    for (const link of links) link.replaceChildren("yolanda.reed@", soft(), "example.", soft(), "com");
    return links.map((link) => link.getBoundingClientRect().height);
}"""


def test_a_user_who_is_an_e_mail_address_has_one_line_in_the_table_of_sessions(page: Page) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(path("a", "demo", "booking"))
    expect(page.locator(".table.brief td.bidi > a").first).to_be_visible()
    assert max(page.locator(".table.brief td.bidi > a").evaluate_all(NAMED)) < 30


@pytest.mark.long
def test_a_name_is_cut_only_where_there_is_no_room(page: Page) -> None:
    page.goto(path("s", *FAMILY, end="history/"))
    expect(page.locator(".keylist .name[title^=feature]").first).to_be_visible()
    assert set(seen(page.locator(".keylist .name[title^=feature]"))) == set(FAMILY_KEYS)
    page.set_viewport_size({"width": 300, "height": 844})
    assert not set(seen(page.locator(".keylist .name[title^=feature]"))) & set(FAMILY_KEYS)


def test_who_wrote_a_key_has_the_room_that_its_value_leaves_and_a_longer_value_keeps_its_own(page: Page) -> None:
    page.goto(path("s", *SEOUL))
    for key in ("user:visits", "user:card_token"):
        name = page.locator(f"#groups [data-key-row='{key}'] .by .bidi")
        name.evaluate("(name) => { name.textContent = 'December trip with the whole family and all its luggage'; }")
    assert boxes.faults(page, [1280, 1440, 2560]) == []
    token = page.locator("#groups [data-key-row='user:card_token'] .value")
    assert token.evaluate("(value) => value.scrollWidth <= value.clientWidth")


# Values that the server has shortened, in chips and in the state, where there is room for the rest of them.
SHORTENED = """() => [...document.querySelectorAll(".delta > :is(b, del), #groups .value .preview")]
    .filter((each) => each.textContent.endsWith("…") && each.checkVisibility())
    .map((each) => each.closest(".value") ?? each)
    .filter(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth)
    .map(({ textContent }) => textContent)"""


def test_a_long_value_is_cut_once_and_shows_more_the_wider_the_page_is(visit: Visit) -> None:
    page = visit(viewport={"width": 1440, "height": 900})
    page.goto(path("s", *SEOUL, end="?density=events"))
    widths = []
    for width in (1440, 2560):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(SHORTENED) == []
        widths.append(page.locator(".ev .delta b").evaluate_all("(all) => Math.max(...all.map((b) => b.clientWidth))"))
    assert widths[0] > 250
    assert widths[1] > 380


def test_where_there_is_room_a_page_beside_the_timeline_leaves_the_state_in_sight(visit: Visit) -> None:
    page = visit(viewport={"width": 2560, "height": 1000})
    page.goto(path("s", *SEOUL, end="?pane=history%3Fkey%3Dsearches"))
    pane, state, timeline = page.locator("#pane"), page.locator("#state"), page.locator("[data-timeline]")
    expect(pane).to_be_visible()
    boxes_of = [each.bounding_box() for each in (timeline, state, pane)]
    edges = [(box["x"], box["x"] + box["width"]) for box in boxes_of if box]
    assert all(0 <= edges[n + 1][0] - edges[n][1] < 2 for n in range(2))  # a line between them
    assert min(right - left for left, right in edges) >= 600
    page.set_viewport_size({"width": 1440, "height": 1000})
    expect(state).to_be_hidden()
    expect(pane).to_be_visible()


@pytest.mark.parametrize("locale", long_but(["en-US", "es-ES", "ko-KR"], "es-ES"))
def test_on_a_phone_the_head_of_a_session_has_two_lines_and_that_of_a_turn_one(visit: Visit, locale: str) -> None:
    page = visit(viewport=NARROW, locale=locale, has_touch=True, is_mobile=True)
    for density in ("events", "trace"):
        page.goto(path("s", *SEOUL, end=f"?density={density}"))
        for line in (".pagehead h1", ".sub", ".turn"):
            expect(page.locator(line).first).to_be_visible()
            lines = page.locator(line).evaluate_all("(all) => all.map((each) => each.offsetHeight)")
            assert max(lines) < 44, line
    assert page.locator(".crumbs li:last-child").evaluate("(name) => name.scrollWidth <= name.clientWidth")


def test_on_a_phone_what_a_finger_presses_is_36_px_high_and_the_way_back_is_in_the_bar(visit: Visit) -> None:
    page = visit(viewport=NARROW, has_touch=True, is_mobile=True)
    pressed = ".logo, .topbar summary, .chip, .btn, .turnname, .called > .menu > summary, .tabs button"
    for address in ("/sessions/", path("s", *SEOUL, end="?density=events"), path("s", *SEOUL, end="history/")):
        page.goto(address)
        expect(page.locator("#main .btn").first).to_be_attached()
        heights = page.locator(pressed).evaluate_all("(all) => all.map((each) => each.offsetHeight).filter(Boolean)")
        assert min(heights) >= 36, address
    back = page.locator(".pagehead [data-key=Escape]")
    expect(back).to_be_hidden()
    assert page.locator(".crumbs a").last.get_attribute("href") == back.get_attribute("href")


def test_on_a_phone_the_name_in_the_bar_brings_the_head_of_a_session(visit: Visit) -> None:
    page = visit(viewport=NARROW, has_touch=True, is_mobile=True)
    page.goto(path("s", *TRAVEL))
    actions = page.get_by_label("More actions").first
    expect(page.locator(".ev").last).to_be_in_viewport()
    expect(actions).not_to_be_in_viewport()
    name = page.locator("#crumbs > [aria-current]")
    name.tap()
    actions.tap()
    expect(page.get_by_role("link", name="What the model got")).to_be_in_viewport()
    name.tap()
    expect(actions).not_to_be_in_viewport()
    name.tap()
    expect(actions).to_be_in_viewport()
    page.locator("#events").dispatch_event("click")
    expect(actions).not_to_be_in_viewport()


def test_on_a_phone_the_status_of_a_session_is_in_sight_where_its_head_is_not(visit: Visit) -> None:
    page = visit(viewport=NARROW, has_touch=True, is_mobile=True)
    page.goto(path("s", "demo", "booking", "ana", "december-trip"))
    expect(page.locator("#status .failed")).not_to_be_in_viewport()
    expect(page.locator(".crumbs > .status.failed")).to_be_in_viewport(ratio=1)
    page.set_viewport_size({"width": 900, "height": 800})
    expect(page.locator(".crumbs > .status.failed")).to_be_hidden()


@pytest.mark.parametrize("language", long_but(["en", "es", "ko"], "es"))
def test_the_head_of_a_session_that_waits_has_two_lines_in_each_language(visit: Visit, language: str) -> None:
    page = visit(viewport={"width": 1440, "height": 900}, locale=language)
    page.goto(path("s", "demo", "booking", "omar@example.com", "team-offsite"))
    expect(page.locator("#stats")).not_to_be_empty()
    expect(page.locator(".live[data-state=live]")).to_be_visible()
    boxes = [page.locator(each).bounding_box() for each in (".pagehead h1", "#status > .badge", ".live")]
    name, status, live = (box["y"] + box["height"] / 2 for box in boxes if box)
    assert name < status == pytest.approx(live, abs=3)


def test_on_a_wide_screen_the_newest_turns_stand_beside_the_sources(visit: Visit) -> None:
    page = visit(viewport={"width": 2560, "height": 1000})
    page.goto("/")
    source, feed = page.locator("#sources > .section").nth(1), page.locator("#feed")
    (one, other) = (each.bounding_box() for each in (source, feed))
    assert one
    assert other
    assert other["x"] >= one["x"] + one["width"]
    assert other["y"] < one["y"]


@pytest.mark.long
def test_a_key_that_was_written_since_is_the_first_of_many_that_an_undo_takes_back(page: Page) -> None:
    page.goto(path("s", *FAMILY, end="e/all/undo/"))
    rows = page.locator(".editrow.compact")
    expect(rows).to_have_count(len(FAMILY_KEYS))
    expect(rows.first).to_contain_text(FAMILY_KEYS[-1])
    expect(rows.first.locator(".conflict")).to_be_visible()
    expect(page.locator(".conflict")).to_have_count(1)
    rows.first.get_by_text("Write this value").click()
    page.get_by_role("button", name="Preview").click()
    expect(page.locator(".preview-event")).to_contain_text(FAMILY_KEYS[-1])
    expect(page.locator(".preview-event")).to_contain_text(FAMILY_KEYS[0])


@pytest.mark.long
def test_an_event_that_is_compared_is_told_in_full_or_with_an_ellipsis(visit: Visit) -> None:
    page = visit(viewport=NARROW)
    page.goto(path("s", "demo", "booking", "ana", "seoul-trip", end="compare/?a=5&b=now"))
    what = page.locator(".moment .what").first
    expect(what).to_contain_text("search_flights")
    link, box = what.locator("a").bounding_box(), page.locator(".moment").first.bounding_box()
    assert link
    assert box
    assert link["x"] + link["width"] <= box["x"] + box["width"] + 1
    assert what.locator("a").evaluate("(link) => link.scrollHeight > link.clientHeight")  # it is cut
    assert what.locator("a").evaluate("(link) => getComputedStyle(link).webkitLineClamp") == "2"


@pytest.mark.long
@pytest.mark.parametrize("at", ["t396", "gone"])
def test_on_a_narrow_screen_a_link_to_a_moment_leads_to_its_state(visit: Visit, watch: Watch, at: str) -> None:
    watch.allow(404)
    page = visit(viewport=NARROW)
    page.goto(path("s", *TRAVEL, end=f"?at={at}"))
    expect(page.get_by_role("tab", name="State")).to_have_attribute("aria-selected", "true")
    expect(page.locator("#moment .then")).to_be_visible()
    page.get_by_role("tab", name="Events").click()
    expect(page.locator("#event-t396" if at == "t396" else f"#event-t{400}")).to_be_in_viewport()


@pytest.mark.parametrize("width", long_but([1440, 390], 1440))
def test_the_search_box_stands_in_one_place_and_the_name_of_the_page_is_whole(visit: Visit, width: int) -> None:
    page = visit(viewport={"width": width, "height": 900})
    edges = set()
    for address in ("/", "/edits/", "/temporary-edits/", "/masking/", path("a", "demo", "booking"), path("s", *SEOUL)):
        page.goto(address)
        box = page.locator("#querybar").bounding_box()
        assert box
        edges.add((box["x"], box["width"]))
        last = page.locator("#crumbs > li").last
        assert last.evaluate("(crumb) => crumb.scrollWidth <= crumb.clientWidth"), address
    assert len(edges) == 1


def test_a_title_has_more_room_than_the_id_after_it_and_an_error_has_it_instead(page: Page) -> None:
    page.goto("/sessions/")
    named = page.locator(".sessions .named")
    for row in named.filter(has=page.locator(".faint")).all():
        if row.locator(".matched.bad").count():
            expect(row.locator(".faint")).to_be_hidden()
        cut, share = row.locator(".rowlink").evaluate(
            "(title) => [title.scrollWidth > title.clientWidth, title.offsetWidth / title.parentElement.offsetWidth]"
        )
        assert not cut or share > 0.5
