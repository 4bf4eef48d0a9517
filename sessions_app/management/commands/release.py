"""`adkweb release SOURCE …`: takes away everything that adopting added."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from ... import adopt, sources
from ...errors import SourceError
from ._sources import add_argument, named


class Command(BaseCommand):
    """Undoes `adopt`; events and state stay."""

    help = "Take away what adopting added: ADK's tables are then as they were. Edits stay, as the events they are."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """SOURCE …"""
        add_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Releases each."""
        if settings.READ_ONLY:
            raise CommandError("ADKWEB_READ_ONLY is set: nothing is written.", returncode=2)
        for source in named(options["source"]):
            try:
                with sources.connected(source):
                    adopt.release(source.alias)
            except SourceError as error:
                raise CommandError(error.message, returncode=2) from error
            self.stdout.write(f"released {source.where}")
