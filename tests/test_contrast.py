"""Colours that are drawn together differ enough to be read, in light and in dark: WCAG's ratio, from tokens.css itself.

`make test-long` measures the same on every page, as Chromium draws it (browser/test_accessible.py).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Literal

import pytest

TOKENS: Final = (Path(__file__).resolve().parents[1] / "static" / "css" / "tokens.css").read_text("utf-8")
Theme = Literal["light", "dark"]
_PAIR: Final = re.compile(r"--([\w-]+): light-dark\((#\w+), (#\w+)\);")
_SAME: Final = re.compile(r"--([\w-]+): var\(--([\w-]+)\);")

SURFACES: Final = ("bg", "surface", "sunken", "raised")
TEXTS: Final = (
    *(
        "text",
        "muted",
        "faint",
        "accent",
        "accent-hover",
        "app",
        "user",
        "session",
        "temp",
        "tool",
        "ok",
        "warn",
        "bad",
    ),
    *(f"agent-{number}" for number in range(8)),
    *("json-string", "json-number", "json-boolean", "json-null"),
)
ELSEWHERE: Final = {
    "accent": ("on-accent",),
    "accent-hover": ("on-accent",),
    "bad": ("on-accent",),
    "bad-hover": ("on-accent",),
    "accent-soft": ("text", "muted", "accent"),
    "ok-soft": ("text", "ok"),
    "warn-soft": ("text", "warn"),
    "bad-soft": ("text", "bad"),
    "add": ("text", "ok"),
    "del": ("text", "bad"),
}


def colours(theme: Theme) -> dict[str, str]:
    """Returns the colours by token: {"bg": "#f7f7f8"}."""
    own = {name: light if theme == "light" else dark for name, light, dark in _PAIR.findall(TOKENS)}
    return own | {name: own[other] for name, other in _SAME.findall(TOKENS) if other in own}


def luminance(colour: str) -> float:
    """Returns the relative luminance of #rgb or #rrggbb, from 0 to 1."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def ratio(one: str, other: str) -> float:
    """Returns the contrast of two colours: 1 if they are the same, 21 for black and white."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_the_ratio_is_that_of_wcag() -> None:
    assert ratio("#000", "#ffffff") == pytest.approx(21)
    assert ratio("#777", "#fff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_colour_can_be_read_on_every_surface(theme: Theme) -> None:
    known = colours(theme)
    pairs = [(text, surface) for surface in SURFACES for text in TEXTS]
    pairs += [(text, surface) for surface, texts in ELSEWHERE.items() for text in texts]
    ratios = {pair: ratio(known[pair[0]], known[pair[1]]) for pair in pairs}
    assert {pair: round(value, 2) for pair, value in ratios.items() if value < 4.5} == {}


def test_every_colour_of_a_text_is_tried() -> None:
    named = {*SURFACES, *TEXTS, *ELSEWHERE, *(text for texts in ELSEWHERE.values() for text in texts)}
    no_texts = {"line", "line-strong", "add-strong", "del-strong"}
    assert colours("light").keys() - named == no_texts
