"""Shortens names that stand side by side so that no two of them look alike."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

SHORT: Final = 24  # characters
_LONGEST: Final = 128


def shortened(names: Iterable[str]) -> dict[str, str]:
    """Returns each name without its middle if it is long: “researcher_…_all_flights”.

    Where two names would look alike, both keep more characters. Names outside ASCII are only cut at their end, because a
    cut in the middle could split a sign or reorder it.
    """
    whole = set(names)
    shown: dict[str, str] = {}
    length = SHORT
    while whole and length <= _LONGEST:
        cut = {name: _cut(name, length) for name in whole}
        times = Counter(cut.values())
        shown |= {name: short for name, short in cut.items() if times[short] == 1}
        whole -= shown.keys()
        length *= 2
    return shown | {name: name for name in whole}


def _cut(name: str, length: int) -> str:
    if len(name) <= length:
        return name
    if not name.isascii():
        return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"
    end = length // 2
    return f"{name[: length - end - 1]}…{name[-end:]}"
