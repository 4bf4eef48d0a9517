"""Holds what the commands share that ask the search index."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import DatabaseError

from ...domain.errors import Error, SourceError
from ...search import damage
from ...search.index import feed
from ...sources import database, registry
from ._progress import progress
from ._sources import named_sources
from ._terminal import silence_logs


@contextmanager
def up_to_date(named: Sequence[str]) -> Iterator[None]:
    """Brings the index up to date with these sources, or with those of ADKWEB_SOURCES, before its block. No source is
    adopted or changed. Raises CommandError for what goes wrong, in the block as well."""
    settings.READ_ONLY = True
    silence_logs()
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        call_command("migrate", verbosity=0, interactive=False)
        _feed(named)
        yield
    except SourceError as error:
        raise CommandError(error.message, returncode=2) from error
    except Error as error:
        raise CommandError(error.message) from error
    except DatabaseError as error:
        if damage.mend(error):
            raise CommandError(
                "The search index was damaged. Run the command again to rebuild it.", returncode=2
            ) from error
        raise CommandError(
            f"adkweb's own database (ADKWEB_DATABASE_URL) cannot be used: {error}", returncode=2
        ) from error
    except BrokenPipeError:  # `adkweb find … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt as error:
        raise CommandError("Interrupted; the rest is read the next time.", returncode=130) from error


def _feed(named: Sequence[str]) -> None:
    if named:  # only these are searched
        registry.searched_folders.clear()
        for source in registry.listed():
            database.forget(source.alias)
    elif not settings.SOURCES:
        raise CommandError("Name a source at the end, or set ADKWEB_SOURCES.", returncode=2)
    for source in list(named_sources(named or settings.SOURCES)):
        database.open_source(source)
        with progress("indexing", "sessions") as bar:
            feed.catch_up(source.alias, bar.at)
