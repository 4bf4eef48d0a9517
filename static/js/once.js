// A form that posts is sent once by a double click, or by a key that is pressed twice. Those of htmx take care of themselves.
(() => {
  const TWICE = 1000;
  const sent = new WeakMap();

  document.addEventListener("submit", (event) => {
    const { target, timeStamp } = event;
    if (event.defaultPrevented || target.method !== "post") return;
    if (timeStamp - sent.get(target) < TWICE) event.preventDefault();
    else sent.set(target, timeStamp);
  });
})();
