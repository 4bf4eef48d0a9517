"""`adkweb adopt SOURCE …`: adds adkweb's columns and indexes to ADK's databases, while agents write."""

from argparse import ArgumentParser
from typing import Any

from ...access.actor import TERMINAL
from ...access.audit.record import record
from ...domain.errors import SourceError
from ...sources import adoption, database, registry
from ...sources.steps import Progress
from ._progress import progress
from ._sources import OverSources


class Command(OverSources):
    """Adopts databases, as their owner. If it was interrupted, it continues where it stopped."""

    help = (
        "Add what adkweb needs to ADK's databases: columns, triggers and indexes beside ADK's own. Agents can keep writing; "
        "building the indexes of a very large SQLite file makes them wait. Undone by `release`."
    )
    done = "adopted"

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Defines SOURCE … [--wal] [--yes]"""
        super().add_arguments(parser)
        parser.add_argument(
            "--wal",
            action="store_true",
            help="also give SQLite files a write-ahead log, for every program that opens them: appends are faster",
        )

        parser.add_argument(
            "--yes", action="store_true", help="also if adkweb doesn't know the version of ADK's schema"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Adopts the sources. With --wal, also changes their journal mode."""
        self._wal, self._yes = options["wal"], options["yes"]
        super().handle(*args, **options)

    def do(self, source: registry.Source) -> None:
        """Adds what is missing, including the indexes that opening does not build in a large SQLite file."""
        if self._wal and not source.dialect.is_file:
            raise SourceError(f"{source.where} is not a SQLite file: --wal is for those.")
        with database.connected(source):
            shape = adoption.inspect(source.alias)
        if not shape.agreed:
            database.open_source(source)
            if not self._yes:
                raise SourceError(database.why_shown(source.alias))
            database.agree(source.alias)
        record("adopted", TERMINAL.name, source=source.alias)
        database.open_source(source)
        with progress("adopting", "%") as bar:
            bar.total(100)
            done = 0

            def moved(progress: Progress) -> None:
                nonlocal done
                bar.moved(int(progress.share * 100) - done)
                done = int(progress.share * 100)

            database.adopt_open(source.alias, moved, patient=True)
        if self._wal:
            with database.connected(source):
                adoption.use_wal(source.alias)
