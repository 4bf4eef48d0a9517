// A request that htmx could not make, or that was answered with an error, is said in a toast: never a silent failure.
// The sentences: <body data-word-offline data-word-error data-word-close>; {status} in data-word-error is the HTTP status.
(() => {
  function toast(text) {
    let list = document.querySelector(".toasts");
    if (!list) {
      list = document.createElement("div");
      list.className = "toasts";
      document.body.append(list);
    }
    // The same sentence is not stacked up, and no more than three are shown.
    for (const shown of list.children) if (shown.firstChild.textContent === text) shown.remove();
    while (list.children.length > 2) list.firstElementChild.remove();
    const box = document.createElement("div");
    box.className = "toast bad";
    box.role = "alert";
    const words = document.createElement("span");
    words.textContent = text;
    const close = document.createElement("button");
    close.type = "button";
    close.className = "iconbtn";
    close.textContent = "✕";
    close.setAttribute("aria-label", document.body.dataset.wordClose ?? "Close");
    close.addEventListener("click", () => box.remove());
    box.append(words, close);
    list.append(box);
  }

  function offline() {
    toast(
      document.body.dataset.wordOffline ??
        "The server did not answer. Nothing was changed on this page; check the connection and try again.",
    );
  }

  document.addEventListener("htmx:sendError", offline);
  document.addEventListener("htmx:timeout", offline);
  document.addEventListener("htmx:responseError", (event) => {
    const { xhr } = event.detail;
    const { status = "" } = xhr ?? {};
    // adkweb's own errors are one sentence of plain text: it says more than the status.
    if (xhr?.getResponseHeader("Content-Type")?.startsWith("text/plain")) {
      toast(xhr.responseText);
      return;
    }
    const template =
      document.body.dataset.wordError ?? "The server answered with an error ({status}). Reload the page and try again.";
    toast(template.replace("{status}", status));
  });
})();
