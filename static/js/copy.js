// [data-copy="text"] (or data-copy-from="#id" for the text of an element) copies; data-copied is shown for 1.5 s and said
// to screen readers. [data-copy-view] copies the address of what is shown, with the row that had the focus last.
// [data-copy-answer] copies the file that its form would download in this format.
(() => {
  const SAID_MS = 1_500;
  let row; // of the timeline
  let saying = 0;
  document.addEventListener("focusin", ({ target }) => {
    row = target.closest(".ev[id]") ?? row;
  });

  function view() {
    const density = document.querySelector("#events")?.dataset.density; // which each browser chooses for itself
    const address = window.adkweb.addressWith(density ? { density } : {});
    if (row?.isConnected && !address.searchParams.has("at")) address.hash = row.id;
    return address.href;
  }

  function announce(word) {
    let status = document.querySelector("#copy-status");
    if (!status) {
      status = document.createElement("div");
      status.id = "copy-status";
      status.className = "visually-hidden";
      status.role = "status";
      document.body.append(status);
    }
    status.textContent = word;
    clearTimeout(saying); // else the words before take these with them
    saying = setTimeout(() => {
      status.textContent = "";
    }, SAID_MS);
  }

  /** The clipboard API is missing on plain http. */
  function copyOld(text) {
    const area = document.createElement("textarea");
    area.className = "visually-hidden";
    area.value = text;
    document.body.append(area);
    const before = document.activeElement;
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    before?.focus();
    return done;
  }

  /** What a form answers, if a button of it says the format. What is wrong is shown as if the file were downloaded. */
  async function answered({ form, value }) {
    const body = new FormData(form);
    body.set("format", value);
    const answer = await fetch(form.action, { method: "POST", body });
    if (answer.ok) return answer.blob();
    form.querySelector(`[name=format][value=${value}]`).click();
    throw new Error(answer.statusText);
  }

  /** Copies a text, or a blob that is promised at the click: later, some browsers refuse to copy. */
  async function copy(text) {
    try {
      if (typeof text === "string") await navigator.clipboard.writeText(text);
      else await navigator.clipboard.write([new ClipboardItem({ "text/plain": text })]);
      return true;
    } catch {
      return copyOld(typeof text === "string" ? text : await (await text).text());
    }
  }

  function textOf(button) {
    const { copyAnswer, copyFrom, copyView, copy: given } = button.dataset;
    if (copyAnswer !== undefined) return answered(button);
    if (copyView !== undefined) return view();
    return (copyFrom ? document.querySelector(copyFrom)?.textContent : given) ?? "";
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy], [data-copy-from], [data-copy-view], [data-copy-answer]");
    if (!button) return;
    event.preventDefault();
    if (!(await copy(textOf(button)).catch(() => false))) return;
    button.classList.add("copied");
    announce(button.dataset.copied ?? "");
    setTimeout(() => button.classList.remove("copied"), SAID_MS);
  });
})();
