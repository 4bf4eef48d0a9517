// window.adkweb.combobox(field, list): completes what is typed in a field from its list (ul[role=listbox]), which is asked for
// at the list's data-complete, with the text and the place of the cursor. Arrow keys move in it, Enter takes an option, Tab
// one that completes the text, Escape closes it. An option's data-text goes into the field at its data-start; `taken` does
// what else an option is for, and then returns true; `offer` puts an answer into the list. A list that `stays` is never closed.
// It returns what moves it. An input[data-completes] has one without a script of its own.
(() => {
  const { counted, askFor } = window.adkweb;
  const WAIT = 80;

  // The query counts characters, a field counts UTF-16 units.
  const characters = (text) => [...text].length;
  const units = (text, count) => [...text].slice(0, count).join("").length;

  function combobox(field, list, { taken, offer, stays = false } = {}) {
    let waiting = 0;
    let asking = null;
    let chosen = null;
    const options = () => [...list.querySelectorAll("[role=option]")];
    const announcer = list.closest("dialog")?.querySelector("[aria-live]") ?? document.querySelector("#announcer");

    function choose(option) {
      chosen?.setAttribute("aria-selected", "false");
      chosen = option ?? null;
      if (!chosen) return field.removeAttribute("aria-activedescendant");
      chosen.setAttribute("aria-selected", "true");
      field.setAttribute("aria-activedescendant", chosen.id);
      chosen.scrollIntoView({ block: "nearest" });
    }

    function stop() {
      clearTimeout(waiting);
      asking?.abort();
    }

    function close() {
      stop();
      choose(null);
      if (stays) return;
      list.hidden = true;
      field.setAttribute("aria-expanded", "false");
    }

    async function ask() {
      stop();
      asking = new AbortController();
      const { signal } = asking;
      const { value } = field;
      const address = new URL(list.dataset.complete, location);
      address.searchParams.set("q", value);
      address.searchParams.set("at", characters(value.slice(0, field.selectionStart)));
      const answer = await askFor(address, { signal })
        .then((response) => (response.ok ? response.text() : ""))
        .catch(() => null); // it was cancelled, or the server is away: then nothing is offered
      if (answer === null || signal.aborted || document.activeElement !== field) return;
      if (offer) offer(answer, value);
      else list.innerHTML = answer;
      if (!stays) choose(null);
      const count = options().length;
      if (!count) return close();
      list.hidden = false;
      field.setAttribute("aria-expanded", "true");
      announcer.textContent = counted(list, count);
    }

    function take(option) {
      const { text, start } = option.dataset;
      close();
      if (taken?.(option)) return;
      const { value, selectionEnd } = field;
      const rest = value.slice(selectionEnd);
      const written = /[:.(]$/.test(text) || rest.startsWith(" ") ? text : `${text} `;
      field.setRangeText(written, units(value, Number(start)), selectionEnd, "end");
      field.dispatchEvent(new Event("input", { bubbles: true }));
    }

    /** The option that Tab takes: the chosen one, or the first while a word is being typed. */
    function nextByTab() {
      if (chosen) return chosen.dataset.text ? chosen : null;
      const first = options().find(({ dataset }) => dataset.text);
      return first && units(field.value, Number(first.dataset.start)) < field.selectionStart ? first : null;
    }

    function press({ key, shiftKey }) {
      const all = options();
      const step = { ArrowDown: 1, ArrowUp: -1 }[key];
      if (step && list.hidden) ask();
      else if (step) choose(all[(all.indexOf(chosen) + step + all.length + (chosen || step > 0 ? 0 : 1)) % all.length]);
      else if (list.hidden) return false;
      else if (key === "Escape" && !stays) close();
      else if (key === "Enter" && chosen) take(chosen);
      else if (key === "Tab" && !shiftKey && nextByTab()) take(nextByTab());
      else {
        if (key === "Enter") close();
        return false;
      }
      return true;
    }

    field.addEventListener("keydown", (event) => {
      if (event.isComposing || event.altKey || event.ctrlKey || event.metaKey) return;
      if (press(event)) event.preventDefault();
    });
    field.addEventListener("input", () => {
      if (field.value.length === 1) close(); // what was offered for nothing is no answer
      clearTimeout(waiting);
      waiting = setTimeout(ask, WAIT);
    });
    field.addEventListener("blur", close);
    list.addEventListener("pointerdown", (event) => event.preventDefault()); // the field keeps the focus
    list.addEventListener("click", ({ target }) => {
      const option = target.closest("[role=option]");
      if (option) take(option);
    });
    return { choose, options };
  }

  window.adkweb.combobox = combobox;
  for (const field of document.querySelectorAll("input[data-completes]"))
    combobox(field, document.getElementById(field.getAttribute("aria-controls")));
})();
