// The timeline holds a bounded number of rows. Who comes near its first or last one gets those beyond: .earlier and .later
// hold the links to them, which are asked for here. Rows that are farthest from what is read are taken out, and such a link
// takes their place, so a session of any length can be read from end to end. [data-timeline-end] leads to the newest rows.
// #events says where rows come from (data-address), and what the links are called (data-word-earlier, data-word-beyond).
(() => {
  const timeline = document.querySelector("[data-timeline]");
  const box = timeline?.querySelector("#events[data-address]");
  if (!box) return;

  const MOST = 600;
  const KEPT = 400;
  const NEAR = "1000px 0px";

  const { firstBelow, isNarrow } = window.adkweb;
  const scroller = () => (isNarrow() ? document.scrollingElement : timeline); // on a narrow screen, the page scrolls

  // --- Loading -----------------------------------------------------------------------------------------------------

  let near = null;
  let ready = false; // before htmx is, nobody hears of it

  /** Watches the links. Without an observer, they are there to be clicked. */
  function watch() {
    near?.disconnect();
    if (!window.IntersectionObserver || !ready) return;
    const isFolded = "folded" in box.dataset; // turns.js: rows come into sight that have no height
    if (isFolded && box.querySelectorAll("[data-row]").length > KEPT) return;
    near = new IntersectionObserver(
      (entries) => {
        for (const { isIntersecting, target } of entries) {
          if (!isIntersecting || "asked" in target.dataset) continue;
          target.dataset.asked = ""; // if the answer is an error, it is there to be clicked
          htmx.trigger(target, "click"); // what has left the page meanwhile would take the whole page along by click()
        }
      },
      { root: isNarrow() ? null : timeline, rootMargin: isFolded ? "0px" : NEAR },
    );
    for (const link of box.querySelectorAll(":is(.earlier, .later) > a")) near.observe(link);
  }

  // --- Taking out --------------------------------------------------------------------------------------------------

  function trim() {
    const rows = [...box.querySelectorAll("[data-row]")];
    if (rows.length <= MOST || !timeline.checkVisibility()) return;
    const sight = isNarrow() ? 0 : timeline.getBoundingClientRect().top;
    const seen = Math.min(firstBelow(rows, sight), rows.length - 1);
    const following = timeline.dataset.following === "true";
    const begin = following ? rows.length - KEPT : Math.min(Math.max(0, seen - KEPT / 2), rows.length - KEPT);
    const [anchor, top] = [rows[seen], rows[seen].getBoundingClientRect().top];
    if (begin + KEPT < rows.length) takeAfter(rows[begin + KEPT - 1]);
    if (begin > 0) takeBefore(rows[begin]);
    for (const list of [...box.querySelectorAll(".timeline")].slice(0, -1)) if (!list.children.length) list.remove();
    scroller().scrollTop += anchor.getBoundingClientRect().top - top;
  }

  /** Takes out what stands before a row. The headings under which the row stands stay. */
  function takeBefore(first) {
    const lines = [...box.querySelectorAll(".timeline > li")];
    const before = lines.slice(0, lines.indexOf(first));
    const turn = before.findLast((line) => line.matches(".turn"));
    const invocation = before.slice(before.indexOf(turn) + 1).findLast((line) => line.matches(".inv"));
    if (invocation) invocation.id = first.id.replace("event-", "inv-"); // as a page begins
    for (const line of before) line.remove();
    const waterfall = before.slice(before.indexOf(turn) + 1).findLast((line) => line.matches(".waterfall"));
    first.before(...[turn, waterfall, invocation].filter(Boolean));
    box.querySelector(".earlier")?.remove();
    const link = linkTo("earlier", "before", first.dataset.cursor, box.dataset.wordEarlier);
    box.prepend(link);
    htmx.process(link);
  }

  /** Takes out what stands after a row. Rows that are pushed go into a list of their own below. */
  function takeAfter(last) {
    const lines = [...box.querySelectorAll(".timeline > li")];
    for (const line of lines.slice(lines.indexOf(last) + 1)) line.remove();
    box.querySelector(".later")?.remove();
    const tail = document.createElement("ol");
    tail.className = "timeline";
    const link = linkTo("later", "after", last.dataset.cursor, box.dataset.wordBeyond);
    last.parentElement.after(link, tail);
    htmx.process(link);
  }

  function linkTo(className, name, cursor, words) {
    const address = new URL(box.dataset.address, location.href);
    address.searchParams.set(name, cursor);
    const link = Object.assign(document.createElement("a"), { className: "btn quiet small", href: address });
    link.textContent = words;
    link.setAttribute("hx-get", address.pathname + address.search);
    link.setAttribute("hx-target", `closest .${className}`);
    link.setAttribute("hx-swap", "outerHTML");
    const around = Object.assign(document.createElement("div"), { className });
    around.append(link);
    return around;
  }

  // --- When --------------------------------------------------------------------------------------------------------

  let waiting = false;
  const changes = new MutationObserver(() => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false; // timeline.js has held what is read by now
      trim();
      changes.takeRecords();
      watch();
    });
  });
  changes.observe(box, { childList: true, subtree: true });
  new ResizeObserver(watch).observe(timeline);
  addEventListener("load", () => {
    ready = true;
    watch();
  });

  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-timeline-end]") || !box.querySelector(".later")) return;
    const end = () => {
      document.removeEventListener("htmx:afterSettle", end);
      scroller().scrollTo({ top: scroller().scrollHeight, behavior: "instant" });
    };
    document.addEventListener("htmx:afterSettle", end);
    document.dispatchEvent(new CustomEvent("adkweb:newest")); // live.js
  });
})();
