// <time datetime="…">: data-relative shows how long ago (data-relative="short" is shorter), data-clock the time of day,
// data-exact date and time to the millisecond; all in the reader's time zone and the language of the page, with the
// exact time in the title.
(() => {
  const language = document.documentElement.lang || undefined;
  const long = new Intl.RelativeTimeFormat(language, { numeric: "auto", style: "long" });
  const short = new Intl.RelativeTimeFormat(language, { numeric: "auto", style: "short" });
  const exact = new Intl.DateTimeFormat(language, { dateStyle: "full", timeStyle: "long" });
  const clock = new Intl.DateTimeFormat(language, { timeStyle: "medium", hourCycle: "h23" });
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

  function text(element, at, now) {
    if ("clock" in element.dataset) return clock.format(at);
    if ("exact" in element.dataset) return precise.format(at);
    return words((at - now) / 1000, element.dataset.relative === "short" ? short : long);
  }

  function show() {
    const now = Date.now();
    for (const element of document.querySelectorAll("time:is([data-relative], [data-clock], [data-exact])")) {
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

  let waiting = false;
  function later() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      show();
    });
  }

  show();
  setInterval(show, 30_000);
  const added = (records) => records.some((record) => [...record.addedNodes].some((node) => node.nodeType === 1));
  new MutationObserver((records) => added(records) && later()).observe(document.body, {
    childList: true,
    subtree: true,
  });
})();
