// [data-turn]: the heading of a turn, whose rows are those that follow, up to the next one. Its [data-turn-fold] hides them
// and shows them again (aria-expanded); rows that arrive in a folded turn are hidden, too. [data-fold-all] folds all turns, also
// earlier ones that arrive, or none. In a trace, the whole heading folds, the question stays, and .turnbar[data-took] says how
// long the turn took beside the slowest one of those that are shown (.slowest). A trace begins with the newest turn that failed,
// or else with the slowest one ([data-first], which timeline.js keeps in sight until the reader does something); of more than
// FEW turns, it is the only open one. A turn opens when one of its rows is to be seen (adkweb:moment, adkweb:reveal).
(() => {
  const box = document.querySelector("#events");
  if (!box) return;
  const FEW = 6;
  const all = document.querySelector("[data-fold-all]");
  // Ids of headings: live.js puts a new one in the place of an old one, and pages of the timeline come and go.
  const folded = new Set();
  const met = new Set();
  let density = "";

  function show() {
    let hide = false;
    for (const row of box.querySelectorAll(".timeline > li")) {
      if ("turn" in row.dataset) {
        hide = folded.has(row.id);
        row.querySelector("[data-turn-fold]").setAttribute("aria-expanded", String(!hide));
      } else row.hidden = hide && !row.matches(".day, .turn + .asked");
    }
  }

  function compare() {
    const bars = [...box.querySelectorAll(".turnbar")];
    const longest = Math.max(...bars.map((bar) => bar.dataset.took));
    for (const bar of bars) {
      const width = `${Math.max(1, (100 * bar.dataset.took) / (longest || 1))}%`;
      if (bar.firstElementChild.getAttribute("width") !== width) bar.firstElementChild.setAttribute("width", width);
      bar.parentElement.classList.toggle("slowest", bars.length > 1 && Number(bar.dataset.took) === longest);
    }
  }

  box.addEventListener("click", ({ target }) => {
    const turn = target.closest("[data-turn]");
    const isRow = box.dataset.density === "trace" && !target.closest("a") && getSelection().isCollapsed;
    if (!turn || !(isRow || target.closest("[data-turn-fold]"))) return;
    if (!folded.delete(turn.id)) folded.add(turn.id);
    show();
  });

  const headings = () => [...box.querySelectorAll("[data-turn]")];

  /** The turn in which a row is, if any; it may have begun in the list before. */
  const turnOf = (row) =>
    row && headings().findLast((turn) => turn.compareDocumentPosition(row) & Node.DOCUMENT_POSITION_FOLLOWING);

  function fold(turns) {
    for (const { id } of turns) folded.add(id);
    all.ariaPressed = String(turns.length > 0);
    box.toggleAttribute("data-folded", turns.length > 0);
    meet(headings());
    show();
  }

  function meet(turns) {
    for (const { id } of turns) met.add(id);
  }

  /** What a trace is opened for, unless an agent is at work. */
  function findFirst(turns) {
    if (document.querySelector("#status [data-running]")) return null;
    return turns.findLast((turn) => turn.matches(".failed")) ?? turns.find((turn) => turn.matches(".slowest"));
  }

  function keepInSight(turn) {
    turn.dataset.first = "";
    for (const type of ["pointerdown", "wheel", "keydown"])
      document.addEventListener(type, () => delete turn.dataset.first, { once: true, capture: true, passive: true });
  }

  function begin() {
    compare();
    if (density === box.dataset.density)
      show(); // the same turns on another scale
    else choose();
    density = box.dataset.density;
    observer.takeRecords(); // of the rows that have just come, of which these are chosen
  }

  function choose() {
    const isAtEnd = box.closest("[data-timeline]").dataset.following !== "false"; // who reads elsewhere goes on there
    const turns = box.dataset.density === "trace" && isAtEnd ? headings() : [];
    const selected = turnOf(box.querySelector(".selected"));
    const first = selected ? null : findFirst(turns);
    const open = selected ?? first ?? turns.at(-1);
    folded.clear();
    met.clear();
    fold(turns.length > FEW ? turns.filter((turn) => turn !== open) : []);
    if (first) keepInSight(first);
  }

  all.addEventListener("click", () => {
    const isFolded = all.ariaPressed === "true";
    folded.clear();
    fold(isFolded ? [] : headings());
  });

  /** Opens the turn of a row that is to be seen. */
  function reveal(row) {
    if (folded.delete(turnOf(row)?.id)) show();
  }

  document.addEventListener("adkweb:density", begin);
  box.addEventListener("adkweb:reveal", ({ target }) => reveal(target));
  document.addEventListener("adkweb:moment", ({ detail }) => {
    if (folded.size && detail) reveal(document.getElementById(`event-${detail.at}`));
  });

  const observer = new MutationObserver(() => {
    const turns = headings();
    if (all.ariaPressed === "true") {
      const selected = turnOf(box.querySelector(".selected"));
      for (const turn of turns.slice(0, -1)) if (turn !== selected && !met.has(turn.id)) folded.add(turn.id);
    }
    meet(turns);
    if (folded.size) show();
    compare();
  });
  observer.observe(box, { childList: true, subtree: true });
  begin();
})();
