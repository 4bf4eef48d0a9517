// [data-densities]: links to the same timeline in another density. Who has scrolled up, and sees the state of now, is led to
// the first event in sight there. With another density or filter, the pane beside the timeline (pane.js) stays open. In a chat,
// an answer (li.message[data-answers]) that arrives after its call ([data-call]) goes into the line of the call.
(() => {
  const events = document.querySelector("#events[data-density]");
  if (!events) return;
  const timeline = events.closest("[data-timeline]");

  function inSight() {
    const top = Math.max(0, timeline.getBoundingClientRect().top);
    return [...events.querySelectorAll("[data-row]")].find((row) => row.getBoundingClientRect().bottom > top + 1);
  }

  document.querySelector(".timelinebar")?.addEventListener(
    "click",
    ({ target }) => {
      const link = target.closest("a.chip, [data-densities] > a");
      if (!link) return;
      const address = new URL(link.href);
      const { searchParams: asked } = new URL(location.href);
      if (asked.has("pane")) address.searchParams.set("pane", asked.get("pane"));
      if (!link.matches(".chip")) {
        const at = asked.get("at");
        const row = timeline.dataset.following === "true" ? null : inSight();
        if (at) address.searchParams.set("at", at);
        else if (row) address.searchParams.set("around", row.id.replace("event-", ""));
      }
      link.href = address;
    },
    true,
  );

  /** Seconds as the server tells them: 0.8 s, 12 s, 3 min. */
  function took(seconds) {
    if (seconds < 10) return `${seconds.toFixed(1)} s`;
    const units = [
      [60, 1, "s"],
      [3_600, 60, "min"],
      [86_400, 3_600, "h"],
      [Number.POSITIVE_INFINITY, 86_400, "d"],
    ];
    const [, size, unit] = units.find(([limit]) => seconds < limit);
    return `${Math.round(seconds / size)} ${unit}`;
  }

  /** Answers whose call is shown above. */
  function pair() {
    for (const answer of events.querySelectorAll("[data-answers]")) {
      const call = [...events.querySelectorAll(`[data-call="${CSS.escape(answer.dataset.answers)}"]`)].at(-1);
      const [above, below] = [call, answer].map((message) => message?.querySelector("details"));
      if (!above) continue;
      above.querySelector("summary > :last-child").replaceWith(below.querySelector(".answered"));
      above.querySelector(".inner").append(...below.querySelector(".inner").childNodes);
      call.classList.toggle("failed", answer.matches(".failed"));
      call.dataset.ends = answer.dataset.event;
      const row = answer.closest(".ev");
      const asked = call.closest(".ev");
      const seconds = Math.max(0, row.dataset.ended - asked.dataset.ended);
      const signs = "late" in asked.dataset ? ["≤ ", "≈ "] : ["", "≥ "];
      call.querySelector(".when").textContent = signs[Number("late" in row.dataset)] + took(seconds);
      answer.remove();
      row.classList.toggle("silent", !row.querySelector(".message"));
    }
  }

  if (events.dataset.density !== "chat") return;
  pair();
  new MutationObserver(pair).observe(events, { childList: true, subtree: true });
})();
