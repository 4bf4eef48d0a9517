"""Mends the tables of words where SQLite finds them damaged. All that is in them can be read anew."""

import logging

from django.db import DatabaseError, transaction

from ..models import SearchSource
from . import word_tables

log = logging.getLogger("adkweb.search")


def is_of_words(error: BaseException) -> bool:
    """Tells whether an error says that a table of words is damaged, and not adkweb's own database as a whole."""
    return getattr(error.__cause__, "sqlite_errorname", "") == "SQLITE_CORRUPT_VTAB"


def mend(error: BaseException) -> bool:
    """Empties the tables of words if an error says that one of them is damaged, and has every source read anew.

    Returns whether it did. Any other damage of adkweb's own database is not mended."""
    if not is_of_words(error):
        return False
    with transaction.atomic():
        word_tables.renew()
        SearchSource.objects.update(version=0)
    log.error("The index of words was damaged (%s). Every source is read anew.", error)
    return True


def check() -> None:
    """Reads the tables of words from end to end, and mends them if need be. For a million events, that takes 2 seconds."""
    try:
        word_tables.check()
    except DatabaseError as error:
        if not mend(error):
            raise
