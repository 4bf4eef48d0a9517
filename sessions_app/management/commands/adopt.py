"""`adkweb adopt SOURCE …`: adds adkweb's columns and indexes to ADK's databases, which `serve` does by itself."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from ... import sources
from ...errors import SourceError
from ._sources import add_argument, named


class Command(BaseCommand):
    """Adopts databases ahead of serving, as their owner."""

    help = "Add what adkweb needs to ADK's databases (as `serve` does): additive, and undone by `release`."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """SOURCE …"""
        add_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Adopts each."""
        if settings.READ_ONLY:
            raise CommandError("ADKWEB_READ_ONLY is set: nothing is written.", returncode=2)
        for source in named(options["source"]):
            try:
                sources.open_source(source)
            except SourceError as error:
                raise CommandError(error.message, returncode=2) from error
            self.stdout.write(f"adopted {source.where}")
