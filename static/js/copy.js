// [data-copy="text"] (or data-copy-from="#id" for the text of an element) copies; data-copied is shown for 1.5 s and said
// to screen readers. [data-copy-view] copies the address of what is shown, with the row that had the focus last.
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

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      return copyOld(text);
    }
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy], [data-copy-from], [data-copy-view]");
    if (!button) return;
    event.preventDefault();
    const { copyFrom, copyView, copy: given } = button.dataset;
    const text = copyView === undefined ? (copyFrom ? document.querySelector(copyFrom)?.textContent : given) : view();
    if (!(await copy(text ?? ""))) return;
    button.classList.add("copied");
    announce(button.dataset.copied ?? "");
    setTimeout(() => button.classList.remove("copied"), SAID_MS);
  });
})();
