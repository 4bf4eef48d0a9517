// [data-term="sentence"]: what a word means, in #term-tip, while the pointer or the focus is on the word, or the pointer on the
// sentence. Escape takes it away, and then does nothing else.
(() => {
  const GAP = 6;
  const tip = document.createElement("div");
  Object.assign(tip, { id: "term-tip", role: "tooltip", className: "termtip", hidden: true });
  document.body.append(tip);
  let word = null;

  function show(element) {
    if (element === word) return;
    hide();
    word = element;
    word.setAttribute("aria-describedby", tip.id);
    tip.textContent = word.dataset.term;
    tip.hidden = false;
    put();
  }

  function put() {
    const { left, top, bottom } = word.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = tip;
    tip.style.left = `${Math.max(GAP, Math.min(left, document.documentElement.clientWidth - width - GAP))}px`;
    tip.style.top = `${top - height - GAP > 0 ? top - height - GAP : bottom + GAP}px`;
  }

  function hide() {
    word?.removeAttribute("aria-describedby");
    word = null;
    tip.hidden = true;
  }

  const of = ({ target }) => target.closest?.("[data-term]");
  const isOn = (element) =>
    element && (element === word || tip.contains(element) || element.closest?.("[data-term]") === word);

  document.addEventListener("pointerover", (event) => of(event) && show(of(event)));
  document.addEventListener("focusin", (event) => of(event)?.matches(":focus-visible, .term") && show(of(event)));
  document.addEventListener("focusout", hide);
  document.addEventListener("pointerout", (event) => {
    if (word && isOn(event.target) && !isOn(event.relatedTarget) && !word.matches(":focus-visible")) hide();
  });
  document.addEventListener("scroll", () => word && put(), { capture: true, passive: true });
  document.addEventListener("htmx:afterSwap", () => word && !word.isConnected && hide());
  // In the capture phase: an Escape that takes the sentence away closes nothing else.
  document.addEventListener(
    "keydown",
    (event) => {
      if (event.key !== "Escape" || !word) return;
      hide();
      event.preventDefault();
      event.stopPropagation();
    },
    true,
  );
})();
