"""Finds the word that somebody may have meant by one that no session has."""

import re
from typing import Final

from rapidfuzz import process
from rapidfuzz.distance import OSA

from ..access.actor import Actor
from . import tree, vocabulary
from .selecting import select
from .sql import rows
from .words import tokens

_CODE: Final = re.compile(r"\d")  # nobody mistypes an id as another one
_SHORTEST: Final = 4  # characters; a shorter word is like too many
_LONG: Final = 6  # characters, of which two may be wrong
_TRIED: Final = 3  # words


def nearest(text: str, *, actor: Actor) -> str | None:
    """Returns the word that is spelt most alike, and that finds a session which the actor may see: "failed" for “faild”.

    Returns None if the text is not one word, or finds a session itself."""
    words = tokens(text)
    if len(words) != 1 or len(words[0]) < _SHORTEST or _CODE.search(words[0]) or _finds(words[0], actor):
        return None
    (word,) = words
    most = 2 if len(word) >= _LONG else 1
    alike = process.extract(word, vocabulary.like(word, most), scorer=OSA.distance, score_cutoff=most, limit=_TRIED)
    return next((each for each, _distance, _number in alike if _finds(each, actor)), None)


def _finds(word: str, actor: Actor) -> bool:
    selection = select(tree.Query(tree.Text(word)), actor)
    return bool(rows(f"SELECT 1 FROM sessions_app_searchsession AS s WHERE {selection.sql} LIMIT 1", selection.values))
