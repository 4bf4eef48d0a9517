// form.newrule: a rule without a name is called like its condition, so the empty field of the name shows that. In a condition
// that a key has begun, the value is selected, so that what is typed replaces it.
(() => {
  const condition = document.querySelector(".newrule [name=condition]");
  if (!condition) return;
  const title = condition.form.querySelector("[name=title]");
  const show = () => {
    title.placeholder = condition.value.trim();
  };
  condition.addEventListener("input", show);
  show();

  const [begun] = /^(?:"(?:\\.|[^"\\])*"|[^\s"])+ \S+ /.exec(condition.value) ?? [];
  if (begun && condition.matches("[autofocus]:not([aria-invalid=true])")) {
    condition.focus();
    condition.setSelectionRange(begun.length, condition.value.length);
  }
})();
