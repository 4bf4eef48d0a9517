// Where nothing hovers, what can be done with a key (.rowacts) is behind one sign at the end of its row (values.css). It opens a
// sheet at the foot of the window: the key, its whole value, and each action in words, as large as a thumb.
(() => {
  if (!document.querySelector("[data-key-card]")) return;
  const touch = matchMedia("(hover: none)");
  const sheet = document.createElement("div");
  sheet.className = "sheet rowsheet";
  sheet.popover = "auto";
  document.body.append(sheet);

  function made(tag, className, ...content) {
    const element = document.createElement(tag);
    element.className = className;
    element.append(...content);
    return element;
  }

  /** Does what the row's own button does, which the server gave it. */
  function button(act) {
    const element = made("button", "btn", act.querySelector("svg").cloneNode(true), act.getAttribute("aria-label"));
    element.type = "button";
    if (act.ariaPressed) element.ariaPressed = act.ariaPressed;
    element.addEventListener("click", () => {
      sheet.hidePopover();
      act.click();
    });
    return element;
  }

  function open(row) {
    const acts = [...row.querySelectorAll(".rowacts > *, .by > .keypast")].filter((act) => act.checkVisibility());
    if (!acts.length) return;
    const value = row.querySelector(".value")?.cloneNode(true) ?? "";
    sheet.replaceChildren(made("h2", "mono bidi", row.dataset.keyRow), value, ...acts.map(button));
    sheet.showPopover();
  }

  document.addEventListener("click", ({ target }) => {
    if (!touch.matches || target.closest("a, button, summary, .key")) return;
    const row = target.closest(".staterow");
    if (row && target.closest(".rowacts, .staterow > .kv")) open(row);
  });
})();
