"""The columns of the table of sessions: which there are, how an address names those that a person has chosen, and how a
status is shown."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from ...domain.json_values import KEY_LENGTH
from ...domain.state import UNKNOWN
from ...search.results import MOST_COLUMNS, SORTS, Row

DEFAULT: Final = ("user", "app", "started", "took", "turns", "events", "tokens")
SORT: Final = "-started"  # the newest first
_STATE: Final = ("state.", "user:", "app:")  # what begins the name of a state key's column


@dataclass(frozen=True, slots=True)
class Column:
    """A column by its name in an address: `took`, `state.booking_step`, `user:tier`.

    `cell` says how _cell.html shows a value, which a row has under `fact`, or under its own name. `key` is the key of state
    that it shows, with its prefix."""

    name: str
    title: str
    cell: str = "state"
    fact: str = ""
    key: str = ""

    @property
    def sort(self) -> str:
        """Returns what its head sorts by, if it does."""
        return self.name if self.name in SORTS else ""

    @property
    def numeric(self) -> bool:
        """Tells whether it has numbers."""
        return self.cell in ("count", "thousands", "duration")

    @property
    def from_above(self) -> bool:
        """Tells whether the greatest come first when the table begins to be sorted by it."""
        return self.numeric or self.cell == "when"

    def value(self, row: Row) -> Any:
        """Returns what it shows of a row."""
        return row.columns.get(self.key, UNKNOWN) if self.key else getattr(row, self.fact or self.name)


def built_in() -> dict[str, Column]:
    """Returns the columns that every session has, by name."""
    return {
        column.name: column
        for column in (
            Column("user", _("User"), "user", "ref"),
            Column("app", _("App"), "app", "ref"),
            Column("source", _("Source"), "source", "ref"),
            Column("started", _("Started"), "when", "created"),
            Column("last", _("Last activity"), "when"),
            Column("took", _("Took"), "duration"),
            Column("turns", _("Turns"), "count"),
            Column("events", _("Events"), "count"),
            Column("tokens", _("Tokens"), "thousands"),
            Column("error", _("Last error"), "error"),
            Column("tags", _("Tags"), "tags"),
        )
    }


def of_names(names: Iterable[str]) -> tuple[Column, ...]:
    """Returns the columns of these names, each once; those that nobody could have chosen are left out."""
    known = built_in()
    columns = [known.get(name) or _of_state(name.strip()) for name in dict.fromkeys(names)]
    of_state = [column for column in columns if column and column.key][MOST_COLUMNS:]
    return tuple(column for column in columns if column and column not in of_state)


def _of_state(name: str) -> Column | None:
    prefix = next((each for each in _STATE if name.startswith(each) and len(each) < len(name) <= KEY_LENGTH), None)
    if prefix is None:
        return None
    bare = name.removeprefix(prefix)
    return Column(name, bare if prefix == "state." else name, key=bare if prefix == "state." else name)


def read(text: str | None) -> tuple[Column, ...]:
    """Returns the columns that an address names: `user,took,state.step`. Without any, the usual ones."""
    try:
        names = next(csv.reader([text]), []) if text else DEFAULT
    except csv.Error:
        names = DEFAULT
    return of_names(names) or of_names(DEFAULT)


def write(columns: Sequence[Column]) -> str:
    """Returns the columns as an address names them; "" for the usual ones."""
    names = [column.name for column in columns]
    if names == list(DEFAULT):
        return ""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


def key_column(text: str) -> str:
    """Returns the name of the column for a key that somebody typed: `step` and `state.step` are the session's key."""
    key = text.strip()
    return key if not key or key.startswith(_STATE) else f"state.{key}"


def moved(names: Sequence[str], order: str) -> list[str]:
    """Moves a column to the left or to the right: `-1:took` moves `took` one to the left."""
    step, _colon, name = order.partition(":")
    if name not in names or step not in ("-1", "1"):
        return list(names)
    others = [each for each in names if each != name]
    others.insert(max(0, names.index(name) + int(step)), name)
    return others


# --- The status -------------------------------------------------------------------------------------------------------


class Shape(NamedTuple):
    """The classes of a .status, and the status in words."""

    name: str
    words: str


def shape_of(row: Row) -> Shape:
    """Returns how a status is shown. A session that is done may have had errors, and one without turns isn't done."""
    names = {
        "failed": pgettext("status", "failed"),
        "waiting": pgettext("status", "waiting for an answer"),
        "running": pgettext("status", "running"),
        "stuck": pgettext("status", "stuck"),
        "stopped": pgettext("status", "stopped"),
    }
    if row.is_paused:
        return Shape("waiting", pgettext("status", "paused"))
    if row.status in names:
        return Shape(row.status, names[row.status])
    if not row.turns:
        return Shape("none", pgettext("status", "no turns yet"))
    if row.error:
        return Shape("idle erred", pgettext("status", "done, with errors"))
    return Shape("idle", pgettext("status", "done"))
