// [data-attach] in a form: an input for files, which are listed in its [data-attached], each with a button that takes it away.
// More files are added to those that are there; they are also taken where the form is dropped on, or pasted into. What is too
// much (data-most, data-max) isn't taken: [data-attach-error] says why. A text is needed only where there is no file.
(() => {
  const KILOBYTE = 1024;
  const size = new Intl.NumberFormat(document.documentElement.lang || undefined, {
    style: "unit",
    unit: "kilobyte",
    maximumFractionDigits: 0,
  });

  const inputOf = (element) => element?.closest?.("form")?.querySelector("[data-attach]");
  const taken = new WeakMap(); // by input: its files before the last choice

  function put(input, files) {
    const all = new DataTransfer();
    for (const file of files) all.items.add(file);
    input.files = all.files;
    taken.set(input, [...files]);
    show(input);
  }

  function show(input) {
    const list = input.form.querySelector("[data-attached]");
    for (const row of list.querySelectorAll("[data-nth]")) row.remove();
    list.append(
      ...[...input.files].map((file, nth) => {
        const row = document.createElement("li");
        const [name, bytes, button] = ["span", "span", "button"].map((tag) => document.createElement(tag));
        row.dataset.nth = nth;
        Object.assign(name, { className: "bidi", textContent: file.name });
        Object.assign(bytes, { className: "meta", textContent: size.format(Math.ceil(file.size / KILOBYTE)) });
        Object.assign(button, { type: "button", className: "iconbtn small", textContent: "×" });
        button.ariaLabel = list.dataset.wordRemove.replace("{name}", file.name);
        row.append(name, " ", bytes, button);
        return row;
      }),
    );
    const text = input.form.querySelector("textarea[name=text]");
    if (text) text.required = !list.childElementCount;
  }

  function add(input, more) {
    const files = [...(taken.get(input) ?? []), ...more];
    const kept = input.form.querySelectorAll("[name=kept]:checked").length;
    const bytes = files.reduce((sum, file) => sum + file.size, 0);
    const problem =
      files.length + kept > Number(input.dataset.most)
        ? "wordMany"
        : bytes > Number(input.dataset.max)
          ? "wordLarge"
          : "";
    const error = input.form.querySelector("[data-attach-error]");
    error.hidden = !problem;
    error.textContent = problem ? error.dataset[problem] : "";
    put(input, problem ? (taken.get(input) ?? []) : files);
  }

  document.addEventListener("change", ({ target }) => {
    if (target.matches("[data-attach]")) add(target, [...target.files]);
  });
  document.addEventListener("click", ({ target }) => {
    const row = target.closest?.("[data-attached] [data-nth] button")?.parentElement;
    if (!row) return;
    const input = inputOf(row);
    put(
      input,
      [...input.files].filter((_, nth) => nth !== Number(row.dataset.nth)),
    );
    (input.form.querySelector("[data-attached] button") ?? input).focus();
  });
  document.addEventListener("paste", (event) => {
    const input = inputOf(event.target);
    if (!input || !event.clipboardData?.files.length) return;
    event.preventDefault();
    add(input, [...event.clipboardData.files]);
  });
  for (const kind of ["dragenter", "dragover", "dragleave", "drop"]) {
    document.addEventListener(kind, (event) => {
      const input = inputOf(event.target);
      if (!input || !event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      input.form.classList.toggle("over", kind === "dragenter" || kind === "dragover");
      if (kind === "drop") add(input, [...event.dataTransfer.files]);
    });
  }
  // What was refused comes back with the same input: see answers.js.
  document.addEventListener("htmx:afterSettle", () => {
    for (const input of document.querySelectorAll("[data-attach]")) if (input.files.length) show(input);
  });
})();
