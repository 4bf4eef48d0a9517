// [data-turn]: the heading of a turn, whose rows are those that follow, up to the next one. Its [data-turn-fold] hides them
// and shows them again (aria-expanded); rows that arrive in a folded turn are hidden, too. [data-fold-all] folds all turns, also
// earlier ones that arrive, or none. In a trace, the question stays, the heading's .turnbar[data-took] says how long the turn took
// beside the slowest one of those that are shown (.slowest), and of more than FEW turns, only the newest is open at first. A turn
// opens when one of its rows is to be seen (adkweb:moment, adkweb:reveal).
(() => {
  const box = document.querySelector("#events");
  if (!box) return;
  const FEW = 6;
  const all = document.querySelector("[data-fold-all]");
  const folded = new Set(); // ids of headings: live.js puts a new one in the place of an old one

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
      const width = String(Math.max(1, (100 * bar.dataset.took) / (longest || 1)));
      if (bar.firstElementChild.getAttribute("width") !== width) bar.firstElementChild.setAttribute("width", width);
      bar.parentElement.classList.toggle("slowest", bars.length > 1 && Number(bar.dataset.took) === longest);
    }
  }

  box.addEventListener("click", (event) => {
    const button = event.target.closest("[data-turn-fold]");
    if (!button) return;
    const { id } = button.closest("[data-turn]");
    if (!folded.delete(id)) folded.add(id);
    show();
  });

  const headings = () => [...box.querySelectorAll("[data-turn]")];

  /** Folds all turns, or all but the newest of many: a trace of many turns is a list of them at first. */
  function fold(turns) {
    for (const { id } of turns) folded.add(id);
    all.ariaPressed = String(turns.length > 0);
    box.toggleAttribute("data-folded", turns.length > 0);
    show();
  }

  function begin() {
    const isAtEnd = box.closest("[data-timeline]").dataset.following !== "false"; // who reads elsewhere goes on there
    const turns = box.dataset.density === "trace" && isAtEnd ? headings() : [];
    folded.clear();
    fold(turns.length > FEW ? turns.slice(0, -1) : []);
  }

  all.addEventListener("click", () => {
    const isFolded = all.ariaPressed === "true";
    folded.clear();
    fold(isFolded ? [] : headings());
  });

  /** Opens the turn of a row that is to be seen. */
  function reveal(row) {
    if (!row?.hidden) return;
    let turn = row;
    while (turn && !("turn" in turn.dataset)) turn = turn.previousElementSibling;
    if (turn && folded.delete(turn.id)) show();
  }

  document.addEventListener("adkweb:density", begin);
  box.addEventListener("adkweb:reveal", ({ target }) => reveal(target));
  document.addEventListener("adkweb:moment", ({ detail }) => {
    if (folded.size && detail) reveal(box.querySelector(`[data-seq="${detail.seq}"]`));
  });

  new MutationObserver((changes) => {
    if (all.ariaPressed === "true") {
      const added = new Set(changes.flatMap(({ addedNodes }) => [...addedNodes]));
      const turns = headings();
      for (const turn of turns.slice(0, -1)) if (added.has(turn) || added.has(turn.parentElement)) folded.add(turn.id);
    }
    if (folded.size) show();
    compare();
  }).observe(box, { childList: true, subtree: true });
  begin();
  compare();
})();
