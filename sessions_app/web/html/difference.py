"""Renders the difference of two values as HTML: by words, by paths, or as both values. Everything is escaped."""

import math
import re
import time
from collections.abc import Iterator
from typing import Any, Final

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ...domain import differences
from ...domain.differences import Piece
from ...domain.json_values import dumps, kind
from ...domain.shorten import brief
from ...domain.state import ABSENT, UNKNOWN, same
from .json_tree import LINE_LIMIT, TEXT_LIMIT, Tree

SECONDS: Final = 1.0  # for all differences of a page; after that, both values are shown instead
PLACES: Final = 40  # for a pair of values
PIECES: Final = 400  # for a pair of texts
NODES: Final = 60  # values in a tree
_EDGE: Final = 80  # characters of a text that are shown on either side of a change
_STEP: Final = 60  # characters in a step of a path
_PLAIN: Final = re.compile(r"[\w-]{1,60}")
_CLASSES: Final = {"string": "s bidi", "number": "n", "boolean": "b"}


class Differences:
    """The differences on one page, which together take no longer than SECONDS."""

    def __init__(self) -> None:
        self._until = time.monotonic() + SECONDS

    def html(self, old: Any, new: Any) -> SafeString:
        """Returns the difference between two values. Either may be ABSENT or UNKNOWN."""
        if old is not UNKNOWN and same(old, new):
            return format_html('<div class="vary">{}{}</div>', value(new), _word(_("as before")))
        if time.monotonic() < self._until:
            if any(isinstance(old, branch) and isinstance(new, branch) for branch in (dict, list)):
                return self._places(old, new)
            if isinstance(old, str) and isinstance(new, str) and (_is_long(old) or _is_long(new)):
                return _words(differences.words(old, new))
        return _values(old, new)

    def text(self, old: str, new: str) -> SafeString:
        """Returns the difference between two texts by words, however short they are."""
        return _words(differences.words(old, new)) if time.monotonic() < self._until else _values(old, new)

    def _places(self, old: Any, new: Any) -> SafeString:
        changes = differences.places(old, new, PLACES)
        rows = format_html_join(
            "",
            '<li><code class="path">{}</code>{}</li>',
            ((path(change.path), self.html(change.old, change.new)) for change in changes.rows),
        )
        more = (
            ngettext("%(n)s more difference", "%(n)s more differences", changes.more) % {"n": changes.more}
            if changes.more
            else ""
        )
        return format_html('<ul class="places">{}{}</ul>', rows, _cut(more, "li") if more else "")


def path(steps: tuple[str | int, ...]) -> str:
    """Returns a path in a value as a program would write it: `meals[0].name`."""
    parts = [
        f"[{step}]" if isinstance(step, int) else f".{step}" if _PLAIN.fullmatch(step) else f"[{brief(step, _STEP)}]"
        for step in steps
    ]
    return "".join(parts).removeprefix(".")


def value(shown: Any) -> SafeString:
    """Returns a value:

    on a line if it is short, otherwise as a tree or a block of text. ABSENT and UNKNOWN become words.
    """
    if shown is ABSENT:
        return _word(_("no such key"))
    if shown is UNKNOWN:
        return _word(_("unknown"), _("Not stored anywhere"))
    if isinstance(shown, str) and _is_long(shown):
        return _words([Piece("kept", shown)])
    if isinstance(shown, float) and not math.isfinite(shown):
        return format_html('<span class="n" title="{}">{}</span>', _("not JSON, written by the agent"), dumps(shown))
    if isinstance(shown, dict | list) and not _is_short(shown):
        tree = Tree()
        tree.left = NODES
        return format_html(
            '<details class="whole"><summary>{}</summary><div class="kids">{}</div></details>',
            brief(shown, LINE_LIMIT),
            tree.children(shown),
        )
    return format_html('<span class="{}">{}</span>', _CLASSES.get(kind(shown), "z"), brief(shown, TEXT_LIMIT))


def _values(old: Any, new: Any) -> SafeString:
    before, after = format_html("<del>{}</del>", value(old)), format_html("<ins>{}</ins>", value(new))
    if old is ABSENT:
        return format_html('<div class="vary">{}{}</div>', _word(_("new")), after)
    if new is ABSENT:
        return format_html(
            '<div class="vary">{}{}</div>', before if old is not UNKNOWN else value(old), _word(_("removed"))
        )
    return format_html(
        '<div class="vary">{}<span class="to" aria-hidden="true">→</span>{}</div>',
        before if old is not UNKNOWN else value(old),
        after if new is not UNKNOWN else value(new),
    )


def _words(pieces: list[Piece]) -> SafeString:
    kinds = [piece.kind for piece in pieces]
    css = "words bidi replaced" if kinds == ["removed", "added"] else "words bidi"
    return format_html('<pre class="{}">{}</pre>', css, format_html_join("", "{}", ((p,) for p in _shown(pieces))))


def _shown(pieces: list[Piece]) -> Iterator[SafeString]:
    """Yields the pieces to show, with the text around them. Long ones are cut."""
    last = min(len(pieces), PIECES) - 1
    for number, (name, text) in enumerate(pieces[: last + 1]):
        if name != "kept":
            shown, tag = text[:TEXT_LIMIT], "del" if name == "removed" else "ins"
            yield format_html("<{0}>{1}</{0}>", mark_safe(tag), shown)  # noqa: S308 - one of two constants
            yield _characters(len(text) - len(shown))
        elif len(pieces) == 1:  # no difference at all
            yield format_html("{}{}", text[:TEXT_LIMIT], _characters(len(text) - TEXT_LIMIT))
        else:
            head, tail = text[: _EDGE * (number > 0)], text[len(text) - _EDGE * (number < last) :]
            left = len(text) - len(head) - len(tail)
            # Leaving out a few characters would gain nothing.
            yield format_html("{}{}{}", head, _characters(left), tail) if left > _EDGE else format_html("{}", text)
    if last + 1 < len(pieces):
        yield _cut(_("more differences"))


def _characters(number: int) -> SafeString:
    if number <= 0:
        return mark_safe("")
    return _cut(ngettext("%(n)s more character", "%(n)s more characters", number) % {"n": number})


def _cut(words: str, tag: str = "span") -> SafeString:
    return format_html('<{0} class="cut">… {1} …</{0}>', mark_safe(tag), words)  # noqa: S308 - one of two constants


def _word(word: str, title: str = "") -> SafeString:
    return format_html('<span class="word" title="{}">{}</span>', title, word)


def _is_long(text: str) -> bool:
    return len(text) > LINE_LIMIT or "\n" in text


def _is_short(branch: dict[str, Any] | list[Any]) -> bool:
    """Tells whether a nested value fits on its line."""
    if len(branch) > 8 or any(
        isinstance(item, dict | list) for item in (branch.values() if isinstance(branch, dict) else branch)
    ):
        return False
    return len(brief(branch, LINE_LIMIT + 1)) <= LINE_LIMIT
