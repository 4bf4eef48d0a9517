// dialog#palette: where one can go and what one can do from here. Ctrl K (on a Mac, ⌘ K) and [data-palette] open it.
// What the page knows is listed at once: the pages of its menu, and its buttons with their keys. At its data-complete, the
// server says what else there is: other pages, views, and those of this browser's recent sessions (localStorage.recent) that
// the person may see; and, of what is typed, sessions, users, apps and how a search goes on.
// Nothing typed: recent sessions come first, so that Ctrl K and Enter lead back to the one before, then what the page can do.
// Something typed: the groups come in the order of how well their best name goes with it.
// A name matches if each word that is typed begins a word of it, or of the other words for it (data-also), which is then shown
// beside it; where none does so, if one is spelt alike, or if the letters are in it in order.
(() => {
  const { askFor, combobox, isMac, keep, keptJson, keysFor, parsed, setTheme, use } = window.adkweb;
  const RECENT = 8;
  const SHOWN_RECENT = 5; // while nothing is typed: so that the page's actions can be seen, too
  const A_FEW = 3; // of each group, while what is typed is too short to mean one of them
  const dialog = document.querySelector("#palette");

  const recent = [keptJson("recent") ?? []]
    .flat()
    .filter((each) => typeof each === "string" && each !== location.pathname);
  if (document.body.matches("[data-session-page]"))
    keep("recent", JSON.stringify([location.pathname, ...recent].slice(0, RECENT)));
  if (!dialog) return;

  const field = dialog.querySelector("input");
  const list = dialog.querySelector("[role=listbox]");
  const groups = [...list.children];
  const icons = dialog.querySelector("template").content;
  const isOpen = () => dialog.matches(":popover-open");
  const OF_PAGE = [
    "#main .pagehead > .actions :is(a[href], button)",
    "#main .pagehead [data-copy]",
    "#main :is(.momenttabs, .momentlinks, .takeback) a[href]",
    "#main [data-key]:not([data-key=Escape])",
  ].join();
  const OF_EVERY_PAGE = "[data-theme-toggle], .topbar .menu-items :is(button:not([data-palette]), [data-tour-start])";
  const NO_ACTION = ":disabled, [aria-current=true], details.menu:not([data-focus]) > summary";
  const NO_NAME = "kbd, svg, .note, .help, .n, .mark, .news, [data-number], [data-hint]";
  const KNOWN = ["recent", "actions", "views", "pages"]; // the groups that are there before the answer
  const PAGES = [".topbar > .logo", ".topbar .menu-items a:not(.watched, [data-tour-start])", ".topbar-end > a"];

  let known = []; // what the page knows, and what the server said when the palette was opened
  let answer = { text: "", options: [] };
  let waits = false; // for the recent sessions, which will come first
  let entered = false; // Enter was pressed meanwhile
  let moved = false; // an option was chosen with the arrow keys: it stays so when the answer comes
  const runs = new WeakMap(); // by option: what it does
  const { choose, options } = combobox(field, list, { stays: true, offer: answered, taken });

  // --- What the page can do ------------------------------------------------------------------------------------------

  function nameOf(element) {
    const said = element.dataset.name ?? element.getAttribute("aria-label") ?? element.labels?.[0]?.textContent;
    if (said) return said.trim();
    const copy = (element.querySelector("b") ?? element).cloneNode(true);
    for (const part of copy.querySelectorAll(NO_NAME)) part.remove();
    return copy.textContent.replace(/\s+/g, " ").trim();
  }

  /** In a menu, a name is said after that of the menu: “Share: Copy link”. */
  function wholeName(element) {
    const menu = element.closest("#main details.menu:not(.rest, .rare)")?.querySelector("summary");
    const before = menu && menu !== element ? nameOf(menu) : element.closest("form[aria-label]")?.ariaLabel;
    return before ? `${before}: ${nameOf(element)}` : nameOf(element);
  }

  /** It can be seen, or the menu that it is in, or the tab. From now, the past is there, too, without room for its button. */
  function isThere(element) {
    if (element.matches("[data-travel-here]")) return document.querySelector("#moment").hidden;
    if (element.matches(".momenttabs a, .momentlinks a")) return !element.closest("[hidden]");
    let seen = element.matches("summary") ? element.parentElement : element;
    for (let menu = seen; menu; menu = menu.parentElement.closest("details.menu:not([open])")) seen = menu;
    return seen.checkVisibility({ visibilityProperty: true });
  }

  function element(tag, properties) {
    return Object.assign(document.createElement(tag), properties);
  }

  /** A copy of an icon, or of that of the group. */
  function iconFor(group, icon) {
    const copy = (icon ?? icons.querySelector(`.of-${group}`)).cloneNode(true);
    copy.setAttribute("class", "icon");
    return copy;
  }

  function option(group, name, run, { keys = [], help = "", icon = null, also = "" } = {}) {
    const item = element("li", { role: "option" });
    Object.assign(item.dataset, { group, also });
    item.append(iconFor(group, icon), element("span", { className: "bidi truncate", textContent: name }));
    if (help) item.append(element("span", { className: "muted end", textContent: help, title: help }));
    for (const key of keys) item.append(element("kbd", { textContent: key }));
    runs.set(item, run);
    return item;
  }

  const iconOf = (element) => element.querySelector(":scope > .icon:first-child:not(.end)");

  function pages() {
    const links = PAGES.flatMap((some) => [...document.querySelectorAll(some)]);
    const each = new Map(links.map((link) => [link.href, link])); // some are in the bar and in the menu
    return [...each.values()].map((link) =>
      option("pages", nameOf(link), () => use(link), {
        keys: keysFor(link),
        icon: iconOf(link),
        also: link.dataset.also,
      }),
    );
  }

  /** Those of the row in which the focus is come first. */
  function actions() {
    const row = document.activeElement?.closest("[data-key-row]")?.querySelectorAll("[data-row-key]") ?? [];
    const all = [...row, ...document.querySelectorAll(OF_PAGE), ...document.querySelectorAll(OF_EVERY_PAGE)];
    return [...new Set(all)].filter((each) => isThere(each) && !each.matches(NO_ACTION)).flatMap(optionsOf);
  }

  /** What every page can do is listed once something is typed. */
  function optionsOf(button) {
    const help = button.querySelector(".help")?.textContent;
    const icon = iconOf(button);
    const { also } = button.dataset;
    const named = (theme) =>
      option("actions", button.getAttribute(`data-word-${theme}`), () => setTheme(theme), {
        icon: button.querySelector(`.theme-${theme}`),
        also,
      });
    const all = button.matches("[data-theme-toggle]")
      ? ["system", "light", "dark"].map(named)
      : [option("actions", wholeName(button), () => use(button), { keys: keysFor(button), help, icon, also })];
    if (button.matches(OF_EVERY_PAGE)) for (const item of all) item.dataset.typed = "";
    return all;
  }

  // --- What is listed --------------------------------------------------------------------------------------------------

  const plain = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
  const words = (text) => text.match(/[\p{L}\p{N}]+/gu) ?? [];

  /** Whether letters are in a text in their order, and the first of them begins a word. */
  function inOrder(text, letters) {
    return words(text).some((_word, at, all) => {
      let next = 0;
      for (const letter of all.slice(at).join("")) if (letter === letters[next]) next++;
      return next === letters.length && all[at][0] === letters[0];
    });
  }

  /** How many letters are wrong, missing, too many or swapped, in what is typed or more of the word. */
  function mistakes(word, typed) {
    let [before, above] = [[], Array.from({ length: word.length + 1 }, (_each, at) => at)];
    for (const [row, letter] of [...typed].entries()) {
      const next = [row + 1];
      for (const [at, other] of [...word].entries()) {
        next.push(Math.min(above[at] + (letter !== other), above[at + 1] + 1, next[at] + 1));
        if (letter === word[at - 1] && other === typed[row - 1])
          next[at + 1] = Math.min(next[at + 1], before[at - 1] + 1);
      }
      [before, above] = [above, next];
    }
    return above.at(-1);
  }

  /** Whether a word is spelt alike, by the rule of search/spelling.py. */
  const alike = (word, typed) =>
    typed.length >= 4 && !/\d/.test(typed) && mistakes(word, typed) <= (typed.length >= 6 ? 2 : 1);

  /** How well a name goes with what is typed: 0 begins so, 1 words begin so, 1.5 other words for it, 1.9 spelt alike, 2 letters;
   * 3 does not. */
  function rank(item, typed) {
    const name = plain(item.querySelector("span").textContent);
    if (name.startsWith(typed)) return 0;
    const asked = words(typed);
    const begin = (text) => asked.length && asked.every((each) => words(text).some((word) => word.startsWith(each)));
    if (begin(name)) return 1;
    if (begin(`${name} ${plain(item.dataset.also ?? "")}`)) return 1.5;
    if (asked.length !== 1) return 3;
    if (words(`${name} ${plain(item.dataset.also ?? "")}`).some((word) => alike(word, asked[0]))) return 1.9;
    return typed.length > 1 && inOrder(name, asked[0]) ? 2 : 3;
  }

  /** Says which of the other words for it was meant. */
  function explain(item, typed) {
    item.querySelector(".also")?.remove();
    const isMeant = (text, fits) => words(plain(text)).some((word) => words(typed).some((each) => fits(word, each)));
    for (const fits of [(word, each) => word.startsWith(each), alike]) {
      if (isMeant(item.querySelector("span").textContent, fits)) return;
      const also = item.dataset.also?.split(/,\s*/).find((each) => isMeant(each, fits));
      if (!also) continue;
      item.querySelector("span").after(element("span", { className: "muted also", textContent: also }));
      return;
    }
  }

  function matching(typed) {
    if (!typed) return known.filter(({ dataset }) => dataset.typed === undefined);
    const ranked = known.map((item) => [rank(item, typed), item]);
    const worst = [1.5, 1.9].find((most) => ranked.some(([number]) => number <= most)) ?? 2;
    return ranked
      .filter(([number]) => number <= worst)
      .sort(([a], [b]) => a - b)
      .map(([, item]) => item);
  }

  function show() {
    const text = field.value;
    const typed = plain(text.trim());
    const all = matching(typed);
    if (typed) {
      const there = new Set(all.map(({ dataset }) => dataset.address));
      const more = answer.options.filter(({ dataset }) => !dataset.address || !there.has(dataset.address));
      all.push(...more.filter((item) => answer.text === text || (item.dataset.address && rank(item, typed) < 2)));
      all.push(option("search", dialog.dataset.search.replace("{text}", text.trim()), search));
    }
    for (const item of all) explain(item, typed);
    const before = moved && options().find((item) => item.ariaSelected === "true");
    for (const [number, item] of all.entries()) Object.assign(item, { id: `palette-${number}`, ariaSelected: "false" });
    const best = new Map();
    for (const group of groups) {
      const listed = all.filter(({ dataset }) => dataset.group === group.dataset.group);
      group.replaceChildren(...listed.slice(0, most(group.dataset.group, typed)));
      group.hidden = !listed.length;
      best.set(group, typed ? placeOf(group.dataset.group, listed[0], typed) : 0);
    }
    list.append(...groups.toSorted((a, b) => best.get(a) - best.get(b)));
    const first = waits && !typed ? null : options().find(({ dataset }) => dataset.text === undefined);
    choose(before?.isConnected ? before : first);
  }

  /** Sessions with what is typed in their title come after what is called so, and before what only has the letters. */
  function placeOf(group, first, typed) {
    if (group === "sessions") return 1.75;
    if (!KNOWN.includes(group)) return 9;
    return first ? rank(first, typed) : 0;
  }

  function most(group, typed) {
    if (!typed) return group === "recent" ? SHOWN_RECENT : Infinity;
    return typed.length < 3 ? A_FEW : Infinity;
  }

  /** The items of an answer, with the icons of their groups. */
  function itemsOf(html) {
    const items = [...parsed(html).children].filter(({ dataset }) => dataset.address !== location.pathname);
    for (const item of items) item.prepend(iconFor(item.dataset.group));
    return items;
  }

  function answered(html, text) {
    answer = { text, options: itemsOf(html) };
    show();
  }

  // --- Opening, and taking what is chosen ------------------------------------------------------------------------------

  async function open() {
    known = [...pages(), ...actions()];
    waits = true;
    entered = false;
    moved = false;
    field.value = "";
    dialog.showPopover(); // as a modal dialog it would restyle the whole page
    show();
    const address = new URL(list.dataset.complete, location);
    for (const each of recent) address.searchParams.append("recent", each);
    const html = await askFor(address)
      .then((response) => (response.ok ? response.text() : ""))
      .catch(() => "");
    waits = false;
    if (!isOpen()) return;
    known.push(...itemsOf(html));
    show();
    const chosen = entered && options().find(({ ariaSelected }) => ariaSelected === "true");
    if (chosen) taken(chosen);
  }

  const search = () => location.assign(`${dialog.dataset.address}?${new URLSearchParams({ q: field.value.trim() })}`);

  function taken(item) {
    const { address, text } = item.dataset;
    if (text !== undefined) return false;
    if (waits && runs.get(item) === search) return true; // what is coming may have that name: then Enter means it
    dialog.hidePopover(); // the focus is back where it was
    if (address) location.assign(address);
    else runs.get(item)();
    return true;
  }

  field.addEventListener("input", () => {
    moved = false;
    show();
  });
  field.addEventListener("keydown", ({ key }) => {
    moved ||= key.startsWith("Arrow");
    entered = key === "Enter" && waits && !moved;
  });
  dialog.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.isComposing) return;
    event.preventDefault(); // it closes nothing else
    dialog.hidePopover();
  });
  dialog.addEventListener("focusout", ({ relatedTarget }) => {
    if (relatedTarget && !dialog.contains(relatedTarget)) dialog.hidePopover();
  });
  document.addEventListener("click", ({ target }) => {
    const opener = target.closest("[data-palette]");
    if (!opener) return;
    opener.closest("details")?.querySelector("summary").focus(); // where the focus is again afterwards
    open();
  });

  // On a Mac, ctrl K belongs to its text fields.
  const MODIFIER = isMac ? "metaKey" : "ctrlKey";
  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "k" || event.altKey || event.shiftKey || !event[MODIFIER]) return;
    if (event.defaultPrevented || (!isOpen() && document.querySelector("dialog:modal"))) return;
    event.preventDefault();
    if (isOpen()) dialog.hidePopover();
    else open();
  });
})();
