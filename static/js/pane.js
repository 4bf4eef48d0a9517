// #pane: pages of this session (PAGES) are shown beside the timeline. A link to one, anywhere on the session page, opens it
// there; links and forms in it stay in it, and what leads elsewhere leaves as always. The page is that of its own address,
// without its frame; its heading is the pane's. The open one is in the address of the session page (?pane=drift), so that it
// can be shared, and the browser's back button goes back to what was there before.
// Where an answer would lead back to the session (what was sent has been written), the pane closes and the message is shown;
// the edit form of #edit ends the same way. What is undone at once by a message is asked about here, if there is something to ask. Going to an event closes it, too, by a link in it or in the timeline: beside the
// timeline stands one thing, and going back shows the other again. What was typed is kept by guard.js: who closes the pane is
// told so, and can open it again.
// A page may say with data-newest which event was the newest when it was made: when later ones come, #pane-again offers to load
// it again, at a moment that the reader chooses.
// a[data-follows], and the page that it leads to while it is open, are about the event that is chosen in the timeline.
(() => {
  const { kept, addressWith, isNarrow, showTab, opensElsewhere } = window.adkweb;
  const pane = document.querySelector("#pane");
  if (!pane) return;
  const [title, again, alone, page] = ["title", "again", "alone", "page"].map((each) =>
    pane.querySelector(`#pane-${each}`),
  );
  const [side, moment, toasts] = [".side", "#moment", "#toasts"].map((each) => document.querySelector(each));
  const following = document.querySelector("a[data-follows]");

  const SESSION = new URL(pane.dataset.session, location.href);
  const PAGES =
    /^(add|artifacts(\/compare)?|compare|context|drift|edit|forks|history|restore|rewind|e\/[^/]+(\/(fork|undo))?)\/$/;
  const OTHERS =
    "[data-at], [data-travel-show], [data-travel-step], [data-travel-here], [hx-get], [download], [target], [data-alone]";
  const AGAIN = 1_000; // a page whose source is still being read asks again

  // The page that is asked for or shown: { url, asked: an address, write: "push", "replace" or "", stay: the focus does }.
  let wanted = null;
  let opener = null; // the link that opened the pane
  let elsewhere = false; // something was done outside of the pane since it was asked for
  let tab = ""; // on a narrow screen, the tab that was shown before

  const isSession = (url) => url.origin === SESSION.origin && url.pathname === SESSION.pathname;
  const eventShown = () => moment.querySelector("[data-moment]")?.dataset.at ?? "";

  /** The page of this session at an address, if it is one; two runs beside each other need the whole window. */
  function pageAt(address) {
    const url = URL.parse(address, SESSION);
    if (!url?.href.startsWith(SESSION.href) || url.searchParams.get("with")) return null;
    return PAGES.test(url.pathname.slice(SESSION.pathname.length)) ? url : null;
  }

  // --- The address of the session page -------------------------------------------------------------------------------

  /** The page that the address names: "history?key=n" is history/?key=n of this session. */
  function named() {
    const name = new URLSearchParams(location.search).get("pane");
    return name ? pageAt(name.replace(/\/?(?=\?|$)/, "/")) : null;
  }

  /** With the cursor, which travel.js writes only after a while. */
  function addressOf(url) {
    const pane = url && url.pathname.slice(SESSION.pathname.length).replace(/\/$/, "") + url.search;
    return addressWith({ ...cursor(), pane });
  }

  /** What the address says of the event that is shown. */
  function cursor() {
    const { at, show } = moment.hidden ? {} : (moment.querySelector("[data-moment]")?.dataset ?? {});
    return { at, show: show === "state" ? "" : show };
  }

  const depth = () => history.state?.pane ?? 0; // how often going back leads out of the pane

  function write(how) {
    const address = addressOf(wanted?.url);
    if (how === "push") history.pushState(wanted && { pane: depth() + 1 }, "", address);
    else if (how) history.replaceState(wanted && history.state, "", address);
  }

  /** The cursor stays where it is, whatever the address said when the pane was opened. */
  function writeEvent() {
    const address = addressWith(cursor());
    if (address.href !== location.href) history.replaceState(history.state, "", address);
  }

  addEventListener("popstate", () => {
    writeEvent();
    const url = named();
    if (!url) close("");
    else if (url.href !== wanted?.url.href) load(url, "");
  });

  // --- Opening and closing -------------------------------------------------------------------------------------------

  function load(url, how, { verb = "get", path = url, source = page, values, stay = false } = {}) {
    wanted = { url, asked: path.pathname + path.search, write: how, stay };
    side.ariaBusy = "true";
    htmx.ajax(verb, wanted.asked, {
      ...{ source, values, target: page, select: "#main > :not(.toasts)", swap: "innerHTML ignoreTitle:true" },
      headers: { "X-Pane": "true", "HX-Request": null },
    });
  }

  function open(url, link, options) {
    setTimeout(() => {
      elsewhere = false; // after every listener of the click
    });
    if (pane.hidden) {
      opener = link;
      tab = document.body.dataset.tab;
    }
    load(url, pane.hidden || url.href !== wanted?.url.href ? "push" : "", options);
  }

  /** The page is there: its heading becomes the pane's, and its addresses are those that they would be alone. */
  function arrive({ xhr }) {
    const { url } = wanted;
    again.hidden = true;
    again.href = alone.href = url.href;
    const heading = page.querySelector("h1");
    title.replaceChildren(...(heading?.childNodes ?? []));
    title.className = heading?.className ?? "";
    heading?.remove();
    for (const link of page.querySelectorAll("a[href]:not([href^='#'])"))
      link.href = new URL(link.getAttribute("href"), url).href;
    pane.hidden = false;
    side.parentElement.dataset.paneOpen = "";
    write(wanted.write);
    wanted.write = "";
    if (xhr.getResponseHeader("Refresh")) setTimeout(() => wanted?.url === url && load(url, ""), AGAIN);
    if (wanted.stay) return;
    page.scrollTop = 0;
    if (isNarrow()) {
      showTab("state");
      pane.scrollIntoView({ behavior: "instant" });
    }
    const field = page.querySelector("[aria-invalid=true], [autofocus]");
    if (!page.contains(document.activeElement)) (field ?? title).focus({ preventScroll: true });
  }

  /** `how`: going "back" to before it was opened; going on, which is to "push" or to "replace" the address; "" if that is done. */
  function close(how, { done = false, focus = true } = {}) {
    if (!wanted) return;
    const { url } = wanted;
    const [shown, steps] = [!pane.hidden, depth()];
    const forms = done ? [] : [...page.querySelectorAll("form[data-guard]")];
    const hasDraft = forms.some(({ dataset }) => kept(`guard:${dataset.guard}`, "sessionStorage") !== null);
    wanted = null;
    side.ariaBusy = null;
    pane.hidden = true;
    delete side.parentElement.dataset.paneOpen;
    page.replaceChildren();
    if (!shown) return;
    if (how === "back" && steps) history.go(-steps);
    else write(how === "back" ? "replace" : how);
    if (tab && isNarrow() && focus) showTab(tab);
    if (focus) giveFocusBack();
    if (hasDraft) tellKept(url);
  }

  /** To the link that opened the pane; where the side was drawn anew meanwhile, to the one that leads where it did; or to the menu
   * that it is in. */
  function giveFocusBack() {
    const same = opener && [...document.querySelectorAll("#main a[href]")].filter(({ href }) => href === opener.href);
    const menu = opener?.closest("details.menu")?.querySelector("summary");
    const link = [opener, ...(same ?? []), menu].find((each) => each?.isConnected && each.checkVisibility());
    (link ?? document.querySelector("[data-timeline]")).focus({ preventScroll: true });
    opener = null;
  }

  function tellKept({ href }) {
    const { wordKept: text, wordAgain } = pane.dataset;
    const detail = { text, link: { href, text: wordAgain } };
    document.dispatchEvent(new CustomEvent("adkweb:toast", { detail }));
  }

  // --- Answers -------------------------------------------------------------------------------------------------------

  // Refused forms and errors are pages as well; an error about a form that was sent is one sentence, and the form stays. What
  // nobody waits for any more is not shown.
  page.addEventListener("htmx:beforeSwap", ({ target, detail }) => {
    if (target !== page) return;
    const isPage = detail.xhr.getResponseHeader("Content-Type")?.startsWith("text/html");
    const isWanted = wanted?.asked === detail.pathInfo.requestPath;
    Object.assign(detail, { shouldSwap: isWanted && isPage, isError: isWanted && !isPage });
  });
  page.addEventListener("htmx:afterSwap", ({ target, detail }) => target === page && wanted && arrive(detail));
  page.addEventListener("htmx:afterRequest", () => {
    side.ariaBusy = null;
  });

  // Where the answer to what was sent leads: HX-Redirect, which html and sessions_app/web/session/page.py say. It is heard at
  // what asked: if that is out of the page by then, nothing bubbles from it, and htmx would load the whole page. Who has left
  // the form meanwhile stays where they are, and is told.
  const sentFrom = new WeakMap(); // the page of the pane, by request
  for (const box of [side, toasts])
    box.addEventListener("htmx:beforeRequest", ({ detail: { elt, xhr } }) => {
      sentFrom.set(xhr, wanted?.url);
      elt.addEventListener("htmx:beforeOnLoad", lead);
    });

  function lead(event) {
    const { elt, xhr } = event.detail;
    const where = xhr.getResponseHeader("HX-Redirect");
    if (!where || event.defaultPrevented) return;
    event.preventDefault();
    const url = new URL(where, location.href);
    const isLeft = !elt.isConnected || (pane.contains(elt) && sentFrom.get(xhr) !== wanted?.url);
    if (isLeft) tellOutcomes();
    else if (isSession(url)) finish(elt.closest("#edit"));
    else if (pane.contains(elt) && pageAt(url.href)) load(pageAt(url.href), "replace");
    else if (toasts.contains(elt) && pageAt(url.href)) open(pageAt(url.href));
    else setTimeout(() => location.assign(url)); // once guard.js has heard that what was typed is taken
  }

  /** What was sent has been written: its message is asked for, and the timeline follows by itself. */
  function finish(edit) {
    if (edit) edit.replaceChildren();
    else {
      const key = page.querySelector(".editbox [name^='key-']")?.value;
      document.querySelector("#travel-back")?.click(); // what was written is in the state now
      close("replace", { done: true });
      const row = key && document.querySelector(`#groups [data-key-row="${CSS.escape(key)}"]`);
      row?.querySelector("[data-row-key=e]")?.focus({ preventScroll: true });
    }
    tellOutcomes();
  }

  async function tellOutcomes() {
    const outcomes = toasts.querySelector("#outcomes");
    const address = `${outcomes.getAttribute("hx-get")}?messages=1`;
    await htmx.ajax("get", address, { source: outcomes, target: outcomes, swap: "innerHTML" });
    htmx.trigger(document.body, "adkweb:queued");
  }

  // --- The reader ----------------------------------------------------------------------------------------------------

  // In the capture phase: travel.js then goes to the event that a link names by its address.
  document.addEventListener(
    "click",
    (event) => {
      const link = event.target.closest?.(":is(#main, [data-key-card]) a[href]");
      if (!link || link.matches(OTHERS) || event.defaultPrevented || event.button !== 0) return;
      if (opensElsewhere(event)) return;
      const url = pageAt(link.href);
      if (url) {
        event.preventDefault();
        link.closest("dialog")?.close();
        open(url, link);
      } else if (isSession(new URL(link.href)) && link.closest("#pane, #toasts")) follow(event, link);
    },
    true,
  );

  /** A link to the session's own page: to an event, which the timeline goes to, or out of the pane. */
  function follow(event, link) {
    const { searchParams, search, hash } = new URL(link.href);
    const at = searchParams.get("at") ?? (hash.startsWith("#event-") ? hash.slice("#event-".length) : "");
    if (at && link.matches(":not([data-key=Escape])")) {
      link.dataset.at = at;
      close("push", { focus: false });
    } else if (at || !search) {
      event.preventDefault();
      close("back");
    }
  }

  page.addEventListener("submit", (event) => {
    const { target: form, submitter } = event;
    if (event.defaultPrevented || form.method === "dialog") return;
    const values = new FormData(form, submitter);
    const path = new URL(submitter?.getAttribute("formaction") ?? form.getAttribute("action") ?? "", wanted.url);
    if (form.method === "get") path.search = new URLSearchParams(values);
    const url = pageAt(path.href);
    if (!url) return;
    event.preventDefault();
    if (form.method === "get") open(url, null, { stay: "atChange" in form.dataset });
    else load(wanted.url, "", { verb: "post", path, source: form, values });
  });

  document.addEventListener("htmx:afterSwap", ({ target }) => target.id === "edit" && close("push", { focus: false }));

  // An event that was asked for before the pane was opened may be shown after that.
  for (const type of ["pointerdown", "click", "keydown"]) {
    document.addEventListener(
      type,
      ({ target }) => {
        elsewhere ||= !pane.contains(target);
      },
      true,
    );
  }

  let before = eventShown();
  new MutationObserver(() => {
    const at = eventShown();
    if (at && at !== before && elsewhere && !isFollowing()) close("push", { focus: false });
    before = at;
  }).observe(moment, { childList: true, subtree: true, attributes: true, attributeFilter: ["data-at"] });

  document.addEventListener("adkweb:seq", ({ detail: seq }) => {
    const claim = page.querySelector("[data-newest]"); // that it is about now
    if (!(seq > claim?.dataset.newest)) return;
    claim.hidden = true;
    again.hidden = false;
  });

  // --- What follows the event that is chosen -------------------------------------------------------------------------

  const isFollowing = () => wanted?.url.pathname === new URL(following.href).pathname;

  let followed = eventShown();
  document.addEventListener("adkweb:moment", ({ detail }) => {
    const [at, number] = [detail?.at ?? "", detail?.number ?? ""];
    following.href = withEvent(new URL(following.href), at);
    following.querySelector("[data-number]").textContent = /^\d+$/.test(number) ? `#${number}` : "";
    if (at !== followed && isFollowing())
      load(withEvent(new URL(wanted.url), at), wanted.write || "replace", { stay: true });
    followed = at;
  });

  /** An address, about another event, or about now. */
  function withEvent(url, at) {
    for (const name of ["at", "after", "before"]) url.searchParams.delete(name);
    if (at) url.searchParams.set("at", at);
    return url;
  }

  if (named()) load(named(), "");
})();
