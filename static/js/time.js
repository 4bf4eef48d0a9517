// <time datetime="…">: data-relative shows how long ago (data-relative="short" is shorter), data-clock the time of day,
// data-minute date and time to the minute, data-exact to the millisecond; all in the reader's time zone and the language of the page, with the
// exact time in the title. data-elapsed counts on how long something has been going on.
(() => {
  const language = document.documentElement.lang || undefined;
  const long = new Intl.RelativeTimeFormat(language, { numeric: "auto", style: "long" });
  const short = new Intl.RelativeTimeFormat(language, { numeric: "auto", style: "short" });
  const exact = new Intl.DateTimeFormat(language, { dateStyle: "full", timeStyle: "long" });
  const clock = new Intl.DateTimeFormat(language, { timeStyle: "medium", hourCycle: "h23" });
  const minute = new Intl.DateTimeFormat(language, {
    ...{ month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" },
  });
  const precise = new Intl.DateTimeFormat(language, {
    ...{ year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" },
    fractionalSecondDigits: 3,
    hourCycle: "h23",
  });
  const units = [
    ["year", 31_557_600],
    ["month", 2_629_800],
    ["week", 604_800],
    ["day", 86_400],
    ["hour", 3_600],
    ["minute", 60],
  ];

  function words(seconds, relative) {
    for (const [unit, length] of units) {
      if (Math.abs(seconds) >= length) return relative.format(Math.trunc(seconds / length), unit);
    }
    return relative.format(Math.abs(seconds) < 10 ? 0 : Math.trunc(seconds), "second");
  }

  function length(seconds) {
    if (seconds < 60) return `${Math.floor(seconds)} s`;
    const minutes = Math.floor(seconds / 60);
    return minutes < 60
      ? `${minutes} min ${Math.floor(seconds % 60)} s`
      : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  }

  function text(element, at, now) {
    if ("elapsed" in element.dataset) return length(Math.max(0, now - at) / 1000);
    if ("clock" in element.dataset) return clock.format(at);
    if ("minute" in element.dataset) return minute.format(at);
    if ("exact" in element.dataset) return precise.format(at);
    return words((at - now) / 1000, element.dataset.relative === "short" ? short : long);
  }

  const MARKS = "time:is([data-relative], [data-clock], [data-minute], [data-exact], [data-elapsed])";

  function show(elements) {
    const now = Date.now();
    for (const element of elements) {
      const at = new Date(element.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      const shown = text(element, at, now);
      if (element.textContent !== shown) element.textContent = shown;
      if (!("told" in element.dataset)) {
        element.title = exact.format(at);
        element.dataset.told = "";
      }
    }
  }

  const showAll = () => show(document.querySelectorAll(MARKS));

  showAll();
  setInterval(showAll, 30_000);
  setInterval(() => show(document.querySelectorAll("time[data-elapsed]")), 1_000);
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
