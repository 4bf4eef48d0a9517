// .demoline is shown on the first page only: a cookie tells the server so while the browser is open, and pages have .demochip
// instead. [data-demo-close] takes the line away at once.
(() => {
  const line = document.querySelector(".demoline");
  if (!line) return;
  const secure = location.protocol === "https:" ? "; Secure" : "";
  // biome-ignore lint/suspicious/noDocumentCookie: the Cookie Store API is missing on plain http
  document.cookie = `${line.dataset.cookie}=closed; path=/; SameSite=Lax${secure}`;
  line.querySelector("[data-demo-close]").addEventListener("click", () => {
    const chip = document.querySelector(".demochip");
    line.remove();
    chip.hidden = false;
    chip.querySelector("summary").focus({ preventScroll: true });
  });
})();
