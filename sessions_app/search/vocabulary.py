"""Keeps the words that stand in any text, to find those that have another word in their middle or at their end."""

import threading
import time
from collections.abc import Iterable
from typing import Any, Final

from django.db import connection

from ..models import SearchWord
from .word_tables import BREAK
from .words import has_parts

MOST: Final = 500  # words that have a part in common, and are looked for together
_SOME: Final = 200  # rows of a statement
_REMEMBERED: Final = 500  # parts
_SECONDS: Final = 60.0  # another process may have added words

_remembered: dict[tuple[str, bool], tuple[float, set[str]]] = {}
_lock: Final = threading.Lock()


def add(words: Iterable[str]) -> None:
    """Makes words findable by what is in them."""
    parted = sorted(word for word in words if word != BREAK and has_parts(word))
    SearchWord.objects.bulk_create(map(SearchWord, parted), batch_size=_SOME, ignore_conflicts=True)
    with _lock:
        for (part, at_end), (_until, known) in _remembered.items():
            known.update(word for word in parted if _has(word, part, at_end=at_end))


def containing(part: str, *, at_end: bool) -> list[str]:
    """Returns the words that have this part at their end, or anywhere but at their beginning; MOST + 1 if it is many."""
    position = {"sqlite": "instr(word, %s)", "postgresql": "strpos(word, %s)"}[connection.vendor]
    condition: str = f"{position} > 1"
    values: list[Any] = [part]
    if at_end:
        tail = {"sqlite": "substr(word, -%s)", "postgresql": "right(word, %s)"}[connection.vendor]
        condition, values = f"length(word) > %s AND {tail} = %s", [len(part), len(part), part]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT word FROM sessions_app_searchword WHERE {condition} LIMIT {MOST + 1}", values)
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


def _has(word: str, part: str, *, at_end: bool) -> bool:
    return len(word) > len(part) and word.endswith(part) if at_end else word.find(part) > 0
