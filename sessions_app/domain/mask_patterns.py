"""Hides what is secret in a text by its form: keys of services, JWT, card numbers, email addresses, phone numbers
(pure).

    hide("pay with 4111 1111 1111 1111", ["card"]) == "pay with ••••"

Every pattern reads a text once: a hostile one costs no more than a common one of its length.
"""

import re
from collections.abc import Callable, Collection, Iterator
from typing import Final

DOTS: Final = "••••"

SERVICE, JWT, CARD, EMAIL, PHONE = "service", "jwt", "card", "email", "phone"
FORMS: Final = (SERVICE, JWT, CARD, EMAIL, PHONE)

_WORD: Final = r"(?<![0-9A-Za-z_-])"
_PATTERNS: Final = {
    SERVICE: re.compile(
        "|".join(
            (
                _WORD + r"(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Za-z])",
                _WORD + r"AIza[0-9A-Za-z_-]{35}(?![0-9A-Za-z_-])",
                _WORD + r"sk-(?:(?:proj|ant|svcacct)-[0-9A-Za-z_-]{20,}|[0-9A-Za-z]{32,})",
                _WORD + r"(?:gh[pousr]_[0-9A-Za-z]{36,}|github_pat_[0-9A-Za-z_]{60,})",
                _WORD + r"xox[abeoprs]-(?=[A-Za-z-]*[0-9])[0-9A-Za-z-]{10,}",
                _WORD + r"[rs]k_live_[0-9A-Za-z]{16,}",
                r"-----BEGIN (?:[A-Z]{2,10} ){0,2}PRIVATE KEY-----[^-]*(?:-----END (?:[A-Z]{2,10} ){0,2}PRIVATE KEY-----)?",
                r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{1,20}://[^\s:/@?#]{1,100}:[^\s:/@?#]{3,200}@",
            )
        )
    ),
    # At the end of a text that was cut, what follows is unknown.
    JWT: re.compile(
        _WORD + r"eyJ[0-9A-Za-z_-]{8,}\.eyJ[0-9A-Za-z_-]{8,}(?:\.[0-9A-Za-z_-]{16,}|(?:\.[0-9A-Za-z_-]*)?(?=…?\Z))"
    ),
    EMAIL: re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"),
    PHONE: re.compile(
        r"(?<![\w.+-])(?:\+\d|\(?0\d)[\d ()./-]{6,18}\d(?!\w)|(?<![\w.+-])\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4}(?!\w)"
    ),
}
# A lookahead finds numbers that overlap: in “2026 4111 1111 1111 1111”, the first four groups aren't a card number.
_CARDS: Final = re.compile(
    r"(?<!\d)(?=(\d{13,19}(?!\d)|\d{4}[ -]\d{6}[ -]\d{5}(?!\d)|\d{4}[ -]\d{4}[ -]\d{4}[ -]\d{1,7}(?!\d)))"
)
# A pattern matches only texts with one of these. Most have none, and are searched ten times as fast.
_SERVICE_HINTS: Final = (
    *("AKIA", "ASIA", "AIza", "sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "xox", "_live_"),
    *("PRIVATE KEY", "://"),
)
_HINTS: Final[dict[str, Callable[[str], object]]] = {
    SERVICE: lambda text: any(map(text.__contains__, _SERVICE_HINTS)),
    JWT: lambda text: ".eyJ" in text,
    CARD: re.compile(r"\d{4}").search,
    EMAIL: lambda text: "@" in text,
    PHONE: re.compile(r"\d[\d ()./-]{6,18}\d").search,
}
_CARD_BEGINS: Final = "23456"
_LEAST: Final = 6  # characters of the shortest match of any form


def hide(text: str, forms: Collection[str]) -> str:
    """Returns a text with dots in place of what has one of these forms; the text itself if there is nothing."""
    if len(text) < _LEAST:
        return text
    for form in forms:
        if _HINTS[form](text):
            text = _without_cards(text) if form == CARD else _PATTERNS[form].sub(DOTS, text)
    return text


def _without_cards(text: str) -> str:
    pieces, done = [], 0
    for start, end in _cards(text):
        if start >= done:
            pieces += [text[done:start], DOTS]
            done = end
    return "".join([*pieces, text[done:]]) if pieces else text


def _cards(text: str) -> Iterator[tuple[int, int]]:
    for match in _CARDS.finditer(text):
        digits = "".join(str(int(each)) for each in match[1] if each not in " -")  # in any script
        if digits[0] in _CARD_BEGINS and 13 <= len(digits) <= 19 and _is_checked(digits):
            yield match.span(1)


def _is_checked(digits: str) -> bool:
    """Returns whether the last digit is the check digit of the others (Luhn)."""
    total = 0
    for index, digit in enumerate(reversed(digits)):
        number = int(digit) * (index % 2 + 1)
        total += number - 9 if number > 9 else number
    return total % 10 == 0
