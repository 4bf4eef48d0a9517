"""`adkweb reindex SOURCE …`: rebuilds the search index and the key history."""

from typing import Any

from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import DatabaseError

from ...domain.errors import Invalid, SourceError
from ...history.index import build
from ...search import damage
from ...search.index import feed
from ...sources import database, registry
from ._progress import progress
from ._sources import OverSources


class Command(OverSources):
    """Rebuilds the index, which is in adkweb's own database. This reads all events of the source."""

    help = (
        "Rebuild the search index and the key history of a source, which time travel and histories of "
        "keys use. adkweb keeps both up to date automatically. Events and state are not changed."
    )
    done = "reindexed"

    def handle(self, *args: Any, **options: Any) -> None:
        """Migrates adkweb's own database, which may not exist yet, repairs its words, and then reindexes the
        sources."""
        try:
            call_command("migrate", verbosity=0, interactive=False)
            damage.check()
            super().handle(*args, **options)
        except DatabaseError as error:
            raise CommandError(
                f"adkweb's own database (ADKWEB_DATABASE_URL) cannot be used: {error}", returncode=2
            ) from error
        except KeyboardInterrupt as error:
            raise CommandError("Interrupted; the rest is read when it is needed.", returncode=130) from error

    def do(self, source: registry.Source) -> None:
        """Reindexes a source, with a progress bar."""
        database.open_source(source)
        with progress("reading", "events") as bar:
            try:
                writes = build.rebuild(source.alias, bar.at)
            except Invalid as error:
                raise SourceError(f"{source.where}: {error.message}") from error
        with progress("indexing", "sessions") as bar:
            sessions = feed.rebuild(source.alias, bar.at)
        self.stdout.write(f"{writes:,} writes of keys; sessions: {sessions:,}")
