// [data-state-filter] (a search field) shows only the keys of state ([data-key-row] in its <aside>, or in <main>) whose name
// has what is typed in it; heads of scopes without any such key are hidden, too. [data-state-filtered] says how many there are
// (its data-words with {n} and {m}; data-word-none). What is typed stays when the state is pushed anew, and from event to event.
(() => {
  const first = document.querySelector("[data-state-filter]");
  const box = first?.closest("aside") ?? first?.closest("main");
  if (!box) return;
  let wanted = "";

  function apply() {
    const text = wanted.toLowerCase();
    for (const list of box.querySelectorAll("[data-rows]")) {
      let head = null;
      for (const line of list.querySelectorAll(".scope, [data-key-row]")) {
        const name = line.dataset.keyRow;
        if (name === undefined) {
          head = line;
          head.hidden = text !== "";
          continue;
        }
        line.hidden = !name.toLowerCase().includes(text);
        if (!line.hidden && head) head.hidden = false;
      }
      tell(list);
    }
  }

  function tell(list) {
    const fields = list.parentElement.querySelector(".statefilter");
    if (!fields) return;
    const rows = [...list.querySelectorAll("[data-key-row]")];
    const number = rows.filter((row) => !row.hidden).length;
    const field = fields.querySelector("[data-state-filter]");
    if (field.value !== wanted) field.value = wanted;
    const said = fields.querySelector("[data-state-filtered]");
    const words = number
      ? said.dataset.words.replace("{n}", number).replace("{m}", rows.length)
      : said.dataset.wordNone;
    if (said.textContent !== (wanted && words)) said.textContent = wanted && words; // else it would be a change again
  }

  box.addEventListener("input", ({ target }) => {
    if (!target.matches("[data-state-filter]")) return;
    wanted = target.value.trim();
    apply();
  });
  box.addEventListener("keydown", ({ key, target }) => {
    if (key !== "Escape" || !target.matches("[data-state-filter]")) return;
    target.value = "";
    wanted = "";
    apply();
  });
  new MutationObserver(() => wanted && apply()).observe(box, { childList: true, subtree: true });
})();
