// <time datetime="…">: data-relative shows it as adkweb.dates does by `ago`, data-clock the time of day, data-minute date and
// time to the minute, data-second to the second, data-exact to the millisecond, all in the reader's time zone and with the
// exact time in the title.
// data-elapsed counts on how long something has been going on, and data-left counts down to 0:00.
(() => {
  const { dates } = window.adkweb;
  const FORMS = { relative: "ago", clock: "clock", minute: "minute", second: "second", exact: "exact" };

  function length(seconds) {
    if (seconds < 60) return `${Math.floor(seconds)} s`;
    const minutes = Math.floor(seconds / 60);
    return minutes < 60
      ? `${minutes} min ${Math.floor(seconds % 60)} s`
      : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  }

  function text({ dataset }, at, now) {
    if ("elapsed" in dataset) return length(Math.max(0, now - at) / 1000);
    if ("left" in dataset) {
      const left = Math.max(0, Math.floor((at - now) / 1000));
      return `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`;
    }
    const form = Object.keys(FORMS).find((name) => name in dataset);
    return dates[FORMS[form]](at, now);
  }

  const MARKS =
    "time:is([data-relative], [data-clock], [data-minute], [data-second], [data-exact], [data-elapsed], [data-left])";

  function show(elements) {
    const now = new Date();
    for (const element of elements) {
      const at = new Date(element.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      const shown = text(element, at, now);
      if (element.textContent !== shown) element.textContent = shown;
      if (!("told" in element.dataset)) {
        element.title = dates.whole(at);
        element.dataset.told = "";
      }
    }
  }

  show(document.querySelectorAll(MARKS));
  setInterval(() => show(document.querySelectorAll("time:is([data-relative], [data-minute], [data-second])")), 30_000);
  setInterval(() => show(document.querySelectorAll("time:is([data-elapsed], [data-left])")), 1_000);
  // Only what is new: a long timeline that grows by the second must not be gone through each time.
  new MutationObserver((records) => {
    for (const { addedNodes } of records) {
      for (const node of addedNodes) {
        if (node.nodeType !== 1) continue;
        if (node.matches(MARKS)) show([node]);
        show(node.querySelectorAll(MARKS));
      }
    }
  }).observe(document.body, { childList: true, subtree: true });
})();
