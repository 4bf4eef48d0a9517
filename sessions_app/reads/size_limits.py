"""Limits how much of a stored JSON text is read, so that no single writer can make a page slow or large.

For an event that weighs more than LARGE, only the starts of long values are read (large_events.py), and for such a
state only the size; both can be downloaded. A page of events ends when they weigh too much together. Sizes are measured
in the database, so that what is too large does not reach Python."""

from typing import Any, Final

from django.db.models import Func, IntegerField, JSONField, TextField

from ..domain import json_values
from ..sources import dialect
from ..sources.dialect import Database

LARGE: Final = 8_000_000  # what an event may weigh to be read, and also all events of a page together: see `weight`
SMALL: Final = 1_000_000  # bytes of a value that lists read, row by row
_ITEM: Final = 45  # characters that a list, an object, a key or an item weighs in addition to its own
LOOKED_THROUGH: Final = 8  # what the database only searches weighs this many times less
_SKIPPED: Final = 8  # what the database only takes apart, or measures, weighs this many times less


def weight(text: str | None) -> int:
    """Returns what it costs to read a JSON text: its length, and what lists, objects and their items take in memory."""
    if not text:
        return 0
    if text.startswith("#"):
        return int(text[1:]) // _SKIPPED
    return len(text) + _ITEM * items(text)


def items(text: str | bytes) -> int:
    """Returns how many lists, objects, keys and items a JSON text has at most. Signs within its strings count, too."""
    if isinstance(text, bytes):
        return sum(map(text.count, (b"[", b"{", b":", b",")))
    return sum(map(text.count, "[{:,"))


def large(text: str | None) -> int:
    """Returns the length of a text that is too large to be read; 0 for any other."""
    if not text:
        return 0
    if text.startswith("#"):
        return int(text[1:])
    # Each character counts as one item at most.
    return len(text) if len(text) * (1 + _ITEM) > LARGE and weight(text) > LARGE else 0


class _OfColumn(Func):
    """An expression over a JSON column."""

    def as_sql(self, compiler: Any, connection: Any, *_more: Any, **_named: Any) -> Any:
        """Returns the SQL in the database's dialect."""
        column, parameters = compiler.compile(self.get_source_expressions()[0])
        return self.of(column, connection), parameters

    def of(self, column: str, db: Database) -> str:
        """Returns the SQL for a column."""
        raise NotImplementedError


class Measured(_OfColumn):
    """The text of a JSON column or, if it is too large, its length after a “#”, with which no JSON starts."""

    output_field = TextField()

    def of(self, column: str, db: Database) -> str:
        """Returns the SQL for a column."""
        return measured_sql(column, db)


def measured_sql(column: str, db: Database, most: int = LARGE) -> str:
    """Returns the SQL of `Measured`."""
    return dialect.of(db).measured(column, most)


class Size(_OfColumn):
    """The bytes that a value takes; see `Dialect.size`."""

    output_field = IntegerField()

    def of(self, column: str, db: Database) -> str:
        """Returns the SQL for a column."""
        return dialect.of(db).size(column)


def size_of_event(db: Database) -> str:
    """Returns the SQL of the `Size` of an event."""
    return dialect.of(db).size("event_data")


def glanced_at(db: Database) -> str:
    """Returns the SQL of an event for lists and numbers: a long one is empty."""
    return f"CASE WHEN {size_of_event(db)} <= 100000 THEN event_data ELSE '{{}}' END AS event_data"


class Valid(_OfColumn):
    """A JSON column; null if ADK stored NaN in it, which SQLite's JSON functions refuse."""

    output_field = JSONField(decoder=json_values.Stored)
    most: int | None = None

    def of(self, column: str, db: Database) -> str:
        """Returns the SQL for a column."""
        return dialect.of(db).readable(column, self.most)


class Small(Valid):
    """A JSON column that a list reads in each row: null if it is not valid, or too large."""

    most = SMALL
