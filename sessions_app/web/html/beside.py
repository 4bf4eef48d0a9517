"""Renders two lines of words beside each other, with the words that differ highlighted. Everything is escaped."""

from collections.abc import Iterable, Iterator, Sequence

from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString, mark_safe

from ...domain.differences import words
from ...domain.summary import Piece

Stretch = tuple[str, bool]  # some text, and whether it differs


def lines(left: Sequence[Piece], right: Sequence[Piece]) -> tuple[SafeString, SafeString, bool]:
    """Returns two lines, and whether any words are highlighted. Lines that have nothing in common are left plain."""
    pieces = words("".join(piece.text for piece in left), "".join(piece.text for piece in right))
    telling = any(piece.kind == "kept" and not piece.text.isspace() for piece in pieces)
    old = [(piece.text, telling and piece.kind != "kept") for piece in pieces if piece.kind != "added"]
    new = [(piece.text, telling and piece.kind != "kept") for piece in pieces if piece.kind != "removed"]
    differs = any(piece.kind != "kept" for piece in pieces)
    return line(left, old), line(right, new), differs


def line(pieces: Iterable[Piece], stretches: Iterable[Stretch] = ()) -> SafeString:
    """Returns the pieces of a line as HTML. `stretches` are its text again, cut where the difference begins and ends."""
    left = _Stretches(stretches)
    return mark_safe("".join(_span(piece, left) for piece in pieces))  # noqa: S308 - escaped


def _span(piece: Piece, left: "_Stretches") -> str:
    inner = "".join(
        format_html("<mark>{}</mark>", text) if differs else conditional_escape(text)
        for text, differs in left.take(piece.text)
    )
    if not (piece.own or piece.aside):
        return inner
    css = [name for name, wanted in (("q", piece.aside), ("mono", piece.code), ("bidi", piece.own)) if wanted]
    return format_html('<span class="{}">{}</span>', " ".join(css), mark_safe(inner))  # noqa: S308 - escaped


class _Stretches:
    """The stretches of a line, which are taken from its beginning on."""

    def __init__(self, stretches: Iterable[Stretch]) -> None:
        self._left = iter(stretches)
        self._now: Stretch = ("", False)

    def take(self, text: str) -> Iterator[Stretch]:
        """Yields a text as stretches; all of it plain if nothing is known of it."""
        while text:
            known, differs = self._now
            if not known:
                self._now = next(self._left, (text, False))
                continue
            yield text[: len(known)], differs
            self._now = known[len(text) :], differs
            text = text[len(known) :]
