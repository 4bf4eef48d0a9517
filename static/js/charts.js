// .charts[data-times]: tells the number of the bar under the pointer, of each chart, from the table beside them. Dragging over
// bars or clicking one chooses their range: ?from= and ?to=. On a touch screen the first tap on a bar tells its number.
// Without this script, there are the pictures and the table.
(() => {
  const { addressWith, dates } = window.adkweb;
  const LEAST = 60; // seconds of a range

  function listen(section) {
    const times = section.dataset.times.split(" ").map(Number);
    const bars = times.length - 1;
    const rows = [...section.querySelectorAll("tbody > tr")];
    const plots = [...section.querySelectorAll(".plot")];
    let begun = null; // the bar on which the mouse was pressed
    let told = null; // the bars that are under the pointer: the first one, and the one after the last

    const isTouch = ({ pointerType }) => pointerType === "touch";

    function barAt(plot, x) {
      const { left, width } = plot.getBoundingClientRect();
      return Math.max(0, Math.min(bars - 1, Math.floor((bars * (x - left)) / width)));
    }

    /** What is said of some bars: all charts say the number of a single one, and the one that is pointed at also when it is. */
    function words(number, isPointed, [from, until]) {
      if (until - from > 1)
        return isPointed ? dates.range(...[from, until].map((each) => new Date(times[each] * 1000))) : "";
      const [period, ...values] = [...rows[from].cells].map((cell) => cell.textContent);
      return isPointed ? `${values[number]} · ${period}` : values[number];
    }

    function tell(pointed, some) {
      told = some;
      for (const [number, plot] of plots.entries()) {
        const tip = plot.querySelector(".tip");
        tip.textContent = words(number, plot === pointed, some);
        tip.hidden = !tip.textContent;
        plot.style.setProperty("--bars", bars);
        plot.style.setProperty("--from", some[0]);
        plot.style.setProperty("--span", some[1] - some[0]);
        plot.classList.add("pointed");
        const half = tip.offsetWidth / 2;
        const middle = (plot.clientWidth * (some[0] + some[1])) / 2 / bars;
        tip.style.left = `${Math.max(half, Math.min(middle, plot.clientWidth - half))}px`;
      }
    }

    function hide() {
      begun = told = null;
      for (const plot of plots) {
        plot.classList.remove("pointed");
        plot.querySelector(".tip").hidden = true;
      }
    }

    /** Goes to the same page with the range of some bars. */
    function choose([first, end]) {
      const [from, to] = [Math.floor(times[first]), Math.ceil(times[end])];
      if (to - from >= LEAST) location.assign(addressWith({ range: "", from, to }));
    }

    for (const plot of plots) {
      plot.addEventListener("pointerdown", (event) => {
        if (isTouch(event) || event.button) return;
        begun = barAt(plot, event.clientX);
        tell(plot, [begun, begun + 1]);
        plot.setPointerCapture(event.pointerId);
      });
      plot.addEventListener("pointermove", (event) => {
        if (isTouch(event)) return;
        const bar = barAt(plot, event.clientX);
        tell(plot, [Math.min(begun ?? bar, bar), Math.max(begun ?? bar, bar) + 1]);
      });
      plot.addEventListener("pointerleave", (event) => isTouch(event) || hide());
      plot.addEventListener("pointercancel", hide);
      plot.addEventListener("pointerup", (event) => {
        const bar = barAt(plot, event.clientX);
        if (isTouch(event) ? told?.[0] === bar : begun !== null) choose(told);
        else if (isTouch(event)) tell(plot, [bar, bar + 1]);
        begun = null;
      });
    }
    document.addEventListener("pointerdown", function leave({ target }) {
      if (!section.isConnected) document.removeEventListener("pointerdown", leave);
      else if (!target.closest(".plot")) hide();
    });
  }

  // At first, and when home has asked for its charts anew.
  document.addEventListener("htmx:load", ({ target }) => {
    for (const section of target.querySelectorAll(".charts")) listen(section);
  });
})();
