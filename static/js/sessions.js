// The page “Sessions”. The row that has the focus, or that the pointer rests on, is shown in #preview (its data-preview),
// first the one on top. What the server makes of the query ([data-asked]) goes into #query, unless a person types there.
// One stretch of typing is one step of the browser's history. While a person types, a query with a mistake changes nothing: it
// is judged at Enter, or when they leave the field.
// What is chosen (input[name=ref]) is counted in [data-chosen], and stays chosen when the results come again; Shift with a
// click or with x chooses all rows from the last one on. Those with [data-asks] can only be chosen with others that have the
// same.
(() => {
  const { numbers, counted, askFor } = window.adkweb;
  const results = document.querySelector("#results");
  if (!results) return;
  const field = document.querySelector("#query");
  const bar = document.querySelector("#querybar");
  const KEYS = 80;
  const POINTER = 250;
  const LEFT = 250; // after the field was left: nothing moves below a click
  const WRONG = '<div id="problems" data-wrong>';
  const WIDE = matchMedia("(width >= 900px)");
  let waiting = 0;
  let shown = "";
  let asking = null;
  let kept = null; // what had the focus, and whether the menu was open, before the results were replaced

  let unjudged = false; // what was typed last has a mistake, and the page is still that of before

  let last = null; // the row that was chosen last

  const rows = () => [...results.querySelectorAll("[data-preview]")];
  const boxes = () => [...results.querySelectorAll("input[name=ref]")];

  async function preview(row) {
    const pane = results.querySelector("#preview");
    const address = row?.dataset.preview;
    if (!pane || !address || !WIDE.matches || (address === shown && pane.firstChild)) return;
    shown = address;
    asking?.abort(); // of another row
    asking = new AbortController();
    const { signal } = asking;
    for (const each of rows()) each.classList.toggle("previewed", each === row);
    const answer = await askFor(address, { signal }).catch(() => null);
    const html = answer?.ok || answer?.status === 404 ? await answer.text().catch(() => "") : "";
    if (signal.aborted || !pane.isConnected) return;
    if (!answer?.ok) {
      pane.textContent = html; // one sentence
      return;
    }
    htmx.swap(pane, html, { swapStyle: "innerHTML" });
    pane.querySelector("h2").textContent = row.querySelector(".rowlink").textContent;
    pane.querySelector(".facts").prepend(`${row.querySelector(".status").title} · `);
  }

  function later(row, wait) {
    clearTimeout(waiting);
    if (row) waiting = setTimeout(preview, wait, row);
  }

  function begin() {
    shown = "";
    const asked = results.querySelector("[data-asked]")?.dataset.asked;
    if (asked !== undefined && document.activeElement !== field) field.value = asked;
    if (results.querySelector("#problems > .warn")) field.setAttribute("aria-invalid", "true");
    else field.removeAttribute("aria-invalid");
    if (kept?.menu) results.querySelector(".columnsmenu").open = true;
    const link =
      kept?.row &&
      rows()
        .find((row) => row.dataset.preview === kept.row)
        ?.querySelector(".rowlink");
    if (link && document.activeElement === document.body) link.focus({ preventScroll: true });
    for (const box of boxes()) if (kept?.chosen.includes(box.value)) box.checked = true;
    count();
    kept = null;
    preview(link ? link.closest("[data-preview]") : rows()[0]);
  }

  // --- What is chosen ----------------------------------------------------------------------------------------------

  function count() {
    const words = results.querySelector("[data-chosen]");
    if (!words) return;
    const all = results.querySelector("input[name=all]")?.checked;
    const number = all ? Number(words.dataset.total) : boxes().filter((box) => box.checked).length;
    const asks = boxes().find((box) => box.checked)?.dataset.asks;
    for (const box of boxes()) box.disabled = asks !== undefined && box.dataset.asks !== asks;
    const shownNumber = numbers.count(number) + (all && "more" in words.dataset ? "+" : "");
    words.textContent = all ? words.dataset.wordAll.replace("{n}", shownNumber) : counted(words, number, shownNumber);
    for (const button of results.querySelectorAll("[data-needs]")) {
      button.disabled = all || number !== Number(button.dataset.needs);
    }
  }

  /** Chooses what lies between two rows, as the second one is. */
  function range(from, to) {
    const all = boxes();
    const [a, b] = [all.indexOf(from), all.indexOf(to)].sort((x, y) => x - y);
    if (a >= 0) for (const box of all.slice(a, b + 1)) box.checked = to.checked && !box.disabled;
  }

  results.addEventListener("click", (event) => {
    const { target } = event;
    if (target.closest("[data-clear]")) {
      for (const box of results.querySelectorAll("input[name=ref], input[name=all]")) box.checked = false;
      count();
    } else if (target.matches("input[name=ref]")) {
      if (event.shiftKey && last?.isConnected) range(last, target);
      last = target;
    }
  });
  results.addEventListener("change", ({ target }) => target.matches("input[name=ref], input[name=all]") && count());
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.matches?.("input[name=ref]")) {
      event.preventDefault(); // of the bar's form
      event.target.closest("[data-preview]").querySelector(".rowlink").click();
    }
  });
  results.addEventListener("adkweb:key", (event) => {
    if (event.detail !== "X") return;
    const box = document.activeElement?.closest("[data-preview]")?.querySelector("input[name=ref]");
    if (!box) return;
    event.preventDefault();
    box.checked = true;
    if (last?.isConnected) range(last, box);
    last = box;
    count();
  });

  // The row that looks chosen as long as only what is around it has the focus is the one that a key is about: the body, or
  // #main, where who comes from another page begins.
  function rowWithin(target) {
    const row = results.querySelector(".previewed");
    return target.contains(row) && !document.querySelector("dialog:modal") ? row : null;
  }
  document.addEventListener("adkweb:key", ({ detail, target }) => {
    const row = rowWithin(target);
    if (row?.querySelector(`[data-row-key="${CSS.escape(detail === "X" ? "x" : detail)}"]`))
      row.querySelector(".rowlink").focus({ preventScroll: true });
  });
  document.addEventListener("keydown", ({ key, target, ctrlKey, metaKey, altKey }) => {
    if (key !== "Enter" || ctrlKey || metaKey || altKey || document.body.dataset.keys === "off") return;
    rowWithin(target)?.querySelector(".rowlink").click();
  });

  results.addEventListener("focusin", ({ target }) => later(target.closest("[data-preview]"), KEYS));
  results.addEventListener("pointerover", ({ target }) => {
    const row = target.closest("[data-preview]");
    if (row && !row.matches(".previewed")) later(row, POINTER);
  });
  results.addEventListener("pointerleave", () => clearTimeout(waiting));
  WIDE.addEventListener("change", () => preview(rows()[0]));

  document.addEventListener("htmx:beforeSwap", ({ detail }) => {
    if (detail.target !== results) return;
    const typed = detail.requestConfig.triggeringEvent?.type === "input" && document.activeElement === field;
    unjudged = typed && detail.serverResponse.includes(WRONG);
    if (unjudged) {
      detail.shouldSwap = false;
      return;
    }
    const row = document.activeElement?.closest("[data-preview]");
    const chosen = boxes().filter((box) => box.checked);
    const menu = results.querySelector(".columnsmenu")?.open;
    kept = { row: row?.dataset.preview, menu, chosen: chosen.map((box) => box.value) };
  });
  document.addEventListener("htmx:afterSettle", ({ detail }) => detail.target === results && begin());

  // Typing: the first answer is a new step of the history, the others replace it.
  field.addEventListener("focus", () => {
    bar.setAttribute("hx-push-url", "true");
    bar.removeAttribute("hx-replace-url");
  });
  document.addEventListener("htmx:pushedIntoHistory", () => {
    if (document.activeElement !== field) return;
    bar.removeAttribute("hx-push-url");
    bar.setAttribute("hx-replace-url", "true");
  });
  bar.addEventListener("submit", () => document.activeElement === field && field.select());
  field.addEventListener("blur", () => {
    if (unjudged) setTimeout(judge, LEFT);
  });

  /** Unless what was clicked instead asks for something else, or the person types again. */
  function judge() {
    if (unjudged && document.activeElement !== field && !results.querySelector(".htmx-request")) bar.requestSubmit();
  }

  begin();
})();
