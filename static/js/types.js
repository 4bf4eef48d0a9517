// In the form that edits state, beside a <json-editor>: [data-types] switches the type of the value and converts it, as far
// as that can be done; what cannot be converted is kept, and comes back with its type. Of a string, the field holds the value
// as it is ("plain"); of all other types, JSON, of which the switch shows the type. Where no type is chosen, because nobody
// knows what a key is, it follows what is typed: gold is a string, 4 a number, and so on until one is chosen. [data-offer] takes
// a value that was seen. [data-misfits] says what is unusual about the value (the form's data-check is the address that is asked).
(() => {
  const WAIT = 350; // milliseconds after the last key
  const DEFAULTS = { string: '""', number: "0", boolean: "false", null: "null", json: "{}" };
  const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
  const JSON_BEGUN = /^(["[{]|$)/; // what is typed is to be JSON, or nothing yet
  const TRUTH = { true: "true", yes: "true", on: "true", false: "false", no: "false", off: "false" };
  const NO_FIELD = /[\r\0]|\p{Surrogate}/u; // what a text field does not send back as it was: web/edits/rows.py has the same rule
  const typed = new WeakMap(); // by row: the last JSON of each type
  const originals = new WeakMap(); // by row: the JSON that the value is compared with
  const checks = new WeakMap(); // by row: what stops the check that is under way
  const untyped = new WeakSet(); // rows of which no type is chosen

  const rowOf = (element) => element.closest?.(".editrow");
  const editorOf = (row) => row.querySelector("json-editor");
  const field = (row) => row.querySelector("json-editor > textarea");
  const isPlain = (row) => editorOf(row).hasAttribute("plain");
  /** What stands in the editor, as JSON. */
  const jsonOf = (row) => (isPlain(row) ? JSON.stringify(field(row).value) : field(row).value.trim());

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
    const editor = editorOf(row);
    if (editor.view) editor.value = text;
    else {
      field(row).value = text;
      field(row).dispatchEvent(new Event("input", { bubbles: true }));
    }
  }

  /** Makes the field one of plain text or of JSON, and so the value that it is compared with. */
  function setPlain(row, plain) {
    const editor = editorOf(row);
    const seen = parsed(row.querySelector("[name^=seen-]").value)?.value;
    if (!originals.has(row)) {
      const json = typeof seen === "string" ? JSON.stringify(seen) : editor.getAttribute("original");
      originals.set(row, json);
    }
    const json = originals.get(row);
    editor.toggleAttribute("plain", plain);
    if (json !== null) editor.setAttribute("original", plain && typeof seen === "string" ? seen : json);
    field(row).required = !plain || json === null; // a string that was there may become the empty one
  }

  /** Shows a JSON text, as plain text if its type is string. */
  function put(row, json, type) {
    const { value } = parsed(json) ?? {};
    const plain = type === "string" && typeof value === "string" && !NO_FIELD.test(value);
    setPlain(row, plain);
    write(row, plain ? value : json);
  }

  /** Gives a row the type of what is typed. */
  function follow(row) {
    const text = field(row).value.trim();
    setPlain(row, !typeOf(text) && !JSON_BEGUN.test(text));
    for (const radio of row.querySelectorAll("[data-types] input"))
      radio.checked = text !== "" && radio.value === (isPlain(row) ? "string" : "json");
  }

  function change(row, type) {
    untyped.delete(row);
    const isEmpty = field(row).value.trim() === "";
    const json = isEmpty ? "" : jsonOf(row);
    const before = isPlain(row) ? "string" : typeOf(json);
    const texts = typed.get(row) ?? {};
    typed.set(row, { ...texts, [before]: json });
    put(row, (json && converted(json, type)) ?? texts[type] ?? DEFAULTS[type], type);
    show(row);
    check(row);
  }

  /** Shows the switch with the type of what stands in the editor; while that is no JSON, with the type before. */
  function show(row) {
    const types = row.querySelector("[data-types]");
    if (!types) return;
    const unused = row.querySelector("[data-operation]")?.value !== "set";
    for (const each of row.querySelectorAll("[data-types], [data-offered]")) each.hidden = unused;
    const json = typeOf(field(row).value.trim());
    const type = isPlain(row) ? "string" : json === "string" ? "json" : json; // JSON with its quotes
    const radio = types.querySelector(`[value="${type}"]`);
    if (radio) radio.checked = true;
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
    const part = (name) => row.querySelector(`[name^=${name}-]:is(:not([type=radio]), :checked)`)?.value ?? "";
    const body = new URLSearchParams(["key", "seen", "operation", "value", "type"].map((name) => [name, part(name)]));
    const headers = JSON.parse(document.body.getAttribute("hx-headers") ?? "{}");
    try {
      const answer = await fetch(address, { method: "POST", body, headers, signal });
      if (answer.ok && !answer.redirected) row.querySelector("[data-misfits]").innerHTML = (await answer.text()).trim();
    } catch {
      // another letter was typed, or the server is away: then there is no advice
    }
  }

  function showAll() {
    for (const row of document.querySelectorAll(".editrow:has([data-types])")) {
      if (!originals.has(row) && !row.querySelector("[data-types] :checked")) untyped.add(row);
      setPlain(row, isPlain(row));
      show(row);
    }
  }

  document.addEventListener("reset", ({ target }) =>
    setTimeout(() => {
      for (const row of target.querySelectorAll(".editrow:has([data-types])")) {
        setPlain(row, row.querySelector("[data-types] :checked")?.value === "string");
        show(row);
      }
    }),
  );

  // In the capture phase: before anybody looks whether the value is valid.
  document.addEventListener(
    "input",
    ({ target }) => target.matches("json-editor > textarea") && untyped.has(rowOf(target)) && follow(rowOf(target)),
    true,
  );
  document.addEventListener("input", ({ target }) => {
    if (!target.matches("json-editor > textarea") || !rowOf(target)) return;
    show(rowOf(target));
    check(rowOf(target));
  });
  document.addEventListener("change", ({ target }) => {
    const row = rowOf(target);
    if (!row) return;
    if (target.matches("[data-types] input") && target.checked) change(row, target.value);
    if (!target.matches("[data-operation]")) return;
    show(row);
    check(row);
  });
  document.addEventListener("click", ({ target }) => {
    const offer = target.closest?.("[data-offer]");
    if (!offer) return;
    put(rowOf(offer), offer.dataset.offer, "string");
    show(rowOf(offer));
  });
  document.addEventListener("htmx:load", showAll);
  showAll();
})();
