// Keys: j and k move over [data-row] (focus goes to the row's link), any [data-key="x"] is clicked when x is pressed, and
// so is the [data-row-key="x"] of the [data-key-row] in which the focus is; [data-key="/"] gets the focus, ? opens
// dialog#keys, Escape clicks [data-key="Escape"] of the open form.
// While the focus is in #pane, its keys and rows come first.
// Nothing happens while a person types (except Escape), with a modifier, or with <body data-keys="off">, which
// [data-keys-toggle] switches for this browser: a checkbox, or a button with aria-pressed.
// A person may change keys in dialog#keys: localStorage.keymap {"e": "q"} says that q does what data-key="e" is for, and e
// nothing. What tells of a key shows the one that is in force: [data-hint="e"], and the kbd and title of a [data-key].
// Ctrl Enter (on a Mac, ⌘ Enter; a kbd[data-mac] says so) sends the form in which the focus is, by its main button; with
// the focus in none, the form[data-main].
// Other scripts hear of a key by the event adkweb:key at what has the focus: its detail is "e", whatever was pressed.
(() => {
  const { kept, keptJson, keep, isMac } = window.adkweb;
  const TYPING = [
    "input:not([type=checkbox], [type=radio], [type=button], [type=submit], [type=reset], [type=range])",
    "textarea",
    "select",
    "[contenteditable]:not([contenteditable=false])",
  ].join();
  const LINK = "a[href], summary, button:not(:disabled), [tabindex]";

  const list = document.querySelector("dialog#keys");
  const known = [...list.querySelectorAll("[data-hint]")].map(({ dataset }) => dataset.hint);

  const isKey = (key) => typeof key === "string" && /^[^\s\p{C}]$/u.test(key);
  const visible = (element) => element.checkVisibility({ visibilityProperty: true });
  const scope = () => document.querySelector("dialog:modal") ?? document;
  const paneOf = (element) => element?.closest("#pane");

  function withKey(key, within) {
    return [...within.querySelectorAll(`[data-key="${CSS.escape(key)}"]`)].filter(visible);
  }

  function nextVisible(rows, start, way) {
    for (let at = start; rows[at]; at += way) if (visible(rows[at])) return rows[at];
    return null;
  }

  function move(step) {
    const focused = document.activeElement?.closest("[data-row]");
    const beside = paneOf(document.activeElement)?.querySelector("[data-rows]");
    const within = focused?.closest("[data-rows]") ?? beside ?? scope().querySelector("[data-timeline]") ?? scope();
    const rows = [...within.querySelectorAll("[data-row]")];
    const from = rows.indexOf(focused ?? rows.find((row) => row.matches(".selected, [aria-current=true]")));
    // Without a selection, both keys start where a reader of a timeline is: at its end.
    const isTimeline = within.matches?.("[data-timeline]");
    const [start, way] = from >= 0 ? [from + step, step] : isTimeline ? [rows.length - 1, -1] : [0, 1];
    const row = nextVisible(rows, start, way) ?? rows[from];
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
    const button = (form && withKey("Escape", form)[0]) ?? withKey("Escape", document).at(-1);
    button?.click();
    return Boolean(button);
  }

  function ofRow(key) {
    return document.activeElement?.closest("[data-key-row]")?.querySelector(`[data-row-key="${CSS.escape(key)}"]`);
  }

  function use(target) {
    if (!target.matches(TYPING)) return target.click();
    target.focus();
    target.select?.();
  }

  function press(key) {
    if ((key === "j" || key === "k") && move(key === "j" ? 1 : -1)) return true;
    const heard = new CustomEvent("adkweb:key", { detail: key, bubbles: true, cancelable: true });
    if (!(document.activeElement ?? document.body).dispatchEvent(heard)) return true;
    const near = paneOf(document.activeElement);
    const target = ofRow(key) ?? (near && withKey(key, near)[0]) ?? withKey(key, scope())[0];
    if (target) {
      use(target);
      return true;
    }
    if (key !== "?" || list.open) return false;
    list.showModal();
    return true;
  }

  // --- Keys that were changed --------------------------------------------------------------------------------------

  let map = new Map();

  const keyOf = (key) => map.get(key) ?? key;
  const owner = (pressed, besides) => known.find((key) => key !== besides && keyOf(key) === pressed);
  /** What a pressed key means; the own key of an action that has another one now means nothing. */
  const meaning = (pressed) => owner(pressed) ?? (known.includes(pressed) ? "" : pressed);

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

  function shown(key) {
    const now = keyOf(key);
    const small = now.toLowerCase();
    return now === small ? now : `⇧${small}`;
  }

  /** The key that does what a button is for; "" while keys are off. */
  function keyFor({ dataset: { key, rowKey } }) {
    const own = key ?? rowKey;
    return known.includes(own) && document.body.dataset.keys !== "off" ? shown(own) : "";
  }
  Object.assign(window.adkweb, { use, keyFor });

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
    const other = owner(pressed, key);
    if (other) return say(list.dataset.wordTaken, pressed, actionOf(other));
    if (pressed === key) map.delete(key);
    else map.set(key, pressed);
    writeMap();
    stopChanging();
    say(list.dataset.wordChanged, pressed, actionOf(key));
  }

  /** Puts a button beside each key: once the list is opened, which gives the focus to something in it. */
  function offer() {
    for (const key of known) {
      const button = document.createElement("button");
      Object.assign(button, { type: "button", className: "btn quiet small", textContent: list.dataset.wordChange });
      button.dataset.change = key;
      button.setAttribute("aria-label", list.dataset.wordChangeKey.replace("{action}", actionOf(key)));
      button.setAttribute("aria-pressed", "false");
      const cell = document.createElement("dd");
      cell.append(button);
      rowOf(key).append(cell);
    }
  }
  list.addEventListener("focusin", offer, { once: true });

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
    if (key === "Escape") {
      if (leave(target)) event.preventDefault();
      return;
    }
    if (!isKey(key) || document.body.dataset.keys === "off" || target.closest(TYPING)) return;
    const meant = meaning(key);
    if (meant && press(meant)) event.preventDefault();
  });
})();
