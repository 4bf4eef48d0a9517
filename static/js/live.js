// [data-live] (a websocket's address): what is pushed there is put into the page. It says in [data-live-words] how the
// connection is (its data-word-…), in [data-live-people] who else watches, and [data-live-pause] stops and goes on; meanwhile it
// counts what is new. [data-live-retry] connects at once.
// Rows go to the end of the last .timeline, the state to #groups, #status and #stats, home's to #running and #feed; home's
// other panels (data-panel) are asked for when there are other sources, and a while after an event. A source that is away, and a session that is gone, are told
// in [data-live-notice]. A socket says where it was (data-after), and is sent what it missed. Where none can be opened,
// data-news is asked every few seconds for the same. A page that was made by other rules of masking (data-mask) than hold now
// is reloaded. With data-ranged, the timeline has no place for new rows, only the strip.
(() => {
  const box = document.querySelector("[data-live]");
  if (!box) return;

  const { language, counted, askFor, parsed, opened, openAgain } = window.adkweb;
  const FIRST_WAIT = 500;
  const LONGEST_WAIT = 15_000;
  const POLL = 5_000;
  const INDEXED = 2_000; // the search index has an event after this
  const SHARE = 20; // home's panels are asked for again only after this many times the time that it took
  const TRIES = 3; // before it is also asked without a socket
  const HIDDEN = 30_000; // a tab that nobody sees is left alone after this, and catches up when it is shown
  const MARKED = 8_000;
  const MOST_MARKED = 20; // rows; where all are new, none needs a mark
  const ENDS = { 4400: "error", 4401: "out", 4403: "error", 4404: "gone" }; // sessions_app/live/client.py

  let socket = null;
  let seq = box.dataset.after;
  let revision = "";
  let failures = 0;
  let paused = false;
  let missed = 0; // events, since it is paused
  let over = false;
  let reopening = 0;
  let reopensAt = 0;
  let polling = 0;
  let hiding = 0;

  const { kind = "", author = "", density = "" } = box.dataset;
  const shown = { kind, author, density };

  const $ = (selector) => document.querySelector(selector);

  // --- What is shown of the connection -----------------------------------------------------------------------------

  function say(state) {
    box.dataset.state = state;
    document.body.dataset.connection = state; // a telephone has the sign in the bar on top
    box.title = box.getAttribute(`data-title-${state}`) ?? "";
    showWords();
    const people = box.querySelector("[data-live-people]");
    if (people && state !== "live") people.hidden = true;
    if (!["live", "lost", "polling", "paused"].includes(state)) return; // a notice says the others
    connection = box.title || box.getAttribute(`data-word-${state}`);
    tell(0);
  }

  function showWords() {
    const { state } = box.dataset;
    const left = Math.ceil((reopensAt - Date.now()) / 1000);
    const word = state === "lost" && left <= 0 ? "connecting" : state;
    let text = (box.getAttribute(`data-word-${word}`) ?? "").replace("{n}", left);
    if (state === "paused" && missed) text += ` · ${counted($("[data-new-count]"), missed)}`;
    const words = box.querySelector("[data-live-words]");
    if (words.textContent !== text) words.textContent = text;
  }
  setInterval(() => {
    if (box.dataset.state === "lost") showWords();
  }, 1_000);

  function showPeople(names) {
    const people = box.querySelector("[data-live-people]");
    if (!people) return;
    const all = names.split("\n");
    people.textContent = counted(people, all.length);
    people.title = [...new Set(all)].join(", ");
    people.hidden = all.length < 2; // oneself is no news
  }

  function notice(text, kind) {
    const note = $("[data-live-notice]");
    if (!note) return;
    note.hidden = !text;
    note.classList.toggle("bad", kind === "bad");
    note.classList.toggle("warn", kind !== "bad");
    note.querySelector("span").textContent = text;
  }

  // --- What is said to who does not look ---------------------------------------------------------------------------

  const TOLD_EVERY = 2_000;
  const statusNow = () => $("#status [data-say]")?.dataset.say ?? "";
  let status = statusNow();
  let connection = box.dataset.titleLive;
  let told = connection;
  let arrived = 0;
  let telling = 0;

  /** How the connection is, new rows and whether the agent runs, a few words at a time; the rows themselves would be too many. */
  function tell(rows) {
    arrived += rows;
    if (telling) return;
    telling = setTimeout(() => {
      telling = 0;
      const news = arrived && counted($("[data-new-count]"), arrived);
      const parts = [told !== connection && connection, news, status !== statusNow() && statusNow()].filter(Boolean);
      [told, arrived, status] = [connection, 0, statusNow()];
      if (parts.length) $("#announcer").textContent = parts.join(", ");
    }, TOLD_EVERY);
  }

  // --- That the agent runs -----------------------------------------------------------------------------------------

  let sign = ""; // of the page's title

  /** What runs, and for how long, is the last line of the timeline; a tab that is not looked at says it in its title. */
  function showRunning() {
    const [now, line] = [$("#status [data-running]"), $("#working")];
    if (!line) return;
    const hasEnded = !line.hidden && !now;
    const isFollowed = document.querySelector("[data-timeline]").dataset.following === "true";
    const isPaused = now?.matches("[data-paused]"); // at a breakpoint, where it waits for a person
    line.hidden = !now || isPaused;
    if (now) {
      line.querySelector("[data-working]").textContent = now.dataset.calls || line.dataset.word;
      const since = line.querySelector("time");
      since.dateTime = new Date(1000 * now.dataset.last).toISOString();
      line.append(since); // time.js shows what is added, at once
      if (isFollowed) $("[data-timeline-end]").click();
    }
    if (now && !isPaused) sign = "● ";
    else if (isPaused || $("#status [data-waiting]")) sign = "? ";
    else if (!document.hidden) sign = "";
    else if ($("#status .failed")) sign = "⚠ ";
    else if (hasEnded) sign = "✓ ";
    else if (sign !== "✓ ") sign = "";
    showSign();
  }

  function showSign() {
    const [, count, title] = /^(\(\d+\+?\) )?(?:[●⚠?✓] )?(.*)$/su.exec(document.title); // watching.js counts
    document.title = `${count ?? ""}${sign}${title}`;
  }

  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) showRunning(); // how it ended has been seen
  });

  // --- What is put into the page -----------------------------------------------------------------------------------

  function addRows(html) {
    const list = [...document.querySelectorAll("#events .timeline")].at(-1);
    const added = document.createDocumentFragment();
    const rows = [...parsed(html).children];
    for (const row of rows) {
      const there = document.getElementById(row.id);
      if (!there) {
        if (!("again" in row.dataset)) added.append(row);
      } else if (row.matches(".waterfall")) htmx.trigger(there, "adkweb:arrived");
      else if (row.matches(".inv, .turn")) there.replaceWith(row); // an event that is there already is the same
    }
    $("#no-events")?.remove();
    list.append(added);
    for (const row of rows) if (row.isConnected) htmx.process(row);
    const events = rows.filter((row) => row.matches(".ev") && row.isConnected);
    for (const row of events.length <= MOST_MARKED ? events : []) {
      row.classList.add("fresh");
      row.addEventListener("animationend", () => row.classList.remove("fresh"), { once: true });
    }
    tell(events.length);
    if (rows.some((row) => "greys" in row.dataset && row.isConnected)) grey();
  }

  /** A rewind or a summary has come: what no agent is given any more is shown so, as far as the newest page tells. */
  async function grey() {
    const answer = await askFor(box.dataset.events).catch(() => null);
    if (!answer?.ok) return; // after the next load, then
    for (const fresh of parsed(await answer.text()).querySelectorAll(".ev.gone")) {
      const row = document.getElementById(fresh.id);
      if (!row || row.matches(".gone")) continue;
      row.classList.add("gone");
      const meta = row.querySelector(":scope > .meta");
      if (meta) meta.prepend(fresh.querySelector(".gonewhy"));
      else row.append(fresh.querySelector(":scope > .meta"));
    }
  }

  const sources = new WeakMap(); // a row → its HTML as the server wrote it
  for (const row of document.querySelectorAll("[data-key-row], [data-feed], [data-panel]"))
    sources.set(row, row.outerHTML);
  let state = $("#groups")?.innerHTML.trim(); // as the server wrote it

  /** Tells of each fresh row, which an attribute names, what is to be shown: the one that is there, with what a reader has opened
   * in it, if it is the same; or else itself: then `note` hears of it, and of the row that it takes the place of. */
  function chooser(box, name, note) {
    const known = new Map([...box.querySelectorAll(`[${name}]`)].map((row) => [row.getAttribute(name), row]));
    return (row) => {
      const before = known.get(row.getAttribute(name));
      if (before && sources.get(before) === row.outerHTML) return before;
      sources.set(row, row.outerHTML);
      note(row, before);
      return row;
    };
  }

  /** Makes the children of a box the wanted ones. What is in its place already is not moved: it would lose the focus. */
  function arrange(box, wanted) {
    const kept = new Set(wanted);
    for (const child of [...box.children]) if (!kept.has(child)) child.remove();
    let next = box.firstElementChild;
    for (const child of wanted) {
      if (child === next) next = child.nextElementSibling;
      else box.insertBefore(child, next);
    }
  }

  /** Puts the fresh rows of the state in the place of the old ones; the form that edits one of them stays where it is, also when
   * its key is gone. So do the headings: what is pushed to all says less of the user than this page may. What had the focus in a row has it again, or, if
   * the key is gone, in the row that follows. */
  function putState(box, fresh, note) {
    const [focused, form] = [document.activeElement, box.querySelector("#edit")];
    const row = focused.closest("#groups > [data-key-row]");
    const at = [...box.children].indexOf(row);
    const part = focused.dataset?.rowKey ? `[data-row-key="${focused.dataset.rowKey}"]` : "summary, .key";
    const choose = chooser(box, "data-key-row", note);
    const heads = new Map([...box.querySelectorAll(":scope > .scope")].map((head) => [head.className, head]));
    const wanted = [...fresh.children].map((child) =>
      child.matches("[data-key-row]") ? choose(child) : (heads.get(child.className) ?? child),
    );
    const find = (key) => wanted.findIndex(({ dataset }) => dataset.keyRow === key);
    let there = form ? find(form.dataset.key) : 0;
    for (let next = form?.nextElementSibling; there < 0 && next; next = next.nextElementSibling)
      there = next.matches("[data-key-row]") ? find(next.dataset.keyRow) : wanted.indexOf(next);
    if (form) wanted.splice(there < 0 ? wanted.length : there, 0, form);
    arrange(box, wanted);
    if (!row || focused.isConnected) return;
    const now = wanted[find(row.dataset.keyRow)] ?? wanted.slice(at).find((each) => each.matches("[data-key-row]"));
    now?.querySelector(part)?.focus({ preventScroll: true });
  }

  function showState(html) {
    const template = Object.assign(document.createElement("template"), { innerHTML: html });
    const [fresh, before] = [template.content, state];
    state = template.innerHTML.trim();
    if (state === before) return; // it comes with each connection
    const count = fresh.querySelector("[data-count]");
    if (count) $("#key-count").textContent = count.textContent;
    const drifted = fresh.querySelector("[data-drifted]")?.textContent;
    if (drifted !== undefined && $("#drifted")) {
      $("#drifted").hidden = !drifted;
      $("#drifted > span").textContent = drifted;
    }
    const changed = [];
    putState($("#groups"), fresh, (row, before) => {
      openAgain(row, opened(before));
      changed.push(row);
    });
    document.dispatchEvent(new Event("adkweb:state")); // what is compared with it hears of it
    const edited = $("#edit:not(:empty) + [data-key-row]");
    for (const row of changed) {
      htmx.process(row);
      row.toggleAttribute("data-newer", row === edited);
      const line = row.querySelector(".kv");
      line.classList.add("changed");
      setTimeout(() => line.classList.remove("changed"), MARKED);
    }
  }

  function showFeed(section, html) {
    const fresh = parsed(html);
    let focused = document.activeElement;
    const choose = chooser(section, "data-feed", (row, before) => {
      if (!before) row.classList.add("fresh");
      else if (before.contains(focused)) focused = row.querySelector("a"); // it says something new of the same turn
    });
    for (const row of fresh.querySelectorAll("[data-feed]")) row.replaceWith(choose(row));
    section.replaceChildren(fresh);
    if (focused?.isConnected && focused !== document.activeElement) focused.focus({ preventScroll: true });
  }

  function apply(message) {
    if (message.reset) loadAnew();
    if (message.mask && message.mask !== box.dataset.mask) location.reload(); // guard.js asks about what was typed
    if (message.events && "ranged" in box.dataset)
      document.querySelector("#strip")?.dispatchEvent(new Event("adkweb:redraw"));
    else if (message.events) addRows(message.events);
    if (message.spoken) said = said.slice(0, message.spoken.from) + message.spoken.more;
    if (message.spoken || message.events) showSpoken(message.spoken);
    if (message.seq !== undefined) reach(message.seq);
    if (message.revision) revision = message.revision;
    if (message.state !== undefined && $("#groups")) showState(message.state);
    if (message.status !== undefined) {
      showStatus(parsed(message.status));
      if ($("#status :is([data-waiting], [data-at-work])") || $("#waits > :is(.card, .run, .passed)"))
        htmx.trigger(document.body, "adkweb:waits");
      tell(0);
    }
    if (message.status !== undefined || message.events) {
      showRunning();
    }
    if (message.stats) htmx.swap($("#stats"), message.stats, { swapStyle: "innerHTML" });
    if (message.watching) showPeople(message.watching);
    if (message.queued) for (const name of ["queued", "waits"]) htmx.trigger(document.body, `adkweb:${name}`);
    for (const name of ["running", "feed"]) if (message[name] && $(`#${name}`)) showFeed($(`#${name}`), message[name]);
    if (message.sources && $("#sources") && $("#sources").dataset.sources !== message.sources) showPanels();
    if (message.newest) showPanelsLater(message.newest);
    if (message.away !== undefined) notice(message.away, "warn");
    if (message.gone) end("gone", message.gone);
  }

  let said = ""; // as the server knows that this page has it

  /** What the agent says is shown as it comes, until it is an event. */
  function showSpoken(spoken) {
    const line = $("#spoken");
    if (!line) return;
    const isFollowed = document.querySelector("[data-timeline]").dataset.following === "true";
    line.hidden = !spoken || !said;
    line.firstChild.textContent = spoken?.author ?? "";
    line.lastChild.textContent = spoken ? said : "";
    if (spoken && isFollowed) $("[data-timeline-end]").click();
  }

  /** The timeline has the events up to this one; a page in the pane may be older. */
  function reach(newest) {
    seq = newest;
    document.dispatchEvent(new CustomEvent("adkweb:seq", { detail: Number(seq) }));
  }

  /** A telephone has its sign in the bar on top. */
  function showStatus(...parts) {
    $("#status").replaceChildren(...parts);
    $(".crumbs > span").className = $("#status .status")?.className ?? "";
  }

  // Home's panels are made of much more than one event, so they wait until it is in the index, and rest afterwards. A page that
  // nobody sees asks for nothing.
  let newest = $("#sources")?.dataset.newest; // event
  let panelsOf = newest;
  let resting = false;

  async function showPanelsLater(event = newest) {
    newest = event;
    if (resting || over || document.hidden || newest === panelsOf) return;
    resting = true;
    await new Promise((resolve) => setTimeout(resolve, INDEXED));
    const [began, asked] = [performance.now(), newest];
    if (await showPanels()) panelsOf = asked;
    const rest = Math.max(POLL, SHARE * (performance.now() - began));
    setTimeout(() => {
      resting = false;
      showPanelsLater();
    }, rest);
  }

  /** Puts home's panels that are others now in the place of the old ones, but not while someone reads a number in a chart. What
   * had the focus in one has it again. Tells whether it did. */
  async function showPanels() {
    if ($(".plot.pointed")) return false;
    const answer = await askFor(location.href).catch(() => null);
    const page = answer?.ok ? parsed(await answer.text()) : null;
    if (!page?.querySelector("#sources")) return false;
    const focused = document.activeElement;
    const fresh = [];
    let heir = null; // of the panel with the focus
    for (const box of [$("#sources"), $("#activity")]) {
      const now = page.querySelector(`#${box.id}`);
      const choose = chooser(box, "data-panel", (panel, before) => {
        openAgain(panel, opened(before));
        fresh.push(panel);
        if (before?.contains(focused)) heir = panel;
      });
      const panels = [...now.children].map((each) =>
        "panel" in each.dataset ? choose(each) : ((each.id && document.getElementById(each.id)) ?? each),
      );
      arrange(box, panels);
      box.className = now.className;
      Object.assign(box.dataset, now.dataset);
    }
    for (const panel of fresh) {
      htmx.process(panel);
      htmx.trigger(panel, "htmx:load", { elt: panel }); // charts.js
    }
    const same = focused.matches("a") ? `a[href="${CSS.escape(focused.getAttribute("href"))}"]` : focused.localName;
    heir?.querySelector(same)?.focus({ preventScroll: true });
    return true;
  }

  /** What was missed is too much to be added: the timeline's newest page takes its place; the row that has the focus keeps it. */
  async function loadAnew() {
    const before = $("#events .timeline");
    let row = "";
    const note = ({ detail }) => {
      if (detail.target.id === "events") row = document.activeElement.closest("#events [data-row]")?.id;
    };
    document.addEventListener("htmx:beforeSwap", note);
    await htmx.ajax("GET", box.dataset.events, { target: "#events", swap: "innerHTML" });
    document.removeEventListener("htmx:beforeSwap", note);
    if ($("#events .timeline") === before) return void setTimeout(loadAnew, 2 * FIRST_WAIT);
    if (row && document.activeElement === document.body)
      document.getElementById(row)?.querySelector("a.line, a.when")?.focus({ preventScroll: true });
    reach($("#events .timeline[data-seq]")?.dataset.seq ?? seq);
    missed = 0;
    showWords();
    if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ after: Number(seq) }));
  }

  document.addEventListener("adkweb:newest", loadAnew);

  // Rows come in the density that the timeline has now (densities.js).
  document.addEventListener("adkweb:density", ({ detail }) => {
    shown.density = detail;
    box.dataset.events = box.dataset.events.replace(/density=\w*/, `density=${detail}`);
    seq = $("#events .timeline[data-seq]")?.dataset.seq ?? seq;
    missed = 0;
    showWords();
    close();
    if (!paused && !over) start();
  });

  // --- The connection ----------------------------------------------------------------------------------------------

  function query(values) {
    return new URLSearchParams({ ...values, ...shown, mask: box.dataset.mask });
  }

  function open() {
    clearTimeout(reopening);
    if (socket || paused || over) return;
    const address = new URL(box.dataset.live, location.href);
    address.protocol = address.protocol.replace("http", "ws");
    address.search = query({ after: seq ?? "0", language });
    reopensAt = 0;
    if (!box.dataset.state || failures === 0) say("connecting");
    else showWords();
    let mine;
    try {
      mine = new WebSocket(address);
    } catch {
      return later(); // a browser that is told to refuse sockets
    }
    socket = mine;
    mine.addEventListener("message", ({ data }) => {
      if (socket !== mine) return;
      const message = JSON.parse(data);
      if (paused) return miss(message);
      failures = 0; // it is not the handshake that says all is well, but the first thing that is told
      stopPolling();
      say("live");
      apply(message);
    });
    mine.addEventListener("close", ({ code }) => {
      if (socket !== mine) return;
      socket = null;
      if (ENDS[code]) end(ENDS[code]);
      else if (!paused) later();
    });
  }

  /** Who pauses is told how much is new, and sent it again when going on. */
  function miss({ events, mask, gone }) {
    if (mask && mask !== box.dataset.mask) return location.reload();
    if (gone) return end("gone", gone);
    missed += [...parsed(events ?? "").children].filter((row) => row.matches(".ev")).length;
    showWords();
  }

  function close() {
    const old = socket;
    socket = null;
    clearTimeout(reopening);
    stopPolling();
    // One that is still connecting is closed once it is open: before, the browser would put a warning into the console.
    if (old?.readyState === 0) old.addEventListener("open", () => old.close(1000));
    else old?.close(1000);
  }

  function later() {
    failures += 1;
    const wait = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** (failures - 1)) * (0.75 + Math.random() / 2); // not all at once
    clearTimeout(reopening);
    reopening = setTimeout(open, wait);
    reopensAt = Date.now() + wait;
    if (failures < TRIES) say("lost");
    else startPolling();
  }

  function end(state, text) {
    over = true;
    close();
    say(state);
    if (state === "gone") {
      if ($("#status")) showStatus(); // nothing runs there any more
      document.body.dataset.gone = "";
    }
    const words = text ?? box.getAttribute(`data-notice-${state}`);
    if (words) notice(words, "bad");
  }

  // --- Without a socket --------------------------------------------------------------------------------------------

  function startPolling() {
    if (!polling) {
      polling = setInterval(poll, POLL);
      poll();
    }
  }

  function stopPolling() {
    clearInterval(polling);
    polling = 0;
  }

  async function poll() {
    if (document.hidden) return;
    try {
      const answer = await askFor(`${box.dataset.news}?${query({ after: seq ?? "0", revision })}`);
      if (!polling) return;
      if (answer.status === 404) end("gone");
      else if (answer.status === 403) end("out");
      else if (answer.ok) {
        say("polling");
        const message = await answer.json();
        apply(message);
        if (message.more) poll();
      } else say("lost");
    } catch {
      if (polling) say("lost");
    }
  }

  // --- The reader --------------------------------------------------------------------------------------------------

  box.querySelector("[data-live-pause]")?.addEventListener("click", ({ currentTarget: button }) => {
    paused = !paused;
    button.textContent = paused ? button.dataset.wordResume : button.dataset.wordPause;
    missed = 0;
    if (paused) {
      stopPolling();
      clearTimeout(reopening);
      say("paused");
    } else {
      close();
      failures = 0;
      start();
    }
  });

  box.querySelector("[data-live-retry]").addEventListener("click", open);

  document.addEventListener("visibilitychange", () => {
    clearTimeout(hiding);
    if (document.hidden) hiding = setTimeout(leave, HIDDEN);
    else if (!paused && !over) {
      start();
      showPanelsLater();
    }
  });
  function leave() {
    if ($("#status [data-running]"))
      hiding = setTimeout(leave, HIDDEN); // the title says when it ends
    else close();
  }
  addEventListener("online", () => {
    if (!paused && !over) start();
  });
  addEventListener("pagehide", close);
  addEventListener("pageshow", ({ persisted }) => {
    if (persisted && !paused && !over) start();
  });

  function start() {
    if ("pollOnly" in box.dataset) startPolling();
    else open();
  }

  showRunning();
  start();
})();
