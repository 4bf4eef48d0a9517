// A session as one page: goes through its events, and shows the state at each. What it needs stands in #adkweb-states (the
// state before the first event, then what each event changed; a line each) and #adkweb-export (the events themselves).
(() => {
  const lines = document.querySelector("#adkweb-states")?.textContent.split("\n").filter(Boolean) ?? [];
  const pane = document.querySelector(".filepane");
  if (!pane) return;
  const words = pane.dataset;
  const pairs = document.querySelector("#pairs");
  const strip = document.querySelector("#strip");
  const cursor = document.querySelector("#now");
  const raw = document.querySelector("#raw");
  const keys = document.querySelector("#keys"); // whether keys of one letter do something
  const opened = new Set();
  const here = []; // the rows of the event whose state is shown
  const SHORT = 300; // characters of a value on its line
  const INDENTED = 20_000;

  let changes; // by number of event, [[key, text, own], …]; 0 is the state before the first one
  let events; // by number of event, its JSON
  let at = 0;
  const all = Number(strip?.getAttribute("aria-valuemax") ?? 0);

  const view = () => document.querySelector('input[name="view"]:checked').value;
  const shown = () => document.querySelector(view() === "events" ? "#events" : "#chat");
  const rows = () => [...shown().querySelectorAll("[data-n]")];

  // --- The state at an event ----------------------------------------------------------------------------------------

  /** By key, [text, number of the event that wrote it, own] just after an event; text is 0 where nobody knows it. */
  function stateAt(number) {
    changes ??= lines.map((line) => JSON.parse(line));
    const state = new Map();
    changes.slice(0, number + 1).forEach((some, index) => {
      for (const [key, text, own] of some) {
        if (text === null) state.delete(key);
        else state.set(key, [text, index, own]);
      }
    });
    return state;
  }

  const scopeOf = (key) => /^(app|user|temp):/.exec(key)?.[1] ?? "session";

  /** JSON with a line for each value. Nothing is parsed: a script would read NaN and large numbers as something else. */
  function indented(text) {
    let depth = 0;
    const pieces = text.slice(0, INDENTED).match(/"(?:[^"\\]|\\.)*"?|[{}[\],:]|[^{}[\],:"]+/gs) ?? [];
    const told = pieces.map((piece, index) => {
      const next = pieces[index + 1];
      if (piece === "{" || piece === "[") {
        depth += 1;
        return next === "}" || next === "]" ? piece : `${piece}\n${"  ".repeat(depth)}`;
      }
      if (piece === "}" || piece === "]") {
        depth -= 1;
        const before = pieces[index - 1];
        return before === "{" || before === "[" ? piece : `\n${"  ".repeat(Math.max(0, depth))}${piece}`;
      }
      if (piece === ",") return `,\n${"  ".repeat(depth)}`;
      return piece === ":" ? ": " : piece;
    });
    return told.join("") + (text.length > INDENTED ? "…" : "");
  }

  function element(tag, className, text) {
    const made = document.createElement(tag);
    made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  const COLOURS = { '"': "s", t: "b", f: "b", n: "z", "{": "", "[": "" };

  function pair(key, [text, number, own], removed) {
    const row = element("details", "pair");
    const summary = element("summary", "");
    const name = element("span", "key", key);
    name.title = key;
    const known = text !== 0 && !removed;
    const told = removed ? words.wordRemoved : known ? text.slice(0, SHORT) : words.wordUnknown;
    const value = element("span", `value ${known ? (COLOURS[text[0]] ?? "n") : "z"}`, told);
    const by = own ? words.wordNumber.replace("{n}", number) : number ? words.wordElsewhere : words.wordStart;
    summary.append(name, value, element("span", "wrote", known ? by : ""));
    row.append(summary);
    row.dataset.key = key;
    if (number === at && number > 0) row.classList.add(removed ? "removed" : "changed");
    const whole = element("pre", "bidi", "");
    const open = () => {
      whole.textContent = known ? `${key}\n${indented(text)}` : key;
    };
    row.append(whole);
    if (opened.has(key)) {
      open();
      row.open = true;
    }
    row.addEventListener("toggle", () => {
      if (row.open) {
        open();
        opened.add(key);
      } else opened.delete(key);
    });
    return row;
  }

  function showState() {
    if (!lines.length) return;
    const state = stateAt(at);
    const gone = at
      ? changes[at].filter(([, text]) => text === null).map(([key, text, own]) => [key, [text, at, own]])
      : [];
    for (const section of pairs.querySelectorAll("[data-scope]")) {
      const some = [...state].map(([key, value]) => pair.bind(null, key, value, false));
      const lost = gone.map(([key, value]) => pair.bind(null, key, value, true));
      const keys = [...state.keys(), ...gone.map(([key]) => key)];
      const made = [...some, ...lost]
        .map((make, index) => [keys[index], make])
        .filter(([key]) => scopeOf(key) === section.dataset.scope)
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([, make]) => make());
      const list = section.querySelector(".pairlist");
      list.replaceChildren(...(made.length ? made : [element("p", "nothing", words.wordNone)]));
    }
  }

  function showEvent() {
    events ??= document
      .querySelector("#adkweb-export")
      .textContent.split("\n")
      .filter((line) => line.endsWith('"type":"event"}'));
    raw.hidden = !at;
    if (raw.open && at) raw.querySelector("pre").textContent = indented(events[at - 1] ?? "");
  }

  // --- Going through the events ----------------------------------------------------------------------------------------

  function go(number, { scroll = true } = {}) {
    at = Math.min(Math.max(number, 0), all);
    showState();
    showEvent();
    const label = at ? words.wordAfter.replace("{n}", at).replace("{all}", all) : words.wordBefore;
    if (lines.length) document.querySelector("#moment").textContent = label;
    for (const row of here.splice(0)) row.classList.remove("here");
    for (const box of document.querySelectorAll("#chat, #events")) {
      const row = rowOf(box);
      row?.classList.add("here");
      if (row) here.push(row);
      if (row && scroll && row.checkVisibility()) row.scrollIntoView({ block: "nearest" });
    }
    if (strip) {
      strip.setAttribute("aria-valuenow", at);
      strip.setAttribute("aria-valuetext", label);
      const bar = [...strip.querySelectorAll("rect[data-last]")].find((each) => Number(each.dataset.last) >= at);
      cursor.setAttribute("x", bar ? Number(bar.getAttribute("x")) + 1.25 : 0);
    }
    try {
      history.replaceState(null, "", at === all ? location.pathname : `#e${at}`);
    } catch {} // some browsers refuse it for a file
  }

  /** The row of the event, or of the message that it is a part of; or the last one before it. */
  const rowsOf = new Map();
  function rowOf(box) {
    if (!rowsOf.has(box)) {
      const told = [];
      for (const row of box.querySelectorAll("[data-n]")) {
        told[row.dataset.from ?? row.dataset.n] ??= row;
        told[row.dataset.n] = row;
      }
      for (let number = 1; number <= all; number += 1) told[number] ??= told[number - 1];
      rowsOf.set(box, told);
    }
    return rowsOf.get(box)[at];
  }

  function move(number) {
    const some = rows();
    const index = some.findIndex((row) => here.includes(row));
    const next = some[Math.min(Math.max(index + number, 0), some.length - 1)];
    if (next) go(Number(next.dataset.n));
  }

  function step(number) {
    go(at + number);
  }

  /** To the next event that changed the state itself. */
  function write(number) {
    stateAt(0);
    let next = at + number;
    while (next > 0 && next < all && !changes[next]?.some(([, , own]) => own)) next += number;
    go(next);
  }

  function choose(name) {
    const input = document.querySelector(`input[name="view"][value="${name}"]`);
    input.checked = true;
    go(at);
  }

  const KEYS = {
    j: () => move(1),
    ArrowDown: () => move(1),
    k: () => move(-1),
    ArrowUp: () => move(-1),
    "]": () => step(1),
    "[": () => step(-1),
    "}": () => write(1),
    "{": () => write(-1),
    1: () => choose("chat"),
    2: () => choose("events"),
    Home: () => go(1),
    End: () => go(all),
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || (event.key.length === 1 && !keys.checked)) return;
    const onStrip = event.target === strip && { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const typing = event.target.closest?.("input, summary, pre") && event.key.startsWith("Arrow");
    const act = onStrip ? () => step(onStrip) : typing ? undefined : KEYS[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-step]");
    if (button) return step(Number(button.dataset.step));
    const row = event.target.closest("[data-n]");
    if (row && !event.target.closest("a") && getSelection().isCollapsed) go(Number(row.dataset.n), { scroll: false });
  });

  function drag(event) {
    if (event.type === "pointermove" && !event.buttons) return;
    const box = strip.querySelector("svg").getBoundingClientRect();
    const bars = [...strip.querySelectorAll("rect[data-last]")];
    const share = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 0.9999);
    const bar = bars[Math.floor(share * bars.length)];
    if (bar) go(Number(bar.dataset.last));
  }
  strip?.addEventListener("pointerdown", drag);
  strip?.addEventListener("pointermove", drag);

  for (const input of document.querySelectorAll('input[name="view"]')) input.addEventListener("change", () => go(at));
  raw.addEventListener("toggle", showEvent);
  addEventListener("hashchange", fromAddress);

  function fromAddress() {
    const number = /^#e(\d+)$/.exec(location.hash)?.[1];
    if (Number(number ?? all) !== at) go(Number(number ?? all), { scroll: number !== undefined });
  }

  document.documentElement.classList.add("scripted");
  for (const hidden of document.querySelectorAll(".panesteps")) hidden.hidden = !all || !lines.length;
  if (all) fromAddress();
})();
