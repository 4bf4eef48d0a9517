// adkweb.dates: dates and times in the one style of all pages, as sessions_app/web/dates.py writes them, here in the zone of
// the browser. The words and the forms are in data-date-… of <body>.
(() => {
  const { dataset } = document.body;
  const said = (name) => dataset[`date${name}`] ?? "";
  const months = said("Months").split(" ");
  const weekdays = said("Weekdays").split(" "); // from Monday on
  const two = (number) => String(number).padStart(2, "0");
  const filled = (form, values) => form.replace(/\{(\w+)\}/g, (_, name) => values[name]);

  const hour = (at) => `${two(at.getHours())}:${two(at.getMinutes())}`;
  const clock = (at) => `${hour(at)}:${two(at.getSeconds())}`;
  const withTime = (date, time) => filled(said("At"), { date, time });
  const isToday = (at, now) => at.toDateString() === now.toDateString();

  function date(at, thisYear) {
    const form = said(at.getFullYear() === thisYear ? "Day" : "Year");
    return filled(form, { day: at.getDate(), month: months[at.getMonth()], year: at.getFullYear() });
  }

  /** 20 Nov, 20 Nov 2025; also of today. */
  const day = (at, now = new Date()) => date(at, now.getFullYear());

  /** Fri 20 Nov. */
  const weekday = (at, now) =>
    filled(said("Weekday"), { weekday: weekdays[(at.getDay() + 6) % 7], date: day(at, now) });

  /** 09:05 today, 20 Nov, 09:05. */
  const minute = (at, now = new Date()) => (isToday(at, now) ? hour(at) : withTime(day(at, now), hour(at)));

  /** 09:05:12 today, 20 Nov, 09:05:12. */
  const second = (at, now = new Date()) => (isToday(at, now) ? clock(at) : withTime(day(at, now), clock(at)));

  /** Within a day, how long ago: now, 3 min ago, 5 h ago, in 3 min; or else as `day`. */
  function ago(at, now = new Date()) {
    const passed = (now - at) / 1000;
    const size = Math.abs(passed);
    if (size >= 86_400) return day(at, now);
    if (size < 60) return said("Now");
    if (size < 3_600) return filled(said(passed > 0 ? "Ago" : "Ahead"), { n: Math.trunc(size / 60) });
    return filled(said(passed > 0 ? "Earlier" : "Later"), { n: Math.trunc(size / 3_600) });
  }

  /** 20 Nov 2026, 09:05:12.433. */
  const exact = (at) => withTime(date(at), `${clock(at)}.${String(at.getMilliseconds()).padStart(3, "0")}`);

  /** 20 Nov 2026, 09:05:12 UTC+1. */
  const whole = (at) => withTime(date(at), `${clock(at)} ${zone(-at.getTimezoneOffset())}`);

  function zone(minutes) {
    const [hours, rest] = [Math.trunc(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
    return `UTC${minutes ? `${minutes > 0 ? "+" : "−"}${hours}` : ""}${rest ? `:${two(rest)}` : ""}`;
  }

  /** Two times: 20 Nov, 09:05 – 10:05. */
  function range(from, to, now = new Date()) {
    const end = from.toDateString() === to.toDateString() ? hour(to) : minute(to, now);
    return `${minute(from, now)} – ${end}`;
  }

  window.adkweb = { ...window.adkweb, dates: { day, weekday, minute, second, ago, clock, exact, whole, range } };
})();
