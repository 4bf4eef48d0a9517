// form[data-fragment]: the secret of a link stands behind its “#”, which no browser sends and no log has. It is put into the
// form's field “token”, taken out of the address and the history, and sent.
(() => {
  const form = document.querySelector("form[data-fragment]");
  if (!form) return;

  function send() {
    const secret = location.hash.slice(1);
    if (!secret) return;
    history.replaceState(null, "", location.pathname);
    form.elements.token.value = secret;
    form.submit();
  }

  send();
  addEventListener("hashchange", send);
})();
