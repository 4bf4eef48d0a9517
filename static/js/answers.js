// #waits: the calls that wait for an answer, and the message to the agent. It is loaded again when they change, and once more
// when the index has what happened last; what was typed is kept. In a [data-enter-sends], Enter sends and Shift+Enter starts a
// new line. A link [data-again] opens the message of
// the event that it names here, to be edited and sent again; one without a name, a new message. In a .first, the keys to set first, Enter adds a key.
(() => {
  const box = document.querySelector("#waits");
  if (!box) return;
  const INDEXED = 2000;
  const typed = new Map();
  let focused = null;
  let wrote = false; // the next message follows in the same field
  let opened = false; // a message to be sent again, or none any longer
  let stopsOpen = false; // the breakpoints
  let adding = ""; // the id of the .first whose next key has the focus when it comes
  const fields = () => [...box.querySelectorAll(":is(input, textarea, select, details)[id]")];

  const message = () => box.querySelector(".composer textarea");

  function write() {
    const field = message();
    field?.focus({ preventScroll: true });
    field?.setSelectionRange(field.value.length, field.value.length);
  }

  if (location.hash === "#waits") {
    // Chromium takes the focus away again when it goes to what the address names, which isn't a field.
    const keep = ({ target, relatedTarget }) => [box, null].includes(relatedTarget) && setTimeout(() => target.focus());
    box.addEventListener("focusout", keep, { once: true });
    fields()[0]?.focus();
  }
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[data-again]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const address = `${box.getAttribute("hx-get")}?again=${encodeURIComponent(link.dataset.again)}`;
    window.htmx.ajax("GET", address, { source: box.parentElement, target: box, swap: "innerHTML" });
  });
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.ctrlKey || event.metaKey || event.isComposing) return;
    if (event.target.matches(".first input")) {
      event.preventDefault();
      event.target.closest(".first").querySelector(".addkey button").click();
    } else if (event.target.matches("[data-enter-sends]")) {
      event.preventDefault();
      event.target.form.requestSubmit();
    }
  });
  box.addEventListener("focusin", ({ target }) => {
    if (!target.list?.matches("[data-keys-of-state]")) return;
    const keys = [...document.querySelectorAll("#state [data-key-row]")].map((row) => row.dataset.keyRow);
    target.list.replaceChildren(...keys.map((key) => new Option("", key)));
  });
  box.addEventListener("submit", ({ target, submitter }) => {
    const first = target.querySelector(".first");
    adding = first?.contains(submitter) || first?.querySelector("[name=new-key]").value ? first.id : "";
    if (adding) return;
    wrote = target.matches(".composer");
    document.querySelector("#moment:not([hidden]) [data-travel-back]")?.click(); // what the agent does now is not in the past
  });
  let indexing = 0;
  document.body.addEventListener("adkweb:waits", () => {
    clearTimeout(indexing);
    indexing = setTimeout(() => window.htmx.trigger(box, "adkweb:indexed"), INDEXED);
  });
  box.addEventListener("htmx:beforeSwap", ({ detail }) => {
    typed.clear();
    stopsOpen = box.querySelector(".stops")?.open;
    focused = document.activeElement;
    opened =
      new URL(detail.pathInfo.requestPath, location.href).searchParams.has("again") && detail.requestConfig.elt !== box;
    const { elt, verb } = detail.requestConfig;
    const isSent = detail.xhr.status < 400 && !adding;
    // A push may have put the same form in the place of the one that was sent.
    const same = ({ dataset }) => dataset.guard === elt.dataset.guard;
    const sent = elt.isConnected ? elt : [...box.querySelectorAll("form")].find(same);
    // What was sent comes back with the answer; files don't.
    for (const field of fields())
      if (verb === "get" || !sent?.contains(field) || (field.type === "file" && !isSent)) typed.set(field.id, field);
    if (!elt.isConnected) box.append(elt); // htmx looks for #inbox-count where the form is
  });
  box.addEventListener("htmx:afterSwap", () => {
    if (stopsOpen) box.querySelector(".stops")?.setAttribute("open", "");
    // A details that is kept keeps what is in it.
    for (const field of fields()) if (field.isConnected && typed.has(field.id)) field.replaceWith(typed.get(field.id));
    if (opened) return write();
    const first = adding && document.getElementById(adding);
    if (first) {
      const editor = [...first.querySelectorAll("json-editor")].at(-1);
      return (editor?.querySelector(".cm-content, textarea") ?? first.querySelector("[name=new-key]")).focus();
    }
    const field = wrote && message();
    if (field) wrote = false;
    const next = box.contains(focused) ? focused : field;
    if (next && document.activeElement === document.body) next.focus({ preventScroll: true });
  });
})();
