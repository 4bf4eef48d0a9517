"""Compares two versions of an artifact: line by line if both are text, by their bytes otherwise."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final, Literal

from ..access.actor import Actor
from ..domain import differences
from ..domain.differences import Piece
from ..domain.session_ref import SessionRef
from . import contents
from .contents import Content

MOST_LINES: Final = 2_000  # that are shown
AROUND: Final = 3  # equal lines that are shown beside those that differ
LARGEST: Final = 50_000_000  # bytes of files that are compared byte by byte
_WORDS: Final = 1_000  # characters of a line whose words are compared
_PAIRS: Final = 200  # of lines whose words are compared


@dataclass(frozen=True, slots=True)
class Line:
    """A line that both texts have, or only one of them; or `fold`, in place of `count` lines that both have.

    `old` and `new` are its numbers in the texts. The pieces are its text, cut where it differs from its counterpart."""

    kind: Literal["kept", "removed", "added", "fold"]
    old: int | None = None
    new: int | None = None
    pieces: Sequence[Piece] = ()
    count: int = 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two versions. `same` is None if that is unknown: one can't be read, or they are too large.

    `lines` are those that differ, if both are text; there are none if only their ends differ. With `beginning`, only
    the starts of the texts were compared; with `cut`, more lines differ."""

    old: Content
    new: Content
    same: bool | None = None
    lines: list[Line] = field(default_factory=list)
    beginning: bool = False
    cut: bool = False


def compare(ref: SessionRef, name: str, old: int, new: int, *, actor: Actor) -> Comparison:
    """Compares two versions of an artifact."""
    read = (contents.excerpt(ref, name, version, actor=actor) for version in (old, new))
    (before, text, cut), (after, text_after, cut_after) = read
    if not (before.state == after.state == "here"):
        return Comparison(before, after)
    same = _are_same(ref, name, (old, new), (before, after), actor)
    if same or not (before.is_text and after.is_text):
        return Comparison(before, after, same)
    lines = folded(line_by_line(text.splitlines(), text_after.splitlines()))
    lines = [] if all(line.kind == "fold" for line in lines) else lines
    return Comparison(before, after, same, lines[:MOST_LINES], cut or cut_after, len(lines) > MOST_LINES)


def _are_same(
    ref: SessionRef, name: str, versions: tuple[int, int], about: tuple[Content, Content], actor: Actor
) -> bool | None:
    """Compares two files by their checksums; where there are none, piece by piece."""
    size, checksums = about[0].size, (about[0].checksum, about[1].checksum)
    if size != about[1].size:
        return False
    if checksums != (None, None):
        return checksums[0] == checksums[1] if all(checksums) else None
    if size > LARGEST:
        return None
    one, other = (contents.pieces(ref, name, version, 0, size, actor=actor) for version in versions)
    return all(left == right for left, right in zip_longest(one, other))


def line_by_line(old: Sequence[str], new: Sequence[str]) -> list[Line]:
    """Returns the lines of two texts as one list, in order. As many removed lines as added ones are compared by
    words."""
    lines: list[Line] = []
    left, at_old, at_new = _PAIRS, 0, 0
    for a, b, size in [*differences.stretches(old, new), (len(old), len(new), 0)]:
        removed, added = old[at_old:a], new[at_new:b]
        pairs = len(removed) if len(removed) == len(added) <= left else 0
        left -= pairs
        lines += _differing(removed, added, (at_old, at_new), by_words=bool(pairs))
        lines += [Line("kept", a + n + 1, b + n + 1, (Piece("kept", old[a + n]),)) for n in range(size)]
        at_old, at_new = a + size, b + size
    return lines


def _differing(
    removed: Sequence[str], added: Sequence[str], begin: tuple[int, int], *, by_words: bool
) -> Iterator[Line]:
    told = [_words(*pair) if by_words else () for pair in zip(removed, added, strict=by_words)]
    for n, text in enumerate(removed):
        pieces = [piece for piece in told[n] if piece.kind != "added"] if by_words else [Piece("kept", text)]
        yield Line("removed", begin[0] + n + 1, None, pieces)
    for n, text in enumerate(added):
        pieces = [piece for piece in told[n] if piece.kind != "removed"] if by_words else [Piece("kept", text)]
        yield Line("added", None, begin[1] + n + 1, pieces)


def _words(old: str, new: str) -> Sequence[Piece]:
    """Returns how two lines differ. In lines that have no word in common, nothing is marked."""
    plain = [Piece("removed", old), Piece("added", new)]
    pieces = differences.words(old, new) if max(len(old), len(new)) <= _WORDS else plain
    if any(piece.kind == "kept" and not piece.text.isspace() for piece in pieces):
        return pieces
    return plain


def folded(lines: Sequence[Line]) -> list[Line]:
    """Returns the lines with AROUND equal ones beside those that differ. A fold replaces the others."""
    shown: set[int] = set()
    for number, line in enumerate(lines):
        if line.kind != "kept":
            shown.update(range(max(0, number - AROUND), min(len(lines), number + AROUND + 1)))
    rows: list[Line] = []
    count = 0
    for number, line in enumerate(lines):
        if number not in shown:
            count += 1
            continue
        if count:
            rows.append(Line("fold", count=count))
        rows.append(line)
        count = 0
    return [*rows, Line("fold", count=count)] if count else rows
