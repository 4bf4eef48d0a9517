// [data-densities]: links to the same timeline in another density, which takes its place without a new page. The row at the
// top of the window stays there, and what had the focus keeps it; who is at the end of the timeline stays at its end. The live
// connection hears of it by adkweb:density. a.scaled draws the same traces on another scale, with the same turns open. With
// another filter (a.chip), the pane beside the timeline (pane.js) stays open.
// In a chat, an answer (li.message[data-answers]) that arrives after its call ([data-call]) goes into the line of the call, which
// an error ends, too, whose [data-stops] is the event of the call.
(() => {
  const { addressWith, askFor, firstBelow, numbers, opensElsewhere } = window.adkweb;
  const events = document.querySelector("#events[data-density]");
  if (!events) return;
  const timeline = events.closest("[data-timeline]");
  const links = document.querySelectorAll("[data-densities] > a");
  const scaled = document.querySelector("a.scaled");
  let wanted = events.dataset.density;

  const asked = (link, name = "density") => new URL(link.href).searchParams.get(name);

  /** Another density, or scale; `link` leads to the page that shows it, for when the server does not answer with a part. */
  async function show(link) {
    const density = asked(link);
    const scale = asked(link, "scale");
    if (density === wanted && !scale) return;
    wanted = density;
    const address = new URL(events.dataset.address, location.href);
    address.searchParams.set("density", density);
    events.dataset.address = address.pathname + address.search;
    if (scale) address.searchParams.set("scale", scale);
    address.searchParams.set("chosen", "1"); // the browser keeps it; rows that are asked for later do not choose
    const isAtEnd = timeline.dataset.following === "true";
    const seen = isAtEnd ? [] : inSight();
    if (seen.length) address.searchParams.set("around", seen[0].id.replace("event-", ""));
    const answer = await askFor(address).catch(() => null);
    if (density !== wanted) return; // another one was chosen since
    if (!answer?.ok || answer.redirected) return location.assign(link.href);
    put(await answer.text(), density, seen);
    if (scale) {
      scaled.ariaCurrent = scale === "same" ? "true" : null;
      scaled.href = scaled.href.replace(/scale=\w+/, `scale=${scale === "same" ? "own" : "same"}`);
    }
  }

  function put(html, density, seen) {
    const focused = document.activeElement.closest("#events [data-row]")?.id;
    events.dataset.density = density;
    htmx.swap(events, html, { swapStyle: "innerHTML" });
    for (const each of links) each.ariaCurrent = asked(each) === density ? "true" : null;
    history.replaceState(history.state, "", addressWith({ density }));
    document.dispatchEvent(new CustomEvent("adkweb:density", { detail: density }));
    const stays = seen.find(({ id }) => document.getElementById(id)?.getClientRects().length);
    window.adkweb.holdAt(timeline, document.getElementById(stays?.id), stays?.top);
    const row = document.getElementById(focused);
    row?.dispatchEvent(new Event("adkweb:reveal", { bubbles: true }));
    row?.querySelector("a.line, a.when, a:not([data-again])")?.focus({ preventScroll: true });
  }

  /** The rows in sight, without those of no height, as far as a page around the first of them reaches: ids and places. */
  function inSight() {
    const rows = [...events.querySelectorAll("[data-row]:not([hidden])")];
    const first = firstBelow(rows, Math.max(0, timeline.getBoundingClientRect().top) + 1);
    const seen = rows.slice(first, first + 40).map((row) => ({ id: row.id, box: row.getBoundingClientRect() }));
    const high = seen.filter(({ box }) => box.height > 0);
    return (high.length ? high : seen).map(({ id, box }) => ({ id, top: box.top }));
  }

  document.querySelector(".timelinebar")?.addEventListener(
    "click",
    (event) => {
      const link = event.target.closest("a.chip, a.scaled, [data-densities] > a");
      if (!link) return;
      if (link.matches(".chip")) {
        const pane = new URL(location.href).searchParams.get("pane");
        const address = new URL(link.href);
        if (pane !== null) address.searchParams.set("pane", pane);
        link.href = address;
      } else if (event.button === 0 && !opensElsewhere(event)) {
        event.preventDefault();
        show(link);
      }
    },
    true,
  );

  /** Answers, and errors, whose call is shown above. */
  function pair() {
    if (events.dataset.density !== "chat") return;
    for (const answer of events.querySelectorAll("[data-answers]")) {
      const call = [...events.querySelectorAll(`[data-call="${CSS.escape(answer.dataset.answers)}"]`)].at(-1);
      if (!call) continue;
      end(call, answer, answer.querySelector(".answered"));
      call.querySelector(".inner").append(...answer.querySelector(".inner").childNodes);
      call.querySelector(".what").append(...answer.querySelectorAll(".what > .beside")); // who changed it at a breakpoint
      const row = answer.closest(".ev");
      answer.remove();
      row.classList.toggle("silent", !row.querySelector(".message"));
    }
    for (const error of events.querySelectorAll("[data-stops]")) {
      const asked = document.getElementById(`event-${error.dataset.stops}`);
      for (const call of asked?.querySelectorAll(".message.tool:not([data-ends])") ?? [])
        end(
          call,
          error,
          Object.assign(document.createElement("span"), { className: "answered", textContent: error.dataset.word }),
        );
    }
  }

  function end(call, by, words) {
    call.querySelector("summary > :last-child").replaceWith(words);
    call.classList.toggle("failed", by.matches(".failed"));
    call.dataset.ends = by.dataset.event;
    const [asked, row] = [call, by].map((message) => message.closest(".ev"));
    const seconds = Math.max(0, row.dataset.ended - asked.dataset.ended);
    const signs = "late" in asked.dataset ? ["≤ ", "≈ "] : ["", "≥ "];
    call.querySelector(".when").textContent = signs[Number("late" in row.dataset)] + numbers.duration(seconds);
  }

  pair();
  new MutationObserver(pair).observe(events, { childList: true, subtree: true });
})();
