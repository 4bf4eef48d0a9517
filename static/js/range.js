// form.histogram: dragging over .range sets `from` and `to` and sends the form; so do the arrow keys on its two
// sliders. data-times has the times between the bars, data-labels their words, data-bars what each bar says.
(() => {
  const REST = 700; // after the last arrow key
  let drag = null; // { range, box, times, from, to }
  let resting = 0;

  const partsOf = (range) => ({
    range,
    box: range.getBoundingClientRect(),
    times: range.dataset.times.split(" "),
    labels: range.dataset.labels.split("|"),
    bars: range.dataset.bars.split("|"),
    dragged: range.querySelector(".dragged"),
    tip: range.querySelector(".tip"),
  });

  /** The number of the bar at a place of the page. */
  function barAt({ box, times }, x) {
    const share = Math.min(Math.max((x - box.left) / box.width, 0), 0.9999);
    return Math.floor(share * (times.length - 1));
  }

  function draw({ dragged, tip, times, labels, bars }, from, to) {
    const part = 100 / (times.length - 1);
    dragged.hidden = false;
    dragged.style.left = `${from * part}%`;
    dragged.style.width = `${(to - from) * part}%`;
    tip.hidden = false;
    tip.textContent = to - from === 1 ? bars[from] : `${labels[from]} – ${labels[to]}`;
    const half = tip.offsetWidth / 2;
    tip.style.left = `clamp(${half}px, ${((from + to) / 2) * part}%, 100% - ${half}px)`;
  }

  function hide({ dragged, tip }) {
    dragged.hidden = true;
    tip.hidden = true;
  }

  function send(range, from, to) {
    const { times } = partsOf(range);
    const form = range.closest("form");
    // What reaches an end beyond which there is nothing has no limit there: later sessions are selected, too.
    form.elements.from.value = from === 0 && "goesBack" in range.dataset ? "" : times[from];
    form.elements.to.value = to === times.length - 1 && "goesOn" in range.dataset ? "" : times[to];
    form.requestSubmit();
  }

  function extent({ start, end }) {
    return [Math.min(start, end), Math.max(start, end) + 1];
  }

  document.addEventListener("pointerdown", (event) => {
    const range = event.target.closest?.(".histogram .range");
    if (!range || event.button !== 0) return;
    const parts = partsOf(range);
    const bar = barAt(parts, event.clientX);
    drag = { ...parts, start: bar, end: bar };
    range.setPointerCapture(event.pointerId);
    draw(drag, ...extent(drag));
  });
  document.addEventListener("pointermove", (event) => {
    if (drag) {
      drag.end = barAt(drag, event.clientX);
      draw(drag, ...extent(drag));
      return;
    }
    const range = event.target.closest?.(".histogram .range");
    if (!range) return;
    const parts = partsOf(range);
    const bar = barAt(parts, event.clientX);
    draw(parts, bar, bar + 1);
  });
  document.addEventListener("pointerup", () => {
    if (!drag) return;
    send(drag.range, ...extent(drag));
    drag = null;
  });
  document.addEventListener("pointercancel", () => {
    if (drag) hide(drag);
    drag = null;
  });
  document.addEventListener("pointerout", (event) => {
    const range = event.target.closest?.(".histogram .range");
    if (range && !drag && !range.contains(event.relatedTarget)) hide(partsOf(range));
  });

  // --- Keys --------------------------------------------------------------------------------------------------------

  const value = (thumb) => Number(thumb.getAttribute("aria-valuenow"));

  // The handle inside the thumb is moved: htmx copies a style of what has an id, which the page's policy forbids.
  function put(range) {
    const last = range.dataset.times.split(" ").length - 1;
    for (const thumb of range.querySelectorAll(".thumb"))
      thumb.firstElementChild.style.left = `${(100 * value(thumb)) / last}%`;
  }

  function move(thumb, key) {
    const range = thumb.closest(".range");
    const parts = partsOf(range);
    const [from, to] = range.querySelectorAll(".thumb");
    const last = parts.times.length - 1;
    const [least, most] = thumb === from ? [0, value(to) - 1] : [value(from) + 1, last];
    const steps = { ArrowRight: 1, ArrowUp: 1, PageUp: 10, PageDown: -10, Home: -last, End: last };
    const step = steps[key] ?? -1;
    const now = Math.min(Math.max(value(thumb) + step, least), most);
    thumb.setAttribute("aria-valuenow", now);
    thumb.setAttribute("aria-valuetext", parts.labels[now]);
    put(range);
    draw(parts, value(from), value(to));
    clearTimeout(resting);
    resting = setTimeout(() => range.isConnected && send(range, value(from), value(to)), REST);
  }

  document.addEventListener("keydown", (event) => {
    const thumb = event.target.closest?.(".histogram .thumb");
    if (!thumb || event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^(Arrow|Home$|End$|Page)/.test(event.key)) move(thumb, event.key);
    else if (event.key === "Enter") {
      clearTimeout(resting);
      const [from, to] = thumb.parentElement.querySelectorAll(".thumb");
      send(thumb.parentElement, value(from), value(to));
    } else return;
    event.preventDefault();
  });

  const putAll = () => document.querySelectorAll(".histogram .range").forEach(put);
  putAll();
  document.addEventListener("htmx:load", putAll);
})();
