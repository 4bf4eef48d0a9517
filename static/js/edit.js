// In the form that edits state: an editor with data-word-use-string offers to take what is no JSON as a string, by a button or
// by Enter. [data-operation] other than "set" needs no editor; [data-close-form] closes the form in place; [data-take-all]
// ticks every [data-take], or none; [data-another] is opened for its field.
// The form of one key stands where the key is: #edit goes before its row, which style sheets then leave out. When the form is
// gone, saved or not, the row has the focus again.
(() => {
  const BARE = /^[^[\]{}"]/; // what may be meant as text: neither a JSON string nor a list or an object
  const SHOWN = 40; // characters of it on the button

  /** The button that makes a JSON string of what was typed, in the words of the editor. */
  function offerText(textarea) {
    const editor = textarea.parentElement;
    const { wordUseString } = editor.dataset;
    const text = textarea.value.trim();
    let button = editor.querySelector(".asstring");
    if (!wordUseString || !editor.view || !textarea.validationMessage || !BARE.test(text)) return button?.remove();
    if (!button) {
      button = document.createElement("button");
      Object.assign(button, { type: "button", className: "btn small asstring" });
      editor.append(button);
    }
    const short = text.length > SHOWN ? `${text.slice(0, SHOWN - 1)}…` : text;
    const key = document.createElement("kbd");
    key.textContent = "⏎";
    button.replaceChildren(wordUseString.replace("{text}", short.replace(/\s+/g, " ")), " ", key);
  }

  /** By the switch of the type: see types.js. */
  function useString(editor) {
    const type = editor.closest(".editrow").querySelector("[data-types] [value=string]");
    type.checked = true;
    type.dispatchEvent(new Event("change", { bubbles: true }));
    editor.focus();
    editor.view.dispatch({ selection: { anchor: editor.view.state.doc.length } });
  }

  // Enter takes a key into the form, whatever is still missing of the others.
  document.addEventListener("keydown", ({ key, target }) => {
    const button = target.name === "new-key" && target.value && target.form.querySelector("button[hidden]");
    if (key !== "Enter" || !button) return;
    button.formNoValidate = true;
    setTimeout(() => {
      button.formNoValidate = false;
    });
  });

  // In the capture phase: before the editor makes a new line of it.
  document.addEventListener(
    "keydown",
    (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.ctrlKey || event.metaKey || event.isComposing) return;
      const editor = event.target.closest?.(".cm-content")?.closest("json-editor");
      const textarea = editor?.querySelector("textarea");
      if (!editor?.querySelector(".asstring") || textarea.value.trim().includes("\n")) return;
      event.preventDefault();
      event.stopPropagation();
      useString(editor);
    },
    true,
  );

  function showOperation(chooser) {
    const editor = chooser.closest(".editrow")?.querySelector("json-editor");
    if (!editor) return;
    editor.hidden = chooser.value !== "set";
    editor.querySelector("textarea").disabled = editor.hidden;
  }

  function showOperations() {
    document.querySelectorAll("[data-operation]").forEach(showOperation);
    offerTexts();
  }

  function offerTexts() {
    for (const textarea of document.querySelectorAll("json-editor > textarea:not(:disabled)")) offerText(textarea);
  }

  document.addEventListener("htmx:load", showOperations);

  // --- Where the form stands -----------------------------------------------------------------------------------------

  const slot = document.querySelector("#edit");
  const list = slot?.closest("[data-rows]");

  const rowOf = (key) => list.querySelector(`[data-key-row="${CSS.escape(key)}"]:not([hidden])`);

  document.addEventListener("htmx:beforeSwap", ({ detail }) => {
    if (detail.target !== slot || !slot) return;
    const keys = new URL(detail.pathInfo.requestPath, location.href).searchParams.getAll("key");
    const row = keys.length === 1 ? rowOf(keys[0]) : null;
    slot.dataset.key = row ? keys[0] : "";
    sent = "";
    row?.removeAttribute("data-newer");
    if (row) row.before(slot);
    else list.prepend(slot);
  });
  document.addEventListener("htmx:afterSwap", ({ detail }) => {
    if (!slot || detail.target !== slot) return;
    window.adkweb.showTab("state"); // where it is
  });

  let sent = ""; // the last key of a form that was sent: a new one has no row until the state is pushed

  function giveBack() {
    const key = slot.dataset.key || sent;
    const row = key ? rowOf(key) : null;
    const opener = document.querySelector('[data-key="e"]');
    let next = row ?? (slot.dataset.key ? slot.nextElementSibling : null); // the row may be gone already
    while (next && !next.matches("[data-key-row]:not([hidden])")) next = next.nextElementSibling;
    const target = next?.querySelector('[data-row-key="e"]') ?? opener;
    if ([document.body, opener].includes(document.activeElement)) target?.focus({ preventScroll: true });
    row?.scrollIntoView({ block: "nearest" });
    if (row) sent = "";
  }

  /** The form is in sight as a whole, also when it grows. */
  function keepInSight() {
    if (slot.childElementCount && slot.offsetHeight < Math.min(list.clientHeight, innerHeight))
      slot.scrollIntoView({ block: "nearest" });
  }

  if (slot) {
    new MutationObserver(() => slot.childElementCount || giveBack()).observe(slot, { childList: true });
    new MutationObserver(() => sent && !slot.childElementCount && rowOf(sent) && giveBack()).observe(list, {
      childList: true,
      subtree: true,
    });
    slot.addEventListener("submit", ({ target }) => {
      sent = [...target.querySelectorAll("[name^=key-]")].at(-1)?.value ?? "";
    });
    new ResizeObserver(keepInSight).observe(slot);
  }
  // Where a page is loaded anew after an edit, it begins at the row.
  if (slot && !document.querySelector("#pane")) {
    document.addEventListener("htmx:beforeOnLoad", ({ detail: { elt, xhr } }) => {
      if (slot.contains(elt) && xhr.getResponseHeader("HX-Redirect"))
        window.adkweb.keep("edited", slot.dataset.key || sent, "sessionStorage");
    });
    slot.dataset.key = window.adkweb.kept("edited", "sessionStorage") ?? "";
    window.adkweb.keep("edited", "", "sessionStorage");
    if (slot.dataset.key) giveBack();
  }

  // --- What it begins with -------------------------------------------------------------------------------------------

  /** Where a form begins: a choice that is to be made, a value that is wrong, or that of the key that was added last. */
  function begin(form) {
    const choice = form.querySelector(".conflict input");
    const wrong = form.querySelector("json-editor:has([aria-invalid=true])");
    const editor = wrong ?? [...form.querySelectorAll("json-editor:not([hidden])")].at(-1);
    const field = editor?.querySelector(".cm-content, textarea:not([hidden])");
    (choice ?? field ?? form.querySelector("[name=new-key]"))?.focus();
  }

  document.addEventListener("htmx:afterSettle", (event) => {
    const form =
      event.target.closest(".editbox, #whatif") ??
      document.querySelector(":is(#edit, #batch) > .editbox, #whatifs #whatif");
    if (!event.target.matches("#edit, #batch, #whatif, #whatifs, .editbox, .editbox *")) return;
    const focused = document.activeElement;
    // htmx gives the focus back to the field for another key; it belongs into the value of the key that was added.
    if (form && !(form.contains(focused) && focused.name !== "new-key")) begin(form);
  });
  document.addEventListener("input", ({ target }) => {
    if (target.matches("json-editor > textarea")) offerText(target);
    else if (target.name === "new-key" && target.value) target.closest("[data-another]")?.setAttribute("open", "");
  });
  // In the capture phase: the event does not bubble.
  document.addEventListener(
    "toggle",
    ({ target }) => target.open && target.matches("[data-another]") && target.querySelector("input").focus(),
    true,
  );
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
    if (!slot?.contains(target) || !target.closest("[data-close-form]")) return;
    event.preventDefault();
    sent = "";
    slot.replaceChildren();
  });
  showOperations();
  customElements.whenDefined("json-editor").then(offerTexts);
  const page = document.querySelector(".section > .editbox:has(json-editor)");
  if (page && document.activeElement === document.body) begin(page);
})();
