// .tabs, on a narrow screen: [data-tab-target="name"] sets <body data-tab>, and each tab keeps how far it was scrolled. Those
// with data-view are ways to read the timeline, which densities.js shows. [data-filters] opens what filters the tab: on a
// telephone, the bar over the timeline is a popover, and the field over the state is hidden until it is wanted. The head of
// the session scrolls away, and earlier events come before it is reached: the name in the top bar brings it.
(() => {
  const box = document.querySelector(".tabs");
  if (!box) return;
  const { body } = document;
  const tabs = [...box.querySelectorAll("[role=tab]")];
  const filters = box.querySelector("[data-filters]");
  const bar = document.querySelector(".timelinebar");
  const telephone = matchMedia("(width < 640px)");
  const scrolled = {};
  let view = document.querySelector("#events").dataset.density;

  const field = () =>
    [...document.querySelectorAll(".side [data-state-filter]")].find((each) => !each.closest("[hidden]"));

  function select() {
    for (const tab of tabs) {
      const chosen = tab.dataset.tabTarget === body.dataset.tab && (tab.dataset.view ?? view) === view;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
    }
    filters.disabled = body.dataset.tab === "state" && !field();
  }

  function show({ tabTarget: name, view: asked }) {
    if (body.dataset.tab !== name) {
      scrolled[body.dataset.tab] = window.scrollY;
      body.dataset.tab = name;
      window.scrollTo({ top: scrolled[name] ?? 0, behavior: "instant" });
    }
    if (asked) bar.querySelector(`[data-densities] > a[href*="density=${asked}"]`).click();
    view = asked ?? view;
    select();
  }

  document.addEventListener("click", ({ target }) => {
    const tab = target.closest("[data-tab-target]");
    if (tab) show(tab.dataset);
  });
  document.addEventListener("adkweb:density", ({ detail }) => {
    view = detail;
    select();
  });
  document.addEventListener("adkweb:moment", select); // other fields
  box.addEventListener("keydown", ({ key, target }) => {
    if (!target.matches("[role=tab]") || !["ArrowLeft", "ArrowRight"].includes(key)) return;
    const step = key === "ArrowRight" ? 1 : -1;
    const next = tabs[(tabs.indexOf(target) + step + tabs.length) % tabs.length];
    next.click();
    next.focus({ preventScroll: true });
  });

  const head = document.querySelector(".pagehead");
  document.addEventListener("click", ({ target }) => {
    const isName = target.closest("#crumbs > [aria-current]") !== null;
    if (!target.closest(".pagehead")) head.classList.toggle("here", isName && !head.matches(".here"));
  });

  // --- Filters -------------------------------------------------------------------------------------------------------

  function fold() {
    bar.popover = telephone.matches ? "auto" : null;
  }
  telephone.addEventListener("change", fold);
  fold();
  bar.addEventListener("toggle", ({ newState }) => {
    filters.ariaExpanded = String(newState === "open");
  });

  /** The field over the state; nothing stays filtered by a field that is hidden. */
  function filterState() {
    const isOpen = body.toggleAttribute("data-filtering");
    const input = field();
    if (isOpen) return input.focus({ preventScroll: true });
    input.value = "";
    input.dispatchEvent(new Event("input", { bubbles: true }));
  }

  filters.addEventListener("click", () => {
    if (body.dataset.tab === "state") filterState();
    else {
      bar.style.top = `${box.getBoundingClientRect().bottom}px`;
      bar.togglePopover({ source: filters });
    }
  });
})();
