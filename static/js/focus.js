// Where a page begins for the keyboard. Who comes from another page of adkweb is put behind what stands on top of every page;
// who comes from elsewhere begins at the top. A field with autofocus, and an address with #something, come first.
(() => {
  const main = document.querySelector("#main");
  let inside = false;
  try {
    inside = new URL(document.referrer).origin === location.origin;
  } catch {
    // There is no referrer.
  }
  if (
    inside &&
    !location.hash &&
    document.activeElement === document.body &&
    !document.querySelector("[autofocus]:not(dialog *)")
  )
    main.focus({ preventScroll: true });
})();
