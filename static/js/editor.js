// <json-editor> is code that only who edits needs: it is fetched when the first one appears, or the pointer or the focus
// is on what opens one ([hx-target="#edit"]). A field that had the focus meanwhile keeps it.
(() => {
  const { editor: address } = document.currentScript.dataset;
  let waiting = null; // the editor whose field has the focus

  async function load() {
    await import(address);
    const { activeElement } = document;
    if (waiting?.isConnected && (activeElement === document.body || waiting.contains(activeElement))) waiting.focus();
  }

  function loadForAny() {
    if (document.querySelector("json-editor")) load();
  }

  document.addEventListener("focusin", ({ target }) => {
    waiting = target.matches("json-editor > textarea") ? target.parentElement : null;
  });
  for (const name of ["pointerover", "focusin"]) {
    document.addEventListener(name, ({ target }) => target.closest?.('[hx-target="#edit"]') && load(), {
      passive: true,
    });
  }
  document.addEventListener("htmx:load", loadForAny);
  loadForAny();
})();
