"""Prints rows as a table that is not wider than the terminal."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

_LEAST: Final = 12  # cells of the widest column, however narrow the terminal is


@dataclass(frozen=True, slots=True)
class TableRow:
    """The cells of a row by column, the styles of some of them, and the line below."""

    cells: Mapping[str, str]
    styles: Mapping[str, str]
    below: Text


def table(rows: Sequence[TableRow], wide: str, right: str = "") -> Iterator[str]:
    """Yields the heading, and two lines for each row. The `wide` column gets what the others leave of the terminal; `right`
    is the one that is aligned to the right."""
    if not rows:
        return
    console = Console(highlight=False, markup=False, emoji=False)
    widths = {name: max(cell_len(name), *(cell_len(row.cells[name]) for row in rows)) for name in rows[0].cells}
    widths[wide] = max(_LEAST, console.width - sum(widths.values()) + widths[wide] - 2 * (len(widths) - 1))
    heading = {name: name for name in widths}
    for line in (
        _line(heading, dict.fromkeys(heading, "dim"), widths, right),
        *(line for row in rows for line in (_line(row.cells, row.styles, widths, right), row.below)),
    ):
        line.truncate(console.width, overflow="ellipsis")
        with console.capture() as captured:
            console.print(line, soft_wrap=True, end="")
        yield captured.get()


def _line(cells: Mapping[str, str], styles: Mapping[str, str], widths: Mapping[str, int], right: str) -> Text:
    line = Text()
    for name, width in widths.items():
        cell = cells[name]
        if cell_len(cell) > width:
            cell = set_cell_size(cell, width - 1) + "…"
        padded = " " * (width - cell_len(cell)) + cell if name == right else set_cell_size(cell, width)
        line.append("  " if line else "").append(padded, styles.get(name, ""))
    return line
