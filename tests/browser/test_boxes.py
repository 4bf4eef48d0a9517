"""Boxes measured: on every page, in every language and at every width, no word is broken and nothing is out of reach."""

from __future__ import annotations

from typing import Final

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import Visit, Watch
from tests.browser.places import SEOUL, own, path
from tests.browser.seed import BAD, CROWDED, FAMILY, GOOD, TRACED, TRAVEL
from tests.browser.serving import Adkweb

WIDTHS: Final = (320, 390, 768, 1280, 1440, 1920, 2560)
LANGUAGES: Final = ("en", "es", "ko")
EVENT: Final = path("s", *FAMILY, end="e/all/")
ONE_LINE: Final = 44  # px: a button and the room around it
PAGES: Final = {
    "home": "/",
    "app": path("a", "demo", "booking"),
    "app of long names": path("a", *CROWDED[:2]),
    "user": path("u", "demo", "booking", "ana"),
    "user of long names": path("u", *CROWDED[:3]),
    "users": path("a", *CROWDED[:2], end="users/"),
    "session": path("s", *SEOUL, end="?density=events"),
    "session of long names": path("s", *CROWDED, end="?density=events"),
    "session at an event": path("s", *TRAVEL, end="?density=events&at=t100"),
    "event": EVENT,
    "markdown": path("s", *own("markdown"), end="e/markdown/"),
    "chat": path("s", *SEOUL, end="?density=chat"),
    "chat of long names": path("s", *CROWDED, end="?density=chat"),
    "history": path("s", *TRAVEL, end="history/?key=n"),
    "compare": path("s", *TRAVEL, end="compare/?a=t100&b=now"),
    "two runs": path("s", *GOOD, end="compare/?with=" + path("s", *BAD)),
    "other runs": path("s", *GOOD, end="compare/"),
    "artifacts": path("s", *own("artifacts"), end="artifacts/"),
    "two versions": path("s", *own("artifacts"), end="artifacts/compare/?name=plan.md"),
    "an artifact": path("s", *own("artifacts"), end="artifacts/?name=plan.md"),
    "trace": path("s", *TRACED, end="?density=trace"),
    "trace of long names": path("s", *CROWDED, end="?density=trace"),
    "fork": EVENT + "fork/",
    "undo": EVENT + "undo/",
    "restore": path("s", *FAMILY, end="restore/?to=all&scope=session"),
    "rewind": path("s", *TRAVEL, end="rewind/?before=e-50"),
    "drift": path("s", *TRAVEL, end="drift/?wait=no"),
    "what the agent sees": path("s", *SEOUL, end="context/"),
    "edit form": path("s", *SEOUL, end="edit/?key=booking_step&key=user:tier"),
    "edit form of a user": path("u", *CROWDED[:3], end="edit/?key=user:tier"),
    "add event": path("s", *SEOUL, end="add/"),
    "new session": "/sessions/new/",
    "import": "/import/",
    "batches": "/batches/",
    "tokens": "/tokens/",
    "people": "/people/",
    "password": "/password/",
    "sign-ins": "/sign-ins/",
    "second factor": "/second-factor/",
    "edits": "/edits/",
    "delete": path("s", *CROWDED, end="delete/"),
    "error": "/no/such/page/",
}

# A word lies between blanks; after a hyphen or a slash, and between Korean syllables, a line may end. What nobody could
# put into one line, because it is longer than any word, has at least eight characters in each.
MEASURE: Final = r"""() => {
  const faults = new Set();
  const say = (what, { localName, className }, text) =>
    faults.add(`${what}: ${localName}.${className} “${text.replaceAll(/\s+/g, " ").trim().slice(0, 60)}”`);
  const seen = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true })
    && !element.closest(".visually-hidden, .skip-link, svg, json-editor, [inert]");
  const lines = (range) => {
    const tops = [];
    for (const { top, width } of range.getClientRects()) {
      if (width && !tops.some((known) => Math.abs(known - top) < 6)) tops.push(top);
    }
    return tops.length;
  };
  // The words that an opened page says again in full, on hover, when it is opened, or in its own heading.
  // What is cut is whole on hover, when it is opened, on the page that it leads to, or in this page's own heading.
  const shown = (element) => element.closest("[title], summary, a[href], [data-copy], input, [aria-current=page]")
    ?? [...element.querySelectorAll("[title]")].some(({ title }) => element.innerText.trim().startsWith(title.slice(0, 8)));
  const clips = (element) => getComputedStyle(element).overflowX !== "visible";

  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) faults.add(`the page is ${root.scrollWidth - root.clientWidth} px too wide`);
  const panes = innerWidth >= 900 && document.querySelector(".split"); // each scrolls on its own
  if (panes && root.scrollHeight > root.clientHeight) faults.add(`${root.scrollHeight - root.clientHeight} px too high`);
  for (const heading of document.querySelectorAll(".ev.said + :is(.turn, .day)")) {
    const last = heading.previousElementSibling.querySelector(":scope > .chat");
    const room = last ? heading.getBoundingClientRect().top - last.getBoundingClientRect().bottom : 8;
    if (room < 8) say("no room below", last, last.innerText);
  }
  for (const hint of document.querySelectorAll(".keyhints > *")) {
    const [around, box] = [hint.closest(".toolbar"), hint].map((each) => each.getBoundingClientRect());
    const below = box.top > hint.parentElement.getBoundingClientRect().bottom - 4; // where nobody sees it
    if (box.width && !below && box.right > around.right) say("over the edge", hint, hint.innerText);
  }

  const range = document.createRange();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode;
    const element = text.parentElement;
    if (!text.data.trim()) continue;
    range.selectNodeContents(text);
    if (lines(range) < 2 || element.closest("pre") || !seen(element)) continue;
    for (const { 0: word, index } of text.data.matchAll(/\S+/g)) {
      if (word.length < 3 || /[-/<>\u3131-\ud7a3]/.test(word)) continue;
      range.setStart(text, index);
      range.setEnd(text, index + word.length);
      const parts = lines(range);
      if (parts > 1 && (word.length <= 20 || word.length / parts < 8)) say(`broken into ${parts}`, element, word);
    }
  }
  for (const name of innerWidth < 390 ? [] : document.querySelectorAll(".name, .key, summary > b")) {
    range.selectNodeContents(name);
    const { innerText: short } = name;
    const beyond = range.getBoundingClientRect().right - name.getBoundingClientRect().right;
    const cut = beyond > 0.005 && clips(name); // a hundredth of a pixel takes three letters away
    if (cut && short.length <= 20 && seen(name)) say("a short name cut", name, short);
  }
  for (const by of document.querySelectorAll(".kv > .by")) {
    const cut = [...by.querySelectorAll("*")].some((each) => clips(each) && each.scrollWidth > each.clientWidth);
    const value = by.parentElement.querySelector(".value");
    range.selectNodeContents(value);
    const room = value.getBoundingClientRect().width - range.getBoundingClientRect().width;
    if (cut && room > 8 && seen(by)) say(`cut beside ${Math.round(room)} px of room`, by, by.innerText);
  }
  for (const element of document.body.querySelectorAll("*")) {
    const { clientWidth, clientHeight, scrollWidth, scrollHeight } = element;
    const box = element.getBoundingClientRect();
    if (box.right > innerWidth + 1 && box.width && seen(element)) {
      let around = element.parentElement;
      while (around && !clips(around)) around = around.parentElement;
      if (!around || around === document.body || around === root) say("over the edge", element, element.textContent);
    }
    if (clientWidth < 2 || (scrollWidth <= clientWidth + 1 && scrollHeight <= clientHeight + 6)) continue;
    const { overflowX, overflowY, display, fontSize } = getComputedStyle(element);
    // Hints of keys are there only where there is room.
    if (display === "inline" || element.matches("body, option, .keyhints")) continue;
    if (element.closest("pre") || !seen(element)) continue;
    const wide = /hidden|clip/.test(overflowX) && scrollWidth > clientWidth + 1;
    const high = /hidden|clip/.test(overflowY) && scrollHeight > clientHeight + 6;
    if ((wide || high) && element.innerText.trim() && !shown(element)) say("cut", element, element.innerText);
    const letters = Math.round(clientWidth / (parseFloat(fontSize) * 0.6));
    if (wide && letters < 20 && element.matches("#groups .kv > .value")) say(`${letters} letters`, element, "");
  }
  return [...faults];
}"""

# Boxes are what they are where nothing of them is painted, which takes a fifth of the work away. (So a picture is empty.)
UNPAINTED: Final = """{
  const sheet = new CSSStyleSheet();
  sheet.replaceSync("html { clip-path: inset(100%) } .staterow { content-visibility: visible !important }");
  document.adoptedStyleSheets = [sheet];
}"""


def faults(page: Page) -> list[str]:
    """What is wrong at any width on the page as it stands."""
    wrong = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        wrong += [f"{width} px: {fault}" for fault in page.evaluate(MEASURE)]
    return wrong


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_page_breaks_a_word_or_hides_what_it_says(
    visit: Visit, visitor: Visit, server: Adkweb, watch: Watch, language: str
) -> None:
    watch.allow(403, 404)
    watch.stay = False
    signed_out, page = visitor(server, reduced_motion="reduce"), visit(reduced_motion="reduce")
    for each in (signed_out, page):
        each.add_init_script(UNPAINTED)
        each.context.add_cookies([{"name": "adkweb_language", "value": language, "url": server.address}])
    signed_out.goto("/")
    wrong = [f"signing in, {fault}" for fault in faults(signed_out)]
    for name, address in PAGES.items():
        page.goto(address)
        wrong += [f"{name}, {fault}" for fault in faults(page)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("address", ["session", "session at an event"])
def test_each_head_of_the_state_is_one_line(visit: Visit, server: Adkweb, language: str, address: str) -> None:
    page = visit(viewport={"width": 1440, "height": 900})
    page.context.add_cookies([{"name": "adkweb_language", "value": language, "url": server.address}])
    page.goto(PAGES[address])
    heads = page.locator("#side > :not([hidden]) > :is(.sidehead, .then, .momentsteps, .momentactions)")
    heights = heads.evaluate_all("(all) => all.map(({ className, offsetHeight }) => [className, offsetHeight])")
    assert heights
    assert [head for head in heights if head[1] > ONE_LINE] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_filter_is_in_sight_beside_a_pane(visit: Visit, server: Adkweb, language: str) -> None:
    page = visit(viewport={"width": 1440, "height": 900})
    page.context.add_cookies([{"name": "adkweb_language", "value": language, "url": server.address}])
    page.goto(path("s", *SEOUL, end="?pane=drift"))
    page.locator("#pane:not([hidden])").wait_for()
    beyond = page.locator(".toolbar").evaluate("(filters) => filters.scrollWidth - filters.clientWidth")
    assert beyond <= 0
