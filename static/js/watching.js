// Tells that sessions began to match a watched view: <body data-watching="address of the websocket">. The counts go into
// [data-news-of="view"], their sum into [data-news-total] and the page's title; each session is a notification of the
// browser, if it was allowed. It asks whether it is at form[data-watch], which a person has sent by a click.
(() => {
  const { watching } = document.body.dataset;
  const MOST = 100; // the server counts no further
  const LONGEST = 60_000;
  const STOP = [4401, 4403]; // signed out, refused
  const number = (count) => (count >= MOST ? `${MOST - 1}+` : String(count));

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.matches("form[data-watch]") || window.Notification?.permission !== "default") return;
    event.preventDefault();
    Notification.requestPermission().finally(() => form.submit());
  });

  function show(counts) {
    for (const badge of document.querySelectorAll("[data-news-of]")) {
      const count = counts[badge.dataset.newsOf] ?? 0;
      badge.textContent = number(count);
      badge.hidden = !count;
    }
    const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
    for (const badge of document.querySelectorAll("[data-news-total]")) {
      badge.textContent = number(total);
      badge.hidden = !total;
    }
    const title = document.title.replace(/^\(\d+\+?\) /, "");
    document.title = total ? `(${number(total)}) ${title}` : title;
  }

  function notify({ number: id, view, title, address }) {
    if (window.Notification?.permission !== "granted") return;
    // One for all pages that are open: they say it with the same tag.
    const note = new Notification(view, { body: title, tag: `adkweb-${id}` });
    note.addEventListener("click", () => {
      window.focus();
      location.assign(address);
    });
  }

  let wait = 1_000;
  function connect() {
    const socket = new WebSocket(new URL(watching, location.href.replace(/^http/, "ws")));
    socket.addEventListener("message", ({ data }) => {
      wait = 1_000;
      const { counts, begun } = JSON.parse(data);
      show(counts);
      begun.forEach(notify);
    });
    socket.addEventListener("close", ({ code }) => {
      if (STOP.includes(code)) return;
      setTimeout(connect, wait * (0.5 + Math.random()));
      wait = Math.min(2 * wait, LONGEST);
    });
  }
  if (watching) connect();
})();
