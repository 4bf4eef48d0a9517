// [data-timeline] starts at its end (or at its .selected row, or at a turn that is [data-first], which stays in sight). Rows
// that arrive above never move what is being read; rows that arrive below are followed only by a reader who is at the end, and
// who stays there when what stands around it takes more room; others are told by [data-timeline-new]: it is shown, its
// [data-timeline-end] button goes there, and [data-new-count] says how many (data-word-one, data-word-other with {n}).
(() => {
  const { counted, firstBelow, isNarrow } = window.adkweb;
  const NEAR = 48;
  const positions = new WeakMap();
  const observers = new WeakMap();

  const scroller = (timeline) => (isNarrow() ? document.scrollingElement : timeline); // on a narrow screen, the page scrolls

  const rows = (timeline) => timeline.querySelectorAll("[data-row]");
  // Where the timeline goes on beyond what is shown (.later), its last row is not its end.
  const atEnd = (box, timeline) =>
    !timeline.querySelector(".later") && box.scrollHeight - box.scrollTop - box.clientHeight < NEAR;
  const toEnd = (box) => box.scrollTo({ top: box.scrollHeight, behavior: "instant" });

  const firstOf = (timeline) => timeline.querySelector("[data-first]");
  const isHome = (timeline) => firstOf(timeline) !== null || positions.get(timeline)?.atEnd;
  function toHome(timeline) {
    const box = scroller(timeline);
    const first = firstOf(timeline);
    if (!first) return toEnd(box);
    first.scrollIntoView({ block: "start", behavior: "instant" });
    const strip = document.querySelector("#strip")?.getBoundingClientRect();
    const top = Math.max(timeline.getBoundingClientRect().top, strip?.bottom ?? 0);
    const shown = timeline.querySelectorAll(".timeline > li:not([hidden])");
    const cut = shown[firstBelow(shown, top + 1)]; // where the list ends too soon for the turn to be at the top
    const heading = cut?.matches(".asked") ? cut.previousElementSibling : cut;
    if (heading?.matches(".turn")) box.scrollTop -= Math.max(0, top - heading.getBoundingClientRect().top);
  }

  function remember(timeline) {
    if (!timeline.checkVisibility()) return; // another tab is shown, which scrolls for itself
    if (positions.get(timeline)?.isUnseen) toHome(timeline);
    const box = scroller(timeline);
    const all = timeline.querySelectorAll("[data-row]:not([hidden])"); // those of a folded turn stand nowhere
    const anchor = all[firstBelow(all, box === timeline ? box.getBoundingClientRect().top : 0)];
    const { scrollTop, scrollHeight, clientHeight } = box;
    const bottom = scrollHeight - clientHeight; // as far as it can be scrolled
    const before = positions.get(timeline);
    // Who was at the end and has not scrolled up since is still there: what came in the same frame took more room, in the
    // timeline or above it (the strip).
    const grew = before?.atEnd && scrollTop >= before.scrollTop && bottom > before.bottom;
    const following = atEnd(box, timeline) || (grew && !timeline.querySelector(".later"));
    timeline.dataset.following = following; // for live.js, which takes nothing away from a reader who is not
    const top = anchor?.getBoundingClientRect().top;
    positions.set(timeline, { atEnd: following, anchor, top, scrollTop, bottom });
    if (following) announce(timeline, 0);
  }

  function announce(timeline, count) {
    const note = timeline.querySelector("[data-timeline-new]") ?? document.querySelector("[data-timeline-new]");
    if (!note) return;
    const total = count === 0 ? 0 : Number(note.dataset.count ?? 0) + count;
    note.dataset.count = total;
    note.hidden = total === 0;
    const text = note.querySelector("[data-new-count]");
    if (text) text.textContent = counted(text, total);
  }

  function hold(timeline, added) {
    const box = scroller(timeline);
    const pushed = added.filter((row) => row.dataset.asked === undefined);
    if (!timeline.checkVisibility()) return announce(timeline, pushed.length);
    const { atEnd: following, anchor, top } = positions.get(timeline);
    if (pushed.length) delete firstOf(timeline)?.dataset.first;
    if (isHome(timeline)) toHome(timeline);
    else if (anchor?.isConnected) box.scrollTop += anchor.getBoundingClientRect().top - top;
    if (!following && anchor) {
      const below = pushed.filter((row) => anchor.compareDocumentPosition(row) & Node.DOCUMENT_POSITION_FOLLOWING);
      if (below.length) announce(timeline, below.length);
    }
    remember(timeline);
  }

  /** Other rows took the place of all that were there, which is no news. `row` stays `top` px down; without one, the end. */
  function holdAt(timeline, row, top) {
    for (const each of rows(timeline)) each.dataset.asked = "";
    positions.set(timeline, { ...positions.get(timeline), atEnd: !row, anchor: row, top });
  }
  window.adkweb.holdAt = holdAt;

  function newRows(records) {
    const rows = [];
    for (const record of records) {
      for (const node of record.addedNodes) {
        if (node.nodeType !== 1 || !node.isConnected) continue;
        if (node.matches("[data-row]")) rows.push(node);
        for (const row of node.querySelectorAll("[data-row]")) {
          row.dataset.asked = ""; // a page that the reader asked for, and no news
          rows.push(row);
        }
      }
    }
    return rows;
  }

  const sizes = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (scroller(target) === target && isHome(target)) toHome(target);
    }
  });
  function stay() {
    for (const timeline of all()) if (isHome(timeline) && timeline.checkVisibility()) toHome(timeline);
  }
  // On a narrow screen the page scrolls, and what comes later (the strip, figures) pushes down what is read.
  const page = new ResizeObserver(stay);
  document.fonts.addEventListener("loadingdone", stay); // rows are as high as their fonts make them

  function start(timeline) {
    if (observers.has(timeline)) return;
    const selected = timeline.querySelector(".selected");
    if (selected) selected.scrollIntoView({ block: "center", behavior: "instant" });
    else if (!location.hash) {
      if (timeline.checkVisibility()) toHome(timeline);
      else positions.set(timeline, { atEnd: true, isUnseen: true }); // another tab is shown
    }
    remember(timeline);
    const take = (records) => {
      const added = newRows(records);
      const moved = records.some(
        ({ target, addedNodes: [node] }) =>
          node?.nodeType === 1 && (node.matches(".day") || target.matches(".waterfall")), // days.js, a trace
      );
      if (added.length || moved) hold(timeline, added);
      return added.length;
    };
    const observer = new MutationObserver(take);
    observer.observe(timeline, { childList: true, subtree: true });
    sizes.observe(timeline);
    observers.set(timeline, () => take(observer.takeRecords()));
  }

  /** Where the reader is; rows that have just been added and not been seen here did not move them. */
  function note(timeline) {
    if (!observers.get(timeline)?.()) remember(timeline);
  }

  /** Before something is put into the page; of what comes in one task, before the first. Each look costs a layout. */
  let noted = false;
  function noteAll() {
    if (noted) return;
    noted = true;
    queueMicrotask(() => {
      noted = false;
    });
    all().forEach(note);
  }

  const all = () => document.querySelectorAll("[data-timeline]");
  const startAll = () => all().forEach(start);

  requestAnimationFrame(startAll); // with the layout that is painted; one of its own would double the longest task
  page.observe(document.body);
  document.addEventListener("htmx:load", startAll);
  for (const name of ["htmx:beforeSwap", "htmx:oobBeforeSwap"]) {
    document.addEventListener(name, noteAll);
  }
  let waiting = false;
  document.addEventListener(
    "scroll",
    () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => {
        waiting = false;
        all().forEach(note);
      });
    },
    { capture: true, passive: true },
  );
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-timeline-end]")) for (const timeline of all()) toEnd(scroller(timeline));
  });
})();
