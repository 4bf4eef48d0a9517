// In a [data-way], what is typed chooses its radio button.
(() => {
  document.addEventListener("input", ({ target }) => {
    const button = target.type === "radio" ? null : target.closest?.("[data-way]")?.querySelector("[type=radio]");
    if (button) button.checked = true;
  });
})();
