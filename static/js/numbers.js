// adkweb.numbers: numbers as the language of the page writes them, as sessions_app/web/numbers.py does. <body> says how:
// data-point, data-thousands.
(() => {
  const { point, thousands } = document.body.dataset;

  /** A whole number: 20,004. */
  const count = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, thousands);

  /** Seconds: 4 ms, 1.8 s, 12 s, 3 min. */
  function duration(seconds) {
    if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
    if (seconds < 10) return `${seconds.toFixed(1).replace(".", point)} s`;
    const units = [
      [60, 1, "s"],
      [3_600, 60, "min"],
      [86_400, 3_600, "h"],
      [Number.POSITIVE_INFINITY, 86_400, "d"],
    ];
    const [, size, unit] = units.find(([limit]) => seconds < limit);
    return `${Math.round(seconds / size)} ${unit}`;
  }

  /** A share, in whole percent: 40%, in Spanish 40 %. */
  const percentage = (share) => share.toLocaleString(document.documentElement.lang, { style: "percent" });

  window.adkweb = { ...window.adkweb, numbers: { count, duration, percentage } };
})();
