// The tour of the demo: the bar #tour shows one [data-tour-step] after the other, and rings what each is about. It begins by
// itself on the page data-story, and anew by [data-tour-start]; how far it is stays in localStorage, from page to page. It is
// shown on the pages of that session, on those of a fork of it, and where a step is about (data-about). The end says what was
// done only if no step was skipped.
// Of a step, data-aim names the control to use next: selectors with " | " between, of which the first that is visible counts;
// one of data-once counts only until it was used. [data-tour-next] uses it, so that whoever presses it again and again sees
// everything done; where the page has none of them, it goes to data-there. The tour goes on once the step is done, and
// otherwise by [data-tour-pass]. It is done if an element is there (data-done), the address ends so or that of the page beside
// the timeline (data-done-at), or an element has these words (data-says-in, data-says). What was so already counts only after
// it was not.
(() => {
  const card = document.querySelector("#tour");
  if (!card) return;
  const KEPT = "tour";
  const SETTLED_MS = 400; // after which a page that was just brought has scrolled to where it was
  const all = [...card.querySelectorAll("[data-tour-step]")];
  const [ending, skippedEnding] = ["done", "skipped"].map((name) => card.querySelector(`[data-tour-${name}]`));
  const steps = all.filter((each) => each !== skippedEnding);
  const last = steps.length - 1;
  const part = (name) => card.querySelector(`[data-tour-${name}]`);
  const [words, back, pass, next, skip] = ["words", "back", "pass", "next", "skip"].map(part);
  const wordShow = next.textContent;
  const used = new WeakSet();

  let step = -1; // which one is shown; none before the tour and after it
  let held = false; // what it waits for was so when it began
  let skipped = []; // the numbers of those that were not done
  let aimed = null;
  let shown = null;
  let framed = false;
  let waiting = 0;

  const keep = (value) => window.adkweb.keep(KEPT, JSON.stringify(value));
  const keepStep = (more) => keep({ step, held, skipped, ...more });

  const isAbout = () =>
    [card.dataset.story, ...(steps[step].dataset.about?.split(" ") ?? [])].some((at) =>
      location.pathname.startsWith(at),
    ) || document.querySelector(`#forks a[href^='${card.dataset.story}?at=']`);

  const visible = (element) => element.checkVisibility({ visibilityProperty: true });

  function isDone({ dataset: { doneAt, done, saysIn, says } }) {
    const pane = document.querySelector("#pane:not([hidden]) #pane-alone");
    if (doneAt && [location, pane].some((place) => place?.pathname.endsWith(doneAt))) return true;
    if (done && document.querySelector(done)) return true;
    return Boolean(saysIn && document.querySelector(saysIn)?.textContent.includes(says));
  }

  function target({ dataset: { aim, once } }) {
    const counts = (element) => visible(element) && !(once && element.matches(once) && used.has(element));
    for (const selector of aim?.split(" | ") ?? []) {
      const match = [...document.querySelectorAll(selector)].find(counts);
      if (match) return match;
    }
    return null;
  }

  function aim(isNew) {
    const match = target(steps[step]);
    card.classList.toggle("away", !match && step !== last);
    if (match === aimed && !isNew) return;
    release();
    aimed = match;
    aimed?.setAttribute("data-tour-aim", "");
    aimed?.closest(".kv")?.setAttribute("data-tour-row", "");
    uncover();
    clearTimeout(waiting);
    waiting = setTimeout(uncover, SETTLED_MS);
  }

  /** A button in the row of a key is seen with its row; on a phone it is behind the row's sign. So is the key that a step is
   * about (data-shows) while what to use next is elsewhere. */
  function uncover() {
    (aimed?.closest("[data-key-row]") ?? aimed)?.scrollIntoView({ block: "nearest" });
    const about = steps[step]?.dataset.shows;
    if (about) document.querySelector(about)?.scrollIntoView({ block: "nearest" });
  }

  function release() {
    aimed?.removeAttribute("data-tour-aim");
    aimed?.closest(".kv")?.removeAttribute("data-tour-row");
    aimed = null;
  }

  /** Uses what is ringed, or goes to where it is. */
  function use() {
    const { there } = steps[step].dataset;
    if (!aimed || aimed.matches("a[href]")) keepStep({ focus: true });
    if (aimed) aimed.click();
    else location.assign(there);
  }

  function show() {
    const now = steps[step] === ending && skipped.length ? skippedEnding : steps[step];
    const isNew = shown !== now;
    if (isNew) {
      shown = now;
      card.hidden = false;
      document.documentElement.dataset.touring = "";
      words.replaceChildren(...[...shown.childNodes].map((node) => node.cloneNode(true)));
      back.hidden = step === 0;
      skip.hidden = step === last;
    }
    pass.hidden = held || step === last;
    next.textContent = step === last ? next.dataset.wordEnd : held ? next.dataset.wordNext : wordShow;
    aim(isNew);
  }

  function go(number) {
    step = number;
    held = isDone(steps[step]);
    keepStep();
    show();
  }

  function goOn(isDone) {
    skipped = skipped.filter((each) => each !== step);
    if (!isDone) skipped.push(step);
    go(step + 1);
  }

  /** Goes on if the person has done what the step asks for. */
  function look() {
    framed = false;
    if (step < 0 || !isAbout()) return;
    const done = isDone(steps[step]);
    if (done && !held) return goOn(true);
    if (!done && held) {
      held = false;
      keepStep();
    }
    show();
  }

  function end() {
    const focused = card.contains(document.activeElement);
    step = -1;
    shown = null;
    keep({ over: true });
    release();
    card.hidden = true;
    delete document.documentElement.dataset.touring;
    if (focused)
      [...document.querySelectorAll(".demoline [data-tour-start], .demochip > summary")].find(visible)?.focus();
  }

  document.addEventListener("click", ({ target }) => {
    if (aimed?.contains(target)) {
      used.add(aimed);
      requestAnimationFrame(look);
    }
    const button = target.closest?.(
      "[data-tour-start], [data-tour-next], [data-tour-pass], [data-tour-back], [data-tour-skip]",
    );
    if (!button) return;
    if (button.matches("[data-tour-start]")) {
      // The page that it leads to begins, or goes on.
      if (step >= 0) keepStep({ focus: true });
      else keep({ step: 0, focus: true });
    } else if (button === skip || (button === next && step === last)) end();
    else if (button === back) go(step - 1);
    else if (button === pass || held) goOn(held);
    else use();
  });
  // keys.js would take Escape for something else of the page.
  card.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.preventDefault();
    event.stopPropagation();
    end();
  });
  new MutationObserver(() => {
    if (!framed && step >= 0) requestAnimationFrame(look);
    framed = step >= 0;
  }).observe(document.body, { childList: true, subtree: true, attributeFilter: ["hidden", "data-tab"] });

  // What is at the foot of the window stands above the bar, and what is gone to is not behind it.
  new ResizeObserver(() => {
    document.documentElement.style.setProperty("--foot", `${card.offsetHeight}px`);
    uncover();
  }).observe(card);

  const { over, focus, ...before } = window.adkweb.keptJson(KEPT) ?? {};
  if (over || (before.step === undefined && location.pathname !== card.dataset.story)) return;
  step = Math.min(before.step ?? 0, last);
  held = before.held ?? isDone(steps[step]);
  skipped = before.skipped ?? [];
  if (before.step === undefined || before.held === undefined) keepStep();
  look();
  if (card.hidden)
    for (const link of document.querySelectorAll("[data-tour-start]")) link.textContent = link.dataset.wordContinue;
  if (focus) card.focus({ preventScroll: true });
})();
