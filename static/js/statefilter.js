// [data-state-filter] (a search field) shows only the keys of state ([data-key-row] in its <aside>, or in <main>) whose name
// has what is typed in it, and [data-state-differs] (a box) only those that differ from now, with those that did not exist yet
// ([data-later]), which no other list has. Heads of scopes without any such key are hidden, too. [data-state-filtered] says how
// many there are (its data-words with {n} and {m}; data-word-none). Both stay when the state is pushed anew, and from event to
// event.
(() => {
  const first = document.querySelector("[data-state-filter]");
  const box = first?.closest("aside") ?? first?.closest("main");
  if (!box) return;
  let wanted = "";
  let differing = false;

  function apply() {
    const text = wanted.toLowerCase();
    for (const list of box.querySelectorAll("[data-rows]")) {
      const fields = list.parentElement.querySelector(".statefilter");
      const differs = fields?.querySelector("[data-state-differs]");
      const only = Boolean(differs) && differing;
      let head = null;
      for (const line of list.querySelectorAll(".scope, [data-key-row]")) {
        const name = line.dataset.keyRow;
        if (name === undefined) {
          head = line;
          head.hidden = only || text !== "";
          continue;
        }
        const other = only ? !("differs" in line.dataset) : "later" in line.dataset && !line.matches(".written");
        line.hidden = other || !name.toLowerCase().includes(text);
        if (!line.hidden && head) head.hidden = false;
      }
      if (differs) differs.checked = only;
      if (fields) tell(list, fields, only && differs.dataset.wordSame);
    }
  }

  /** Says how many keys there are; `same`: what to say where none differs from now. */
  function tell(list, fields, same) {
    const rows = [...list.querySelectorAll("[data-key-row]")];
    const number = rows.filter((row) => !row.hidden).length;
    const field = fields.querySelector("[data-state-filter]");
    if (field.value !== wanted) field.value = wanted;
    const said = fields.querySelector("[data-state-filtered]");
    const count = wanted && said.dataset.words.replace("{n}", number).replace("{m}", rows.length);
    const words = number ? count : (wanted && said.dataset.wordNone) || same || "";
    if (said.textContent !== words) said.textContent = words; // else it would be a change again
  }

  box.addEventListener("input", ({ target }) => {
    if (target.matches("[data-state-differs]")) differing = target.checked;
    else if (target.matches("[data-state-filter]")) wanted = target.value.trim();
    else return;
    apply();
  });
  box.addEventListener("keydown", ({ key, target }) => {
    if (key !== "Escape" || !target.matches("[data-state-filter]")) return;
    target.value = "";
    wanted = "";
    apply();
  });
  new MutationObserver(() => (wanted || differing) && apply()).observe(box, { childList: true, subtree: true });
})();
