"""Reads the numbers that a token is made or renewed with: how long it holds, and how often it may ask.

number_of("days", "90")  # 90; None for a blank, Invalid for anything else
"""

from typing import Final

from django.utils.translation import gettext as _

from ..domain.errors import Invalid

MOST_DAYS: Final = 3650
MOST_HOURS: Final = 30 * 24
MOST_RATE: Final = 1_000_000
OVERLAP_HOURS: Final = 24  # in which a renewed token's text from before goes on, unless somebody chooses another time

_BOUNDS: Final = {"days": (1, MOST_DAYS), "hours": (0, MOST_HOURS), "rate": (1, MOST_RATE)}


def number_of(field: str, text: str, *, needed: bool = False) -> int | None:
    """Reads a number as a form sends it: None for a blank, unless it is needed. Raises Invalid."""
    if not text.strip() and not needed:
        return None
    try:
        number = int(text)
    except ValueError as error:
        raise _refusal(field) from error
    check(field, number)
    return number


def check(field: str, number: int | None) -> None:
    """Raises Invalid for a number that is too small or too large."""
    least, most = _BOUNDS[field]
    if number is not None and not least <= number <= most:
        raise _refusal(field)


def _refusal(field: str) -> Invalid:
    most = {"most": _BOUNDS[field][1]}
    text = {
        "days": _("The days are a whole number from 1 to %(most)s.") % most,
        "hours": _("The hours are a whole number from 0 to %(most)s.") % most,
        "rate": _("The requests a minute are a whole number from 1 to %(most)s.") % most,
    }[field]
    return Invalid(text, field=field)
