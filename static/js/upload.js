// form[data-upload]: htmx sends its file. [data-upload-progress] shows how much of it is sent; a file larger than data-max
// bytes is not sent: [data-upload-large] says so. [data-drop] around input[type=file] takes a file that is dropped there.
(() => {
  const form = (event) => event.target.closest?.("form[data-upload]");

  /** Whether the chosen file is too large, which is said; what was said before goes. */
  function tooLarge(to) {
    const large = to.querySelector("input[type=file]").files[0]?.size > Number(to.dataset.max);
    to.querySelector("#upload-error").replaceChildren();
    to.querySelector("[data-upload-large]").hidden = !large;
    return large;
  }

  function show(to, share) {
    const box = to.querySelector("[data-upload-progress]");
    const words = box.querySelector("[data-upload-words]");
    box.hidden = share === null;
    const bar = box.querySelector("progress");
    if (share === null || share >= 1) bar.removeAttribute("value");
    else bar.value = share * 100;
    words.textContent =
      share === null
        ? ""
        : share >= 1
          ? words.dataset.wordSent
          : window.adkweb.numbers.percentage(Math.floor(share * 100) / 100);
  }

  document.addEventListener("change", (event) => {
    const to = form(event);
    if (to && event.target.type === "file") tooLarge(to);
  });

  document.addEventListener("htmx:beforeRequest", (event) => {
    const to = form(event);
    if (!to) return;
    if (tooLarge(to)) event.preventDefault();
    else show(to, 0);
  });

  document.addEventListener("htmx:xhr:progress", (event) => {
    const to = form(event);
    if (to && event.detail.lengthComputable && event.detail.total) show(to, event.detail.loaded / event.detail.total);
  });

  // Where the answer leads to the file's own page, the bar stays until that is there.
  document.addEventListener("htmx:afterRequest", (event) => {
    const to = form(event);
    if (to && !event.detail.xhr?.getResponseHeader("HX-Redirect")) show(to, null);
  });

  for (const kind of ["dragenter", "dragover", "dragleave", "drop"]) {
    document.addEventListener(kind, (event) => {
      const box = event.target.closest?.("[data-drop]");
      if (!box || !event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      box.classList.toggle("over", kind === "dragenter" || kind === "dragover");
      if (kind !== "drop") return;
      const input = box.querySelector("input[type=file]");
      const one = new DataTransfer();
      if (event.dataTransfer.files[0]) one.items.add(event.dataTransfer.files[0]);
      input.files = one.files;
      input.dispatchEvent(new Event("change", { bubbles: true }));
    });
  }
})();
