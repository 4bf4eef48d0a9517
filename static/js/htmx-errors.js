// A request that htmx could not make, or that was answered with an error, is said in a toast: never a silent failure.
// The sentences: <body data-word-offline data-word-error>; {status} in data-word-error is the HTTP status.
(() => {
  function toast(text) {
    document.dispatchEvent(new CustomEvent("adkweb:toast", { detail: { text } }));
  }

  for (const name of ["htmx:sendError", "htmx:timeout"]) {
    document.addEventListener(name, () => toast(document.body.dataset.wordOffline));
  }
  document.addEventListener("htmx:responseError", (event) => {
    const { xhr } = event.detail;
    const { status = "" } = xhr ?? {};
    // adkweb's own errors are one sentence of plain text: it says more than the status.
    if (xhr?.getResponseHeader("Content-Type")?.startsWith("text/plain")) {
      toast(xhr.responseText);
      return;
    }
    toast(document.body.dataset.wordError.replace("{status}", status));
  });

  // What an answer says in HX-Trigger reaches nobody if a push has taken the element that asked out of the page meanwhile.
  document.addEventListener("htmx:beforeSend", ({ detail: { elt, xhr } }) => {
    xhr.addEventListener("load", () => {
      const told = xhr.getResponseHeader("HX-Trigger") ?? "";
      if (elt.isConnected || !told.startsWith("{")) return;
      for (const [name, detail] of Object.entries(JSON.parse(told))) htmx.trigger(document.body, name, detail ?? {});
    });
  });
})();
