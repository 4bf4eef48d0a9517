// form[data-confirm-text="text"]: its submit buttons work only while [data-confirm-input] holds that text; blanks do not count.
(() => {
  const typed = (text) => text.replace(/\s/g, "").normalize();

  function check(form) {
    const input = form.querySelector("[data-confirm-input]");
    if (!input) return;
    const same = typed(input.value) === typed(form.dataset.confirmText);
    for (const button of form.querySelectorAll("button:not([type=button], [data-close]), input[type=submit]")) {
      button.disabled = !same;
    }
  }

  function checkAll() {
    for (const form of document.querySelectorAll("form[data-confirm-text]")) check(form);
  }

  checkAll();
  document.addEventListener("htmx:load", checkAll);
  document.addEventListener("input", (event) => {
    const form = event.target.closest("form[data-confirm-text]");
    if (form) check(form);
  });
})();
