// details.menu: closes on a click elsewhere, on Escape (focus goes back to its button), and after a choice, but not after
// that of a [data-stay].
(() => {
  const open = () => document.querySelectorAll("details.menu[open]");

  document.addEventListener("click", (event) => {
    for (const menu of open()) {
      const chosen = event.target.closest(".menu-items :is(a, button):not([data-stay])");
      if (!menu.contains(event.target) || menu.contains(chosen)) menu.open = false;
    }
  });

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
