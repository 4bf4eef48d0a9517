// form.querybar: completes what is typed in #query (combobox.js). An option with data-search searches for what was typed, which
// the page “Sessions” (hx-get) has done by then.
// The reader's time zone is said in a cookie, because a query may hold a time of day.
(() => {
  function sayZone() {
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone ?? "";
    const cookie = `adkweb_zone=${zone}`;
    if (!zone || document.cookie.split("; ").includes(cookie)) return;
    // biome-ignore lint/suspicious/noDocumentCookie: Cookie Store is not there on plain HTTP
    document.cookie = `${cookie}; path=/; max-age=31536000; SameSite=Lax`;
  }
  addEventListener("load", () => setTimeout(sayZone)); // the first use of Intl takes as long as all else that a page does

  const bar = document.querySelector("#querybar");
  if (!bar) return;
  const field = bar.querySelector("#query");
  const list = bar.querySelector("#queryoptions");
  const below = bar.querySelector("#querymarks");

  // Who comes by a key, and has nothing typed yet, sees what there is.
  field.addEventListener("adkweb:used", () => {
    if (!field.value) field.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown" }));
  });

  window.adkweb.combobox(field, list, {
    offer: (answer) => {
      list.innerHTML = answer;
      if (bar.hasAttribute("hx-get")) list.querySelector("[data-search]")?.remove();
    },
    taken: ({ dataset }) => {
      if (dataset.search === undefined) return false;
      bar.requestSubmit();
      return true;
    },
  });
  field.addEventListener("input", () => {
    for (const shade of below.querySelectorAll("mark")) shade.replaceWith(shade.textContent); // until the server has read it
  });

  // On a phone, there is room for one word.
  const whole = field.placeholder;
  const phone = matchMedia("(width < 640px)");
  const name = () => {
    field.placeholder = phone.matches ? field.dataset.brief : whole;
  };
  phone.addEventListener("change", name);
  name();

  // The marks lie below the field's own text, wherever that is scrolled to.
  const follow = () => {
    below.scrollLeft = field.scrollLeft;
  };
  for (const name of ["scroll", "input", "keyup", "select"]) field.addEventListener(name, follow);
})();
