"""Boxes measured: at no width a word is broken, and nothing is out of reach."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from playwright.sync_api import Page

WIDTHS: Final = (320, 390, 768, 1280, 1440, 1920, 2560)
SOME_WIDTHS: Final = (320, 768, 1280)
# A word lies between blanks; after a hyphen or a slash, and between Korean syllables or emoji, a line may end. What nobody
# could put into one line, because it is longer than any word, has at least eight characters in each.
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
  for (const hint of document.querySelectorAll(".toolbar .keyhints > *")) {
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
      if (word.length < 3 || /[-/<>\u3131-\ud7a3]|\p{Extended_Pictographic}|^\p{P}+$/u.test(word)) continue;
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
    const [place, text] = [value.getBoundingClientRect(), range.getBoundingClientRect()];
    const room = by.getBoundingClientRect().top < text.bottom - 6 ? place.width - text.width : 0; // in the same line
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


def faults(page: Page, widths: Iterable[int]) -> list[str]:
    """Returns what is wrong at some widths on the page as it stands, which is not painted any more."""
    page.evaluate(UNPAINTED)
    wrong = []
    for width in widths:
        page.set_viewport_size({"width": width, "height": 900})
        wrong += [f"{width} px: {fault}" for fault in page.evaluate(MEASURE)]
    return wrong
