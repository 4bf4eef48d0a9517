// Keys: j and k move over [data-row] (focus goes to the row's link), any [data-key="x"] is clicked when x is pressed, and
// so is the [data-row-key="x"] of the [data-key-row] in which the focus is; [data-key="/"] gets the focus, ? opens
// dialog#keys, Escape clicks [data-key="Escape"] of the open form.
// Nothing happens while a person types (except Escape), with a modifier, or with <body data-keys="off">, which
// [data-keys-toggle] switches for this browser: a checkbox, or a button with aria-pressed.
(() => {
  const TYPING = [
    "input:not([type=checkbox], [type=radio], [type=button], [type=submit], [type=reset], [type=range])",
    "textarea",
    "select",
    "[contenteditable]:not([contenteditable=false])",
  ].join();
  const LINK = "a[href], summary, button:not(:disabled), [tabindex]";

  const visible = (element) => element.checkVisibility({ visibilityProperty: true });
  const scope = () => document.querySelector("dialog:modal") ?? document;

  function withKey(key, within) {
    return [...within.querySelectorAll(`[data-key="${CSS.escape(key)}"]`)].filter(visible);
  }

  function move(step) {
    const focused = document.activeElement?.closest("[data-row]");
    const within = focused?.closest("[data-rows]") ?? scope().querySelector("[data-timeline]") ?? scope();
    const rows = [...within.querySelectorAll("[data-row]")].filter(visible);
    const from = rows.indexOf(focused ?? rows.find((row) => row.matches(".selected, [aria-current=true]")));
    // Without a selection, both keys begin where a reader of a timeline is: at its end.
    const first = within.matches?.("[data-timeline]") ? rows.length - 1 : 0;
    const row = rows[from < 0 ? first : Math.min(Math.max(from + step, 0), rows.length - 1)];
    if (!row) return false;
    const link = row.matches(LINK) ? row : row.querySelector(LINK);
    link?.focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
    return true;
  }

  function leave(target) {
    if (document.querySelector("dialog:modal")) return false;
    if (target.matches("input[type=search]")) {
      target.blur();
      return true;
    }
    const form = target.closest("form");
    const button = (form && withKey("Escape", form)[0]) ?? withKey("Escape", document).at(-1);
    button?.click();
    return Boolean(button);
  }

  function ofRow(key) {
    return document.activeElement?.closest("[data-key-row]")?.querySelector(`[data-row-key="${CSS.escape(key)}"]`);
  }

  function press(key) {
    if ((key === "j" || key === "k") && move(key === "j" ? 1 : -1)) return true;
    const target = ofRow(key) ?? withKey(key, scope())[0];
    if (target) {
      if (target.matches(TYPING)) {
        target.focus();
        target.select?.();
      } else target.click();
      return true;
    }
    const help = key === "?" && document.querySelector("dialog#keys");
    if (!help || help.open) return false;
    help.showModal();
    return true;
  }

  function stored() {
    try {
      return localStorage.getItem("keys") ?? "on";
    } catch {
      return "on";
    }
  }

  function apply(setting) {
    document.body.dataset.keys = setting;
    for (const toggle of document.querySelectorAll("[data-keys-toggle]")) {
      if (toggle.type === "checkbox") toggle.checked = setting === "on";
      else toggle.setAttribute("aria-pressed", String(setting === "on"));
    }
  }

  apply(stored());
  addEventListener("storage", (event) => event.key === "keys" && apply(stored()));
  document.addEventListener("click", (event) => {
    if (!event.target.closest?.("[data-keys-toggle]")) return;
    const setting = document.body.dataset.keys === "on" ? "off" : "on";
    try {
      localStorage.setItem("keys", setting);
    } catch {
      // Storage is refused: the choice lasts for this page.
    }
    apply(setting);
  });

  document.addEventListener("keydown", (event) => {
    const { key, target } = event;
    if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (!(target instanceof Element)) return;
    if (key === "Escape") {
      if (leave(target)) event.preventDefault();
      return;
    }
    if (key.length !== 1 || key === " " || document.body.dataset.keys === "off" || target.closest(TYPING)) return;
    if (press(key)) event.preventDefault();
  });
})();
