// [data-open="#id"] opens a dialog, [data-close] closes the one it is in; a dialog[data-show] that htmx brings opens itself.
// A click beside a dialog closes it, unless it holds a form.
(() => {
  document.addEventListener("click", (event) => {
    const { target } = event;
    const opener = target.closest("[data-open]");
    if (opener) {
      const dialog = document.querySelector(opener.dataset.open);
      opener.closest("details.menu")?.querySelector("summary").focus(); // where the focus is again afterwards
      if (dialog && !dialog.open) dialog.showModal();
      event.preventDefault();
      return;
    }
    const closer = target.closest("[data-close]");
    if (closer) closer.closest("dialog")?.close();
    else if (target.matches("dialog:modal") && !target.querySelector("form:not([method=dialog])")) {
      const box = target.getBoundingClientRect();
      const { clientX: x, clientY: y } = event;
      if (x < box.left || x > box.right || y < box.top || y > box.bottom) target.close();
    }
  });

  function show(root) {
    const dialogs = root.matches?.("dialog[data-show]") ? [root] : root.querySelectorAll("dialog[data-show]");
    for (const dialog of dialogs) if (!dialog.open) dialog.showModal();
  }

  show(document);
  document.addEventListener("htmx:load", (event) => show(event.target));
})();
