// [data-copy="text"] (or data-copy-from="#id" for the text of an element) copies; data-copied is shown for 1.5 s and said
// to screen readers.
(() => {
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
    setTimeout(() => {
      status.textContent = "";
    }, 1500);
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
    const button = event.target.closest("[data-copy], [data-copy-from]");
    if (!button) return;
    event.preventDefault();
    const { copyFrom } = button.dataset;
    const text = copyFrom ? document.querySelector(copyFrom)?.textContent : button.dataset.copy;
    if (!(await copy(text ?? ""))) return;
    button.classList.add("copied");
    announce(button.dataset.copied ?? "");
    setTimeout(() => button.classList.remove("copied"), 1500);
  });
})();
