"""Writes the tables of words: FTS5 on SQLite, a tsvector on PostgreSQL."""

from collections.abc import Iterable, Sequence
from typing import Final

from django.db import connection
from django.db.backends.utils import CursorWrapper

PIECES: Final = 20  # bits of a document's number that count the pieces of a session
BREAK: Final = "¦"  # stands between two lines, and is never a word
_SOME: Final = 200  # rows of a statement
_RENEWED: Final = {
    "text": "delete-all",
    "title": "rebuild",
    "part": "rebuild",
}  # SQLite's tables, and how each is made whole


def insert_words(table: str, rows: Iterable[tuple[int, list[str]]]) -> None:
    """Inserts the words of documents, by number, into the table of texts or of titles."""
    as_stored = " ".join if connection.vendor == "sqlite" else _vector
    with connection.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO sessions_app_search{table} (rowid, words) VALUES (%s, %s)",
            [(number, as_stored(words)) for number, words in sorted(rows)],
        )


def insert_vocabulary(words: Sequence[str]) -> None:
    """Inserts words into the vocabulary, those that are not there yet. SQLite keeps their trigrams in a table of its own."""
    with connection.cursor() as cursor:
        for start in range(0, len(words), _SOME):
            some = words[start : start + _SOME]
            cursor.execute(
                f"""INSERT INTO sessions_app_searchword (word) VALUES {", ".join(["(%s)"] * len(some))}
                ON CONFLICT DO NOTHING RETURNING word""",
                some,
            )
            new = cursor.fetchall()
            if connection.vendor == "sqlite":
                cursor.executemany("INSERT INTO sessions_app_searchpart (word) VALUES (%s)", new)


def delete_rows(table: str, numbers: Sequence[int]) -> None:
    """Deletes documents. SQLite's table of texts cannot do that."""
    with connection.cursor() as cursor:
        cursor.executemany(
            f"DELETE FROM sessions_app_search{table} WHERE rowid = %s", [(number,) for number in numbers]
        )


def _vector(words: Sequence[str]) -> str:
    """Returns words as PostgreSQL writes a tsvector: 'fare':1 'expired':2. A break takes a number, too.

    Words have no quotes and no backslashes.
    """
    return " ".join([f"'{word}':{number}" for number, word in enumerate(words, 1) if word != BREAK])


def quoted(word: str) -> str:
    """Returns a word as it stands in a tsvector or tsquery."""
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"


def delete_pieces(sessions: Sequence[int]) -> None:
    """Deletes the texts of sessions. On SQLite they stay, and nothing leads to them any more."""
    if connection.vendor == "postgresql":
        ranges = [(number << PIECES, ((number + 1) << PIECES) - 1) for number in sessions]
        with connection.cursor() as cursor:
            cursor.executemany("DELETE FROM sessions_app_searchtext WHERE rowid BETWEEN %s AND %s", ranges)


def empty() -> None:
    """Deletes all texts, also those that SQLite cannot delete one by one."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("INSERT INTO sessions_app_searchtext (sessions_app_searchtext) VALUES ('delete-all')")
        else:
            cursor.execute("DELETE FROM sessions_app_searchtext")
        cursor.execute("DELETE FROM sessions_app_searchword")
        if connection.vendor == "sqlite":
            cursor.execute("DELETE FROM sessions_app_searchpart")


def check() -> None:
    """Raises DatabaseError if SQLite finds one of the tables damaged. PostgreSQL has no such look at a table."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            for name in _RENEWED:
                _command(cursor, name, "integrity-check")


def renew() -> None:
    """Makes SQLite's tables whole again. That of texts is emptied; the others are made from the words that they keep."""
    with connection.cursor() as cursor:
        for name, command in _RENEWED.items():
            # FTS5 begins with this row, and takes no command if it cannot read it. This is the one of an empty table.
            cursor.execute(f"REPLACE INTO sessions_app_search{name}_data (id, block) VALUES (10, zeroblob(7))")
            _command(cursor, name, command)


def _command(cursor: CursorWrapper, name: str, command: str) -> None:
    cursor.execute(f"INSERT INTO sessions_app_search{name} (sessions_app_search{name}) VALUES (%s)", [command])
