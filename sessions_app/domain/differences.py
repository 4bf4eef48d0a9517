"""Compares two values: texts word by word, JSON values path by path (pure).

The work is bounded, whatever is compared: when it runs out, the rest counts as different as a whole. So a difference
may be coarser than necessary, but is never wrong.
"""

import math
import re
import unicodedata
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice, zip_longest
from operator import eq
from typing import Any, Final, Literal, NamedTuple

from rapidfuzz.distance import LCSseq, Levenshtein

from .json_values import MAX_DEPTH, dumps, kind
from .state import ABSENT, same

ROWS: Final = 200  # places of one pair of values that are listed
_VALUES: Final = 50_000  # values in two that are compared, within which moved items are searched
_EFFORT: Final = 50_000_000  # pairs of items that are compared: about 50 ms
_PARTING: Final = 100  # cost of splitting a text into words, per character, in pairs


class Piece(NamedTuple):
    """A stretch of text that is in both texts, only in the old one, or only in the new one."""

    kind: Literal["kept", "removed", "added"]
    text: str


class Place(NamedTuple):
    """A place where two values differ; ABSENT if one of them has nothing there.

    The steps of the path are keys, and indexes in the new value. If something was removed, the last step is where it
    was in the old one.
    """

    path: tuple[str | int, ...]
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class Places:
    """The places at which two values differ, in order; `more` is how many follow."""

    rows: list[Place]
    more: int


def words(old: str, new: str) -> list[Piece]:
    """Returns how two texts differ. The kept and removed pieces make the old one, the kept and added ones the new
    one."""
    effort = _Effort()
    found: list[Piece] = []
    for piece in _joined(_pieces(old.splitlines(keepends=True), new.splitlines(keepends=True), effort)):
        if piece.kind == "added" and found and found[-1].kind == "removed":
            found[-1:] = _by_words(found[-1].text, piece.text, effort)
        else:
            found.append(piece)
    return _joined(found)


def places(old: Any, new: Any, limit: int = ROWS) -> Places:
    """Returns where two JSON values differ, at most `limit` places. Items that two lists have in common are kept."""
    found = _beside(old, new) if _is_wide(old, new) else _Trees().compare(old, new, ())
    rows = list(islice(found, limit))
    return Places(rows, sum(1 for _place in found))


def stretches(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[tuple[int, int, int]]:
    """Returns what two sequences have in common, in order: (index in old, index in new, length)."""
    return [stretch for stretch in _Effort().common(old, new) if stretch[2]]


# --- Texts ------------------------------------------------------------------------------------------------------------


def _by_words(old: str, new: str, effort: "_Effort") -> list[Piece]:
    whole = _joined([Piece("removed", old), Piece("added", new)])
    if not effort.affords((len(old) + len(new)) * _PARTING):
        return whole
    pieces = _joined(_pieces(_token().findall(old), _token().findall(new), effort))
    kept = sum(len(piece.text) for piece in pieces if piece.kind == "kept")
    return whole if kept * 3 < min(len(old), len(new)) else pieces  # a few common words don't help a reader


@cache
def _token() -> re.Pattern[str]:
    """Returns a pattern for a word, blanks, or a single character (outside of words, or in a script without blanks).

    A character keeps its marks, and an emoji what it is joined to.
    """
    points = [point for point in range(0x300, 0x1F000) if unicodedata.category(chr(point))[0] == "M"]
    mark = "".join(map(chr, points)) + "\u200c\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f\U000e0100-\U000e01ef"
    alone = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
    rest = f"[{mark}]*(?:\u200d.[{mark}]*)*"
    return re.compile(rf"[\U0001f1e6-\U0001f1ff]{{2}}{rest}|(?:(?![{alone}])\w[{mark}\u200d]*)+|\s+|.{rest}", re.DOTALL)


def _pieces(old: Sequence[str], new: Sequence[str], effort: "_Effort") -> Iterator[Piece]:
    i = j = 0
    for a, b, size in _with_blanks(old, new, effort):
        yield Piece("removed", "".join(old[i:a]))
        yield Piece("added", "".join(new[j:b]))
        yield Piece("kept", "".join(old[a : a + size]))
        i, j = a + size, b + size


def _with_blanks(old: Sequence[str], new: Sequence[str], effort: "_Effort") -> Iterator[tuple[int, int, int]]:
    """Returns stretches as `common` does, with blanks only next to other pieces: otherwise blanks would count like
    words."""
    olds, news = ([n for n, item in enumerate(items) if not item.isspace()] for items in (old, new))
    stretches = effort.common([old[n] for n in olds], [new[n] for n in news])
    pairs = [(olds[a + n], news[b + n]) for a, b, size in stretches for n in range(size)]
    i = j = 0
    for a, b in [*pairs, (len(old), len(new))]:
        if a > i and b > j:
            start, end = _ends(old[i:a], new[j:b])
            yield i, j, start
            yield a - end, b - end, end
        yield a, b, int(a < len(old))
        i, j = a + 1, b + 1


def _joined(pieces: Iterable[Piece]) -> list[Piece]:
    """Joins pieces into as few as possible: none is empty, and two kept ones have at most one of each kind between
    them."""
    found: list[Piece] = []
    texts: dict[str, list[str]] = {"kept": [], "removed": [], "added": []}

    def close(*kinds: Literal["kept", "removed", "added"]) -> None:
        for name in kinds:
            if text := "".join(texts[name]):
                found.append(Piece(name, text))
            texts[name].clear()

    for piece in pieces:
        if piece.text:
            close(*(("removed", "added") if piece.kind == "kept" else ("kept",)))
            texts[piece.kind].append(piece.text)
    close("kept", "removed", "added")
    return found


# --- JSON values ------------------------------------------------------------------------------------------------------


def _is_wide(old: Any, new: Any) -> bool:
    """Returns whether two values together hold more than _VALUES."""
    left, values = _VALUES, [old, new]
    while values and left >= 0:
        value = values.pop()
        if isinstance(value, dict | list):
            left -= len(value)
            values += value.values() if isinstance(value, dict) else value
    return left < 0


def _beside(old: Any, new: Any) -> Iterator[Place]:
    """Yields the keys of two objects that differ, or the items of two lists between their equal starts and ends."""
    if isinstance(old, dict) and isinstance(new, dict):
        pairs = [(key, old.get(key, ABSENT), new.get(key, ABSENT)) for key in old | new]
    elif isinstance(old, list) and isinstance(new, list):
        start, end = _ends(old, new, same)
        between = zip_longest(old[start : len(old) - end], new[start : len(new) - end], fillvalue=ABSENT)
        pairs = [(start + number, a, b) for number, (a, b) in enumerate(between)]
    else:
        pairs = []
        yield Place((), old, new)
    yield from (Place((step,), a, b) for step, a, b in pairs if not same(a, b))


class _Trees:
    """One comparison. Equal values have the same number, however large they are: each is looked at once."""

    def __init__(self) -> None:
        self._effort = _Effort()
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[int, int] = {}  # by id() of a list or object; all of them live as long as this does

    def compare(self, old: Any, new: Any, path: tuple[str | int, ...]) -> Iterator[Place]:
        """Yields the places at which two values differ, in the order of the new one."""
        depth = len(path)
        if old is not ABSENT and new is not ABSENT and self._number(old, depth) == self._number(new, depth):
            return
        if depth < MAX_DEPTH and isinstance(old, dict) and isinstance(new, dict):
            for key in [*(key for key in old if key not in new), *new]:
                yield from self.compare(old.get(key, ABSENT), new.get(key, ABSENT), (*path, key))
        elif depth < MAX_DEPTH and isinstance(old, list) and isinstance(new, list):
            yield from self._lists(old, new, path)
        else:
            yield Place(path, old, new)

    def _lists(self, old: list[Any], new: list[Any], path: tuple[str | int, ...]) -> Iterator[Place]:
        depth = len(path) + 1
        i = j = 0
        olds, news = ([self._number(item, depth) for item in items] for items in (old, new))
        for a, b, size in self._effort.common(olds, news):
            # What is between two common stretches is compared item by item.
            for before, after in zip_longest(range(i, a), range(j, b)):
                step = before if after is None else after
                yield from self.compare(
                    ABSENT if before is None else old[before], ABSENT if after is None else new[after], (*path, step)
                )
            i, j = a + size, b + size

    def _number(self, value: Any, depth: int) -> int:
        if not isinstance(value, dict | list):
            # 1 and 1.0 are one value, true is another, and NaN is the same as NaN.
            same: Hashable = "NaN" if isinstance(value, float) and math.isnan(value) else value
            return self._numbers.setdefault((kind(value), same), len(self._numbers))
        if id(value) not in self._known:
            if depth >= MAX_DEPTH:
                shape: Hashable = dumps(value)
            elif isinstance(value, dict):
                shape = frozenset((key, self._number(item, depth + 1)) for key, item in value.items())
            else:
                shape = tuple(self._number(item, depth + 1) for item in value)
            self._known[id(value)] = self._numbers.setdefault(shape, len(self._numbers))
        return self._known[id(value)]


# --- What two sequences have in common --------------------------------------------------------------------------------


class _Effort:
    """The work that one comparison may cost."""

    def __init__(self) -> None:
        self._left = _EFFORT

    def affords(self, cost: int) -> bool:
        """Returns whether there is room for this much work, and uses it up."""
        affordable = cost <= self._left
        self._left -= cost if affordable else 0
        return affordable

    def common(self, old: Sequence[Hashable], new: Sequence[Hashable]) -> list[tuple[int, int, int]]:
        """Returns stretches that both have: (index in old, index in new, length), and one of no length at both ends.

        They are in order, and together as long as possible. For sequences too long for that, they are nearly so if
        the two differ little, and otherwise only the common start and end.
        """
        numbers: dict[Hashable, int] = {}  # rapidfuzz would compare hashes only
        a, b = ([numbers.setdefault(item, len(numbers)) for item in items] for items in (old, new))
        start, end = _ends(a, b)
        longer, shorter = sorted((len(a) - start - end, len(b) - start - end), reverse=True)
        if self.affords(longer * shorter):
            edits = LCSseq.editops(a, b)
        else:
            most = self._left // longer
            differing = Levenshtein.distance(a, b, score_cutoff=most)
            if differing > most or not self.affords(differing * longer):
                return [(0, 0, start), (len(a) - end, len(b) - end, end), (len(a), len(b), 0)]
            edits = Levenshtein.editops(a, b, score_hint=differing)
        return [(stretch.a, stretch.b, stretch.size) for stretch in edits.as_matching_blocks()]


def _ends(old: Sequence[Any], new: Sequence[Any], is_same: Callable[[Any, Any], bool] = eq) -> tuple[int, int]:
    """Counts the items that both start with, and how many of the rest both end with."""
    start = _shared(old, new, is_same)
    return start, _shared(old[start:][::-1], new[start:][::-1], is_same)


def _shared(old: Sequence[Any], new: Sequence[Any], is_same: Callable[[Any, Any], bool]) -> int:
    """Counts the items that both start with."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((n for n, (a, b) in pairs if not is_same(a, b)), min(len(old), len(new)))
