"""Writes numbers as the language of the page does: 13.3% and 92.5k, in Spanish 13,3 % and 92,5 k.

static/js/numbers.js writes those that a script counts.
"""

from typing import Final

from django.utils.translation import get_language, pgettext

from ..domain.clock import Took

_THIN: Final = "\u202f"  # a narrow space, at which no line breaks
_POINTS: Final = {"es": ","}
_THOUSANDS: Final = {"es": _THIN}
_BEFORE_UNIT: Final = {"es": _THIN}  # before k, M and G
_MOST: Final = 10**15  # an event may hold any number


def point() -> str:
    """Returns what stands before the decimals."""
    return _POINTS.get(_language(), ".")


def thousands_sign() -> str:
    """Returns what stands between thousands."""
    return _THOUSANDS.get(_language(), ",")


def decimal(number: float, digits: int = 1) -> str:
    """Returns a number with that many decimals: 13.3, in Spanish 13,3."""
    return f"{number:.{digits}f}".replace(".", point())


def count(number: int | None, limit: int = 0) -> str:
    """Returns a number with a sign between its thousands, and a plus if counting stopped at the limit."""
    if number is None:
        return ""
    text = f"{min(number, limit) if limit else number:,}".replace(",", thousands_sign())
    return f"{text}+" if limit and number > limit else text


def in_short(number: float | None) -> str:
    """Returns a number in a few signs: 840, 2.1k, 96.4k, 1.2M."""
    if number is None:
        return ""
    for limit, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if number >= limit:
            return decimal(min(number, _MOST) / limit) + _BEFORE_UNIT.get(_language(), "") + unit
    return str(round(number))


def signed(number: float) -> str:
    """Returns a difference in short, with its sign: +2.8k, −840."""
    return ("+" if number > 0 else "\u2212") + in_short(abs(number))


def share(part: float) -> str:
    """Returns a share as a percentage: 0%, 0.8%, 13.3%, and never 0% or 100% for what only rounds to it."""
    return percentage("0" if not part else "100" if part == 1 else decimal(min(99.9, max(0.1, 100 * part))))


def percentage(number: str | int) -> str:
    """Returns a number, as it is written, with the sign of percent: 40%, in Spanish 40 %."""
    return pgettext("a share", "%(number)s%%") % {"number": number}


def dollars(amount: float) -> str:
    """Returns an amount of money: $0.0021, $0.21, $12.50, $1,234."""
    if amount >= 1000:
        return f"${count(round(amount))}"
    text = f"{amount:.2f}" if amount >= 0.1 else f"{amount:.2g}" if amount >= 0.0001 else "< 0.0001"
    return f"${text}".replace("$< ", "< $").replace(".", point())


def duration(seconds: float | Took | None) -> str:
    """Returns seconds in a readable form: 4 ms, 1.8 s, 12 s, 3 min, 5 h, 2 d. It is never negative.

    What is not known exactly has its sign before it: ≥ 1.8 s.
    """
    if seconds is None:
        return ""
    if isinstance(seconds, Took):
        return f"{seconds.sign} {duration(seconds.seconds)}".strip()
    size = max(0.0, seconds)
    if size < 10:
        return f"{size * 1000:.0f} ms" if size < 0.9995 else f"{decimal(size)} s"
    for limit, divisor, unit in ((60, 1, "s"), (3600, 60, "min"), (86400, 3600, "h")):
        if size < limit:
            return f"{size / divisor:.0f} {unit}"
    return f"{size / 86400:.0f} d"


def signed_duration(seconds: float) -> str:
    """Returns a difference of times with its sign: +3.7 s, −12 s."""
    return ("+" if seconds > 0 else "\u2212") + duration(abs(seconds))


def _language() -> str:
    return (get_language() or "en")[:2]
