// Time travel: #moment (the state at an event) takes the place of #state (the state now), which live.js goes on keeping up
// to date. An a[data-at] goes to an event, and from a trace (.lane) to that part of it; [data-travel-step] so many events on
// (data-travel-to: writes, that changed state; errors, that failed); [data-travel-show] shows another part of it;
// [data-travel-here] goes to the row that is focused or selected; [data-travel-back] gives #state back. There is one cursor:
// in the past, the row with the focus is the one whose state is shown. What edits ([hx-target="#edit"]) asks there by #past
// first, because an edit is about now. #strip is asked for anew while events arrive. strip.js hears adkweb:moment, which says
// what is shown, and asks for another event by adkweb:travel. Everything is asked for here one at a time: what was wished last
// is asked for when the answer before it is there.
(() => {
  const { addressWith, askFor, isNarrow, opened, openAgain, opensElsewhere, showTab } = window.adkweb;
  const panel = document.querySelector("#moment");
  if (!panel) return;
  const now = document.querySelector("#state");
  const strip = document.querySelector("#strip");
  const events = document.querySelector("#events");
  const { state: stateAddress, events: eventsAddress, strip: stripAddress } = panel.dataset;

  const ADDRESS_MS = 400; // browsers refuse to change the address too often
  const STRIP_MS = 1_000; // from a strip to the next, while events arrive
  const NOW_MS = 3_000; // from a change of the state now until what is shown is compared with it
  const LINK = "a.line, a.when"; // of a row

  let shown = null; // { at, seq } of the event whose state is shown
  let show = "state";
  let wish = null; // what to ask for next: { at } or { seq }, maybe with { step, writes or errors }; or { step } alone
  let asking = false;
  let visits = 0; // to the past: whoever went back to now wants no answer of the visit before
  let lane = null; // of a trace: the one that the reader chose, where several are of the event
  let riding = false; // the focus goes along with the event, whose row cannot take it
  let surroundings = ""; // the event whose timeline was asked for last
  let newest = false; // the timeline's newest page is wanted
  let stale = false; // the strip lacks events
  let drawing = 0; // it was drawn just now
  let addressing = 0;

  const filters = () => {
    const asked = new URLSearchParams(location.search);
    const { density } = events.dataset;
    return {
      density,
      ...Object.fromEntries(["kind", "author", "from", "to"].map((name) => [name, asked.get(name) ?? ""])),
    };
  };
  const stripAsked = () =>
    [...new URLSearchParams(location.search)].filter(([name]) => ["from", "to", "pin"].includes(name));
  const dragged = () => strip !== null && "dragging" in strip.dataset;
  const rowOf = (id) => document.getElementById(`event-${id}`);

  // --- Asking ------------------------------------------------------------------------------------------------------

  function travel(wanted) {
    wish = wanted;
    next();
  }

  /** So many events on; `to` says of which kind they are. */
  function step(number, to) {
    const newest = { seq: Number.MAX_SAFE_INTEGER };
    if (!shown && !wish && !asking) return travel(to ? { ...newest, step: number, [to]: 1 } : newest);
    const { step: before = 0, writes, errors, ...from } = wish ?? {};
    const carried = (to && wish?.[to]) || !(to || writes || errors) ? before : 0;
    return travel({ ...from, step: carried + number, ...(to && { [to]: 1 }) });
  }

  /** What is to be asked for next, unless something is being asked for. */
  function next() {
    if (asking) return;
    if (wish) void askForMoment();
    else if (newest) void askForEvents({});
    else if (!dragged() && shown && rowOf(shown.at) === null && surroundings !== shown.at) {
      surroundings = shown.at;
      void askForEvents({ around: shown.at });
    } else if (!dragged() && stale && !drawing && !document.hidden) void askForStrip();
  }

  async function askForMoment() {
    const { ...asked } = wish;
    wish = null;
    if (asked.at === undefined && asked.seq === undefined) {
      if (shown?.seq) asked.seq = shown.seq;
      else if (shown) return;
      else asked.seq = Number.MAX_SAFE_INTEGER;
    }
    const held = new CustomEvent("adkweb:step", { detail: asked, cancelable: true }); // steps.js may know what is there
    if (show === "state" && shown && !panel.dispatchEvent(held)) arrive();
    else {
      const visit = visits;
      const html = await get(stateAddress, { ...asked, show });
      if (html !== null && visit === visits) put(html); // nobody went back to now meanwhile
    }
    // Painting comes first: what is dragged never waits for what is shown beside it.
    requestAnimationFrame(next);
  }

  async function askForEvents(asked) {
    newest = false;
    const html = await get(eventsAddress, { ...asked, ...filters() });
    if (html !== null) {
      putEvents(html);
      if (!asked.around) document.querySelector("[data-timeline-end]")?.click();
    }
    next();
  }

  async function askForStrip() {
    stale = false;
    const html = await get(stripAddress, stripAsked());
    if (dragged()) stale = true;
    else if (html !== null) htmx.swap(strip, html, { swapStyle: "innerHTML" });
    drawing = setTimeout(() => {
      drawing = 0;
      next();
    }, STRIP_MS);
    next();
  }

  /** A fragment of the page; null where there is none, which has then been said. */
  async function get(address, asked) {
    asking = true;
    try {
      const answer = await askFor(`${address}?${new URLSearchParams(asked)}`);
      const text = await answer.text();
      if (answer.redirected)
        location.reload(); // to the sign-in, which leads back here
      else if (answer.headers.get("Content-Type")?.startsWith("text/html")) return text;
      else if (asked.errors && answer.status === 404)
        document.dispatchEvent(new CustomEvent("adkweb:toast", { detail: { text, isNotice: true } })); // there is no other
      else said("htmx:responseError", { status: answer.status, responseText: text, type: "text/plain" });
    } catch {
      said("htmx:sendError", {});
    } finally {
      asking = false;
    }
    return null;
  }

  /** As htmx would say it, for htmx-errors.js. */
  function said(name, { type, ...xhr }) {
    const detail = { xhr: { ...xhr, getResponseHeader: () => type } };
    document.body.dispatchEvent(new CustomEvent(name, { bubbles: true, detail }));
  }

  // --- Showing -----------------------------------------------------------------------------------------------------

  function put(html) {
    const box = panel.querySelector(".scroll");
    const top = box?.scrollTop ?? 0;
    const rows = () => [...panel.querySelectorAll("[data-key-row]")];
    const open = new Map(rows().map((row) => [row.dataset.keyRow, opened(row)]));
    const before = panel.querySelector("[data-moment]")?.dataset.show;
    htmx.swap(panel, html, { swapStyle: "innerHTML" });
    if (before === panel.querySelector("[data-moment]")?.dataset.show) {
      for (const row of rows()) openAgain(row, open.get(row.dataset.keyRow) ?? []);
      const fresh = panel.querySelector(".scroll");
      if (fresh) fresh.scrollTop = top;
    }
  }

  /** What the panel holds is what the page is about. */
  function arrive() {
    const head = panel.querySelector("[data-moment]");
    if (!head) return;
    shown = { at: head.dataset.at, seq: Number(head.dataset.seq ?? 0), number: head.dataset.number ?? "" };
    if (!wish) show = head.dataset.show; // else another part may have been chosen meanwhile
    if (rowOf(shown.at)) surroundings = shown.at; // whoever scrolls away from it wants to
    if (panel.hidden) {
      panel.hidden = false;
      now.hidden = true;
      document.body.dataset.past = "";
    }
    select();
    point();
    tell();
    writeAddress();
    follow();
  }

  function back() {
    wish = null;
    visits += 1;
    if (!shown && panel.hidden) return;
    const row = shown && rowOf(shown.at);
    shown = null;
    choose(null);
    riding = false;
    surroundings = "";
    panel.hidden = true;
    panel.replaceChildren();
    now.hidden = false;
    delete document.body.dataset.past;
    newest = events.querySelector(".later") !== null;
    select();
    point();
    tell();
    writeAddress();
    if (document.activeElement.matches("body, main")) row?.querySelector(LINK)?.focus({ preventScroll: true });
    next();
  }

  /** The reader goes to a row of a trace, where the event is what they want first, or away from there. */
  function choose(another) {
    if (Boolean(another) !== Boolean(lane)) show = another ? "event" : "state";
    lane = another;
  }

  /** Selects the row of the event. */
  function select() {
    const row = shown && rowOf(shown.at);
    for (const other of document.querySelectorAll(".ev.selected"))
      if (other !== row) other.classList.remove("selected");
    const ofEvent = [...events.querySelectorAll("[data-ends]")].filter(
      ({ dataset: { at, ends } }) => shown && [at, ends].includes(shown.at),
    );
    const chosen = ofEvent.filter((part) => lane?.contains(part));
    const lit = new Set(chosen.length > 0 ? chosen : ofEvent);
    for (const part of events.querySelectorAll("[data-ends]")) part.classList.toggle("shown", lit.has(part));
    row?.classList.add("selected");
  }

  /** Brings the row into sight; where a row has the focus, it is this one. It comes last: it reads the layout. */
  function follow() {
    const row = shown && rowOf(shown.at);
    if (!row) return;
    const focused = document.activeElement?.closest(".ev");
    const rides = focused ? focused !== row : riding && document.activeElement === document.body;
    if (rides && wish?.at === undefined) focusOn(row); // who moves by j and k is ahead of what is shown
    bring(row);
    const lanes = [...events.querySelectorAll(".lane .shown")].map((part) => part.closest(".lane")); // of a trace
    const lane = lanes.find((each) => each.contains(document.activeElement)) ?? lanes.at(-1);
    lane?.scrollIntoView({ block: "nearest" });
  }

  /** Who is led up to a row sees the heading of its turn as well, if there is room for both. */
  function bring(row) {
    const box = isNarrow() ? document.scrollingElement : row.closest("[data-timeline]");
    const { scrollTop } = box;
    row.scrollIntoView({ block: "nearest" });
    if (box.scrollTop >= scrollTop) return;
    let heading = row;
    while (heading && !heading.matches(".turn")) heading = heading.previousElementSibling;
    heading?.scrollIntoView({ block: "nearest" });
    row.scrollIntoView({ block: "nearest" });
  }

  /** A row that says nothing, as some do in a chat, takes no focus: no other row has it then, and the next one gets it. */
  function focusOn(row) {
    row.querySelector(LINK)?.focus({ preventScroll: true });
    riding = !row.contains(document.activeElement);
    if (riding) document.activeElement.blur();
  }

  function writeAddress() {
    if (addressing) return;
    addressing = setTimeout(() => {
      addressing = 0;
      replaceAddress();
    }, ADDRESS_MS);
  }

  // Whoever goes on from here comes back to here: the address is written before the page is left by a link, or copied.
  document.addEventListener(
    "click",
    (event) => event.target.closest?.("a[href], [data-copy-view]") && replaceAddress(),
    true,
  );

  function replaceAddress() {
    const address = addressWith({ at: shown?.at, show: shown?.at && show !== "state" ? show : "" });
    if (shown) address.hash = "";
    if (address.href !== location.href) history.replaceState(history.state, "", address);
  }

  // --- The timeline ------------------------------------------------------------------------------------------------

  /** Another page of the timeline; what has been pushed since it was read stays. */
  function putEvents(html) {
    const rows = [...events.querySelectorAll("[data-row]")];
    const focused = events.contains(document.activeElement);
    htmx.swap(events, html, { swapStyle: "innerHTML" });
    const lists = events.querySelectorAll(".timeline");
    const upto = Number(lists[0]?.dataset.seq ?? 0);
    lists[lists.length - 1]?.append(...rows.filter((row) => Number(row.dataset.seq) > upto));
    select();
    if (focused && shown) rowOf(shown.at)?.querySelector(LINK)?.focus({ preventScroll: true });
    // timeline.js has its say about rows that are new before this.
    requestAnimationFrame(() => shown && rowOf(shown.at)?.scrollIntoView({ block: "center" }));
  }

  /** Later events may reach those that were pushed below them. */
  function join() {
    const tail = [...events.querySelectorAll(".timeline")].at(-1);
    for (const row of tail?.querySelectorAll("[data-row]") ?? []) {
      if (document.getElementById(row.id) !== row) row.remove();
    }
    for (const head of tail?.querySelectorAll(".inv, .turn") ?? []) {
      const next = head.nextElementSibling;
      if (!next || next.matches(".turn") || (next.matches(".inv") && head.matches(".inv"))) head.remove();
    }
    for (const head of events.querySelectorAll(".turn, .waterfall")) {
      if (document.getElementById(head.id) !== head) head.remove(); // the turn goes on from the page before
    }
  }

  document.addEventListener("htmx:afterSwap", (event) => {
    const target = event.detail.target ?? event.target;
    if (panel.contains(target)) arrive();
    else if (target?.id === "edit")
      back(); // an edit is about the state now
    else if (events.contains(target) || !target?.isConnected) {
      join();
      select();
    }
  });

  document.addEventListener("adkweb:density", select); // all rows are new

  new MutationObserver((records) => {
    const end = Number(document.querySelector("#travel")?.dataset.seqs.split(" ").at(-1) ?? 0);
    const later = (node) => node.matches?.(".ev") && Number(node.dataset.seq) > end;
    if (!strip || !records.some(({ addedNodes }) => [...addedNodes].some(later))) return;
    stale = true;
    next();
  }).observe(events, { childList: true, subtree: true });
  document.addEventListener("visibilitychange", next);

  let comparing = 0;
  document.addEventListener("adkweb:state", () => {
    if (comparing) return;
    comparing = setTimeout(() => {
      comparing = 0;
      if (shown && show === "state" && !wish && !panel.contains(document.activeElement)) travel({ at: shown.at });
    }, NOW_MS);
  });

  /** Tells what is shown. */
  function point() {
    const words = panel.querySelector("[data-travel-words]");
    const time = words?.nextElementSibling?.textContent ?? "";
    const head = [...new Set([shown?.number, time])].filter(Boolean).join(" · ");
    const detail = shown && { ...shown, words: words?.textContent, head };
    document.dispatchEvent(new CustomEvent("adkweb:moment", { detail }));
  }

  strip?.addEventListener("adkweb:travel", ({ detail }) =>
    detail.step ? step(detail.step, detail.to) : travel(detail),
  );
  strip?.addEventListener("adkweb:redraw", () => {
    stale = true;
    next();
  });
  strip?.addEventListener("adkweb:dropped", () => {
    if (!asking && !wish) point();
    next();
  });

  // --- The reader --------------------------------------------------------------------------------------------------

  document.addEventListener("click", (event) => {
    const target = event.target instanceof Element ? event.target : null;
    // While the other tab was shown, the timeline could not go along.
    if (target?.closest("[data-tab-target=timeline]")) requestAnimationFrame(follow);
    const link = target?.closest(
      "a[data-at], [data-travel-step], [data-travel-show], [data-travel-here], [data-travel-back]",
    );
    if (!link || event.defaultPrevented || event.button !== 0 || opensElsewhere(event)) return;
    event.preventDefault();
    const { at, travelStep, travelShow } = link.dataset;
    if (at !== undefined) {
      choose(link.closest(".lane"));
      if (link.matches(LINK) && isNarrow()) showTab("state");
      travel({ at });
    } else if (travelStep !== undefined) step(Number(travelStep), link.dataset.travelTo);
    else if (travelShow !== undefined) {
      if (!shown) return here(travelShow);
      show = travelShow;
      travel({ at: shown.at });
    } else if ("travelBack" in link.dataset) back();
    else here();
  });

  // The button with this key gives way where there is no room for it. From now, the first step back leads to the past: to the
  // newest event, or to the newest that changed state.
  document.addEventListener("adkweb:key", (event) => {
    const { detail: key } = event;
    const isBack = !shown && (key === "[" || (key === "{" && document.querySelector("[data-travel-to]")));
    if (key !== "t" && !isBack) return;
    event.preventDefault();
    if (key === "{") step(-1, "writes");
    else if (isBack && (wish || asking)) step(-1);
    else here();
  });

  // Who goes through the page by the tab key, on the way to the state say, stays at the event. What is pressed is clicked, too.
  let passing = false;
  for (const type of ["keydown", "pointerdown"])
    document.addEventListener(
      type,
      ({ key }) => {
        passing = key === "Tab" || type === "pointerdown";
      },
      true,
    );

  events.addEventListener("focusin", ({ target }) => {
    const link = passing ? null : target.closest("a");
    const inLane = link?.closest(".lane");
    const at = inLane ? link.dataset.at : link?.closest(".ev")?.id.replace(/^event-/, "");
    if (!at || !shown) return;
    choose(inLane);
    if (at === shown.at) select();
    else travel({ at });
  });

  /** In the past, what edits is asked about: the edit is of now, or of a fork that begins here. */
  function ask(event) {
    const past = document.querySelector("#past");
    const edit = event.target.closest?.('[hx-target="#edit"]');
    if (!shown || !edit || !past || opensElsewhere(event)) return;
    event.preventDefault();
    event.stopPropagation();
    const words = past.querySelector("[data-word]");
    words.textContent = words.dataset.word.replace("{n}", shown.number);
    const fork = past.querySelector("[data-fork]");
    const there = panel.querySelector('[data-key="F"]');
    const key = new URL(edit.href).searchParams.get("key") ?? "";
    const own = key !== "" && !/^(app|user|temp):/.test(key); // a fork shares the others
    fork.hidden = !there;
    fork.href = there ? there.href + (own ? `?${new URLSearchParams({ key })}` : "") : "";
    for (const words of fork.querySelectorAll("span")) words.hidden = "withValue" in words.dataset !== own;
    past.querySelector("[data-edit-now]").onclick = () => {
      past.close();
      back();
      htmx.ajax("get", edit.getAttribute("hx-get"), { target: "#edit", swap: "innerHTML" }); // the button may be gone
    };
    past.showModal();
  }
  document.addEventListener("click", ask, true);

  /** The form that goes to an event is told which one is shown, and its menu is closed once the event is known. */
  function tell() {
    const field = document.querySelector("#go [name=before]");
    if (field) field.value = shown?.seq ?? "";
  }
  document.body.addEventListener("adkweb:go", ({ detail }) => {
    const form = document.querySelector("#go");
    form.closest("details").open = false;
    form.reset();
    travel({ at: detail.at });
  });

  /** The state, or another part, at the row that the reader is on; without one, at the newest that is shown. */
  function here(part = "state") {
    const row =
      document.activeElement?.closest(".ev") ??
      document.querySelector(".ev.selected") ??
      [...events.querySelectorAll(".ev")].at(-1);
    show = part;
    if (row) travel({ at: row.id.replace(/^event-/, "") });
  }

  if (!panel.hidden) {
    if (isNarrow()) document.addEventListener("DOMContentLoaded", () => showTab("state")); // when timeline.js has its tabs
    arrive();
  }
})();
