// Two runs beside each other: [data-step] goes to the next or previous [data-differs] row, from where the focus or the
// address is. Without scripts these are links to the first one.
(() => {
  const shown = (row) => row.checkVisibility();

  function here(rows) {
    const focused = document.activeElement?.closest("[data-row], [data-differs]");
    if (focused) return focused;
    return location.hash === "#first-divergence" ? rows.find((row) => row.id === "first-divergence") : undefined;
  }

  function next(rows, step) {
    const from = here(rows);
    if (!from) return rows[0];
    const at = rows.indexOf(from);
    if (at >= 0) return rows[Math.min(Math.max(at + step, 0), rows.length - 1)];
    const later = rows.findIndex((row) => from.compareDocumentPosition(row) & Node.DOCUMENT_POSITION_FOLLOWING);
    const before = later < 0 ? rows.length - 1 : later - 1;
    return rows[step > 0 ? (later < 0 ? rows.length - 1 : later) : Math.max(before, 0)];
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-step]");
    if (!button || window.adkweb.opensElsewhere(event)) return;
    const row = next([...document.querySelectorAll("[data-differs]")].filter(shown), Number(button.dataset.step));
    if (!row) return;
    event.preventDefault();
    row.querySelector("summary.inv, a[href]")?.focus({ preventScroll: true });
    row.scrollIntoView({ block: "center" });
  });
})();
