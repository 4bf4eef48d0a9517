"""The demo as its visitor meets it: the line that says so, and the tour. Nothing of it is there outside a demo."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, Locator, Page, StorageState, expect

from sessions_app.sources.demo import BEFORE
from tests.browser.conftest import Visit, watched
from tests.browser.looks import check
from tests.browser.places import SEOUL, path
from tests.browser.serving import Adkweb
from tests.parts import long_but


class Demo(Adkweb):
    """adkweb as it starts without a source."""

    def _prepare(self, directory: Path) -> None:
        super()._prepare(directory)
        self.demo.unlink()  # it is told of no database

    def _command(self, directory: Path) -> list[str]:
        return self.command("serve", "--port", str(self.port))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """adkweb with nothing but its demo."""
    yield from watched(Demo(tmp_path_factory.mktemp("demo")))


@pytest.fixture(scope="module")
def visitors(browser: Browser, demo: Demo) -> StorageState:
    """The cookies of somebody who opened the printed link, which leads to where the tour begins."""
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(demo.link)
        expect(page).to_have_url(re.compile(r"/s/demo/booking/ana/december-trip/$"))
        return context.storage_state()


@pytest.fixture
def page(demo: Demo, visitors: StorageState, visitor: Visit) -> Page:
    """A page of that person."""
    return visitor(demo, storage_state=visitors)


def heads_height(page: Page) -> float:
    """The height of what stands above a page's content."""
    return float(page.evaluate("document.querySelector('#main').getBoundingClientRect().top"))


@pytest.mark.long
@pytest.mark.parametrize("language", ["en", "es", "ko"])
def test_the_line_is_one_line_in_each_language(demo: Demo, page: Page, language: str) -> None:
    page.context.add_cookies([{"name": "adkweb_language", "value": language, "url": demo.address}])
    for width in (320, 390, 900, 1100, 1440):
        page.set_viewport_size({"width": width, "height": 800})
        page.context.clear_cookies(name="adkweb_demo")
        page.goto(path("s", *SEOUL))
        box = page.locator(".demoline").bounding_box()
        assert box
        assert box["height"] <= 45
        assert page.evaluate(
            "(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth)(document.querySelector('.demoline'))"
        )
        for part in page.locator(".demoline > *").all():
            inner = part.bounding_box()
            assert inner is None or inner["x"] + inner["width"] <= width
        copy = page.locator(".demoline [data-copy]")
        assert width < 360 or "adkweb" in copy.inner_text(), "it says what it copies"


def test_the_line_is_on_the_first_page_alone_and_a_word_at_the_top_afterwards(page: Page) -> None:
    page.context.clear_cookies(name="adkweb_demo")
    page.goto(path("s", *SEOUL))
    line, chip = page.locator(".demoline"), page.get_by_role("banner").get_by_text("Demo", exact=True)
    expect(line).to_be_visible()
    expect(chip).to_be_hidden()
    before = heads_height(page)
    line.get_by_role("button", name="Close").click()
    expect(line).to_have_count(0)
    expect(chip).to_be_focused()
    assert 20 < before - heads_height(page) <= 45
    page.goto("/")
    expect(chip).to_be_visible()
    expect(line).to_have_count(0)
    kept = [cookie for cookie in page.context.cookies() if cookie["name"] == "adkweb_demo"]
    assert [cookie["expires"] for cookie in kept] == [-1]  # the browser forgets it when it is closed


def test_the_demo_shows_what_its_tokens_cost(page: Page) -> None:
    page.goto("/")
    expect(page.locator(".chart.tokens .aside")).to_contain_text("$")
    page.goto(path("s", *SEOUL))
    expect(page.locator("#stats")).to_contain_text("$")


@pytest.mark.parametrize("width", [390, 1440])
def test_what_needs_attention_comes_before_a_row_of_charts(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    for address in ("/", "/a/demo/booking/", "/u/demo/booking/ana/"):
        page.goto(address)
        (attention, *tops) = page.evaluate("""() => [
            document.querySelector("#attention").getBoundingClientRect().bottom,
            ...[...document.querySelectorAll(".chart")].filter((chart) => chart.checkVisibility())
                .map((chart) => chart.getBoundingClientRect().top),
        ]""")  # at one look: figures that arrive may move them
        assert len(set(tops)) == 1
        assert tops[0] >= attention
        assert page.evaluate("document.documentElement.scrollWidth") == width


def test_a_desktop_shows_what_is_wrong_what_runs_how_it_goes_and_the_newest_turns_at_once(page: Page) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto("/")
    for part in ("#attention", "#running", ".charts", "table.apps", "#feed li:nth-child(6)"):
        box = page.locator(part).bounding_box()
        assert box
        assert box["y"] + box["height"] <= 900, part


@pytest.mark.parametrize("width", long_but([320, 390, 1440], 320))
def test_the_command_is_copied(page: Page, width: int) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.set_viewport_size({"width": width, "height": 800})
    page.goto("/edits/")
    page.get_by_role("banner").get_by_text("Demo", exact=True).click()
    box = page.locator(".demochip > .menu-items").bounding_box()
    assert box
    assert 0 <= box["x"] <= box["x"] + box["width"] <= width
    page.get_by_role("button", name="Copy the command").click()
    expect(page.locator("#copy-status")).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == f"{Path(sys.executable).parent}/adkweb /path/to/session.db"


# --- The tour ---------------------------------------------------------------------------------------------------------


def step(page: Page, title: str) -> None:
    """The card shows this step, and neither it nor a toast covers anything of what it is about."""
    expect(page.locator("[data-tour-words] h2")).to_contain_text(title)
    page.wait_for_function(f"() => ({COVERED})() === false")


COVERED: Final = """() => {
    const aim = document.querySelector("[data-tour-aim]")?.getBoundingClientRect();
    return [...document.querySelectorAll("#tour, .toast")].some((each) => {
        const box = each.getBoundingClientRect();
        const beside = () => box.right < aim.left || box.left > aim.right;
        return Boolean(aim) && !(beside() || box.bottom < aim.top || box.top > aim.bottom);
    });
}"""


CHANGED_KEY: Final = """() => {
    const value = document.querySelector("#moment [data-key-row=booking_step] .value").getBoundingClientRect();
    return document.elementFromPoint(value.x + 1, value.y + 1)?.closest("[data-key-row=booking_step]");
}"""


def aimed(page: Page) -> Locator:
    """The element that the step outlines."""
    return page.locator("[data-tour-aim]")


@pytest.fixture
def own_demo(tmp_path: Path) -> Iterator[Demo]:
    """adkweb with nothing but its demo, whose link nobody has opened yet."""
    yield from watched(Demo(tmp_path))


@pytest.fixture
def tourist(own_demo: Demo, visitor: Visit) -> Page:  # in this order: the page is closed before its server stops
    """Somebody who starts adkweb for the first time, and opens its link."""
    page = visitor(own_demo)
    page.goto(own_demo.link)
    return page


def test_several_calls_of_one_tool_are_chosen_by_keys_to_be_answered_together(page: Page) -> None:
    page.goto("/inbox/")
    boxes = page.locator(".inbox input[name=ref]")
    asks = [box.get_attribute("data-asks") for box in boxes.all()]
    same = next(each for each in asks if asks.count(each) > 1)
    for box in [boxes.nth(at) for at, each in enumerate(asks) if each == same][:2]:
        box.locator("xpath=ancestor::tr").locator(".rowlink").focus()
        page.keyboard.press("x")
        expect(box).to_be_checked()
    expect(page.locator("[data-chosen]")).to_have_text("2 selected")
    assert [box.is_disabled() for box in boxes.all()] == [each != same for each in asks]
    page.keyboard.press("y")
    expect(page.locator("#chosen button[value=yes]")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#chosen button[value=yes]")).to_be_hidden()


@pytest.mark.parametrize("language", long_but(["en", "es", "ko"], "es"))
def test_on_a_phone_a_call_stays_under_the_finger_that_chooses_it(demo: Demo, page: Page, language: str) -> None:
    page.context.add_cookies([{"name": "adkweb_language", "value": language, "url": demo.address}])
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto("/inbox/")
    boxes = page.locator('.inbox input[data-asks="booking cancel_booking"]')
    before = boxes.first.bounding_box()
    boxes.first.check()
    assert boxes.first.bounding_box() == before
    boxes.nth(1).check()
    expect(page.locator(".inbox tr", has=boxes.nth(1)).locator("td.do")).to_be_hidden()
    tops = page.locator(".chosenbar > :is(.menu, button)").evaluate_all("all => all.map((each) => each.offsetTop)")
    assert max(tops) - min(tops) < 10  # one line


def test_the_tour_goes_on_as_a_person_does_what_it_says(page: Page) -> None:
    page.goto("/demo/")
    expect(page).to_have_url(re.compile(r"/s/demo/booking/ana/december-trip/$"))
    expect(page.get_by_role("region", name="Demo tour")).to_be_visible()
    step(page, "1/7 A turn failed")
    expect(aimed(page)).to_contain_text("CheckInError")
    page.keyboard.press("<")  # the error before now

    step(page, "2/7 Who changed booking_step?")
    expect(aimed(page)).to_have_accessible_name("History of booking_step")
    expect(page.locator("[data-tour-row] .rowacts")).to_have_css("opacity", "1")  # the clock is seen without a pointer
    aimed(page).click()

    step(page, "3/7 Go back")
    expect(aimed(page)).to_have_text("#22")
    aimed(page).click()
    expect(aimed(page)).to_have_accessible_name("Previous event")
    page.keyboard.press("[")

    step(page, "4/7 Ask “what if”")
    expect(aimed(page)).to_contain_text("CheckInError")
    aimed(page).click()
    expect(aimed(page)).to_contain_text("What if…")
    page.keyboard.press("W")
    expect(aimed(page)).to_have_text("booking_step")
    aimed(page).click()
    expect(aimed(page)).to_have_text('"confirm"')
    aimed(page).click()
    expect(aimed(page)).to_contain_text("Run and compare")
    aimed(page).click()
    expect(aimed(page)).to_have_accessible_name(re.compile("Run the tool"))
    aimed(page).check()
    expect(aimed(page)).to_have_text("Continue")
    aimed(page).click()
    expect(page.locator("#tried .runs")).to_contain_text("Here is the boarding pass")

    step(page, "5/7 Fix it")
    page.locator("[data-tour-next]").click()
    expect(page.locator("#moment [data-key-row='booking_step']")).to_contain_text('"confirm"')
    expect(aimed(page)).to_contain_text("Back to now")
    page.keyboard.press("e")
    expect(aimed(page)).to_contain_text("Edit the state now")
    page.get_by_role("button", name="Edit the state now").click()
    page.get_by_label("Key to edit or add").fill("booking_step")
    page.keyboard.press("Enter")
    editor = page.locator("json-editor .cm-content")
    expect(editor).to_have_text("choose")
    expect(aimed(page)).to_have_text('"confirm"')
    editor.fill("confirm")
    page.get_by_label("Reason").fill("It was paid for")
    page.get_by_role("button", name="Apply").click()

    step(page, "6/7 Try again")
    expect(page.locator(".ev.edit")).to_contain_text("booking_step")
    expect(aimed(page)).to_have_text("What the model got")
    aimed(page).click()

    step(page, "7/7 Answer an agent")
    page.keyboard.press("i")
    expect(aimed(page)).to_contain_text("cancel_booking")
    aimed(page).click()
    expect(aimed(page)).to_have_text("Approve")
    aimed(page).click()
    expect(aimed(page)).to_contain_text("started by")  # no way back to the inbox while the agent continues
    expect(page.locator("#events")).to_contain_text("Booking A4D49E is cancelled.", timeout=30_000)

    expect(page.locator("[data-tour-words] h2")).to_have_text("You have fixed a wrong step and answered an agent")
    page.locator("#tour").get_by_role("button", name="Close").click()
    expect(page.locator("#tour")).to_be_hidden()
    page.goto("/demo/")
    expect(page.locator("#strip svg").first).to_be_visible()
    expect(page.locator("#tour")).to_be_hidden()  # over is over


@pytest.mark.parametrize("width", long_but([390, 1440], 390))
def test_who_only_presses_show_me_sees_everything_done(tourist: Page, width: int) -> None:
    page = tourist
    page.set_viewport_size({"width": width, "height": 844})
    heading, following = page.locator("[data-tour-words] h2"), page.locator("[data-tour-next]")
    phone = width < 640
    steps = (
        ("1/7", 1),
        ("2/7", 1),
        ("3/7", 2),
        ("4/7", 7 + 2 * phone),
        ("5/7", 4),
        ("6/7", 1 + phone),
        ("7/7", 3 + phone),
    )
    for title, presses in steps:
        step(page, title)
        if title == "5/7":
            following.click()  # from the result of the what-if back to the session
        for number in range(presses):
            expect(aimed(page)).to_be_in_viewport()
            if page.locator("#moment:visible").count() and title in ("3/7", "5/7"):
                page.wait_for_function(CHANGED_KEY)  # what the step is about
            aimed(page).evaluate("(element, at) => { element.ringedAt = at; }", f"{title} {number}")
            following.click()
            if number + 1 < presses:
                page.wait_for_function(
                    "(at) => document.querySelector('[data-tour-aim]')?.ringedAt !== at", arg=f"{title} {number}"
                )
                expect(
                    page.locator("[data-tour-aim]:not(#tried [role=status])")
                ).to_be_visible()  # while the agent runs
    expect(heading).to_have_text("You have fixed a wrong step and answered an agent", timeout=30_000)
    expect(page.locator("#events")).to_contain_text("Booking A4D49E is cancelled.")
    page.goto(path("s", "demo", "booking", "ana", "december-trip"))
    expect(page.locator(".ev.edit")).to_contain_text('"confirm"')


def test_the_ring_is_not_the_focus_and_keeps_still_for_who_asks_for_that(page: Page) -> None:
    page.goto("/demo/")
    step(page, "1/7")
    page.emulate_media(reduced_motion="no-preference")
    expect(aimed(page)).to_have_css("animation-name", "tour-ring")
    page.emulate_media(reduced_motion="reduce")
    expect(aimed(page)).to_have_css("animation-name", "none")
    ring = aimed(page).evaluate("(element) => getComputedStyle(element).outline")
    page.locator("[data-tour-next]").focus()
    page.keyboard.press("Shift+Tab")
    focus = page.evaluate("getComputedStyle(document.activeElement).outline")
    assert "solid" in ring
    assert "solid" in focus
    assert ring != focus
    aimed(page).focus()
    assert aimed(page).evaluate("(element) => getComputedStyle(element).outline") != ring  # the focus shows, too


SIZES: Final = ((720, 450), (1440, 900), (1280, 640), (390, 844))  # the first is 1440 x 900 at 200 %


@pytest.mark.parametrize("size", long_but(SIZES, (720, 450)))
def test_the_tour_hides_nothing_of_its_page(page: Page, size: tuple[int, int]) -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.goto("/demo/")
    step(page, "1/7")
    last, bar = page.locator(".ev").last.bounding_box(), page.locator("#tour").bounding_box()
    message = page.locator("#waits").bounding_box()
    assert last
    assert bar
    assert message
    assert 0 <= message["y"] - last["y"] - last["height"] < 40  # the last event is right above the field for a message
    assert abs(bar["y"] - message["y"] - message["height"]) < 2
    assert bar["height"] < size[1] / 4
    assert bar["height"] < 80 or size[0] >= 640  # on a phone it is words alone, with two buttons beside them
    for row in page.locator(".ev").all()[-3:]:
        box = row.bounding_box()
        assert box
        assert box["y"] > 120  # below what stands at the top
    for elsewhere in ("/", path("s", *SEOUL)):  # pages that it does not speak of
        page.goto(elsewhere)
        expect(page.locator("#tour")).to_be_hidden()


def test_who_skips_a_step_is_not_told_that_it_was_done(page: Page) -> None:
    page.goto("/demo/")
    following, heading = page.locator("[data-tour-next]"), page.locator("[data-tour-words] h2")
    skipping = page.get_by_role("button", name="Skip this step")
    step(page, "1/7")
    expect(following).to_have_text("Show me")
    page.keyboard.press("<")  # the error before now
    step(page, "2/7")
    page.get_by_role("button", name="Back").click()
    step(page, "1/7")
    expect(following).to_have_text("Next")  # it was done
    expect(skipping).to_be_hidden()
    following.click()
    for number in range(2, 8):
        step(page, f"{number}/7")
        (skipping if skipping.is_visible() else following).click()  # it may have been done in another test
    expect(heading).to_have_text("End of the tour")
    expect(page.locator("[data-tour-words]")).to_contain_text("You skipped a step.")
    expect(following).to_have_text("Close")


@pytest.mark.long
def test_a_fork_is_another_way_to_put_it_right(tourist: Page) -> None:
    page = tourist
    for title in ("1/7", "2/7", "3/7", "4/7"):
        step(page, title)
        page.get_by_role("button", name="Skip this step").click()
    step(page, "5/7")
    page.goto(f"{page.url}?at={BEFORE}")
    expect(page.locator("#moment [data-key-row='booking_step']")).to_contain_text('"confirm"')
    page.locator("#moment").get_by_role("link", name="Fork…").click()
    step(page, "5/7")
    page.get_by_role("button", name="Fork", exact=True).click()
    step(page, "6/7 Try again")
    assert "december-trip/" not in page.url


def test_the_tour_is_walked_by_keyboard_skipped_and_begun_again(demo: Demo, page: Page) -> None:
    page.goto("/demo/")
    step(page, "1/7")
    assert page.evaluate("document.activeElement === document.body")  # it takes the focus from nobody
    following = page.get_by_role("button", name="Skip this step")
    following.focus()
    page.keyboard.press("Enter")
    step(page, "2/7")
    expect(following).to_be_focused()
    expect(page.locator("[data-tour-words]")).to_have_attribute("aria-live", "polite")

    page.goto("/edits/")  # how far it is outlasts other pages
    expect(page.locator("#tour")).to_be_hidden()
    chip = page.get_by_role("banner").get_by_text("Demo", exact=True)
    chip.click()
    page.get_by_role("link", name="Continue the tour").click()
    step(page, "2/7")
    expect(page.locator("[data-tour-start]:visible")).to_have_count(0)
    page.goto(path("s", "demo", "booking", "ana", "december-trip", end="drift/?wait=no"))
    step(page, "2/7")
    expect(aimed(page)).to_have_count(0)
    page.get_by_role("button", name="Show me", exact=True).click()
    step(page, "2/7")
    expect(aimed(page)).to_have_accessible_name("History of booking_step")

    page.get_by_role("button", name="Back").focus()
    page.keyboard.press("Enter")
    step(page, "1/7")  # its event is shown already: that counts only once it was not
    page.get_by_role("button", name="Skip the tour").focus()
    page.keyboard.press("Escape")
    expect(page.locator("#tour")).to_be_hidden()
    expect(aimed(page)).to_have_count(0)
    expect(page.locator("#moment")).to_be_visible()  # this Escape was for the tour alone
    expect(chip).to_be_focused()
    page.reload()
    expect(page.locator("#moment")).to_be_visible()
    expect(page.locator("#tour")).to_be_hidden()

    chip.click()
    page.get_by_role("link", name="Take the tour").click()
    step(page, "1/7")
    expect(page.locator("#tour")).to_be_focused()


def test_a_word_is_explained_to_the_pointer_and_to_the_keyboard(page: Page) -> None:
    page.goto("/demo/")
    step(page, "1/7")
    word = page.locator("[data-tour-words]").get_by_role("button", name="event")
    tip = page.locator("#term-tip")
    expect(tip).to_be_hidden()
    word.hover()
    expect(tip).to_have_text("A record appended to a session by an agent, a person or adkweb. It never changes.")
    box = tip.bounding_box()
    assert box
    page.mouse.move(box["x"] + 20, box["y"] + box["height"] / 2, steps=8)  # whoever reads may point at the sentence
    expect(tip).to_be_visible()
    page.mouse.move(700, 20)
    expect(tip).to_be_hidden()

    word.focus()
    expect(word).to_have_accessible_description(re.compile("A record appended"))
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    expect(page.locator("#tour")).to_be_visible()  # this Escape was for the sentence alone
    page.keyboard.press("Tab")
    expect(tip).to_have_text("What a session remembers, as keys and values.")


@pytest.mark.long
@pytest.mark.parametrize("width", [390, 1440])
def test_every_step_is_accessible_and_within_the_window(demo: Demo, page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    for language in ("en", "es", "ko"):
        page.context.add_cookies([{"name": "adkweb_language", "value": language, "url": demo.address}])
        page.goto("/demo/")
        page.evaluate("localStorage.removeItem('tour')")
        page.reload()
        for number in range(1, 8):
            step(page, f"{number}/7")
            box = page.locator("#tour").bounding_box()
            assert box
            assert 0 <= box["x"] <= box["x"] + box["width"] <= width
            assert 0 <= box["y"] <= box["y"] + box["height"] <= 844
            if language == "en":
                check(page)
            page.locator("[data-tour-pass]").dispatch_event("click")  # on a phone there is no room for it
        expect(page.locator("[data-tour-words] h2 .meta")).to_have_count(0)


@pytest.mark.long
def test_nothing_of_a_demo_is_there_outside_one(visit: Visit) -> None:
    page = visit()
    for address in ("/", path("s", *SEOUL), path("s", *SEOUL, end="history/?key=booking_step")):
        page.goto(address)
        expect(page.locator(".demoline, .demochip, #tour, [data-tour-start]")).to_have_count(0)
        assert "demo.js" not in page.content()
        assert "tour.js" not in page.content()
        assert "data-term" not in page.content()


def test_an_agent_that_waits_is_answered_and_then_written_to(page: Page) -> None:
    page.goto(path("s", "demo", "booking", "omar@example.com", "team-offsite"))
    waits = page.locator("#waits")
    check(page)
    waits.locator(".card textarea").fill('{"status": "approved"}')
    waits.get_by_role("button", name="Answer").click()
    expect(page.locator("#events")).to_contain_text("All paid: your booking is confirmed", timeout=30_000)
    expect(waits.locator(".card, .run")).to_have_count(0)
    page.keyboard.press("Escape")
    page.keyboard.press("w")
    page.keyboard.type("Find me a flight from Lisbon to Seoul on 2026-12-01")
    page.keyboard.press("Enter")
    expect(page.locator("#spoken")).to_contain_text("I found", timeout=30_000)  # as it is said
    expect(page.locator("#events")).to_contain_text("I found 3 flights.", timeout=30_000)
    expect(page.locator("#message")).to_be_focused()
    page.goto("/inbox/")
    expect(page.locator("#results")).not_to_contain_text("request_approval")


def test_the_button_of_a_long_form_is_in_sight_and_covers_no_field_that_has_the_focus(page: Page) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(path("s", "demo", "claims", "mateo@example.com", "late-flight"))
    button = page.locator("#waits").get_by_role("button", name="Answer")
    expect(button).to_be_in_viewport(ratio=1)
    for name in ("Passengers", "Note"):
        page.get_by_label(name).focus()
        field, bar = page.get_by_label(name).bounding_box(), button.bounding_box()
        assert field
        assert bar
        assert field["y"] + field["height"] <= bar["y"]


def test_the_field_of_an_answer_has_the_focus_when_its_session_opens(page: Page) -> None:
    page.goto("/inbox/")
    page.locator(".inbox tr").filter(has_text="TP761 was 5 hours late.").get_by_text("Answer…").click()
    page.wait_for_url("**/s/demo/**", wait_until="load")
    page.wait_for_timeout(300)  # until Chromium has gone to what the address names
    expect(page.locator("#waits .card .field :is(input, textarea, select):focus")).to_have_count(1)


def test_an_answer_that_does_not_reach_the_agent_is_in_its_fields_again(page: Page) -> None:
    page.goto(path("s", "demo", "claims", "mateo@example.com", "late-flight"))
    waits, note = page.locator("#waits"), page.get_by_label("Note")
    waits.locator(".card select").select_option("voucher")
    page.get_by_label("Passengers").fill("2")
    note.fill("We are sorry.")
    page.route("**/answer/", lambda route: route.fulfill(body='<input type="hidden" name="have" value="">'))
    waits.get_by_role("button", name="Answer").click()
    expect(waits.locator(".card")).to_have_count(0)
    page.evaluate("htmx.trigger(document.body, 'adkweb:waits')")
    expect(note).to_have_value("We are sorry.")
    expect(waits.locator(".card select")).to_have_value("voucher")


def test_a_key_that_is_added_to_an_answer_is_not_typed_again(page: Page) -> None:
    page.goto(path("s", "demo", "claims", "mateo@example.com", "late-flight"))
    first = page.locator("#waits .card .first")
    first.locator("summary").click()
    first.locator("[name=new-key]").fill("claim")
    page.keyboard.press("Enter")
    expect(first.locator("summary .n")).to_have_text("1")
    expect(first.locator("[name=new-key]")).to_have_value("")


def test_a_card_has_the_room_that_its_timeline_leaves(page: Page) -> None:
    page.set_viewport_size({"width": 1440, "height": 700})
    page.goto(path("s", "demo", "claims", "mateo@example.com", "late-flight"))
    waits, message = page.locator("#waits"), page.locator("#message")
    assert waits.evaluate("box => box.clientHeight / box.parentElement.clientHeight") > 0.52
    first = page.locator(".composer .first")
    expect(first).to_be_hidden()
    message.fill("Never mind")
    expect(first).to_be_visible()


def test_a_call_is_approved_in_the_inbox_and_its_agent_watched_to_the_end(page: Page) -> None:
    page.goto("/inbox/")
    row = page.locator(".inbox tr").filter(has_text="The conference was called off")
    row.locator(".rowlink").focus()
    page.keyboard.press("y")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Watch").click()
    expect(page).to_have_url(re.compile("/conference/$"))
    expect(page.locator("#events")).to_contain_text("Booking 2AC0A8 is cancelled.", timeout=30_000)
    expect(page.locator("#waits .card, #waits .run")).to_have_count(0)
    page.goto("/inbox/")
    expect(page.locator("#results")).to_contain_text("TP761 was 5 hours late.")
    expect(row).to_have_count(0)


def test_selected_sessions_are_replayed_in_groups_and_run_again(page: Page) -> None:
    page.goto("/sessions/?q=session:late-flight or session:seoul-trip")
    for box in page.locator("input[name=ref]").all():
        box.check()
    page.get_by_role("button", name="Replay…").click()
    expect(page.get_by_role("button", name="Replay 2 sessions")).to_be_visible()
    page.wait_for_load_state()
    page.keyboard.press("ControlOrMeta+Enter")
    groups = page.locator(".outcome h2")
    expect(groups).to_have_text([re.compile("code of its own.* 1"), re.compile("The same 1")], timeout=60_000)
    check(page)
    page.get_by_role("button", name="Run again").click()
    expect(page.get_by_text("Nothing has changed.")).to_be_visible(timeout=60_000)
    page.goto(path("s", "demo", "booking", "ana", "seoul-trip"))
    page.locator(".rare > summary").click()
    expect(page.locator(".rare").get_by_role("button", name="Replay")).to_be_enabled()
