"""Writes the tables of words: FTS5 on SQLite, a tsvector on PostgreSQL."""

from collections.abc import Iterable, Sequence
from typing import Final

from django.db import connection
from django.db.backends.utils import CursorWrapper

from ..sources.dialect import Either

PIECES: Final = 20  # bits of a document's number that count the pieces of a session
BREAK: Final = "¦"  # stands between two lines, and is never a word
_SOME: Final = 200  # rows of a statement
_TRIGRAM: Final = 3  # characters
_RENEWED: Final = {
    "text": "delete-all",
    "title": "rebuild",
    "part": "rebuild",
}  # SQLite's tables, and how each is made whole


def insert_words(table: str, rows: Iterable[tuple[int, list[str]]]) -> None:
    """Inserts the words of documents, by number, into the table of texts or of titles."""
    as_stored = index().stored
    with connection.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO sessions_app_search{table} (rowid, words) VALUES (%s, %s)",
            [(number, as_stored(words)) for number, words in sorted(rows)],
        )


def insert_vocabulary(words: Sequence[str]) -> None:
    """Inserts words into the vocabulary, those that are not there yet."""
    with connection.cursor() as cursor:
        for start in range(0, len(words), _SOME):
            some = words[start : start + _SOME]
            cursor.execute(
                f"""INSERT INTO sessions_app_searchword (word) VALUES {", ".join(["(%s)"] * len(some))}
                ON CONFLICT DO NOTHING RETURNING word""",
                some,
            )
            index().note_parts(cursor, cursor.fetchall())


def delete_rows(table: str, numbers: Sequence[int]) -> None:
    """Deletes documents. SQLite's table of texts cannot do that."""
    with connection.cursor() as cursor:
        cursor.executemany(
            f"DELETE FROM sessions_app_search{table} WHERE rowid = %s", [(number,) for number in numbers]
        )


def delete_pieces(sessions: Sequence[int]) -> None:
    """Deletes the texts of sessions. On SQLite they stay, and nothing leads to them any more."""
    index().delete_pieces(sessions)


def empty() -> None:
    """Deletes all texts, also those that SQLite cannot delete one by one."""
    with connection.cursor() as cursor:
        index().empty(cursor)
        cursor.execute("DELETE FROM sessions_app_searchword")


def check() -> None:
    """Raises DatabaseError if SQLite finds one of the tables damaged. PostgreSQL has no such look at a table."""
    index().check()


def renew() -> None:
    """Makes SQLite's tables whole again. That of texts is emptied; the others are made from the words that they keep."""
    with connection.cursor() as cursor:
        for name, command in _RENEWED.items():
            # FTS5 begins with this row, and takes no command if it cannot read it. This is the one of an empty table.
            cursor.execute(f"REPLACE INTO sessions_app_search{name}_data (id, block) VALUES (10, zeroblob(7))")
            _command(cursor, name, command)


def _command(cursor: CursorWrapper, name: str, command: str) -> None:
    cursor.execute(f"INSERT INTO sessions_app_search{name} (sessions_app_search{name}) VALUES (%s)", [command])


# --- The two indexes --------------------------------------------------------------------------------------------------


class _Fts5:
    """SQLite's, whose trigrams are in a table of their own."""

    answers = "sessions_app_search{} MATCH %s"  # a question

    def stored(self, words: Sequence[str]) -> str:
        return " ".join(words)

    def note_parts(self, cursor: CursorWrapper, words: Sequence[tuple[str]]) -> None:
        cursor.executemany("INSERT INTO sessions_app_searchpart (word) VALUES (%s)", words)

    def containing(self, part: str, *, at_end: bool) -> tuple[str, str]:
        """Returns the table and condition for words with this part, and its value."""
        table = "part" if len(part) >= _TRIGRAM else "word"
        return f"sessions_app_search{table} WHERE word GLOB %s", f"?*{part}" + ("" if at_end else "*")

    def question(self, first: str, also: Sequence[str], rest: Sequence[str]) -> str:
        if not rest:
            return " OR ".join([f'"{first}" *', *(f'"{word}"' for word in also)])
        return " OR ".join(f'"{" ".join([word, *rest])}" *' for word in [first, *also])

    def delete_pieces(self, sessions: Sequence[int]) -> None:
        pass

    def empty(self, cursor: CursorWrapper) -> None:
        cursor.execute("INSERT INTO sessions_app_searchtext (sessions_app_searchtext) VALUES ('delete-all')")
        cursor.execute("DELETE FROM sessions_app_searchpart")

    def check(self) -> None:
        with connection.cursor() as cursor:
            for name in _RENEWED:
                _command(cursor, name, "integrity-check")


class _Tsvector:
    """PostgreSQL's."""

    answers = "words @@ %s::tsquery"

    def stored(self, words: Sequence[str]) -> str:
        """Returns words as PostgreSQL writes a tsvector: 'fare':1 'expired':2. A break takes a number, too.

        Words have no quotes and no backslashes.
        """
        return " ".join([f"'{word}':{number}" for number, word in enumerate(words, 1) if word != BREAK])

    def note_parts(self, cursor: CursorWrapper, words: Sequence[tuple[str]]) -> None:
        pass

    def containing(self, part: str, *, at_end: bool) -> tuple[str, str]:
        pattern = "_%" + part.replace("_", r"\_")
        return "sessions_app_searchword WHERE word LIKE %s", pattern + ("" if at_end else "%")

    def question(self, first: str, also: Sequence[str], rest: Sequence[str]) -> str:
        if not rest:
            return " | ".join([f"{_quoted(first)}:*", *map(_quoted, also)])
        return " <-> ".join([f"({' | '.join(map(_quoted, [first, *also]))})", *map(_quoted, rest)]) + ":*"

    def delete_pieces(self, sessions: Sequence[int]) -> None:
        ranges = [(number << PIECES, ((number + 1) << PIECES) - 1) for number in sessions]
        with connection.cursor() as cursor:
            cursor.executemany("DELETE FROM sessions_app_searchtext WHERE rowid BETWEEN %s AND %s", ranges)

    def empty(self, cursor: CursorWrapper) -> None:
        cursor.execute("DELETE FROM sessions_app_searchtext")

    def check(self) -> None:
        pass


def _quoted(word: str) -> str:
    """Returns a word as it stands in a tsvector or tsquery."""
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"


_INDEXES: Final[Either[_Fts5 | _Tsvector]] = Either(postgresql=_Tsvector(), sqlite=_Fts5())


def index() -> _Fts5 | _Tsvector:
    """Returns the index of words that adkweb's own database has."""
    return _INDEXES.on(connection)
