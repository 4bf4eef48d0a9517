// form[data-passkey="create"] lets the browser make a passkey, form[data-passkey="get"] asks for one: its button opens the
// browser's own window, and what that answers is sent in the field "credential". data-options is the server's wish, as JSON.
// Until this runs, the button is disabled; then it takes the focus, with data-focus. [data-passkey-error] says why nothing was
// sent, in the words of data-word-….
(() => {
  const form = document.querySelector("form[data-passkey]");
  if (!form) return;
  const field = form.elements.credential;
  const button = form.querySelector("button");
  const error = form.querySelector("[data-passkey-error]");
  const { passkey: act, options: wish, ...words } = form.dataset;
  const WHY = {
    NotAllowedError: "Cancelled",
    AbortError: "Cancelled",
    InvalidStateError: "There",
    SecurityError: "Refused",
  };

  function say(why) {
    error.querySelector("span").textContent = words[`word${why}`];
    error.hidden = false;
  }

  function bytes(text) {
    const base64 = text.replaceAll("-", "+").replaceAll("_", "/");
    return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  }

  function text(buffer) {
    const characters = Array.from(new Uint8Array(buffer), (byte) => String.fromCharCode(byte)).join("");
    return btoa(characters).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  }

  const named = (key) => ({ ...key, id: bytes(key.id) });

  // Browsers before 2025 read and write no JSON themselves.
  function creation(given) {
    return (
      PublicKeyCredential.parseCreationOptionsFromJSON?.(given) ?? {
        ...given,
        challenge: bytes(given.challenge),
        user: named(given.user),
        excludeCredentials: given.excludeCredentials.map(named),
      }
    );
  }

  function request(given) {
    return (
      PublicKeyCredential.parseRequestOptionsFromJSON?.(given) ?? {
        ...given,
        challenge: bytes(given.challenge),
        allowCredentials: given.allowCredentials.map(named),
      }
    );
  }

  function written({ id, rawId, type, response }) {
    const parts = ["clientDataJSON", "attestationObject", "authenticatorData", "signature"];
    const there = parts.filter((part) => response[part]).map((part) => [part, text(response[part])]);
    return { id, rawId: text(rawId), type, response: Object.fromEntries(there) };
  }

  async function ask() {
    const given = JSON.parse(wish);
    if (act === "create") return navigator.credentials.create({ publicKey: creation(given) });
    return navigator.credentials.get({ publicKey: request(given) });
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    error.hidden = true;
    button.disabled = true;
    try {
      field.value = JSON.stringify(written(await ask()));
      form.submit(); // without this event
    } catch ({ name }) {
      say(WHY[name] ?? "Failed");
      button.disabled = false;
      button.focus();
    }
  });

  addEventListener("pageshow", ({ persisted }) => {
    if (persisted) button.disabled = false; // the person went back
  });
  if (!window.PublicKeyCredential) return say("Missing");
  button.disabled = false;
  if (form.matches("[data-focus]")) button.focus();
})();
