"""Limits how much of a stored JSON text is read, so that no single writer can make a page slow or large.

Of an event that weighs more than LARGE, only the beginnings of long values are read (large_events.py), and of such a state
only the size; both can be downloaded. A page of events
ends when they weigh too much together. Sizes are measured in the database, so that what is too large does not reach
Python."""

from typing import Any, Final

from django.db.models import Func, IntegerField, JSONField, TextField

from ..domain import json_values
from ..sources.dialect import if_json

LARGE: Final = 8_000_000  # what an event may weigh to be read, and also all events of a page together: see `weight`
SMALL: Final = 1_000_000  # bytes of a value that lists look into, row by row
_BYTES: Final = {  # of a text; SQLite takes four times as long to count its characters
    "postgresql": "octet_length({text})",
    "sqlite": "length(CAST({text} AS BLOB))",
}
SIZE_OF: Final = {  # see `Size`
    "postgresql": "pg_column_size(event_data)",
    "sqlite": _BYTES["sqlite"].format(text="event_data"),
}
GLANCED: Final = {  # an event for lists and numbers: a long one is empty
    vendor: f"CASE WHEN {size} <= 100000 THEN event_data ELSE '{{}}' END AS event_data"
    for vendor, size in SIZE_OF.items()
}
_ITEM: Final = 45  # characters that a list, an object, a key or an item weighs in addition to its own
LOOKED_THROUGH: Final = 8  # what the database only searches weighs so many times less
_SKIPPED: Final = 8  # what the database only takes apart, or measures, weighs so many times less


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


class Measured(Func):
    """The text of a JSON column or, if it is too large, its length after a “#”, with which no JSON begins."""

    output_field = TextField()

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """Returns the SQL for SQLite."""
        column, parameters = compiler.compile(self.get_source_expressions()[0])
        return measured_sql(column, "sqlite"), parameters

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """Returns the SQL for PostgreSQL."""
        return self.as_sql(compiler, connection, template=measured_sql("%(expressions)s", "postgresql"), **extra)


def measured_sql(column: str, vendor: str, most: int = LARGE) -> str:
    """Returns the SQL of `Measured`. A text that has to be computed is computed only once."""
    stored = vendor == "sqlite" and "(" not in column
    bytes_of = _BYTES[vendor].format(text=column if stored else "t")
    if stored:
        return f"CASE WHEN {bytes_of} <= {most} THEN {column} ELSE '#' || {bytes_of} END"
    text = column if vendor == "sqlite" else f"({column})::text"
    measured = f"CASE WHEN {bytes_of} <= {most} THEN t ELSE '#' || {bytes_of} END"
    return f"(WITH measured (t) AS MATERIALIZED (SELECT {text}) SELECT {measured} FROM measured) "


class Size(Func):
    """The bytes that a value takes on PostgreSQL's disk, which it knows without reading the value; on SQLite, those of
    its text."""

    function, output_field = "pg_column_size", IntegerField()

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """Measures the text, which SQLite does not compress."""
        return self.as_sql(compiler, connection, template=_BYTES["sqlite"].format(text="%(expressions)s"), **extra)


class Valid(Func):
    """A JSON column; null if ADK stored NaN in it, which SQLite's JSON functions refuse."""

    template, output_field = "%(expressions)s", JSONField(decoder=json_values.Stored)

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """Checks the text. PostgreSQL needs no check: it never stores JSON that is not valid."""
        valid = if_json("%(expressions)s")
        return self.as_sql(compiler, connection, template=valid, **extra)


class Small(Valid):
    """A JSON column that a list looks into in each row: null if it is not valid, or too large."""

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """Checks the size first: SQLite would read the whole of a long text."""
        small = f"{_BYTES['sqlite'].format(text='%(expressions)s')} <= {SMALL}"
        valid = if_json("%(expressions)s", also=small)
        return self.as_sql(compiler, connection, template=valid, **extra)

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """Checks the size on disk."""
        small = f"CASE WHEN pg_column_size(%(expressions)s) <= {SMALL} THEN %(expressions)s END"
        return self.as_sql(compiler, connection, template=small, **extra)
