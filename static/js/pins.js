// Pinned keys: a small line each beneath the strip (li[data-pin]), which the server draws. [data-pin-key] pins its key, or
// takes it back, and so does [data-unpin]. They stand in the address, ?pin=<key>, and are remembered for the app
// (#strip[data-pins]) in this browser. Beside the name of each stands its value: under the pointer, or else at the cursor.
(() => {
  const strip = document.querySelector("#strip[data-pins]");
  if (!strip) return;

  const STORED = `pins:${strip.dataset.pins}`;
  const MOST = Number(strip.dataset.mostPins);
  const LONGEST = 1_024; // characters of a key

  let moment = null; // what is shown
  const pins = () => [...new Set(new URLSearchParams(location.search).getAll("pin"))].slice(0, MOST);

  function stored() {
    const names = window.adkweb.keptJson(STORED);
    return Array.isArray(names) ? names.filter((name) => typeof name === "string" && name.length <= LONGEST) : [];
  }

  function writeAddress(names) {
    const address = new URL(location.href);
    address.searchParams.delete("pin");
    for (const name of names) address.searchParams.append("pin", name);
    history.replaceState(history.state, "", address);
  }

  function keep(names) {
    writeAddress(names);
    window.adkweb.keep(STORED, names.length && JSON.stringify(names));
    sayPinned();
  }

  /** Says of each key whether it is pinned, and whether there is room for more. */
  function sayPinned() {
    const names = pins();
    for (const button of document.querySelectorAll("[data-pin-key]")) {
      const pinned = names.includes(button.dataset.pinKey);
      const full = !pinned && names.length >= MOST;
      // A step in the past exchanges some rows of hundreds: what is so already is not written again.
      if (button.ariaPressed !== String(pinned)) button.ariaPressed = String(pinned);
      if (button.disabled === full) continue;
      button.disabled = full;
      button.title = full ? strip.dataset.wordMost : "";
    }
  }

  function toggle(name) {
    const names = pins();
    const rest = names.filter((other) => other !== name);
    if (rest.length === names.length) rest.push(name);
    keep(rest);
    if (rest.length > names.length) strip.dispatchEvent(new Event("adkweb:redraw"));
    else strip.querySelector(`[data-pin="${CSS.escape(name)}"]`)?.remove();
    if (!rest.length) strip.querySelector(".pins")?.remove();
  }

  // --- Values ------------------------------------------------------------------------------------------------------

  /** Shows the value of each key at a share of the width; without one, at the cursor, or the newest. */
  function tell(share = null) {
    for (const pin of strip.querySelectorAll("[data-pin]")) {
      const values = [...pin.querySelectorAll("ol > li")];
      const begun = ({ dataset }) =>
        share === null ? !moment?.seq || Number(dataset.seq) <= moment.seq : Number(dataset.x) <= share * 100;
      const words = (values.findLast(begun) ?? values[0]).querySelector("span").textContent;
      const shown = pin.querySelector("[data-pin-value]");
      if (shown.textContent !== words) shown.textContent = words;
    }
  }

  strip.addEventListener("pointermove", ({ target, clientX }) => {
    const box = target.closest("#travel, .pins")?.getBoundingClientRect();
    tell(box ? (clientX - box.left) / box.width : null);
  });
  strip.addEventListener("pointerleave", () => tell());
  document.addEventListener("adkweb:moment", ({ detail }) => {
    moment = detail;
    tell();
  });
  document.addEventListener("htmx:afterSwap", () => tell());

  // --- The reader --------------------------------------------------------------------------------------------------

  document.addEventListener("click", ({ target }) => {
    const button = target.closest?.("[data-pin-key], [data-unpin]");
    if (!button) return;
    toggle(button.dataset.pinKey ?? button.closest("[data-pin]").dataset.pin);
    if (!button.isConnected) strip.querySelector("#travel")?.focus({ preventScroll: true });
  });

  const remembered = stored().slice(0, MOST);
  if (!pins().length && remembered.length) writeAddress(remembered);
  if (pins().length) {
    const address = new URL(strip.getAttribute("hx-get"), location.href);
    address.search = new URLSearchParams(
      [...new URLSearchParams(location.search)].filter(([name]) => ["from", "to", "pin"].includes(name)),
    );
    strip.setAttribute("hx-get", address.pathname + address.search); // before htmx asks for it
  }
  new MutationObserver(sayPinned).observe(document.querySelector(".side"), { childList: true, subtree: true });
  sayPinned();
})();
