// In [data-days], a line before the first row of each day (in the reader's time zone) says the day, unless that row has the
// heading of its turn, which does; where GAP seconds or more pass between two rows, a line says how long (data-word-later
// with {time}).
// [data-time] on a row is its time in seconds since 1970, [data-ended] when it ended; rows may be added anywhere, at any time.
(() => {
  const { dates, inWords } = window.adkweb;
  const GAP = 3_600;
  const box = document.querySelector("[data-days]");
  if (!box) return;

  const units = [
    ["day", 86_400],
    ["hour", 3_600],
  ];

  function length(seconds) {
    const [unit, size] = units.find(([, size]) => seconds > 0.98 * size);
    return inWords(seconds / size, unit);
  }

  /** What stands between two rows, in words: the day that begins, how long nothing happened, both, or neither. */
  function between(before, row, isHeaded) {
    const at = new Date(1000 * row.dataset.time);
    const passed = before ? row.dataset.time - before.dataset.ended : 0;
    const isNewDay = !before || new Date(1000 * before.dataset.time).toDateString() !== at.toDateString();
    const later = passed >= GAP ? box.dataset.wordLater.replace("{time}", length(passed)) : "";
    if (Number.isNaN(at.getTime())) return null;
    return { day: isNewDay && !isHeaded ? dates.weekday(at) : "", later };
  }

  function line({ day, later }) {
    const item = document.createElement("li");
    item.className = day ? "day" : "day gap";
    if (day) {
      const words = document.createElement("b");
      words.textContent = day;
      item.append(words);
    }
    if (later) item.append(" ", Object.assign(document.createElement("span"), { textContent: later }));
    return item;
  }

  /** Puts the lines where they belong; those that are there already stay. */
  function divide() {
    const wanted = new Set();
    let before = null;
    for (const row of box.querySelectorAll("[data-time]")) {
      let head = row;
      while (head.previousElementSibling?.matches(".inv, .turn, .waterfall")) head = head.previousElementSibling;
      const what = between(before, row, head.matches(".turn"));
      before = row;
      if (!what?.day && !what?.later) continue;
      const there = head.previousElementSibling;
      const fresh = line(what);
      if (there?.matches(".day") && there.isEqualNode(fresh)) {
        wanted.add(there);
      } else {
        wanted.add(fresh);
        head.before(fresh);
      }
    }
    for (const old of box.querySelectorAll(".day")) if (!wanted.has(old)) old.remove();
    changes.takeRecords();
  }

  const changes = new MutationObserver(divide);
  changes.observe(box, { childList: true, subtree: true });
  divide();
})();
