// <time datetime="…" data-relative>: how long ago, in the language of the page; the exact local time is in its
// title. data-relative="short" is shorter.
(() => {
  const language = document.documentElement.lang || undefined;
  const long = new Intl.RelativeTimeFormat(language, { numeric: "auto", style: "long" });
  const short = new Intl.RelativeTimeFormat(language, { numeric: "auto", style: "short" });
  const exact = new Intl.DateTimeFormat(language, { dateStyle: "full", timeStyle: "long" });
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

  function show() {
    const now = Date.now();
    for (const element of document.querySelectorAll("time[datetime][data-relative]")) {
      const at = new Date(element.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      const text = words((at - now) / 1000, element.dataset.relative === "short" ? short : long);
      if (element.textContent !== text) element.textContent = text;
      if (!element.title) element.title = exact.format(at);
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
