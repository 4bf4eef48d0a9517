// form.querybar: completes what is typed in #query. ctrl K or ⌘K goes there from anywhere and offers pages and actions,
// too. The list (ul[role=listbox]) is asked for at data-complete; arrow keys move in it, Enter and Tab take an option, Escape
// closes it. Options: data-text goes into the query at data-start; data-address is a page, data-button a button to press;
// data-search searches for what was typed, which the page “Sessions” (hx-get) has done by then.
// The reader's time zone is said in a cookie, because a query may hold a time of day.
(() => {
  const { counted, askFor, isMac } = window.adkweb;
  const zone = encodeURIComponent(Intl.DateTimeFormat().resolvedOptions().timeZone ?? "");
  const cookie = `adkweb_zone=${zone}`;
  if (zone && !document.cookie.split("; ").includes(cookie)) {
    // biome-ignore lint/suspicious/noDocumentCookie: Cookie Store is not there on plain HTTP
    document.cookie = `${cookie}; path=/; max-age=31536000; SameSite=Lax`;
  }

  const bar = document.querySelector("#querybar");
  if (!bar) return;
  const field = bar.querySelector("#query");
  const list = bar.querySelector("#queryoptions");
  const below = bar.querySelector("#querymarks");
  const WAIT = 80;
  let waiting = 0;
  let asking = null;
  let going = false; // pages and actions are offered, too
  let before = ""; // what stood in the field then
  let chosen = null;

  // The query counts characters, a field counts UTF-16 units.
  const characters = (text) => [...text].length;
  const units = (text, count) => [...text].slice(0, count).join("").length;
  const options = () => [...list.querySelectorAll("[role=option]")];

  function choose(option) {
    chosen?.setAttribute("aria-selected", "false");
    chosen = option ?? null;
    if (!chosen) return field.removeAttribute("aria-activedescendant");
    chosen.setAttribute("aria-selected", "true");
    field.setAttribute("aria-activedescendant", chosen.id);
    chosen.scrollIntoView({ block: "nearest" });
  }

  function close() {
    clearTimeout(waiting);
    asking?.abort();
    choose(null);
    list.hidden = true;
    field.setAttribute("aria-expanded", "false");
  }

  function tell(count) {
    document.querySelector("#announcer").textContent = counted(list, count);
  }

  async function ask() {
    asking?.abort();
    asking = new AbortController();
    const { signal } = asking;
    const at = characters(field.value.slice(0, field.selectionStart));
    const asked = new URLSearchParams({ q: field.value, at, ...(going ? { go: 1 } : {}) });
    const answer = await askFor(`${bar.dataset.complete}?${asked}`, { signal })
      .then((response) => (response.ok ? response.text() : ""))
      .catch(() => null); // it was cancelled, or the server is away: then nothing is offered
    if (answer === null || signal.aborted || document.activeElement !== field) return;
    list.innerHTML = answer;
    list.classList.toggle("iconed", list.querySelector(".icon") !== null);
    if (bar.hasAttribute("hx-get")) list.querySelector("[data-search]")?.remove();
    choose(null);
    const count = options().length;
    if (!count) return close();
    list.hidden = false;
    field.setAttribute("aria-expanded", "true");
    tell(count);
  }

  function askSoon() {
    clearTimeout(waiting);
    waiting = setTimeout(ask, WAIT);
  }

  function take(option) {
    const { text, start, address, button, search } = option.dataset;
    close();
    if (search !== undefined) return bar.requestSubmit();
    if (address) return location.assign(address);
    if (button) {
      if (going && field.value !== before) {
        field.value = before; // what was typed was a name, and not a query
        field.dispatchEvent(new Event("input", { bubbles: true }));
      }
      field.blur();
      return document.querySelector(button)?.click();
    }
    const { value, selectionEnd } = field;
    const from = units(value, Number(start));
    const rest = value.slice(selectionEnd);
    field.setRangeText(/[:.(]$/.test(text) || rest.startsWith(" ") ? text : `${text} `, from, selectionEnd, "end");
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }

  /** The option that Tab takes: the chosen one, or the first while a word is being typed. */
  function nextByTab() {
    const first = options().find(({ dataset }) => dataset.text);
    if (chosen || !first) return chosen;
    return units(field.value, Number(first.dataset.start)) < field.selectionStart ? first : null;
  }

  function press(event) {
    const all = options();
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && list.hidden) ask();
    else if (step) choose(all[(all.indexOf(chosen) + step + all.length + (chosen || step > 0 ? 0 : 1)) % all.length]);
    else if (list.hidden) return false;
    else if (event.key === "Escape") close();
    else if (event.key === "Enter" && chosen) take(chosen);
    else if (event.key === "Tab" && !event.shiftKey && nextByTab()) take(nextByTab());
    else {
      if (event.key === "Enter") close();
      return false;
    }
    return true;
  }

  field.addEventListener("keydown", (event) => {
    if (event.isComposing || event.altKey || event.ctrlKey || event.metaKey) return;
    if (press(event)) event.preventDefault();
  });
  field.addEventListener("input", () => {
    for (const shade of below.querySelectorAll("mark")) shade.replaceWith(shade.textContent); // until the server has read it
    askSoon();
  });
  field.addEventListener("blur", () => {
    going = false;
    close();
  });
  list.addEventListener("pointerdown", (event) => event.preventDefault()); // the field keeps the focus
  list.addEventListener("click", ({ target }) => {
    const option = target.closest("[role=option]");
    if (option) take(option);
  });

  // The marks lie below the field's own text, wherever that is scrolled to.
  const follow = () => {
    below.scrollLeft = field.scrollLeft;
  };
  for (const name of ["scroll", "input", "keyup", "select"]) field.addEventListener(name, follow);

  // On a Mac, ctrl K belongs to its text fields.
  const MODIFIER = isMac ? "metaKey" : "ctrlKey";
  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "k" || event.altKey || event.shiftKey || !event[MODIFIER]) return;
    if (event.defaultPrevented || document.querySelector("dialog:modal")) return;
    event.preventDefault();
    if (!going) before = field.value;
    going = true;
    field.focus();
    field.select();
    ask();
  });
})();
