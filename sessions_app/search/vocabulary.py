"""Keeps the words that stand in any text, to find those that have another word in their middle or at their end."""

import threading
import time
from collections.abc import Iterable
from typing import Final

from django.db import connection

from .word_tables import BREAK, index, insert_vocabulary
from .words import has_parts

MOST: Final = 500  # words that have a part in common, and are looked for together
_LIKE: Final = 20_000  # words that one is compared with
_REMEMBERED: Final = 500  # parts
_SECONDS: Final = 60.0  # another process may have added words
_REST: Final = 100  # what took long is remembered for so many times as long

_remembered: dict[tuple[str, bool], tuple[float, set[str]]] = {}
_begun: dict[tuple[str, str], tuple[float, set[str]]] = {}
_lock: Final = threading.Lock()


def add(words: Iterable[str]) -> None:
    """Makes words findable by what is in them."""
    new = sorted(word for word in words if word != BREAK)
    parted = [word for word in new if has_parts(word)]
    insert_vocabulary(parted)
    with _lock:
        for (_where, beginning), (_until, begun) in _begun.items():
            begun.update(word for word in new if word.startswith(beginning))
        for (part, at_end), (_until, known) in _remembered.items():
            known.update(word for word in parted if _has(word, part, at_end=at_end))


def containing(part: str, *, at_end: bool) -> list[str]:
    """Returns the words that have this part at their end, or anywhere but at their beginning; MOST + 1 if it is many.

    A part of three characters or more is looked up by its trigrams, a shorter one in all words.
    """
    where, pattern = index().containing(part, at_end=at_end)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT word FROM {where} LIMIT {MOST + 1}", [pattern])
        return [row[0] for row in cursor.fetchall()]


def remembered(part: str, *, at_end: bool) -> list[str]:
    """Returns what `containing` does, without looking through all words each time: for the process that adds words."""
    key, now = (part, at_end), time.monotonic()
    with _lock:
        until, known = _remembered.get(key, (0.0, set()))
        if now < until:
            return sorted(known)
    words = set(containing(part, at_end=at_end))
    with _lock:
        if len(_remembered) >= _REMEMBERED:
            _remembered.clear()
        _remembered[key] = now + _SECONDS, words
    return sorted(words)


def begun_with(part: str) -> list[str]:
    """Returns the words of all texts and titles that begin with a part, on SQLite; MOST + 1 if it is many.

    It is remembered as `remembered` does that, and for longer if it takes long: SQLite counts where each word stands."""
    began, key = time.monotonic(), (str(connection.settings_dict["NAME"]), part)
    with _lock:
        until, known = _begun.get(key, (0.0, set()))
        if began < until:
            return sorted(known)
    values = [part, f"{part}\U0010ffff"] * 2
    with connection.cursor() as cursor:
        for name in ("text", "title"):
            cursor.execute(
                f"""CREATE VIRTUAL TABLE IF NOT EXISTS temp.words_of_{name}
                USING fts5vocab('main', 'sessions_app_search{name}', 'row')"""
            )
        cursor.execute(
            f"""SELECT term FROM temp.words_of_text WHERE term >= %s AND term < %s
            UNION SELECT term FROM temp.words_of_title WHERE term >= %s AND term < %s LIMIT {MOST + 1}""",
            values,
        )
        words = {row[0] for row in cursor.fetchall()}
    took = time.monotonic() - began
    with _lock:
        if len(_begun) >= _REMEMBERED:
            _begun.clear()
        _begun[key] = began + max(_SECONDS, _REST * took), words
    return sorted(words)


def like(word: str, most: int) -> list[str]:
    """Returns words that begin with the same letter, and are at most so much longer or shorter."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""SELECT word FROM sessions_app_searchword WHERE word >= %s AND word < %s
            AND length(word) BETWEEN %s AND %s LIMIT {_LIKE}""",
            [word[0], chr(ord(word[0]) + 1), len(word) - most, len(word) + most],
        )
        return [row[0] for row in cursor.fetchall()]


def _has(word: str, part: str, *, at_end: bool) -> bool:
    return len(word) > len(part) and word.endswith(part) if at_end else word.find(part) > 0
