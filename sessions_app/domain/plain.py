"""Makes Markdown into a line of plain words: `**Sold out**` becomes “Sold out”, and a table its rows."""

import re
from typing import Final

from .translation import gettext as _
from .translation import ngettext

_READ: Final = 2_000  # characters of a text that are read, whatever its length
_SIGNS: Final = re.compile(r"[*_`~\[|#>]|^ {0,3}[-+=] |---", re.MULTILINE)  # a text without any of them is no Markdown
_FENCE: Final = re.compile(r" {0,3}(```|~~~)")
_RULE: Final = re.compile(r" {0,3}([-*_=])( {0,3}\1){2,20} *$")  # a line across, or beneath a heading
_START: Final = re.compile(r" {0,8}(?:#{1,6} |> ?){1,8}")  # of a heading, a quote
_ITEM: Final = re.compile(r" {0,20}[-*+] (?:\[[ xX]\] )?")
_UNDER_HEAD: Final = re.compile(r" {0,3}\|?(?: {0,40}:?-{1,200}:? {0,40}\|){0,40} {0,40}:?-{0,200}:? {0,40}\|? {0,40}$")
# In a line: `code`, [words](address), ![words](address), **bold**, ~~gone~~, *emphasis*; and neither 2**8 nor __name__.
_EMPHASIS: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?<!`)`{1,2}(?!`)([^`]{1,200})`{1,2}(?!`)",
        r"!?\[([^\[\]]{1,200})\]\([^()\s]{1,500}\)",
        r"(?<![0-9A-Za-z_*])\*\*(?=[^\s*])(.{1,200}?)(?<=[^\s*])\*\*(?![0-9A-Za-z_*])",
        r"~~(?=[^\s~])([^~]{1,200})(?<=[^\s~])~~",
        r"(?<![0-9A-Za-z_*])\*(?=[^\s*])([^*]{1,200})(?<=[^\s*])\*(?![0-9A-Za-z_*])",
        r"(?<![0-9A-Za-z_])_(?=[^\s_])([^_]{1,200})(?<=[^\s_])_(?![0-9A-Za-z_])",
    )
)


def plain(text: str) -> str:
    """Returns the words of a text in Markdown, on one line; of a long one, those of its beginning.

    `| from | price |` over two rows becomes “table, 2 rows: Lisbon 412.50 · Porto 455.75”."""
    head = text[:_READ]
    if not _SIGNS.search(head):
        return " ".join(head.split())
    lines, said, number = head.splitlines(), list[str](), 0
    while number < len(lines):
        line = lines[number]
        if (
            "|" in line
            and number + 1 < len(lines)
            and "-" in lines[number + 1]
            and _UNDER_HEAD.match(lines[number + 1])
        ):
            rows = _rows(lines[number + 2 :])
            number += 2 + len(rows)
            said.append(_table(rows, is_whole=number < len(lines) or len(text) <= _READ))
            continue
        if not _FENCE.match(line) and not _RULE.match(line):
            line = line[start.end() :] if (start := _START.match(line)) else line
            said.append(f"• {line[item.end() :]}" if (item := _ITEM.match(line)) else line)
        number += 1
    whole = " ".join(" ".join(said).split())
    for emphasis in _EMPHASIS:  # it may go over lines
        whole = emphasis.sub(r"\1", whole)
    return whole


def _rows(lines: list[str]) -> list[str]:
    """Returns the rows of a table, up to the line that is none."""
    number = next((number for number, line in enumerate(lines) if "|" not in line), len(lines))
    return lines[:number]


def _table(rows: list[str], *, is_whole: bool) -> str:
    cells = (" ".join(cell.strip() for cell in row.strip().strip("|").split("|")) for row in rows)
    number = len(rows)
    head = ngettext("table, %(n)s row", "table, %(n)s rows", number) % {"n": number} if is_whole else _("table")
    return f"{head}: {' · '.join(cells)}." if rows else head
