"""`adkweb restore FILE`: replaces adkweb's own database with a backup."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from ...access.actor import TERMINAL
from ...access.audit.record import record
from ...domain.errors import Error
from ...sources import own_backups
from ._terminal import plain


class Command(BaseCommand):
    """Restores a backup."""

    help = "Restore adkweb's own database from a backup, into SQLite or PostgreSQL, whatever it was made from."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Defines FILE [--replace]"""
        parser.add_argument("file", metavar="FILE", type=Path, help="a file from adkweb backup")
        parser.add_argument(
            "--replace", action="store_true", help="even if there are accounts or other data, which are then lost"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Restores the backup, and says so."""
        try:
            own_backups.restore(options["file"], replace=options["replace"])
            record("restored", TERMINAL.name, file=str(options["file"]))
        except (Error, DatabaseError, OSError) as error:
            raise CommandError(str(error).strip()) from error
        self.stderr.write(f"adkweb's own database is restored from {plain(str(options['file']))}")
