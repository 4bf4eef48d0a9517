// Steps through the past without asking: #moment's data-stretch leads to how the state changes along the events around the one
// that is shown, a <template> for each with the heads of the panel and the rows of what was written since the one before. When
// travel.js is about to ask for an event among them (adkweb:step), the rows that differ are put into the panel here.
// What cannot be told so (data-asks: an unknown key, a scope that is empty) is asked for as ever.
(() => {
  const { askFor, parsed, opened, openAgain } = window.adkweb;
  const panel = document.querySelector("#moment[data-stretch]");
  if (!panel) return;
  const REST = 150; // after an answer of the server, while others may follow
  const NEAR = 12; // to an end of the stretch: the next one is asked for

  let steps = [];
  let rows = new Map(); // by key: [the number of a step, its row], in order
  let resting = 0;
  let asked = "";
  let asking = false;
  let [compared, changes] = [0, 0]; // how often the state now had changed when the answer compared with it, and until now

  const numberOf = (at) => steps.findIndex(({ dataset }) => dataset.at === at);
  const shownAt = () => panel.querySelector("[data-moment][data-show=state]")?.dataset.at;

  // --- What is held ------------------------------------------------------------------------------------------------

  function rest() {
    clearTimeout(resting);
    resting = setTimeout(ask, REST);
  }

  async function ask() {
    const at = shownAt();
    if (!at || isHeld(numberOf(at)) || at === asked || asking || document.hidden) return;
    asked = at;
    asking = true;
    const before = changes;
    const { kind = "", author = "" } = Object.fromEntries(new URLSearchParams(location.search));
    try {
      const answer = await askFor(`${panel.dataset.stretch}?${new URLSearchParams({ at, kind, author })}`);
      hold(answer.ok && !answer.redirected ? [...parsed(await answer.text()).children] : []);
      compared = before;
    } catch {
      // The next step asks, and says what is wrong.
    }
    asking = false;
    if (shownAt() !== at) rest();
  }

  /** Whether a step is held, and those around it, too, as far as there are any. */
  function isHeld(number) {
    const [first, last] = [steps[0], steps.at(-1)].map((step) => step?.dataset ?? {});
    if (compared !== changes) return false;
    return number >= ("begins" in first ? 0 : NEAR) && number < steps.length - ("ends" in last ? 0 : NEAR);
  }

  function hold(templates) {
    steps = templates;
    rows = new Map();
    for (const [number, { content }] of steps.entries())
      for (const row of content.children) {
        const { keyRow } = row.dataset;
        if (keyRow !== undefined) rows.set(keyRow, [...(rows.get(keyRow) ?? []), [number, row]]);
      }
  }

  // --- Where a step leads ------------------------------------------------------------------------------------------

  /** The number of the step that is asked for; -1 if it is not held. */
  function target({ at, seq, step = 0, writes, errors }) {
    const kind = writes ? "writes" : errors ? "errors" : "";
    let number = at === undefined ? lastUpto(seq) : numberOf(at);
    if (number < 0 || !kind) return number < 0 ? -1 : number + step;
    for (let left = Math.abs(step); left && steps[number]; left -= 1)
      do number += Math.sign(step);
      while (steps[number] && !(kind in steps[number].dataset));
    return number;
  }

  function lastUpto(seq) {
    const last = Number(steps.at(-1)?.dataset.seq ?? -1);
    return seq > last ? -1 : steps.findLastIndex(({ dataset }) => Number(dataset.seq) <= seq);
  }

  /** Whether the panel differs only in its heads and rows. The first step tells rows only. */
  function canGo(from, to) {
    const told = (step) => step && !("asks" in step.dataset);
    return told(steps[from]) && told(steps[to]) && to > 0;
  }

  // --- Going there -------------------------------------------------------------------------------------------------

  function go(from, to) {
    const list = panel.querySelector(".scroll");
    for (const row of list.querySelectorAll("[data-gone]")) row.remove();
    for (const row of list.querySelectorAll(".written")) unmark(row);
    const there = new Map([...list.querySelectorAll("[data-key-row]")].map((row) => [row.dataset.keyRow, row]));
    const [first, last] = [Math.min(from, to), Math.max(from, to)];
    for (const [key, some] of rows) {
      if (!some.some(([number]) => (number > first && number <= last) || number === to)) continue;
      put(
        list,
        key,
        there.get(key),
        fresh(
          some.findLast(([number]) => number <= to),
          to,
        ),
      );
    }
    putHead(steps[to]);
  }

  /** A copy of a row, as it is shown at a step; null if the key is not there, and it was not this event that removed it. */
  function fresh([number, row], to) {
    if ("gone" in row.dataset && !(number === to && row.dataset.gone)) return null;
    const copy = row.cloneNode(true);
    if (number !== to) unmark(copy);
    return copy;
  }

  function unmark(row) {
    row.classList.remove("written");
    row.querySelector(":scope > .was:not(.isnow)")?.remove();
    row.hidden = "later" in row.dataset;
  }

  function put(list, key, old, row) {
    if (!row) return old?.remove();
    if (old) {
      openAgain(row, opened(old));
      old.className = row.className; // the row stays, so that those beside it are not drawn again
      for (const name of ["data-gone", "data-differs", "data-later", "hidden"]) {
        if (!row.hasAttribute(name)) old.removeAttribute(name);
        else if (old.getAttribute(name) !== row.getAttribute(name)) old.setAttribute(name, row.getAttribute(name));
      }
      old.replaceChildren(...row.childNodes);
      htmx.process(old);
    } else {
      const scope = /^(app|user):/.exec(key)?.[1] ?? "session";
      let before = list.querySelector(`.scope.${scope}`);
      while (
        before.nextElementSibling?.matches("[data-key-row]") &&
        isBefore(before.nextElementSibling.dataset.keyRow, key)
      )
        before = before.nextElementSibling;
      before.after(row);
      htmx.process(row);
    }
  }

  /** Whether a key comes before another, as the server sorts them: those with an underscore last, then by code points. */
  function isBefore(a, b) {
    if (a.startsWith("_") !== b.startsWith("_")) return b.startsWith("_");
    const [one, other] = [[...a], [...b]].map((signs) => signs.map((sign) => sign.codePointAt(0)));
    const differs = one.findIndex((code, index) => code !== other[index]);
    return differs < 0 ? one.length < other.length : one[differs] < (other[differs] ?? -1);
  }

  function putHead({ content }) {
    const head = panel.querySelector(".momenthead");
    const fresh = content.cloneNode(true);
    for (const part of [...fresh.children]) if (part.matches("[data-key-row]")) part.remove();
    becomeChildren(head, fresh);
    htmx.trigger(head, "htmx:load", { elt: head }); // keys.js says which key does what
  }

  /** Makes an element equal to another one. What is equal stays: it keeps the focus, and the browser need not draw it. */
  function become(old, fresh) {
    if (old.isEqualNode(fresh)) return;
    if (old.nodeName !== fresh.nodeName) old.replaceWith(fresh);
    else if (old.nodeType !== Node.ELEMENT_NODE) old.data = fresh.data;
    else {
      for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
      for (const { name, value } of fresh.attributes)
        if (old.getAttribute(name) !== value) old.setAttribute(name, value);
      becomeChildren(old, fresh);
    }
  }

  function becomeChildren(old, fresh) {
    const [before, after] = [[...old.childNodes], [...fresh.childNodes]];
    for (const [number, child] of after.entries()) {
      if (before[number]) become(before[number], child);
      else old.append(child);
    }
    for (const child of before.slice(after.length)) child.remove();
  }

  panel.addEventListener("adkweb:step", (event) => {
    const [from, to] = [numberOf(shownAt()), target(event.detail)];
    if (compared !== changes || !canGo(from, to)) return;
    event.preventDefault();
    if (from !== to) go(from, to);
    void ask();
  });
  document.addEventListener("htmx:afterSwap", (event) => panel.contains(event.detail.target ?? event.target) && rest());
  document.addEventListener("adkweb:state", () => {
    changes += 1;
    asked = "";
  });
  if (!panel.hidden) rest();
})();
