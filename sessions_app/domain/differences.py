"""What two values differ in: the words of two texts, the places of two JSON values (pure).

The work is bounded, whatever is compared: where it runs out, the rest counts as different as a whole. So a difference may
be coarser than it could be, and is never wrong.
"""

import math
import re
import unicodedata
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from itertools import accumulate, islice, zip_longest
from operator import eq
from typing import Any, Final, Literal, NamedTuple

from .json_values import MAX_DEPTH, dumps, kind
from .state import ABSENT, same

ROWS: Final = 200  # places of one pair of values that are listed
_LONG: Final = 500  # items from which on a sequence is long
_VALUES: Final = 50_000  # values in two that are compared, within which moved items are looked for
_EFFORT: Final = 700_000  # characters that are parted into words, and pairs of equal items that are looked at


class Piece(NamedTuple):
    """A stretch of text that both texts have, or only the old one, or only the new one."""

    kind: Literal["kept", "removed", "added"]
    text: str


class Place(NamedTuple):
    """A place at which two values differ; ABSENT where one of them has none.

    The path's steps are keys, and indexes in the new value; the last step of what was removed is its place in the old one.
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
    """The difference of two texts: what is kept and removed makes the old one, what is kept and added the new one."""
    effort = _Effort()
    found: list[Piece] = []
    for piece in _joined(_pieces(old.splitlines(keepends=True), new.splitlines(keepends=True), effort)):
        if piece.kind == "added" and found and found[-1].kind == "removed":
            found[-1:] = _by_words(found[-1].text, piece.text, effort)
        else:
            found.append(piece)
    return _joined(found)


def places(old: Any, new: Any, limit: int = ROWS) -> Places:
    """The places at which two JSON values differ, at most `limit` of them; lists by what they have in common."""
    found = _beside(old, new) if _is_wide(old, new) else _Trees().compare(old, new, ())
    rows = list(islice(found, limit))
    return Places(rows, sum(1 for _place in found))


# --- Texts ------------------------------------------------------------------------------------------------------------


def _by_words(old: str, new: str, effort: "_Effort") -> list[Piece]:
    whole = _joined([Piece("removed", old), Piece("added", new)])
    if not effort.affords(len(old) + len(new)):
        return whole
    pieces = _joined(_pieces(_token().findall(old), _token().findall(new), effort))
    kept = sum(len(piece.text) for piece in pieces if piece.kind == "kept")
    return whole if kept * 3 < min(len(old), len(new)) else pieces  # a few words in common are no help to a reader


@cache
def _token() -> re.Pattern[str]:
    """A word, blanks, or one character: of a script that writes no blanks between words, or that is in no word.

    A character is never parted from its marks, nor an emoji from what it is joined with.
    """
    points = [point for point in range(0x300, 0x1F000) if unicodedata.category(chr(point))[0] == "M"]
    mark = "".join(map(chr, points)) + "\u200c\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f\U000e0100-\U000e01ef"
    alone = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
    rest = f"[{mark}]*(?:\u200d.[{mark}]*)*"
    return re.compile(rf"[\U0001f1e6-\U0001f1ff]{{2}}{rest}|(?:(?![{alone}])\w[{mark}\u200d]*)+|\s+|.{rest}", re.DOTALL)


def _pieces(old: Sequence[str], new: Sequence[str], effort: "_Effort") -> Iterator[Piece]:
    i = j = 0
    for a, b, size in effort.common(old, new, junk=str.isspace):
        yield Piece("removed", "".join(old[i:a]))
        yield Piece("added", "".join(new[j:b]))
        yield Piece("kept", "".join(old[a : a + size]))
        i, j = a + size, b + size


def _joined(pieces: Iterable[Piece]) -> list[Piece]:
    """The same text in as few pieces as it takes: none is empty, and between two kept ones stands at most one of each."""
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
    """Whether two values hold more than _VALUES together."""
    left, values = _VALUES, [old, new]
    while values and left >= 0:
        value = values.pop()
        if isinstance(value, dict | list):
            left -= len(value)
            values += value.values() if isinstance(value, dict) else value
    return left < 0


def _beside(old: Any, new: Any) -> Iterator[Place]:
    """The keys of two objects, or the items of two lists between what both begin and end with, that differ as a whole."""
    if isinstance(old, dict) and isinstance(new, dict):
        pairs = [(key, old.get(key, ABSENT), new.get(key, ABSENT)) for key in old | new]
    elif isinstance(old, list) and isinstance(new, list):
        start = _shared(old, new, same)
        end = _shared(old[start:][::-1], new[start:][::-1], same)
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
        """The places at which they differ, in the new value's order."""
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
            # What stands between two common stretches is compared one by one.
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
        """Whether there is room for so much, which is then used up."""
        affordable = cost <= self._left
        self._left -= cost if affordable else 0
        return affordable

    def common(
        self, old: Sequence[Hashable], new: Sequence[Hashable], junk: Callable[[Any], bool] | None = None
    ) -> list[tuple[int, int, int]]:
        """Stretches that both have, in order: (place in old, place in new, length), and one of no length at both ends.

        `junk` items are found only beside others.
        """
        # The longest stretches are found first; in long sequences those at both ends are, which costs next to nothing.
        long = max(len(old), len(new)) > _LONG
        start = _shared(old, new) if long else 0
        end = _shared(old[start:][::-1], new[start:][::-1]) if long else 0
        found = [(0, 0, start), (len(old) - end, len(new) - end, end), (len(old), len(new), 0)]
        a, b = old[start : len(old) - end], new[start : len(new) - end]
        times = Counter(item for item in b if not (junk and junk(item)))
        pairs = list(accumulate((1 + times[item] for item in a), initial=0))
        if not a or not b or pairs[-1] > self._left:
            return found
        matcher = SequenceMatcher(junk, a, b, autojunk=False)
        ranges = deque([(0, len(a), 0, len(b))])
        while ranges:
            a1, a2, b1, b2 = ranges.popleft()
            if a1 == a2 or b1 == b2 or not self.affords(pairs[a2] - pairs[a1]):
                continue
            i, j, size = matcher.find_longest_match(a1, a2, b1, b2)
            if size:
                found.append((start + i, start + j, size))
                ranges += [(a1, i, b1, j), (i + size, a2, j + size, b2)]
        return sorted(found)


def _shared(old: Sequence[Any], new: Sequence[Any], is_same: Callable[[Any, Any], bool] = eq) -> int:
    """How many items both begin with."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((n for n, (a, b) in pairs if not is_same(a, b)), min(len(old), len(new)))
