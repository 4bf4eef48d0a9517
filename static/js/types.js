// In the form that edits state, beside a <json-editor>: [data-types] switches the type of the value and converts it, as far
// as that can be done; what cannot be converted is kept, and comes back with its type. [data-offer] takes a value that was
// seen. [data-misfits] says what is unusual about the value (the form's data-check is the address that is asked).
(() => {
  const WAIT = 350; // milliseconds after the last key
  const DEFAULTS = { string: '""', number: "0", boolean: "false", null: "null", json: "{}" };
  const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
  const TRUTH = { true: "true", yes: "true", on: "true", false: "false", no: "false", off: "false" };
  const typed = new WeakMap(); // by row: the last text of each type
  const checks = new WeakMap(); // by row: what stops the check that is under way

  const rowOf = (element) => element.closest?.(".editrow");
  const field = (row) => row.querySelector("json-editor > textarea");

  function parsed(text) {
    try {
      return { value: JSON.parse(text) };
    } catch {
      return null;
    }
  }

  /** The type of a JSON text: one of the switch; "" where it is none. */
  function typeOf(text) {
    const { value } = parsed(text) ?? {};
    if (value === undefined) return "";
    if (value === null) return "null";
    return typeof value === "object" ? "json" : typeof value;
  }

  /** A JSON text as one of another type; undefined where its value cannot be one. */
  function converted(text, type) {
    const before = typeOf(text);
    if (before === type || type === "null") return type === "null" ? "null" : text;
    if (type === "string") return JSON.stringify(text);
    const plain = (before === "string" ? JSON.parse(text) : text).trim();
    if (type === "json") return typeOf(plain) === "json" ? plain : undefined;
    if (type === "number") return NUMBER.test(plain) ? plain : { true: "1", false: "0" }[plain];
    return NUMBER.test(plain) ? String(Number(plain) !== 0) : TRUTH[plain.toLowerCase()];
  }

  function write(row, text) {
    const editor = row.querySelector("json-editor");
    if (editor.view) editor.value = text;
    else {
      field(row).value = text;
      field(row).dispatchEvent(new Event("input", { bubbles: true }));
    }
  }

  function change(row, type) {
    const text = field(row).value.trim();
    const before = typeOf(text);
    const texts = typed.get(row) ?? {};
    typed.set(row, { ...texts, [before]: text });
    write(row, (text && converted(text, type)) ?? texts[type] ?? DEFAULTS[type]);
    show(row);
    check(row);
  }

  /** Shows the switch with the type of what stands in the editor. */
  function show(row) {
    const types = row.querySelector("[data-types]");
    if (!types) return;
    const unused = row.querySelector("[data-operation]")?.value !== "set";
    for (const each of row.querySelectorAll("[data-types], [data-offered]")) each.hidden = unused;
    const type = typeOf(field(row).value.trim());
    for (const radio of types.querySelectorAll("input")) radio.checked = radio.value === type;
  }

  function check(row) {
    const address = row.closest("form")?.dataset.check;
    checks.get(row)?.abort();
    if (!address) return;
    const stop = new AbortController();
    checks.set(row, stop);
    setTimeout(() => !stop.signal.aborted && ask(row, address, stop.signal), WAIT);
  }

  async function ask(row, address, signal) {
    const part = (name) => row.querySelector(`[name^=${name}-]`).value;
    const body = new URLSearchParams(["key", "seen", "operation", "value"].map((name) => [name, part(name)]));
    const headers = JSON.parse(document.body.getAttribute("hx-headers") ?? "{}");
    try {
      const answer = await fetch(address, { method: "POST", body, headers, signal });
      if (answer.ok && !answer.redirected) row.querySelector("[data-misfits]").innerHTML = (await answer.text()).trim();
    } catch {
      // another letter was typed, or the server is away: then there is no advice
    }
  }

  const showAll = () => document.querySelectorAll(".editrow:has([data-types])").forEach(show);

  document.addEventListener("input", ({ target }) => {
    if (!target.matches("json-editor > textarea") || !rowOf(target)) return;
    show(rowOf(target));
    check(rowOf(target));
  });
  document.addEventListener("change", ({ target }) => {
    const row = rowOf(target);
    if (!row) return;
    if (target.matches("[data-types] input")) change(row, target.value);
    if (!target.matches("[data-operation]")) return;
    show(row);
    check(row);
  });
  document.addEventListener("click", ({ target }) => {
    const offer = target.closest?.("[data-offer]");
    if (offer) write(rowOf(offer), offer.dataset.offer);
  });
  document.addEventListener("htmx:load", showAll);
  showAll();
})();
