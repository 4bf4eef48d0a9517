// Keys: j and k move over [data-row], and [data-line] between them (focus goes to its link), any [data-key="x"] is clicked when
// x is pressed, and so is the [data-row-key="x"] of the [data-key-row] in which the focus is; [data-key="/"] gets the focus, ?
// opens dialog#keys, Escape clicks [data-key="Escape"] of the open form.
// While the focus is in #pane, its keys and rows come first.
// Nothing happens while a person types (except Escape), with a modifier, or with <body data-keys="off">, which
// [data-keys-toggle] switches for this browser: a checkbox, or a button with aria-pressed.
// One key may be for several actions, each in its area: data-key="e.chosen" is e by default, as "e" is. Of those that are
// there, that of the row comes first, then that of #pane. o opens nav#pages, where a letter leads to the page of its [data-go].
// A person may change keys in dialog#keys: localStorage.keymap {"e": "q"} says that q does what data-key="e" is for, and e
// nothing. What tells of a key shows the one that is in force: [data-hint="e"], and the kbd and title of a [data-key].
// The list shows the areas of the page that is open first.
// Ctrl Enter (on a Mac, ⌘ Enter; a kbd[data-mac] says so) sends the form in which the focus is, by its main button; with
// the focus in none, the form[data-main].
// Escape leads back to what had the focus before a key went elsewhere.
// Keys that were pressed before the scripts of a page had come are taken when they have.
// Other scripts hear of a key by the event adkweb:key at what has the focus: its detail is "e", whatever was pressed.
(() => {
  const { early, kept, keptJson, keep, isMac } = window.adkweb;
  const TYPING = [
    "input:not([type=checkbox], [type=radio], [type=button], [type=submit], [type=reset], [type=range])",
    "textarea",
    "select",
    "[contenteditable]:not([contenteditable=false])",
  ].join();
  const ROW = "[data-row], [data-line]";
  const LINK = "a[href]:not([data-again]), summary, button:not(:disabled), [tabindex]";

  const list = document.querySelector("dialog#keys");
  const areas = [...list.querySelectorAll("[data-area]")];
  const areaOf = new Map(); // by action, in the order of the list
  for (const area of areas)
    for (const { dataset } of area.querySelectorAll("[data-hint]")) areaOf.set(dataset.hint, area.dataset.area);
  const known = [...areaOf.keys()];
  const pages = document.querySelector("nav#pages");

  const isKey = (key) => typeof key === "string" && /^[^\s\p{C}]$/u.test(key);
  const visible = (element) => element.checkVisibility({ visibilityProperty: true });
  const scope = () => document.querySelector("dialog:modal") ?? document;
  const paneOf = (element) => element?.closest("#pane");

  const having = (name, actions) => actions.map((each) => `[${name}="${CSS.escape(each)}"]`).join();

  function withKey(actions, within) {
    return [...within.querySelectorAll(having("data-key", actions))].filter(visible);
  }

  function nextVisible(rows, start, way) {
    for (let at = start; rows[at]; at += way) if (visible(rows[at])) return rows[at];
    return null;
  }

  /** The next row from what has the focus between the rows, such as the heading of a turn. */
  function besideFocus(within, rows, step) {
    const here = document.activeElement;
    if (here === within || !within.contains(here)) return null;
    const next = rows.findIndex((row) => here.compareDocumentPosition(row) & Node.DOCUMENT_POSITION_FOLLOWING);
    const after = next < 0 ? rows.length : next;
    return nextVisible(rows, step > 0 ? after : after - 1, step);
  }

  function move(step) {
    const focused = document.activeElement?.closest(ROW);
    const beside = paneOf(document.activeElement)?.querySelector("[data-rows]");
    const within = focused?.closest("[data-rows]") ?? beside ?? scope().querySelector("[data-timeline]") ?? scope();
    const rows = [...within.querySelectorAll(ROW)];
    const from = rows.indexOf(focused ?? rows.find((row) => row.matches(".selected, [aria-current=true]")));
    // Without a selection, both keys start where a reader of a timeline is: at its end.
    const isTimeline = within.matches?.("[data-timeline]");
    const [start, way] = from >= 0 ? [from + step, step] : isTimeline ? [rows.length - 1, -1] : [0, 1];
    const row = (!focused && besideFocus(within, rows, step)) || (nextVisible(rows, start, way) ?? rows[from]);
    if (!row) return false;
    const link = row.matches(LINK) ? row : row.querySelector(LINK);
    link?.focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
    return true;
  }

  function leave(target) {
    if (document.querySelector("dialog:modal")) return false;
    if (target.matches("input[type=search]")) {
      target.blur();
      return true;
    }
    const form = target.closest("form");
    const button = (form && withKey(["Escape"], form)[0]) ?? withKey(["Escape"], document).at(-1);
    button?.click();
    return Boolean(button);
  }

  function ofRow(actions) {
    const row = document.activeElement?.closest("[data-key-row]");
    return [...(row?.querySelectorAll(having("data-row-key", actions)) ?? [])].find(visible);
  }

  let left = null; // where the focus was before a key, or the palette, went to a target

  function use(target) {
    left = { from: document.activeElement, target };
    if (!target.matches(TYPING)) return target.click();
    target.focus();
    target.select?.();
    target.dispatchEvent(new Event("adkweb:used"));
  }

  /** Escape leads back there: what it closes gives the focus to the target, or to nothing. */
  function giveBack() {
    if (!left || ![document.body, left.target].includes(document.activeElement)) return;
    if (left.from.isConnected && visible(left.from)) left.from.focus({ preventScroll: true });
    left = null;
  }
  document.addEventListener("keydown", ({ key }) => key === "Escape" && setTimeout(giveBack), true);
  document.addEventListener("pointerdown", () => {
    left = null;
  });

  function press(actions) {
    for (const action of actions) {
      if ((action === "j" || action === "k") && move(action === "j" ? 1 : -1)) return true;
      const heard = new CustomEvent("adkweb:key", { detail: action, bubbles: true, cancelable: true });
      if (!(document.activeElement ?? document.body).dispatchEvent(heard)) return true;
    }
    const near = paneOf(document.activeElement);
    const target = ofRow(actions) ?? (near && withKey(actions, near)[0]) ?? withKey(actions, scope())[0];
    if (target) use(target);
    else if (actions.includes("o") && pages && scope() === document) pages.showPopover();
    else if (actions.includes("?") && !list.open) list.showModal();
    else return false;
    return true;
  }

  /** Goes to the page of a letter, while the list of pages is open; closes it. */
  function goTo(key) {
    if (!pages?.matches(":popover-open")) return false;
    pages.hidePopover();
    pages.querySelector(`[data-go="${CSS.escape(key)}"]`)?.click();
    return true;
  }

  // --- Keys that were changed --------------------------------------------------------------------------------------

  let map = new Map();

  const keyOf = (action) => map.get(action) ?? [...action][0];
  const TOGETHER = [["session", "key", "past"]]; // areas of one page; everywhere is with each
  const meet = (a, b) =>
    a === b ||
    a === "everywhere" ||
    b === "everywhere" ||
    TOGETHER.some((some) => some.includes(a) && some.includes(b));
  /** Another action that has a key where this one is. */
  const owner = (pressed, action) =>
    known.find((each) => each !== action && keyOf(each) === pressed && meet(areaOf.get(each), areaOf.get(action)));
  /** The actions that a pressed key may mean; none for the own key of actions that all have another one now. */
  function meanings(pressed) {
    const actions = known.filter((each) => keyOf(each) === pressed);
    return actions.length || known.some((each) => [...each][0] === pressed) ? actions : [pressed];
  }

  function readMap() {
    const given = keptJson("keymap");
    const entries = given?.constructor === Object ? Object.entries(given) : [];
    map = new Map(entries.filter(([key, now]) => known.includes(key) && isKey(now)));
    // Where two actions have one key, those that were changed get their own back.
    const doubled = () => [...map.keys()].find((key) => owner(map.get(key), key));
    for (let key = doubled(); key; key = doubled()) map.delete(key);
  }

  function writeMap() {
    keep("keymap", JSON.stringify(Object.fromEntries(map)));
    hint(document);
  }

  function shown(action) {
    const now = keyOf(action);
    const small = now.toLowerCase();
    return now === small ? now : `⇧${small}`;
  }

  /** The keys that do what an element is for, one after the other; none while keys are off. */
  function keysFor(element) {
    if (document.body.dataset.keys === "off") return [];
    const { key, rowKey } = element.dataset;
    const own = key ?? rowKey ?? element.querySelector("[data-hint]")?.dataset.hint;
    if (known.includes(own)) return [shown(own)];
    const page = [...pages.children].find(({ href }) => href === element.href);
    return page ? [shown("o"), page.dataset.go] : [];
  }
  Object.assign(window.adkweb, { use, keysFor });

  function hint(root) {
    const telling = "[data-hint], [data-key] kbd, [data-key][title], [data-key][aria-keyshortcuts]";
    for (const element of [root, ...root.querySelectorAll(telling)]) {
      const key = element.dataset?.hint ?? element.closest?.("[data-key]")?.dataset.key;
      if (!known.includes(key)) continue;
      const name = shown(key);
      if (element.matches("[data-hint], kbd") && element.textContent !== name) element.textContent = name;
      if (/^⇧?\S$/u.test(element.title)) element.title = name;
      const shortcuts = element.getAttribute("aria-keyshortcuts"); // "/ Control+K Meta+K"
      if (shortcuts) element.setAttribute("aria-keyshortcuts", shortcuts.replace(/^\S+/, keyOf(key)));
    }
  }

  let changing = null; // the button whose key is waited for

  function say(words = "", key = "", action = "") {
    list.querySelector("[data-said]").textContent = words.replace("{key}", key).replace("{action}", action);
  }

  const rowOf = (key) => list.querySelector(`[data-hint="${CSS.escape(key)}"]`).closest("div");
  const actionOf = (key) => rowOf(key).querySelector("dd").textContent;

  function stopChanging() {
    changing?.setAttribute("aria-pressed", "false");
    changing = null;
  }

  function change(pressed) {
    const { change: key } = changing.dataset;
    const other = pressed !== [...key][0] && owner(pressed, key);
    if (other) return say(list.dataset.wordTaken, pressed, actionOf(other));
    if (pressed === [...key][0]) map.delete(key);
    else map.set(key, pressed);
    writeMap();
    stopChanging();
    say(list.dataset.wordChanged, pressed, actionOf(key));
  }

  /** Makes a button of each key: once the list is opened, which gives the focus to something in it. */
  function offer() {
    for (const key of known) {
      const button = Object.assign(document.createElement("button"), { type: "button", ariaPressed: "false" });
      button.dataset.change = key;
      button.ariaLabel = list.dataset.wordChangeKey.replace("{action}", actionOf(key));
      const hint = rowOf(key).querySelector("[data-hint]");
      hint.replaceWith(button);
      button.append(hint);
    }
  }
  list.addEventListener("focusin", offer, { once: true });

  // --- The list ------------------------------------------------------------------------------------------------------

  const filter = list.querySelector("input[type=search]");

  /** Shows the rows that have what is typed, in their keys or their words. */
  function narrow() {
    const text = filter.value.trim().toLowerCase();
    for (const area of areas) {
      const rows = [...area.querySelectorAll("dl > div")];
      for (const row of rows) row.hidden = ![...row.querySelectorAll("kbd, dd")].some(matches);
      area.hidden = rows.every((row) => row.hidden);
    }
    list.querySelector("[data-none]").hidden = areas.some((area) => !area.hidden);

    function matches({ textContent }) {
      return textContent.toLowerCase().includes(text);
    }
  }
  filter.addEventListener("input", narrow);
  filter.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.isComposing) return;
    event.preventDefault(); // it closes the list at once, whatever is typed
    list.close();
  });

  /** Puts first the areas of the page that is open. */
  list.addEventListener("toggle", () => {
    if (!list.open) return;
    filter.value = "";
    narrow();
    const isHere = ({ dataset: { area } }) => {
      const actions = known.filter((each) => areaOf.get(each) === area);
      return document.querySelector(`:is(${having("data-key", actions)}, ${having("data-row-key", actions)})`) !== null;
    };
    for (const area of areas.filter((each) => each.querySelector("[data-here]"))) {
      area.querySelector("[data-here]").hidden = !isHere(area);
    }
    const rank = (area) => (area.dataset.area === "everywhere" ? 1 : area.querySelector("[data-here]").hidden ? 2 : 0);
    areas[0].parentElement.append(...[...areas].sort((a, b) => rank(a) - rank(b)));
  });

  // --- Changing ------------------------------------------------------------------------------------------------------

  list.addEventListener("click", ({ target }) => {
    const button = target.closest("[data-change]");
    const again = button === changing;
    stopChanging();
    if (button) {
      say();
      if (again) return;
      changing = button;
      button.setAttribute("aria-pressed", "true");
      say(list.dataset.wordPress, "", actionOf(button.dataset.change));
      button.scrollIntoView({ block: "nearest" }); // what is said may stand over it
    } else if (target.closest("[data-keys-reset]")) {
      map.clear();
      writeMap();
      say(list.dataset.wordReset);
    }
  });
  list.addEventListener("focusout", () => {
    if (changing) say();
    stopChanging();
  });
  list.addEventListener("keydown", (event) => {
    if (!changing || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      stopChanging();
      say();
    } else if (isKey(event.key)) change(event.key);
    else return;
    event.preventDefault(); // Escape closes nothing, and no key does what it is for
  });

  readMap();
  if (map.size) hint(document);
  document.addEventListener("htmx:load", ({ target }) => map.size && hint(target));

  // --- The switch --------------------------------------------------------------------------------------------------

  const stored = () => kept("keys") ?? "on";

  function apply(setting) {
    document.body.dataset.keys = setting;
    for (const toggle of document.querySelectorAll("[data-keys-toggle]")) {
      if (toggle.type === "checkbox") toggle.checked = setting === "on";
      else toggle.setAttribute("aria-pressed", String(setting === "on"));
    }
  }

  apply(stored());
  addEventListener("storage", ({ key }) => {
    if (key === "keys" || key === null) apply(stored());
    if (key !== "keymap" && key !== null) return;
    readMap();
    hint(document);
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest?.("[data-keys-toggle]")) return;
    const setting = document.body.dataset.keys === "on" ? "off" : "on";
    keep("keys", setting);
    apply(setting);
  });

  // The browser shows what is missing or wrong in the form, and goes there.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.defaultPrevented || event.isComposing || event.altKey || event.shiftKey) return;
    if (!(event.ctrlKey || event.metaKey) || event.repeat || event.target.closest?.("a, button, summary")) return;
    const form = event.target.closest?.("form") ?? scope().querySelector("form[data-main]");
    const button = form?.querySelector("button.primary:not([type=button], :disabled)");
    if (!button) return;
    event.preventDefault();
    button.click(); // htmx asks which button was clicked
  });

  function hintMac(within) {
    for (const hint of isMac ? within.querySelectorAll("kbd[data-mac]") : []) hint.textContent = hint.dataset.mac;
  }
  hintMac(document);
  document.addEventListener("htmx:load", ({ target }) => hintMac(target));

  document.addEventListener("keydown", (event) => {
    const { key, target } = event;
    if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (!(target instanceof Element)) return;
    if (isKey(key) && goTo(key)) return event.preventDefault();
    if (key === "Escape") {
      if (pages?.matches(":popover-open")) return; // the browser closes it, and nothing else is closed
      if (leave(target)) event.preventDefault();
      return;
    }
    if (!isKey(key) || document.body.dataset.keys === "off" || target.closest(TYPING)) return;
    const actions = meanings(key);
    if (actions.length && press(actions)) event.preventDefault();
  });

  // What was pressed before this was there, up to a key that leads to a field: what was typed then is not known.
  document.addEventListener("DOMContentLoaded", () => {
    for (const key of early.filter(isKey)) {
      if (document.activeElement.matches(TYPING)) return;
      document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    }
  });
})();
