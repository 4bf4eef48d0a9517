"""Renders JSON values as HTML: on one line, or as a tree of rows that open and close.

Everything is escaped, and large values are cut.
"""

import math
from typing import Any, Final

from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ...domain.json_values import kind
from ...domain.shorten import DEPTH_LIMIT, brief

NAME_LIMIT: Final = 20  # characters of a key; no column cuts a key that is not longer
NAME_END: Final = 10  # characters at the end of a longer key that are always shown
NAME_CUT: Final = 120  # characters of a key, at most
NAME_WHOLE: Final = 1_024  # characters of a key in its title
ID_LIMIT: Final = 12  # characters of an id that is shown whole beside a title
ID_END: Final = 4  # characters at each end of a longer one
SURE_LIMIT: Final = 18  # characters of a text that every column shows
LINE_LIMIT: Final = 80  # characters of a text that fit on its row
ROW_LIMIT: Final = 240  # characters of a longer value on its row, more than the widest pane shows: CSS cuts it
TEXT_LIMIT: Final = 5_000  # characters of a text that are shown when it is opened
NODE_LIMIT: Final = 400  # values in a tree
OPEN_LIMIT: Final = 8  # entries in a nested value that starts open, in a tree that starts open
_CLASSES: Final = {"string": "s", "number": "n", "boolean": "b", "null": "z"}


def name(key: Any) -> SafeString:
    """Returns a key that loses its middle if there is no room, because the ends of similar keys tell them apart.

    Only ASCII keys are cut. In other scripts, a cut could split a character, or reorder text written from right to
    left.
    """
    text = str(key)
    if not text.isascii() or len(text) <= NAME_LIMIT:
        return conditional_escape(text if len(text) <= NAME_CUT else text[: NAME_CUT - 1] + "…")
    head, end = text[:-NAME_END], text[-NAME_END:]
    head = head if len(text) <= NAME_CUT else head[: NAME_CUT - NAME_END - 1] + "…"
    return format_html('<span class="start">{}</span>{}', head, end)


def ends(text: str) -> str:
    """Returns both ends of a long id, as small as they still tell one session from another: `3f2a…91cc`.

    Only ASCII is cut, as in `name`.
    """
    return text if len(text) <= ID_LIMIT or not text.isascii() else f"{text[:ID_END]}…{text[-ID_END:]}"


def css_class(value: Any) -> str:
    """Returns the CSS class of a value on one line."""
    return "s bidi" if isinstance(value, str) else _CLASSES.get(kind(value), "z")


class Tree:
    """The rows of one value, up to `most`. `whole` is the URL of the whole value."""

    def __init__(self, whole: str = "", opened: bool = False, most: int = NODE_LIMIT) -> None:
        self.left = most
        self.whole = whole
        self.opened = opened

    def top(self, key: str, value: Any, by: str = "") -> SafeString:
        """Returns the row of a key, with `by` at its end."""
        return self._row(key, value, 1, by, top=True)

    def children(self, value: Any) -> SafeString:
        """Returns the rows of a value's entries, or one row for a value without entries."""
        if isinstance(value, dict | list) and value:
            return self._entries(value, 1)
        return format_html('<div class="kv"><span class="value wrap">{}</span></div>', self._leaf(value))

    def _row(self, key: Any, value: Any, depth: int, by: str = "", *, top: bool = False) -> SafeString:
        self.left -= 1
        attribute = mark_safe(" data-row") if top else ""
        if isinstance(value, dict | list) and value:
            size = f"[{len(value)}]" if isinstance(value, list) else f"{{{len(value)}}}"
            shown = format_html(
                '<span class="z">{}</span> <span class="preview">{}</span>', size, brief(value, ROW_LIMIT)
            )
            inner = self._entries(value, depth) if self.left > 0 and depth < DEPTH_LIMIT else self._cut()
            opened = self.opened and len(value) <= OPEN_LIMIT
        elif isinstance(value, str) and (len(value) > LINE_LIMIT or "\n" in value):
            shown = format_html('<span class="s bidi">{}</span>', brief(value, ROW_LIMIT))
            inner, opened = self._text(value), False
        else:
            return format_html(
                '<div class="kv"{}><span class="key" title="{}">{}</span><span class="value"{}>{}</span>'
                '<span class="by">{}</span></div>',
                attribute,
                str(key)[:NAME_WHOLE],
                name(key),
                format_html(' title="{}"', value) if isinstance(value, str) and len(value) > SURE_LIMIT else "",
                self._leaf(value),
                by,
            )
        branch = format_html(
            '<details class="json"{}><summary class="kv"{}><span class="key" title="{}">{}</span>'
            '<span class="value">{}</span></summary><div class="kids">{}</div></details>',
            mark_safe(" open") if opened else "",
            attribute,
            str(key)[:NAME_WHOLE],
            name(key),
            shown,
            inner,
        )
        # A link inside a summary cannot be reached with every screen reader, so it stands beside the summary.
        return format_html('<div class="branch">{}<span class="by">{}</span></div>', branch, by) if by else branch

    def _entries(self, value: dict[str, Any] | list[Any], depth: int) -> SafeString:
        rows: list[SafeString] = []
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            if self.left <= 0:
                rows.append(self._cut(len(value) - len(rows)))
                break
            rows.append(self._row(key, item, depth + 1))
        return format_html_join("", "{}", ((row,) for row in rows))

    def _leaf(self, value: Any) -> SafeString:
        if isinstance(value, float) and not math.isfinite(value):
            return format_html('<span class="n" title="{}">{}</span>', _("not JSON, written by the agent"), str(value))
        return format_html('<span class="{}">{}</span>', css_class(value), brief(value, TEXT_LIMIT))

    def _text(self, value: str) -> SafeString:
        text = format_html('<pre class="s bidi">{}</pre>', value[:TEXT_LIMIT])
        if len(value) <= TEXT_LIMIT:
            return text
        number = len(value) - TEXT_LIMIT
        more = ngettext("%(n)s more character", "%(n)s more characters", number) % {"n": number}
        return format_html("{}{}", text, self._more(more))

    def _cut(self, number: int = 0) -> SafeString:
        return self._more(
            ngettext("%(n)s more", "%(n)s more", number) % {"n": number} if number else _("deeper values")
        )

    def _more(self, words: str) -> SafeString:
        if not self.whole:
            return format_html('<div class="kv"><span class="z">… {}</span></div>', words)
        link = format_html('<a href="{}">{}</a>', self.whole, _("show all"))
        return format_html('<div class="kv"><span class="z">… {} · {}</span></div>', words, link)
