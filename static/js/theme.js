// [data-theme-toggle] goes through system → light → dark. Loaded without defer in <head>, so that no page flashes.
// The button's name comes from data-word-system, data-word-light and data-word-dark.
(() => {
  const order = ["system", "light", "dark"];
  const root = document.documentElement;

  const stored = () => window.adkweb.kept("theme") ?? "system";

  function apply(theme) {
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    else delete root.dataset.theme;
    for (const button of document.querySelectorAll("[data-theme-toggle]")) {
      const word = button.getAttribute(`data-word-${theme}`);
      if (word) {
        button.setAttribute("aria-label", word);
        button.title = word;
      }
    }
  }

  function setTheme(theme) {
    window.adkweb.keep("theme", theme);
    apply(theme);
  }
  window.adkweb.setTheme = setTheme;

  apply(stored());
  document.addEventListener("DOMContentLoaded", () => apply(stored()));
  window.addEventListener("storage", (event) => event.key === "theme" && apply(stored()));
  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-theme-toggle]")) return;
    setTheme(order[(order.indexOf(root.dataset.theme ?? "system") + 1) % order.length]);
  });
})();
