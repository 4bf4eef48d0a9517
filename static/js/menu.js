// details.menu: closes on a click elsewhere, on Escape (focus goes back to its button), and after a choice, but not after
// that of a [data-stay]. One with data-focus gives the focus to its first field when it opens, as details.adding does, and
// stays open when its button sends it: the second click of a double click would meet what is below. A field with
// data-narrows shows only the links of its menu whose data-name has what is typed; Enter then follows the first of them.
(() => {
  // On a narrow screen the pages of "Settings" are a row, which begins with the one that is open.
  document.querySelector(".settingsnav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

  const open = () => document.querySelectorAll("details.menu[open]");

  document.addEventListener("click", (event) => {
    if (event.target.matches("a[data-asked]")) return; // window.js, which asks for more rows
    for (const menu of open()) {
      const chosen = event.target.closest(
        ":is(.menu-items, .rest-items) :is(a, button:not([data-focus] *)):not([data-stay])",
      );
      if (!menu.contains(event.target) || menu.contains(chosen)) menu.open = false;
    }
  });

  function begin(menu) {
    const field = menu.querySelector(":is(.menu-items, .form) :is(input:not([type=hidden]), select, button)");
    field.focus();
    field.select?.();
  }

  // At once, not when the browser says that it is open: what is typed meanwhile would be taken for keys of the page.
  document.addEventListener("click", (event) => {
    const menu = event.target.closest("details:is(.menu[data-focus], .adding):not([open]) > summary")?.parentElement;
    if (!menu) return;
    event.preventDefault();
    menu.open = true;
    begin(menu);
  });
  document.addEventListener("htmx:afterSettle", ({ target }) => {
    if (!target.matches("[data-focus-menu]")) return;
    const menu = target.querySelector("details.menu[data-focus]");
    if (menu?.open) begin(menu);
    else if (document.activeElement === document.body) menu?.querySelector("summary").focus({ preventScroll: true });
  });

  const namesIn = (menu) => [...menu.querySelectorAll("a[data-name]")];

  document.addEventListener("input", ({ target }) => {
    if (!target.matches("[data-narrows]")) return;
    const typed = target.value.trim().toLowerCase();
    for (const link of namesIn(target.form)) link.hidden = !link.dataset.name.toLowerCase().includes(typed);
  });
  document.addEventListener(
    "submit",
    (event) => {
      const field = event.target.querySelector("[data-narrows]");
      const left = field ? namesIn(event.target).filter((link) => !link.hidden) : [];
      if (!left.length || left.some((link) => link.dataset.name === field.value)) return;
      event.preventDefault();
      event.stopPropagation();
      left[0].click();
    },
    true,
  );

  // In the capture phase: an Escape that closes a menu closes nothing else.
  document.addEventListener(
    "keydown",
    (event) => {
      if (event.key !== "Escape") return;
      for (const menu of open()) {
        menu.open = false;
        menu.querySelector("summary").focus();
        event.preventDefault();
      }
    },
    true,
  );
})();
