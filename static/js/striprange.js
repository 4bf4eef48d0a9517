// A range of events: the page is narrowed to it by its address. strip.js tells of one that was dragged (adkweb:range);
// [data-range-end], or its key, says one end and then the other: the event that is shown, or the newest one. Between the
// two, #range-begun says so. [data-range-clear] leads back to all events. The server makes ids of the seqs: ?first=, ?last=.
(() => {
  const { addressWith, opensElsewhere } = window.adkweb;
  const strip = document.querySelector("#strip");
  const button = document.querySelector("[data-range-end]");
  const note = document.querySelector("#range-begun");
  if (!strip || !button) return;

  let moment = null; // what is shown
  let begun = null; // the seq of the first end

  document.addEventListener("adkweb:moment", ({ detail }) => {
    moment = detail;
  });

  /** Loads the page with other events; where it stands in the past, it stays there. */
  function load(range) {
    const address = addressWith({ from: "", to: "", ...range, at: moment?.at });
    address.hash = "";
    location.assign(address);
  }

  function begin(seq, number) {
    begun = seq;
    button.setAttribute("aria-pressed", "true");
    const words = note.dataset.word.replace("{n}", number);
    note.querySelector("[data-words]").textContent = words;
    note.hidden = false;
    document.querySelector("#announcer").textContent = words;
  }

  function cancel() {
    begun = null;
    button.setAttribute("aria-pressed", "false");
    note.hidden = true;
    button.focus({ preventScroll: true });
  }

  strip.addEventListener("adkweb:range", ({ detail }) => load(detail));
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || opensElsewhere(event)) return;
    const target = event.target.closest?.("[data-range-end], [data-range-cancel], [data-range-clear]");
    if (!target) return;
    event.preventDefault();
    if ("rangeClear" in target.dataset) return load({});
    if ("rangeCancel" in target.dataset) return cancel();
    const track = strip.querySelector("#travel");
    if (!track) return;
    const seq = moment?.seq || Number(track.dataset.seqs.split(" ").at(-1));
    if (begun === null) return begin(seq, moment?.number || Number(track.dataset.numbers.split(" ").at(-1)) - 1);
    load({ first: Math.min(begun, seq), last: Math.max(begun, seq) });
  });
})();
