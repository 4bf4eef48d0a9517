// form[data-guard="a key for what is edited"]: leaving with unsent changes is asked about, and what was typed is kept in
// sessionStorage until it has been accepted, so it is back after a reload, a lost connection or a closed form.
//
// With data-guard-quiet, leaving is not asked about: what was typed is kept, and that is enough.
// With data-guard-late, what was accepted may still fail, and the form then comes back: it has what was typed for a minute.
//
// Inside the form, optional: [data-guard-restored][hidden] is shown when something was brought back, [data-guard-discard]
// throws it away. Passwords, files and hidden fields never go into the storage; nor do radio buttons that choose between two
// values (choice-…): that is about what stands there, and asked anew each time.
// A refused form is known by an error in it (.formerror, .errorlist, .error or aria-invalid=true); one that comes back with
// what was typed for another reason says data-guard-changed. A page that says that something broke has <body data-error-page>.
(() => {
  const { keptJson } = window.adkweb;
  const PREFIX = "guard:";
  const SKIPPED = new Set(["hidden", "password", "file", "submit", "button", "reset", "image", "fieldset", "output"]);
  const REFUSED = ".formerror, .errorlist, .error:not(:empty), :is(input, select, textarea)[aria-invalid=true]";
  const LATE = 60_000;
  const begun = new WeakSet();
  const sent = new WeakSet();
  const accepted = new WeakSet(); // a field of such a form that goes away with the focus says that it has changed

  const forms = () => document.querySelectorAll("form[data-guard]");
  const storageKey = (form) => PREFIX + form.dataset.guard;

  function fields(form) {
    const seen = new Map();
    return [...form.elements]
      .filter((field) => field.name && !SKIPPED.has(field.type) && !field.matches("[name^=choice-]"))
      .map((field) => {
        const nth = seen.get(field.name) ?? 0;
        seen.set(field.name, nth + 1);
        return [`${field.name}#${nth}`, field];
      });
  }

  const part = (field) => (field.type === "checkbox" || field.type === "radio" ? "checked" : "value");
  const read = (field) => field[part(field)];

  function write(field, value) {
    field[part(field)] = value;
    field.dispatchEvent(new Event("input", { bubbles: true }));
    field.dispatchEvent(new Event("change", { bubbles: true }));
  }

  function differs(field) {
    if (part(field) === "checked") return field.checked !== field.defaultChecked;
    if (!field.options) return field.value !== field.defaultValue;
    const options = [...field.options];
    if (!options.some((option) => option.defaultSelected)) return field.selectedIndex > 0;
    return options.some((option) => option.selected !== option.defaultSelected);
  }

  const refused = (form) => form.querySelector(REFUSED) !== null;
  const changed = (form) =>
    refused(form) || "guardChanged" in form.dataset || fields(form).some(([, field]) => differs(field));

  const load = (key) => keptJson(key, "sessionStorage");

  /** Without room or storage, the question before leaving still protects. */
  function keep(key, draft) {
    window.adkweb.keep(key, draft && JSON.stringify(draft), "sessionStorage");
  }

  function save(form, more = {}) {
    const values = Object.fromEntries(fields(form).map(([name, field]) => [name, read(field)]));
    keep(storageKey(form), changed(form) ? { values, ...more } : null);
  }

  function begin(form) {
    if (begun.has(form)) return;
    begun.add(form);
    const key = storageKey(form);
    const draft = load(key);
    if (!draft) {
      save(form);
      return;
    }
    // Sent, and here is the answer: one that is refused holds what was sent.
    if (draft.sent || (draft.late && "guardChanged" in form.dataset)) {
      keep(key, null);
      if (refused(form)) save(form);
      return;
    }
    let restored = false;
    for (const [name, field] of fields(form)) {
      if (!(name in draft.values) || JSON.stringify(read(field)) === JSON.stringify(draft.values[name])) continue;
      write(field, draft.values[name]);
      restored = true;
    }
    const note = form.querySelector("[data-guard-restored]");
    if (!note || !restored) return;
    note.hidden = false;
    note.closest("details")?.toggleAttribute("open", true);
  }

  function beginAll() {
    for (const form of forms()) begin(form);
  }

  /** What was sent by the page before and is not asked for again has been accepted. */
  function sweep() {
    if ("errorPage" in document.body.dataset) return;
    const here = new Set([...forms()].map(storageKey));
    for (const key of Object.keys(sessionStorage)) {
      if (!key.startsWith(PREFIX) || here.has(key)) continue;
      const { sent, late } = load(key) ?? {};
      if (sent || late < Date.now() - LATE) keep(key, null);
    }
  }

  function guarded(event) {
    return event.target instanceof Element ? event.target.closest("form[data-guard]") : null;
  }

  function typed(event) {
    const form = event.target.form ?? guarded(event);
    if (event.type === "input") accepted.delete(form);
    if (form?.matches("[data-guard]") && begun.has(form) && !accepted.has(form)) save(form);
  }

  document.addEventListener("input", typed);
  document.addEventListener("change", typed);

  document.addEventListener("click", (event) => {
    const form = event.target.closest("[data-guard-discard]")?.closest("form[data-guard]");
    if (!form) return;
    keep(storageKey(form), null);
    form.reset();
    const note = form.querySelector("[data-guard-restored]");
    if (note) note.hidden = true;
  });

  document.addEventListener("submit", (event) => {
    const form = guarded(event);
    if (!form || event.defaultPrevented) return;
    save(form, { sent: true });
    sent.add(form);
  });

  // Accepted; or the form comes back with a field more or less, and then begins anew with what it holds.
  // Its answer comes to an element that a push may have taken out of the page meanwhile, and no event of htmx says so here.
  document.addEventListener("htmx:beforeSend", ({ detail: { elt, xhr, requestConfig } }) => {
    const form = elt.closest("form[data-guard]");
    if (!form || requestConfig.verb === "get") return;
    xhr.addEventListener("readystatechange", () => {
      if (xhr.readyState !== XMLHttpRequest.DONE || xhr.status < 200 || xhr.status >= 400) return;
      const { values } = load(storageKey(form)) ?? {};
      keep(storageKey(form), "guardLate" in form.dataset && values ? { values, late: Date.now() } : null);
      accepted.add(form);
      if (xhr.getResponseHeader("HX-Redirect")) sent.add(form);
    });
  });

  // The answer is the form again, refused maybe: it holds what was sent, and there is nothing to bring back.
  document.addEventListener("htmx:afterSwap", (event) => {
    const form = guarded(event);
    if (form && !begun.has(form) && event.detail.requestConfig?.verb === "post") keep(storageKey(form), null);
  });

  document.addEventListener("htmx:load", beginAll);

  /** What was refused without a new form was not accepted: it stays a draft, and leaving is asked about again. */
  function failed(event) {
    const form = event.detail.elt?.closest?.("form[data-guard]");
    if (!form) return;
    sent.delete(form);
    save(form);
  }

  document.addEventListener("htmx:sendError", failed);
  document.addEventListener("htmx:responseError", failed);

  window.addEventListener("pageshow", (event) => {
    if (event.persisted) for (const form of forms()) sent.delete(form);
  });

  window.addEventListener("beforeunload", (event) => {
    if ([...forms()].some((form) => !("guardQuiet" in form.dataset) && !sent.has(form) && changed(form)))
      event.preventDefault();
  });

  // After every deferred script, so that <json-editor> sees what is brought back.
  document.addEventListener("DOMContentLoaded", () => {
    try {
      sweep();
    } catch {
      // Storage is refused.
    }
    beginAll();
  });
})();
