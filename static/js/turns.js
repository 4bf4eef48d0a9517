// [data-turn]: the heading of a turn, whose rows are those that follow, up to the next one. Its [data-turn-fold] hides them
// and shows them again (aria-expanded); rows that arrive in a folded turn are hidden, too.
(() => {
  const box = document.querySelector("#events");
  if (!box) return;
  const folded = new Set(); // ids of headings: live.js puts a new one in the place of an old one

  function show() {
    let hide = false;
    for (const row of box.querySelectorAll(".timeline > li")) {
      if ("turn" in row.dataset) {
        hide = folded.has(row.id);
        row.querySelector("[data-turn-fold]").setAttribute("aria-expanded", String(!hide));
      } else if (row.matches(".day")) row.hidden = false;
      else row.hidden = hide;
    }
  }

  box.addEventListener("click", (event) => {
    const button = event.target.closest("[data-turn-fold]");
    if (!button) return;
    const { id } = button.closest("[data-turn]");
    if (!folded.delete(id)) folded.add(id);
    show();
  });
  new MutationObserver(() => folded.size && show()).observe(box, { childList: true, subtree: true });
})();
