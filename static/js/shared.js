// window.adkweb: what several scripts need. It comes before all of them.
(() => {
  const language = document.documentElement.lang || undefined;

  /** What this browser keeps under a name; null where there is nothing, or storage is refused. */
  function kept(name, storage = "localStorage") {
    try {
      return window[storage].getItem(name);
    } catch {
      return null;
    }
  }

  function keptJson(name, storage) {
    try {
      return JSON.parse(kept(name, storage));
    } catch {
      return null;
    }
  }

  /** Keeps a text; nothing is kept instead of an empty one. Where storage is refused, what it is about lasts for this page. */
  function keep(name, text, storage = "localStorage") {
    try {
      if (text) window[storage].setItem(name, text);
      else window[storage].removeItem(name);
    } catch {
      // Storage is refused, or full.
    }
  }

  /** What an element says of a number: its data-word-one, data-word-other, with the number for {n}. */
  function counted(element, number, shown = number) {
    const form = new Intl.PluralRules(language).select(number);
    const words = element?.getAttribute(`data-word-${form}`) ?? element?.getAttribute("data-word-other") ?? "";
    return words.replace("{n}", shown);
  }

  /** A number of a unit in words: 2 days. */
  function inWords(number, unit) {
    const form = { style: "unit", unit, unitDisplay: "long", maximumFractionDigits: 0 };
    return new Intl.NumberFormat(language, form).format(number);
  }

  /** This page's address with other parameters; those without a value are taken out. */
  function addressWith(values) {
    const address = new URL(location.href);
    for (const [name, value] of Object.entries(values)) {
      if (value) address.searchParams.set(name, value);
      else address.searchParams.delete(name);
    }
    return address;
  }

  /** Asks for a part of a page, as htmx does. */
  function askFor(address, options) {
    return fetch(address, { headers: { "HX-Request": "true" }, ...options });
  }

  function parsed(html) {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.content;
  }

  /** Which details are open in a row that is about to be replaced: for openAgain. */
  const opened = (row) => [...(row?.querySelectorAll("details") ?? [])].map(({ open }) => open);

  function openAgain(row, open) {
    for (const [number, details] of row.querySelectorAll("details").entries())
      details.open = open[number] ?? details.open;
  }

  /** The number of the first row that ends below a height; rows stand one under the other, so half are left out each time. */
  function firstBelow(rows, top) {
    let [low, high] = [0, rows.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (rows[middle].getBoundingClientRect().bottom > top) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  const isNarrow = () => matchMedia("(width < 900px)").matches;

  /** On a narrow screen, the timeline and what stands beside it are tabs; there is one for each way to read the timeline. */
  function showTab(name) {
    const view = document.querySelector("#events[data-density]")?.dataset.density;
    document
      .querySelector(`[role=tab][data-tab-target="${name}"]:is(:not([data-view]), [data-view="${view}"])`)
      ?.click();
  }

  /** A click that is to open a link elsewhere. */
  const opensElsewhere = (event) => event.ctrlKey || event.metaKey || event.shiftKey || event.altKey;

  // Keys that are pressed while the page is there already and its scripts are not: keys.js takes them when it comes.
  const early = [];
  function note({ key, target, defaultPrevented, ctrlKey, metaKey, altKey }) {
    if (target === document.body && !defaultPrevented && !ctrlKey && !metaKey && !altKey) early.push(key);
  }
  addEventListener("keydown", note);
  document.addEventListener("DOMContentLoaded", () => removeEventListener("keydown", note));

  window.adkweb = {
    early,
    ...{ language, counted, inWords, addressWith, askFor, parsed, opened, openAgain, firstBelow },
    ...{ kept, keptJson, keep, isNarrow, showTab, opensElsewhere },
    isMac: /Mac|iP(ad|hone)/.test(navigator.platform),
  };
})();
