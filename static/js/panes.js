// F6 and the key ; go to the next of the panes of a page ([data-pane]), Shift F6 to the one before: to where the focus was
// when it left the pane, or else to the selected row, the pane's title or the first key of the state. On a narrow screen, the
// pane's tab is shown. a[data-to-pane="state"] goes to that one.
(() => {
  const { isNarrow, showTab } = window.adkweb;
  const LINK = "a[href]:not([data-again]), summary, button:not(:disabled)";
  const panes = [...document.querySelectorAll("[data-pane]")];
  if (!panes.length) return;
  const left = new Map(); // by pane: what had the focus in it

  const isThere = (element) => element?.isConnected && element.checkVisibility({ visibilityProperty: true });
  const paneOf = (element) => panes.find((pane) => pane.contains(element));

  /** What takes the focus when it comes to a pane. */
  function landing(pane) {
    const rows = [...pane.querySelectorAll("[data-timeline] [data-row]")];
    const before = left.get(pane);
    // Steps in time may have gone on meanwhile: the row that they came to is the one, not the row that was left.
    const selected = rows.find((row) => row.matches(".selected"))?.querySelector(LINK);
    if (isThere(before) && !(isThere(selected) && before.closest("[data-row]"))) return before;
    const last = rows.findLast((row) => isThere(row.querySelector(LINK)))?.querySelector(LINK);
    const key = "[data-key-row] summary, [data-key-row] .key[tabindex]";
    const first = (selector) => [...pane.querySelectorAll(selector)].find(isThere);
    return isThere(selected) ? selected : (last ?? first("#pane-title") ?? first(key) ?? first(LINK));
  }

  function go(pane) {
    if (isNarrow()) showTab(pane.dataset.pane);
    const target = landing(pane);
    if (!target) return false;
    target.focus({ preventScroll: true });
    target.scrollIntoView({ block: "nearest", behavior: "instant" });
    return true;
  }

  /** Where the focus is in none of them, it goes to the first, or the last. */
  function hop(step) {
    const at = panes.indexOf(paneOf(document.activeElement));
    return go(panes.at(at < 0 ? Math.min(step, 0) : (at + step) % panes.length));
  }

  document.addEventListener("focusin", ({ target }) => {
    const pane = paneOf(target);
    if (pane) left.set(pane, target);
  });

  document.addEventListener("keydown", (event) => {
    if (event.key !== "F6" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.defaultPrevented || document.querySelector("dialog:modal")) return;
    if (hop(event.shiftKey ? -1 : 1)) event.preventDefault();
  });
  document.addEventListener("adkweb:key", (event) => {
    if (event.detail === ";" && !document.querySelector("dialog:modal") && hop(1)) event.preventDefault();
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[data-to-pane]");
    const pane = panes.find(({ dataset }) => dataset.pane === link?.dataset.toPane);
    if (pane && go(pane)) event.preventDefault();
  });
})();
