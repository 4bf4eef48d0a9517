// The name of a key in a state panel ([data-key-row] .key) shows what is known of the key on one shared card ([data-key-card],
// its address): while the pointer is on the name, or the keyboard's focus. The card is fetched when it is first asked for.
// Of the names, one can be reached by Tab; the arrow keys go to the others, also from the field that filters them, Enter goes
// into the card, Escape closes it.
(() => {
  const card = document.querySelector("[data-key-card]");
  if (!card) return;
  Object.assign(card, { hidden: false, popover: "manual" });
  document.body.append(card); // in a pane that is hidden, it could not be shown
  const WAIT = 350; // milliseconds: a pointer that only crosses a name opens nothing
  const KEPT = 30_000;
  const kept = new Map(); // by key: the card's content, and when it was fetched
  let opened = null; // the name beside which the card stands
  let focused = null; // the name that has the focus
  let timer = 0;

  const nameOf = (row) => row?.querySelector(".key");
  const rows = () => [...document.querySelectorAll("[data-key-row]")].filter((row) => nameOf(row)?.checkVisibility());
  /** What takes the focus for a name: the summary around it, which can be opened, or the name itself. */
  const handle = (name) => name.closest("summary") ?? name;

  /** The name of a key that an element is in, or is the summary of. */
  function keyOf(target) {
    const name = nameOf(target.closest?.("[data-key-row]"));
    return name && (name.contains(target) || target === handle(name)) ? name : null;
  }

  async function content(key) {
    const before = kept.get(key);
    if (before && performance.now() - before.at < KEPT) return before.html;
    const answer = await fetch(`${card.dataset.keyCard}?${new URLSearchParams({ key })}`);
    if (!answer.ok || answer.redirected) return "";
    const html = await answer.text();
    kept.set(key, { html, at: performance.now() });
    return html;
  }

  async function open(name, { into = false } = {}) {
    clearTimeout(timer);
    if (opened !== name) close();
    opened = name;
    const html = await content(name.closest("[data-key-row]").dataset.keyRow);
    if (opened !== name || !name.isConnected || !html) return;
    if (!card.matches(":popover-open")) {
      card.innerHTML = html;
      name.dataset.title = name.title;
      name.removeAttribute("title"); // the card says it
      handle(name).setAttribute("aria-describedby", card.id);
      card.showPopover();
    }
    beside(name);
    if (into) card.querySelector("a")?.focus();
  }

  /** Under the name, or over it where there is no room. */
  function beside(name) {
    const { left, top, bottom } = name.getBoundingClientRect();
    const { offsetWidth, offsetHeight } = card;
    const under = bottom + offsetHeight + 8 <= innerHeight || top < offsetHeight + 8;
    card.style.left = `${Math.max(8, Math.min(left, innerWidth - offsetWidth - 8))}px`;
    card.style.top = `${under ? bottom + 2 : top - offsetHeight - 2}px`;
  }

  function close() {
    clearTimeout(timer);
    if (!opened) return;
    handle(opened).removeAttribute("aria-describedby");
    if (opened.dataset.title) opened.title = opened.dataset.title;
    delete opened.dataset.title;
    opened = null;
    if (card.matches(":popover-open")) card.hidePopover();
  }

  /** Makes one name reachable by Tab: this one, or the first. A summary can be reached anyway. */
  function reach(name) {
    for (const list of document.querySelectorAll("[data-rows]:has([data-key-row])")) {
      const before = list.querySelector('.key[tabindex="0"]');
      if (before && (!list.contains(name) || before === name)) continue;
      const names = [...list.querySelectorAll("[data-key-row]")].map(nameOf);
      const chosen = list.contains(name) ? name : names.find((each) => each && handle(each) === each);
      if (!chosen) continue;
      if (before) before.tabIndex = -1;
      chosen.tabIndex = 0;
      chosen.setAttribute("role", "button");
    }
  }

  document.addEventListener("pointerover", ({ target }) => {
    const name = keyOf(target);
    if (name?.contains(target)) {
      clearTimeout(timer);
      if (name !== opened) timer = setTimeout(open, WAIT, name);
    } else if (card.contains(target)) clearTimeout(timer);
    else if (!opened || !card.contains(document.activeElement)) {
      clearTimeout(timer);
      if (opened && document.activeElement !== handle(opened)) timer = setTimeout(close, WAIT);
    }
  });

  document.addEventListener("focusin", ({ target }) => {
    if (card.contains(target)) return;
    const name = keyOf(target);
    focused = name;
    if (!name || !target.matches(":focus-visible")) return close();
    if (target === name) reach(name);
    clearTimeout(timer);
    timer = setTimeout(open, WAIT, name);
  });

  document.addEventListener("click", ({ target }) => {
    const name = keyOf(target);
    if (name && handle(name) === name) open(name);
    else if (!card.contains(target)) close();
  });

  // In the capture phase: an Escape that closes the card closes nothing else.
  document.addEventListener(
    "keydown",
    (event) => {
      const { key, target } = event;
      if (key === "Escape" && opened) {
        const inside = card.contains(target);
        const back = handle(opened);
        close();
        if (inside) back.focus();
        clearTimeout(timer);
        event.stopPropagation();
        event.preventDefault();
        return;
      }
      const name = keyOf(target);
      if (key === "ArrowDown" && target.matches("[data-state-filter]")) {
        const list = target.closest(".statefilter").parentElement;
        go(nameOf(rows().find((row) => list.contains(row))));
      } else if (!name || handle(name) !== target) return;
      else if ((key === "Enter" || key === " ") && target === name) open(name, { into: true });
      else if (key === "ArrowDown" || key === "ArrowUp") step(name, key === "ArrowDown" ? 1 : -1);
      else return;
      event.stopPropagation();
      event.preventDefault();
    },
    true,
  );

  function step(name, by) {
    const all = rows();
    go(nameOf(all[all.indexOf(name.closest("[data-key-row]")) + by]));
  }

  function go(next) {
    if (!next) return;
    if (handle(next) === next) reach(next);
    handle(next).focus();
  }

  function follow({ target }) {
    if (!opened || target === card) return;
    const { top, bottom } = opened.getBoundingClientRect();
    if (bottom < 0 || top > innerHeight) close();
    else beside(opened);
  }
  document.addEventListener("scroll", follow, { capture: true, passive: true });

  /** The name of the same key in a state that was pushed anew. */
  function renewed(name) {
    const { keyRow } = name.closest("[data-key-row]").dataset;
    return nameOf(rows().find((row) => row.dataset.keyRow === keyRow));
  }

  const watcher = new MutationObserver(() => {
    reach();
    if (opened && !opened.isConnected) {
      const name = renewed(opened);
      close();
      if (name) open(name);
    }
    if (focused?.isConnected === false && document.activeElement === document.body) {
      const name = renewed(focused);
      focused = null;
      if (name && handle(name) === name) reach(name);
      if (name) handle(name).focus({ preventScroll: true });
    }
  });
  for (const pane of document.querySelectorAll("main aside")) watcher.observe(pane, { childList: true, subtree: true });
  reach();
})();
