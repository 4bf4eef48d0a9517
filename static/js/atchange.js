// form[data-at-change] is sent as soon as one of its fields is changed. Where the answer is a whole page, its address names
// that field, so that the focus is there again.
document.addEventListener("change", ({ target }) => {
  const form = target.closest("form[data-at-change]");
  if (!form) return;
  form.action = Object.assign(new URL(form.action), { hash: target.id });
  form.requestSubmit();
});
