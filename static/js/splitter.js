// The width of the side beside the timeline (.split > .side): [role=separator].splitter moves it by the mouse, by touch and by
// the arrow keys (shift: far; Home, End: as narrow, as wide as can be). A double click, or Enter, puts it back; where it is as
// it was, makes it wide. This browser keeps it. Loaded without defer in <head>, so that nothing moves once it is painted.
(() => {
  const KEPT = "side";
  const [LEAST, TIMELINE] = [320, 400]; // px, of the side and of the timeline; layout.css has them, too
  const [STEP, FAR] = [16, 96];
  const root = document.documentElement;

  const stored = () => Number(window.adkweb.kept(KEPT));

  function apply(width) {
    if (width) root.style.setProperty("--side", `${Math.round(width)}px`);
    else root.style.removeProperty("--side");
  }

  apply(stored());

  document.addEventListener("DOMContentLoaded", () => {
    const splitter = document.querySelector(".splitter");
    const side = splitter?.parentElement;
    if (!side) return;
    const most = () => Math.max(LEAST, innerWidth - TIMELINE);
    const clamped = (width) => Math.min(most(), Math.max(LEAST, width));
    let dragged = null; // where the pointer took it, and how wide the side was

    function tell() {
      const now = clamped(side.getBoundingClientRect().width);
      const values = { valuemin: LEAST, valuemax: most(), valuenow: Math.round(now) };
      for (const [name, value] of Object.entries(values)) splitter.setAttribute(`aria-${name}`, String(value));
      splitter.setAttribute("aria-valuetext", window.adkweb.numbers.percentage(now / innerWidth));
    }

    function set(width) {
      apply(width && clamped(width));
      window.adkweb.keep(KEPT, width && String(Math.round(clamped(width))));
      tell();
    }

    splitter.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      splitter.setPointerCapture(event.pointerId);
      dragged = { from: event.clientX, width: side.getBoundingClientRect().width };
      splitter.classList.add("dragged");
      root.dataset.dragging = "";
    });
    splitter.addEventListener("pointermove", (event) => {
      if (dragged && event.clientX !== dragged.from) apply(clamped(dragged.width + dragged.from - event.clientX));
    });
    for (const name of ["pointerup", "pointercancel"]) {
      splitter.addEventListener(name, ({ clientX }) => {
        splitter.classList.remove("dragged");
        delete root.dataset.dragging;
        if (dragged && clientX !== dragged.from) set(side.getBoundingClientRect().width);
        dragged = null;
      });
    }

    const reset = () => set(root.style.getPropertyValue("--side") ? null : most());
    splitter.addEventListener("dblclick", reset);
    splitter.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const { width } = side.getBoundingClientRect();
      const step = event.shiftKey ? FAR : STEP;
      const doings = {
        ArrowLeft: () => set(width + step),
        ArrowRight: () => set(width - step),
        Home: () => set(LEAST),
        End: () => set(most()),
        Enter: reset,
      };
      if (!doings[event.key]) return;
      event.preventDefault();
      doings[event.key]();
    });

    splitter.hidden = false;
    new ResizeObserver(tell).observe(side);
    addEventListener("resize", tell);
    addEventListener("storage", ({ key }) => {
      if (key === KEPT || key === null) apply(stored());
    });
  });
})();
