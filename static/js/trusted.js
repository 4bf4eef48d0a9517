// Trusted Types: HTML comes from adkweb's own answers, whose policy of contents runs nothing inside it. The texts and the
// addresses of scripts come from nobody, so what would set one is refused by the browser.
globalThis.trustedTypes?.createPolicy("default", { createHTML: (html) => html });
