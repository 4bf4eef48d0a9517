// The strip above the timeline: #strip holds the slider #travel. Its data-seqs say which seq each bar begins at, its
// data-edges where the bar is. Dragging and keys ask travel.js for an event (adkweb:travel), and adkweb:moment tells which
// one is shown, where the cursor then is. #strip[data-dragging] is being dragged; adkweb:dropped tells of the end of that.
// With Shift, dragging chooses a range, and a click goes from the cursor to there: adkweb:range tells its seqs.
(() => {
  const { dates, inWords } = window.adkweb;
  const strip = document.querySelector("#strip");
  if (!strip) return;

  const EDGE = 0.999; // of the strip: there is the newest event
  const CLICK = 4; // pixels that a click may move
  const [SIGN, APART] = [6.7, 10]; // of the head of the cursor: a sign is so wide, and so much is before and after it

  let dragging = null; // the rectangle of the slider; for a range, with the share at which that began
  let moment = null; // what is shown beside: its seq, and what it is in words

  let width = 0; // of the slider
  let beneath = []; // the times and the words of the legend, each with where it begins and ends
  const sizes = new ResizeObserver(([{ target, contentRect }]) => {
    width = contentRect.width;
    const { left: start } = target.getBoundingClientRect();
    beneath = [...target.parentElement.querySelectorAll(".striptimes :is(time, li)")].map((item) => {
      const { left, right } = item.getBoundingClientRect();
      return { item, left: left - start, right: right - start };
    });
    point();
  });

  const slider = () => document.querySelector("#travel");
  const numbersOf = (text) => text.split(" ").map(Number);
  const seqsOf = (track) => numbersOf(track.dataset.seqs);

  /** Which bar a seq belongs to. */
  function barOf(seqs, seq) {
    let [low, high] = [0, seqs.length - 2];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (seqs[middle] <= seq) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** Puts the cursor where the event is that is shown, and says so. */
  function point() {
    const track = slider();
    if (!track) return;
    const seqs = seqsOf(track);
    const bar = moment ? barOf(seqs, moment.seq) : seqs.length - 2;
    track.setAttribute("aria-valuenow", String(bar));
    track.setAttribute("aria-valuetext", moment?.words ?? track.dataset.wordNow);
    const [left, right] = numbersOf(track.dataset.edges).slice(2 * bar);
    putHead(track);
    if (!dragging) putCursor(track, moment?.seq ? (left + right) / 200 : null);
  }

  document.addEventListener("adkweb:moment", ({ detail }) => {
    moment = detail;
    point();
  });
  document.addEventListener("htmx:afterSwap", ({ target, detail }) => {
    const swapped = detail.target ?? target;
    if (!strip.contains(swapped) && swapped?.isConnected) return; // it may have come in the place of what asked for it
    sizes.disconnect();
    if (slider()) sizes.observe(slider()); // which points, too
  });

  /** Asks for an event: { seq }, or { step, to } from the one that is shown. */
  function travel(detail) {
    strip.dispatchEvent(new CustomEvent("adkweb:travel", { detail }));
  }

  function putCursor(track, share) {
    const cursor = track.parentElement.querySelector(".cursor");
    cursor.hidden = share === null;
    if (share !== null) cursor.style.setProperty("--at", share);
    uncover(track, share);
  }

  /** Hides what the head of the cursor would cover in part. */
  function uncover(track, share) {
    const { length } = track.parentElement.querySelector(".cursor > .head").textContent;
    const wide = length * SIGN + 2 * APART;
    const from = share * (width - wide);
    const covers = share !== null && length > 0;
    for (const { item, left, right } of beneath)
      item.classList.toggle("covered", covers && left < from + wide && right > from);
  }

  /** What stands at the cursor: the number of the event and its time, as they are beside. */
  function putHead(track) {
    const said = moment?.head ?? "";
    const head = track.parentElement.querySelector(".cursor > .head");
    if (head.textContent !== said) head.textContent = said;
  }

  let pointer = null;
  let framed = false;

  /** The bar at a share of the strip's width, the one before it if there is none, and how far in it that is. */
  function barAt(track, share) {
    const edges = numbersOf(track.dataset.edges);
    let bar = edges.length / 2 - 1;
    while (bar > 0 && edges[2 * bar] > share * 100) bar -= 1;
    const [left, right] = edges.slice(2 * bar);
    return { bar, inside: right > left ? Math.min(1, Math.max(0, (share * 100 - left) / (right - left))) : 0 };
  }

  /** The seq at a share of the strip's width. */
  function seqAt(track, share) {
    const seqs = seqsOf(track);
    const { bar, inside } = barAt(track, share);
    if (share > EDGE) return seqs.at(-1);
    const end = bar === seqs.length - 2 ? seqs[bar + 1] : seqs[bar + 1] - 1;
    return Math.max(seqs[bar], Math.min(end, seqs[bar] + Math.floor(inside * (end - seqs[bar] + 1))));
  }

  /** Seconds in words: 40 seconds, 2 days. */
  function length(seconds) {
    const units = [
      ["day", 86_400],
      ["hour", 3_600],
      ["minute", 60],
      ["second", 1],
    ];
    const [unit, size] = units.find(([, size]) => seconds >= size) ?? units.at(-1);
    return inWords(seconds / size, unit);
  }

  /** What is under the pointer: a gap, or the turn, the number of the event, and what it is if a colour tells that. */
  function words(track, share) {
    const { bar } = barAt(track, share);
    const edges = numbersOf(track.dataset.edges);
    const gap = numbersOf(track.dataset.gaps)[bar + 1];
    if (gap >= 1 && share * 100 > edges[2 * bar + 1]) return [length(gap)];
    const numbers = numbersOf(track.dataset.numbers);
    const [first, last] = [numbers[bar], numbers[bar + 1] - 1];
    const { wordEvent, wordEvents } = track.dataset;
    const line = document.querySelectorAll("#strip-turns > li")[numbersOf(track.dataset.lines)[bar]];
    const kinds = ["error", "edit", "rewind", "compaction"];
    const kind = kinds.find((each) => track.querySelectorAll("svg > .bar")[bar].classList.contains(each));
    return [
      (first === last ? wordEvent : wordEvents).replace("{n}", first).replace("{m}", last),
      kind && track.getAttribute(`data-word-${kind}`),
      line?.textContent.replace(/\s+/g, " ").trim() ??
        dates.second(new Date(numbersOf(track.dataset.times)[bar] * 1000)),
    ].filter(Boolean);
  }

  /** Says what is under the pointer; null for nothing. */
  function showTip(track, share) {
    if (share !== null) return sayTip(track, share, words(track, share).join(" · "));
    track.querySelector(".tip").hidden = true;
  }

  function sayTip(track, share, told) {
    const tip = track.querySelector(".tip");
    tip.hidden = false;
    if (tip.textContent !== told) tip.textContent = told;
    const half = tip.offsetWidth / 2;
    tip.style.insetInlineStart = `clamp(${half}px, ${share * 100}%, max(${half}px, 100% - ${half}px))`;
  }

  /** The number of the event at a share of the strip's width. */
  function numberAt(track, share) {
    const numbers = numbersOf(track.dataset.numbers);
    const { bar, inside } = barAt(track, share);
    return Math.min(numbers[bar + 1] - 1, numbers[bar] + Math.floor(inside * (numbers[bar + 1] - numbers[bar])));
  }

  /** Shows a range while it is dragged, from one share of the width to another. */
  function stretch(track, from, to) {
    const [left, right] = [Math.min(from, to), Math.max(from, to)];
    const picked = track.querySelector(".picked");
    picked.hidden = false;
    picked.style.insetInlineStart = `${left * 100}%`;
    picked.style.inlineSize = `${(right - left) * 100}%`;
    const [first, last] = [numberAt(track, left), numberAt(track, right)];
    const { wordEvent, wordEvents } = track.dataset;
    sayTip(track, to, (first === last ? wordEvent : wordEvents).replace("{n}", first).replace("{m}", last));
  }

  /** Chooses what was dragged over; after a mere click, what is between the cursor and there. */
  function choose(track, { from, left, width }) {
    track.querySelector(".picked").hidden = true;
    const share = shareAt({ left, width });
    const clicked = Math.abs(share - from) * width < CLICK;
    const ends = [clicked ? moment?.seq || seqsOf(track).at(-1) : seqAt(track, from), seqAt(track, share)];
    const detail = { first: Math.min(...ends), last: Math.max(...ends) };
    strip.dispatchEvent(new CustomEvent("adkweb:range", { detail }));
  }

  const shareAt = ({ left, width }) => Math.min(1, Math.max(0, (pointer - left) / width));

  function frame() {
    framed = false;
    const track = slider();
    if (!track || pointer === null) return;
    const share = shareAt(dragging ?? track.getBoundingClientRect());
    if (dragging?.from !== undefined) return stretch(track, dragging.from, share);
    showTip(track, share);
    if (!dragging) return;
    putCursor(track, share);
    const seq = seqAt(track, share);
    if (seq === dragging.seq) return;
    dragging.seq = seq;
    travel({ seq });
  }

  strip.addEventListener("pointerdown", (event) => {
    const track = event.target.closest("#travel");
    if (!track || event.button !== 0) return;
    event.preventDefault();
    track.focus({ preventScroll: true });
    track.setPointerCapture(event.pointerId);
    const { left, width } = track.getBoundingClientRect();
    pointer = event.clientX;
    dragging = { left, width, seq: null };
    if (event.shiftKey) dragging.from = shareAt(dragging);
    strip.dataset.dragging = "";
    frame();
  });
  strip.addEventListener("pointermove", (event) => {
    if (!dragging && !event.target.closest("#travel")) return hideTip();
    pointer = event.clientX;
    if (!framed) requestAnimationFrame(frame);
    framed = true;
  });
  function hideTip() {
    pointer = null;
    const track = slider();
    if (track) showTip(track, null);
  }
  strip.addEventListener("pointerleave", () => dragging || hideTip());
  for (const name of ["pointerup", "pointercancel"]) {
    strip.addEventListener(name, (event) => {
      if (!dragging) return;
      pointer = event.clientX;
      const ranged = dragging.from === undefined ? null : dragging;
      if (name === "pointerup" && !ranged) frame();
      dragging = null;
      delete strip.dataset.dragging;
      strip.dispatchEvent(new CustomEvent("adkweb:dropped"));
      const track = slider();
      if (ranged && track && name === "pointerup") choose(track, ranged);
      else if (ranged && track) track.querySelector(".picked").hidden = true;
      if (event.pointerType !== "mouse") hideTip();
    });
  }

  strip.addEventListener("keydown", (event) => {
    const track = event.target.closest("#travel");
    if (!track || event.ctrlKey || event.metaKey || event.altKey) return;
    const seqs = seqsOf(track);
    const bar = Number(track.getAttribute("aria-valuenow"));
    const far = Math.max(1, Math.round(seqs.length / 10));
    const clamped = (number) => seqs[Math.min(seqs.length - 1, Math.max(0, number))];
    const to = event.shiftKey ? "writes" : undefined;
    const doings = {
      ArrowLeft: () => travel({ step: -1, to }),
      ArrowDown: () => travel({ step: -1, to }),
      ArrowRight: () => travel({ step: 1, to }),
      ArrowUp: () => travel({ step: 1, to }),
      PageDown: () => travel({ seq: clamped(bar - far) }),
      PageUp: () => travel({ seq: clamped(bar + far) }),
      Home: () => travel({ seq: seqs[0] }),
      End: () => travel({ seq: seqs.at(-1) }),
    };
    if (!doings[event.key]) return;
    event.preventDefault();
    doings[event.key]();
  });
})();
