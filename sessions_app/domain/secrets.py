"""Recognises secrets by their form, or by the name of their key (pure). It rather misses a secret than raises false
alarms."""

import re
from typing import Final

LOOKED_AT: Final = 4_000  # characters of a string; every pattern takes at most some milliseconds for this many
_NAMED_LENGTH: Final = 6  # characters that a password has at least

AWS, GOOGLE, GITHUB, SLACK, STRIPE = "aws", "google", "github", "slack", "stripe"
MODEL, JWT, PEM, ADDRESS, NAMED = "model", "jwt", "pem", "address", "named"

_PATTERNS: Final = {
    AWS: re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    GOOGLE: re.compile(r"\bAIza[0-9A-Za-z_-]{35}(?![0-9A-Za-z_-])"),
    MODEL: re.compile(r"\bsk-(?:(?:proj|ant|svcacct)-[0-9A-Za-z_-]{20,200}|[0-9A-Za-z]{32,200})(?![0-9A-Za-z])"),
    GITHUB: re.compile(r"\b(?:gh[pousr]_[0-9A-Za-z]{36,255}|github_pat_[0-9A-Za-z_]{60,255})\b"),
    SLACK: re.compile(r"\bxox[abeoprs]-(?=[A-Za-z-]*[0-9])[0-9A-Za-z-]{10,250}"),
    STRIPE: re.compile(r"\b[rs]k_live_[0-9A-Za-z]{16,250}\b"),
    JWT: re.compile(r"\beyJ[0-9A-Za-z_-]{8,1000}\.eyJ[0-9A-Za-z_-]{8,2000}\.[0-9A-Za-z_-]{16,1000}"),
    PEM: re.compile(r"-----BEGIN (?:[A-Z]{2,10} ){0,2}PRIVATE KEY-----"),
    ADDRESS: re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@?#]{1,100}:[^\s:/@?#]{3,200}@[^\s/]"),
}
_NAME: Final = re.compile(
    r"(?:^|_)(?:password|passwd|passphrase|secret|client_secret|secret_key|private_key|api_?key|(?:access|refresh|auth|bearer)_token)$"
)
# Names that suggest more, to propose a rule: whoever reads the proposal decides.
_SUGGESTS: Final = re.compile(
    r"(?:^|_)(?:(?<!page_)token|credentials?|pin|otp|cvv|cvc|iban|ssn|passport|(?:card|account|passport)_(?:number|no))$"
)
_PARTS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W_A-Z]+|\d+")
_NONE: Final = re.compile(
    r"[*•x.\s-]*|<.*>|\{.*\}|\[.*\]|none|null|true|false|unknown|redacted|hidden|masked", re.I | re.S
)


def secret_of(text: str) -> str:
    """Returns the kind of secret that a text contains, one of those above but NAMED; "" if there is none."""
    text = text[:LOOKED_AT]
    return next((kind for kind, pattern in _PATTERNS.items() if pattern.search(text)), "")


def is_named_secret(name: str, text: str) -> bool:
    """Returns whether a key's name says that its string is a secret: `db_password`, `apiKey`. The string may also be a
    placeholder: “***”."""
    if len(text) < _NAMED_LENGTH or len(name) > 200 or re.search(r"\s", text.strip()) or _NONE.fullmatch(text):
        return False
    return has_secret_name(name)


def has_secret_name(name: str) -> bool:
    """Returns whether a key has the name of a secret: `db_password`, `apiKey`."""
    return bool(_NAME.search(plain(name)))


def suggests_secret(name: str) -> bool:
    """Returns whether a key's name suggests something that not everyone should see: also `card_token`, `iban`."""
    return has_secret_name(name) or bool(_SUGGESTS.search(plain(name)))


def plain(name: str) -> str:
    """Returns a name in snake_case, however it is spelled: `apiKey`, `api-key` and `API_KEY` are `api_key`."""
    return "_".join(_PARTS.findall(name[:500])).lower()
