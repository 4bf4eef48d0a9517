// #waits: the calls that wait for an answer. It is loaded again when they change; what was typed into those that stay is kept.
(() => {
  const box = document.querySelector("#waits");
  if (!box) return;
  const typed = new Map();
  const fields = () => [...box.querySelectorAll(":is(input, textarea, select)[id]")];

  box.addEventListener("htmx:beforeSwap", ({ detail }) => {
    typed.clear();
    if (detail.requestConfig.verb !== "get") return; // an answer was sent: its own fields come back with it
    for (const field of fields()) typed.set(field.id, field);
  });
  box.addEventListener("htmx:afterSwap", () => {
    for (const field of fields()) if (typed.has(field.id)) field.replaceWith(typed.get(field.id));
  });
})();
