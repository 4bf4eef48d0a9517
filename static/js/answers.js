// #waits: the calls that wait for an answer, and the message to the agent. It is loaded again when they change; what was typed
// is kept. In a [data-enter-sends], Enter sends and Shift+Enter starts a new line.
(() => {
  const box = document.querySelector("#waits");
  if (!box) return;
  const typed = new Map();
  let focused = null;
  let wrote = false; // the next message follows in the same field
  const fields = () => [...box.querySelectorAll(":is(input, textarea, select)[id]")];

  if (location.hash === "#waits") fields()[0]?.focus();
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || !event.target.matches("[data-enter-sends]"))
      return;
    event.preventDefault();
    event.target.form.requestSubmit();
  });
  box.addEventListener("submit", ({ target }) => {
    wrote = target.matches(".composer");
    document.querySelector("#moment:not([hidden]) [data-travel-back]")?.click(); // what the agent does now is not in the past
  });
  box.addEventListener("htmx:beforeSwap", ({ detail }) => {
    typed.clear();
    focused = document.activeElement;
    if (detail.requestConfig.verb !== "get") return; // an answer was sent: its own fields come back with it
    for (const field of fields()) typed.set(field.id, field);
  });
  box.addEventListener("htmx:afterSwap", () => {
    for (const field of fields()) if (typed.has(field.id)) field.replaceWith(typed.get(field.id));
    const message = wrote && box.querySelector("#message");
    if (message) wrote = false;
    const next = box.contains(focused) ? focused : message;
    if (next && document.activeElement === document.body) next.focus({ preventScroll: true });
  });
})();
