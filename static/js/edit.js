// In the edit form: [data-operation] other than "set" needs no editor; [data-close-form] closes the form in place;
// [data-take-all] ticks every [data-take], or none.
(() => {
  /** On a narrow screen, what was asked for stands behind the other tab. */
  function showTab() {
    document.querySelector("[role=tab][data-tab-target=state]")?.click();
  }

  function showOperation(chooser) {
    const editor = chooser.closest(".editrow")?.querySelector("json-editor");
    if (!editor) return;
    editor.hidden = chooser.value !== "set";
    editor.querySelector("textarea").disabled = editor.hidden;
  }

  function showOperations() {
    document.querySelectorAll("[data-operation]").forEach(showOperation);
  }

  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target?.id === "edit") showTab();
  });
  document.addEventListener("htmx:load", showOperations);
  document.addEventListener("htmx:afterSettle", (event) => {
    const form = event.target.closest(".editbox");
    const focused = document.activeElement;
    // htmx gives the focus back to the field for another key; it belongs into the value of the key that was added.
    if (!form || (form.contains(focused) && focused.name !== "new-key")) return;
    const choice = form.querySelector(".conflict input");
    const editor = [...form.querySelectorAll("json-editor:not([hidden]) .cm-content")].at(-1);
    (choice ?? editor ?? form.querySelector("[name=new-key]"))?.focus();
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-operation]")) showOperation(event.target);
    if (event.target.matches("[data-take-all]")) {
      for (const box of event.target.form.querySelectorAll("[data-take]")) box.checked = event.target.checked;
    }
  });
  document.addEventListener("click", (event) => {
    const target = event.target instanceof Element ? event.target : null;
    const close = target?.closest("[data-close-form]");
    const slot = close?.closest("#edit");
    if (slot) {
      event.preventDefault();
      slot.replaceChildren();
      document.querySelector('[data-key="e"]')?.focus();
    }
  });
  showOperations();
})();
