"""Writes titles into the index: those that were read, and those that people gave, which come first."""

from collections.abc import Collection, Iterable
from typing import Final

from ..domain.session_ref import SessionRef, digest_of
from ..models import SearchSession, SessionTitle
from ..sources import registry
from . import masked, vocabulary
from .lines import clean
from .word_tables import delete_rows, insert_words
from .words import folded, tokens

LENGTH: Final = 200


def fields(title: str) -> dict[str, str]:
    """Returns a title as a row of the index has it."""
    return {"title": title, "folded_title": clean(folded(title), 2 * LENGTH)}


def given(where: str, digests: Collection[str]) -> dict[str, str]:
    """Returns the titles that people gave to some sessions of a source."""
    return dict(SessionTitle.objects.filter(where=where, digest__in=digests).values_list("digest", "title"))


def insert(titles: Iterable[tuple[int, str]]) -> set[str]:
    """Makes sessions findable by other titles than before, by the numbers of their rows. Returns the words."""
    rows = [(number, tokens(title)) for number, title in titles]
    delete_rows("title", [number for number, _words in rows])
    insert_words("title", [(number, words) for number, words in rows if words])
    return {word for _number, words in rows for word in words}


def retitle(ref: SessionRef, title: str) -> None:
    """Gives the row of a session another title at once, if there is a row, as everybody sees it."""
    title = masked.words(title, ref.app_name)
    rows = SearchSession.objects.filter(source__where=registry.identity(ref.source), digest=digest_of(*ref[1:]))
    if not rows.update(**fields(title)):  # this waits for a feeder that is just writing the row
        return
    vocabulary.add(insert([(number, title) for number in rows.values_list("pk", flat=True)]))
