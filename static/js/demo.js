// .demoline: [data-demo-close="name"] takes it away, on every page while the browser is open: a cookie of that name tells the
// server, so that no page shows it for a moment.
(() => {
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-demo-close]");
    if (!button) return;
    const secure = location.protocol === "https:" ? "; Secure" : "";
    // biome-ignore lint/suspicious/noDocumentCookie: the Cookie Store API is missing on plain http
    document.cookie = `${button.dataset.demoClose}=closed; path=/; SameSite=Lax${secure}`;
    button.closest(".demoline").remove();
    document.querySelector("#main").focus({ preventScroll: true });
  });
})();
