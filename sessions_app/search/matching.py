"""Turns words that are looked for into a question to the database's own index of words, SQLite's or PostgreSQL's."""

import json
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, NamedTuple

from django.db import connection

from ..models import SearchDoc
from ..sources.dialect import Either
from . import vocabulary
from .index.read import OVERLAP
from .word_tables import PIECES, index
from .words import asked, is_part

FEW: Final = 2_000  # pieces of text
COMMON: Final = 5_000  # pieces of text: to go through them takes as long as a hundred looks at one session
LOOKS: Final = 1_000  # for a word in a session
_REMEMBERED: Final = 500  # questions
_SECONDS: Final = 60.0

_common: dict[tuple[str, ...], tuple[float, bool]] = {}


class Question(NamedTuple):
    """A question to the index of words, in its own language. `broad` is a part that too many words have in common:
    only those that begin with it are looked for. `short` says that it asks for a letter or two, which very many begin with.
    """

    text: str
    broad: str = ""
    short: bool = False
    words: tuple[str, ...] = ()  # that stand one after the other
    also: tuple[str, ...] = ()  # other words in place of the first


def question(text: str, look: Callable[..., list[str]] = vocabulary.containing) -> Question | None:
    """Returns the question for words that stand one after the other; None if a text has no words.

    `look` looks for the words that have another one in them."""
    words = asked(text)[:OVERLAP]
    if not words:
        return None
    first, *rest = words
    also: list[str] = []
    broad = False
    if rest or is_part(first):
        also = look(first, at_end=bool(rest))
        also, broad = ([], True) if len(also) > vocabulary.MOST else (also, False)
    short = not (rest or is_part(first))
    return Question(index().question(first, also, rest), first if broad else "", short, tuple(words), tuple(also))


def _sessions() -> tuple[str, str]:
    """Returns the SQL of the sessions whose words, and of those whose id, user or title answer a question."""
    answers = index().answers
    return (
        f"SELECT rowid >> {PIECES} AS id FROM sessions_app_searchtext WHERE {answers.format('text')}",
        f"SELECT rowid AS id FROM sessions_app_searchtitle WHERE {answers.format('title')}",
    )


def answering(asked_for: Question) -> tuple[str, list[Any]]:
    """Returns the condition for rows `s` of the index that answer a question, with its values.

    A few sessions are looked up at once. If there are many, the plus keeps the database from going through all of them
    one by one: what sorts the sessions is the better guide then.
    """
    text, title = _sessions()
    if not asked_for.short:
        with connection.cursor() as cursor:  # without DISTINCT, for which PostgreSQL would read all of them
            cursor.execute(f"{text} UNION ALL {title} LIMIT {FEW + 1}", [asked_for.text] * 2)
            answers = cursor.fetchall()
        if len(answers) <= FEW:
            few = sorted({row[0] for row in answers})
            return (f"s.id IN ({', '.join(map(str, few))})", []) if few else ("FALSE", [])
    return f"(+s.id IN ({text}) OR +s.id IN ({title}))", [asked_for.text] * 2


def answering_of(numbers: Collection[int], asked_for: Question) -> tuple[str, list[Any]]:
    """Returns the condition for rows `s` among a few that answer a question, with its values.

    PostgreSQL looks at the texts of each, and SQLite, too, if very many texts answer. Otherwise, it goes through those that
    answer, of all sessions, but once for all rows.
    """
    text, title = _sessions()
    each = _ONE_BY_ONE.on(connection)(asked_for, len(numbers))
    if each:
        own = f"rowid >= s.id << {PIECES} AND rowid < (s.id + 1) << {PIECES}"
        return f"(EXISTS ({text} AND {own}) OR EXISTS ({title} AND rowid = s.id))", [each] * 2
    some = ", ".join(map(str, numbers))
    first = min(numbers) << PIECES
    return (
        f"""(s.id IN ({text} AND rowid >= {first} AND rowid >> {PIECES} IN ({some}))
        OR s.id IN ({title} AND +rowid IN ({some})))""",
        [asked_for.text] * 2,
    )


def _in_whole_words(asked_for: Question, sessions: int) -> str:
    """Returns a question to SQLite with all words written out, if so many sessions are better asked one by one.

    For the beginning of a word, SQLite would read all words with that beginning anew for each session. Returns "" if few
    texts answer, or if there are too many words."""
    if not _is_common(asked_for):
        return ""
    first, *rest = asked_for.words
    ends = vocabulary.begun_with(asked_for.words[-1])
    if len(ends) > vocabulary.MOST:
        return ""
    if rest:
        phrases = [" ".join([word, *rest[:-1], end]) for word in (first, *asked_for.also) for end in ends]
    else:
        phrases = [*ends, *asked_for.also]
    return " OR ".join(f'"{phrase}"' for phrase in phrases) if 0 < len(phrases) * sessions <= LOOKS else ""


_ONE_BY_ONE: Final[Either[Callable[[Question, int], str]]] = Either(
    postgresql=lambda asked_for, _sessions: asked_for.text, sqlite=_in_whole_words
)


def _is_common(asked_for: Question) -> bool:
    """Tells whether more than COMMON pieces of text answer a question. The last answers are remembered."""
    now, key = time.monotonic(), (str(connection.settings_dict["NAME"]), *asked_for.words)
    until, common = _common.get(key, (0.0, False))
    if now >= until:
        text = index().answers.format("text")
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT count(*) FROM (SELECT 1 FROM sessions_app_searchtext WHERE {text} LIMIT {COMMON + 1})",
                [asked_for.text],
            )
            common = cursor.fetchone()[0] > COMMON
        if len(_common) >= _REMEMBERED:
            _common.clear()
        _common[key] = now + _SECONDS, common
    return common


_NEWEST: Final = Either(
    sqlite=f"""SELECT max(rowid) FROM sessions_app_searchtext WHERE sessions_app_searchtext MATCH %s
        AND rowid >> {PIECES} IN (SELECT value FROM json_each(%s)) GROUP BY rowid >> {PIECES}""",
    postgresql=f"""SELECT (SELECT max(rowid) FROM sessions_app_searchtext WHERE words @@ %s::tsquery
            AND rowid >= wanted << {PIECES} AND rowid < (wanted + 1) << {PIECES})
        FROM json_array_elements_text(%s::json) AS each, CAST(each AS bigint) AS wanted""",
)


def newest_pieces(sessions: Sequence[int], asked_for: Question) -> dict[int, tuple[int, int]]:
    """Returns the first and the last seq of the newest piece that answers a question, for each session that has one."""
    with connection.cursor() as cursor:
        cursor.execute(_NEWEST.on(connection), [asked_for.text, json.dumps(sessions)])
        pieces = [row[0] for row in cursor.fetchall() if row[0] is not None]
    docs = SearchDoc.objects.filter(pk__in=pieces).values_list("pk", "first_seq", "last_seq")
    return {pk >> PIECES: (first, last) for pk, first, last in docs}
