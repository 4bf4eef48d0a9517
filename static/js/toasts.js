// .toasts > .toast: says what happened, and goes by itself; not while the pointer or the focus is on it or nobody sees the
// page, and not with [data-stay]. [data-toast-close] closes it. A form[data-toast-gone] in it is sent when it goes: nothing
// is told twice. Of two with the same data-about the later one stays, and has the focus of the other. The event adkweb:toast
// { text } shows an error, { text, isNotice } what is none, and { text, link: { href, text } } something that one may want to
// go to. So is said where its key has nothing to undo.
(() => {
  const SHOWN = 6_000;
  const UNDOABLE = 20_000; // its key takes back what was just done
  const ERRORS = 3;
  const list = document.querySelector("#toasts");
  const timers = new Map();

  const held = (toast) => document.hidden || toast.matches(":hover, :focus-within");

  function wait(toast) {
    clearTimeout(timers.get(toast));
    if (toast.dataset.stay !== undefined) return;
    timers.set(
      toast,
      setTimeout(
        () => (toast.isConnected && held(toast) ? wait(toast) : go(toast)),
        toast.querySelector("[data-key]") ? UNDOABLE : SHOWN,
      ),
    );
  }

  function go(toast) {
    clearTimeout(timers.get(toast));
    timers.delete(toast);
    const form = toast.isConnected && toast.querySelector("form[data-toast-gone]");
    if (!form) return toast.remove();
    toast.hidden = true; // the answer takes it out
    form.requestSubmit();
  }

  function start(toast) {
    if (timers.has(toast)) return;
    timers.set(toast, 0);
    for (const other of list.querySelectorAll(".toast[data-about]")) {
      if (other === toast || other.dataset.about !== toast.dataset.about) continue;
      const focused = other.querySelector(":focus-visible");
      go(other);
      if (focused) toast.querySelector(":scope > .words button")?.focus();
    }
    wait(toast);
  }

  function startAll() {
    for (const toast of timers.keys()) if (!toast.isConnected) timers.delete(toast);
    for (const toast of list.querySelectorAll(".toast")) start(toast);
  }

  function add({ text, link, isNotice }) {
    // The same sentence is not stacked up.
    const errors = [...list.querySelectorAll(":scope > [data-error]")];
    for (const shown of errors) if (shown.firstChild.textContent === text) shown.remove();
    const others = errors.filter((shown) => shown.isConnected);
    for (const shown of others.slice(0, 1 - ERRORS)) shown.remove();
    const box = document.createElement("div");
    Object.assign(box, { className: "toast bad", role: "alert" });
    Object.assign(box.dataset, { error: "", stay: "" });
    const words = document.createElement("span");
    words.className = "words";
    words.textContent = text;
    const close = document.createElement("button");
    Object.assign(close, { type: "button", className: "iconbtn small", textContent: "✕" });
    close.dataset.toastClose = "";
    close.setAttribute("aria-label", document.body.dataset.wordClose);
    box.append(words, close);
    list.append(box);
    if (link || isNotice) ease(box, text, link);
  }

  /** It is no error, and goes by itself. */
  function ease(box, text, link) {
    Object.assign(box, { className: "toast info", role: "status" });
    delete box.dataset.error;
    delete box.dataset.stay;
    box.dataset.about = link?.href ?? text;
    if (link) {
      const anchor = Object.assign(document.createElement("a"), { href: link.href, textContent: link.text });
      box.querySelector(".words").append(" ", anchor);
    }
    start(box);
  }

  startAll();
  document.addEventListener("htmx:afterSwap", startAll);
  document.addEventListener("adkweb:toast", ({ detail }) => add(detail));
  document.addEventListener("adkweb:key", (event) => {
    const { wordNothing, wordEdits, edits } = list.dataset;
    if (event.detail !== "u" || !edits || document.querySelector('[data-key="u"]')) return;
    event.preventDefault();
    add({ text: wordNothing, link: { href: edits, text: wordEdits } });
  });
  document.addEventListener("click", (event) => {
    const toast = event.target.closest?.("[data-toast-close]")?.closest(".toast");
    if (toast) go(toast);
  });
  for (const name of ["pointerout", "focusout"]) {
    list.addEventListener(name, (event) => {
      const toast = event.target.closest(".toast");
      if (toast && timers.has(toast)) wait(toast);
    });
  }
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) [...timers.keys()].forEach(wait);
  });
})();
