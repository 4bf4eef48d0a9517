"""Targets measured: what a pointer can press is 24 by 24 CSS px, or stands where nothing else is pressed by mistake."""

from __future__ import annotations

from typing import Final

from playwright.sync_api import Page

WIDTHS: Final = (1440, 390)
# WCAG 2.5.8. A target is what the pointer reaches: the words of a checkbox belong to it, and so does what a link lays over
# its row. One that is smaller may stand in a line of text, or alone: a circle of 24 px around its centre meets no other
# target, nor the circle of another small one. Bars in a picture of time are as wide as what they show took: that is
# essential, and rows say the same.
MEASURE: Final = r"""(size) => {
  const TARGETS = "a[href], button, input, select, textarea, summary, label:has(input), [role=slider], [role=option]";
  const half = size / 2;
  const seen = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true })
    && !element.closest(".visually-hidden, .skip-link, [inert], json-editor, svg")
    && !element.matches(":disabled, [type=hidden]");
  const shown = (element) => {
    let { left, top, right, bottom } = element.getBoundingClientRect();
    for (let around = element.parentElement; around; around = around.parentElement) {
      if (!/hidden|clip/.test(getComputedStyle(around).overflowX)) continue; // what scrolls is scrolled to
      const clip = around.getBoundingClientRect();
      [left, top] = [Math.max(left, clip.left), Math.max(top, clip.top)];
      [right, bottom] = [Math.min(right, clip.right), Math.min(bottom, clip.bottom)];
    }
    return { left, top, right, bottom };
  };
  const within = document.querySelector("dialog:modal") ?? document.body;
  const all = [...within.querySelectorAll(TARGETS)]
    .filter((element) => seen(element) && !element.matches("label input"))
    .map((element) => ({ element, box: shown(element) }));
  for (const target of all) {
    const { left, top, right, bottom } = target.box;
    [target.width, target.height] = [right - left, bottom - top];
    [target.x, target.y] = [(left + right) / 2, (top + bottom) / 2];
    target.small = Math.min(target.width, target.height) < size - 0.5;
  }
  // What is cut away, or lies under a menu that is open, cannot be pressed.
  const pressed = all.filter(({ element, width, height, x, y }) => {
    const hit = document.elementFromPoint(x, y);
    return width > 0 && height > 0 && hit && (element.contains(hit) || hit.contains(element));
  });
  const reached = ({ element, x, y }) => [-1, 0, 1].every((a) => [-1, 0, 1].every((b) => {
    const hit = document.elementFromPoint(x + a * (half - 0.5), y + b * (half - 0.5));
    return hit && hit.closest(TARGETS) === element;
  }));
  const inLine = ({ element }) => {
    if (getComputedStyle(element).display !== "inline") return false;
    let line = element.parentElement;
    while (getComputedStyle(line).display === "inline") line = line.parentElement;
    if (/flex|grid/.test(getComputedStyle(line).display) && line === element.parentElement) return false;
    const walker = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const { data, parentElement } = walker.currentNode;
      if (/[\p{L}\p{N}]/u.test(data) && !parentElement.closest(TARGETS) && seen(parentElement)) return true;
    }
    return false;
  };
  const far = ({ x, y }, { left, right, top, bottom }) =>
    Math.hypot(Math.max(left - x, 0, x - right), Math.max(top - y, 0, y - bottom)) >= half - 0.5;
  const alone = (target) => pressed.every((other) => other === target
    || (far(target, other.box) && (!other.small || Math.hypot(other.x - target.x, other.y - target.y) >= size - 0.5)));
  return pressed
    .filter((target) => target.small && !inLine(target) && !reached(target) && !alone(target))
    .map(({ element, width, height }) => `${Math.round(width)} × ${Math.round(height)}: ${element.localName}`
      + `.${element.className} in ${element.parentElement.localName}.${element.parentElement.className} `
      + `“${(element.ariaLabel ?? element.innerText ?? "").replaceAll(/\s+/g, " ").trim().slice(0, 40)}”`);
}"""


def small(page: Page) -> list[str]:
    """The targets on a page that are too small, each kind of element once."""
    lines = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 6000})
        lines += [f"at {width} px, {line}" for line in dict.fromkeys(page.evaluate(MEASURE, 24))]
    return lines
