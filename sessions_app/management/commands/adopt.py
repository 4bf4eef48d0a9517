"""`adkweb adopt SOURCE …`: adds adkweb's columns and indexes to ADK's databases, which `serve` does by itself."""

from argparse import ArgumentParser
from typing import Any

from ... import adopt, sources
from ...errors import SourceError
from ._sources import OverSources


class Command(OverSources):
    """Adopts databases ahead of serving, as their owner."""

    help = "Add what adkweb needs to ADK's databases (as `serve` does): additive, and undone by `release`."
    done = "adopted"

    def add_arguments(self, parser: ArgumentParser) -> None:
        """SOURCE … [--wal]"""
        super().add_arguments(parser)
        parser.add_argument(
            "--wal",
            action="store_true",
            help="give SQLite files a write-ahead log, too, for whoever opens them from then on: appends are faster",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """With --wal, the journal mode changes as well."""
        self._wal = options["wal"]
        super().handle(*args, **options)

    def do(self, source: sources.Source) -> None:
        """Opening adopts; what was taken away again since then is added, too."""
        if self._wal and source.vendor != "sqlite":
            raise SourceError(f"{source.where} is no SQLite file: --wal is for those.")
        sources.open_source(source)
        with sources.connected(source):
            adopt.adopt(source.alias)
            if self._wal:
                adopt.use_wal(source.alias)
