// In a form with a <json-editor>: what sends it is disabled while a value is not valid, and [data-why-not] says why.
// An editor with data-word-use-string offers to take what was typed as a string: by a button, or by Enter where it is no JSON.
// In the edit form also: [data-operation] other than "set" needs no editor; [data-close-form] closes the form in place;
// [data-take-all] ticks every [data-take], or none.
(() => {
  const BARE = /^[^[\]{}"]/; // what may be meant as text: neither a JSON string nor a list or an object
  const SHOWN = 40; // characters of it on the button

  const fields = (form) => [...form.querySelectorAll("json-editor > textarea:not(:disabled)")];

  /** Why a value cannot be sent; empty where it can. */
  function problem(textarea) {
    const { wordMissing } = textarea.form.querySelector("[data-why-not]").dataset;
    return textarea.validationMessage || (textarea.closest(".editrow") && !textarea.value.trim() ? wordMissing : "");
  }

  function check(form) {
    const note = form?.querySelector("[data-why-not]");
    if (!note) return;
    const wrong = fields(form).find((textarea) => customElements.get("json-editor") && problem(textarea));
    const reason = wrong ? problem(wrong) : "";
    const key = wrong?.closest(".editrow")?.querySelector("[name^=key-]")?.value;
    note.textContent = key && reason ? `${key}: ${reason}` : reason;
    note.hidden = !reason || (fields(form).length === 1 && wrong.validationMessage !== ""); // said in the editor itself
    for (const button of form.querySelectorAll("[data-sends]")) button.disabled = Boolean(reason);
    for (const textarea of fields(form)) offerText(textarea);
  }

  function checkAll() {
    for (const form of document.querySelectorAll("form:has(json-editor)")) check(form);
  }

  /** The button that makes a JSON string of what was typed, in the words of the editor. */
  function offerText(textarea) {
    const editor = textarea.parentElement;
    const { wordUseString } = editor.dataset;
    const text = textarea.value.trim();
    let button = editor.querySelector(".asstring");
    if (!wordUseString || !editor.view || !BARE.test(text)) return button?.remove();
    if (!button) {
      button = document.createElement("button");
      Object.assign(button, { type: "button", className: "btn small asstring" });
      editor.append(button);
    }
    const short = text.length > SHOWN ? `${text.slice(0, SHOWN - 1)}…` : text;
    button.textContent = wordUseString.replace("{text}", short.replace(/\s+/g, " "));
    if (textarea.validationMessage) {
      const key = document.createElement("kbd");
      key.textContent = "⏎";
      button.append(" ", key);
    }
  }

  function useString(editor) {
    editor.value = JSON.stringify(editor.value.trim());
    editor.focus();
    editor.view.dispatch({ selection: { anchor: editor.view.state.doc.length } });
  }

  // In the capture phase: before the editor makes a new line of it.
  document.addEventListener(
    "keydown",
    (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      const editor = event.target.closest?.(".cm-content")?.closest("json-editor");
      const textarea = editor?.querySelector("textarea");
      if (!editor?.querySelector(".asstring") || !textarea.validationMessage || textarea.value.trim().includes("\n"))
        return;
      event.preventDefault();
      event.stopPropagation();
      useString(editor);
    },
    true,
  );

  /** On a narrow screen, what was asked for stands behind the other tab. */
  function showTab() {
    document.querySelector("[role=tab][data-tab-target=state]")?.click();
  }

  function showOperation(chooser) {
    const editor = chooser.closest(".editrow")?.querySelector("json-editor");
    if (!editor) return;
    editor.hidden = chooser.value !== "set";
    editor.querySelector("textarea").disabled = editor.hidden;
    check(chooser.form);
  }

  function showOperations() {
    document.querySelectorAll("[data-operation]").forEach(showOperation);
    checkAll();
  }

  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target?.id === "edit") showTab();
  });
  document.addEventListener("htmx:load", showOperations);
  /** Where a form begins: a choice that is to be made, or the value of the key that was added last. */
  function begin(form) {
    const choice = form.querySelector(".conflict input");
    const editor = [...form.querySelectorAll("json-editor:not([hidden])")].at(-1);
    const field = editor?.querySelector(".cm-content, textarea:not([hidden])");
    (choice ?? field ?? form.querySelector("[name=new-key]"))?.focus();
  }

  document.addEventListener("htmx:afterSettle", (event) => {
    const form = event.target.closest(".editbox") ?? document.querySelector(":is(#edit, #batch) > .editbox");
    if (!event.target.matches("#edit, #batch, .editbox, .editbox *")) return;
    const focused = document.activeElement;
    // htmx gives the focus back to the field for another key; it belongs into the value of the key that was added.
    if (form && !(form.contains(focused) && focused.name !== "new-key")) begin(form);
  });
  document.addEventListener("input", (event) => {
    if (event.target.matches("json-editor > textarea")) check(event.target.form);
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-operation]")) showOperation(event.target);
    if (event.target.matches("[data-take-all]")) {
      for (const box of event.target.form.querySelectorAll("[data-take]")) box.checked = event.target.checked;
    }
  });
  document.addEventListener("click", (event) => {
    const target = event.target instanceof Element ? event.target : null;
    const asString = target?.closest(".asstring");
    if (asString) useString(asString.closest("json-editor"));
    const close = target?.closest("[data-close-form]");
    const slot = close?.closest("#edit");
    if (slot) {
      event.preventDefault();
      slot.replaceChildren();
      document.querySelector('[data-key="e"]')?.focus();
    }
  });
  showOperations();
  customElements.whenDefined("json-editor").then(checkAll);
  const page = document.querySelector(".section > .editbox:has(json-editor)");
  if (page && document.activeElement === document.body) begin(page);
})();
