// form.newrule: a rule without a name is called like its condition, so the empty field of the name shows that.
(() => {
  const condition = document.querySelector(".newrule [name=condition]");
  if (!condition) return;
  const title = condition.form.querySelector("[name=title]");
  const show = () => {
    title.placeholder = condition.value.trim();
  };
  condition.addEventListener("input", show);
  show();
})();
