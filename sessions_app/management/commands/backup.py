"""`adkweb backup FILE`: copies adkweb's own database while it is used."""

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
    """Writes a backup."""

    help = "Copy adkweb's own database (accounts, roles, tokens, views, jobs) to a file, while adkweb runs."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Defines FILE"""
        parser.add_argument("file", metavar="FILE", type=Path, help="to write; it must not exist yet")

    def handle(self, *args: Any, **options: Any) -> None:
        """Writes the backup, and says so."""
        try:
            own_backups.backup(options["file"])
            record("backed-up", TERMINAL.name, file=str(options["file"]))
        except (Error, DatabaseError, OSError) as error:
            raise CommandError(str(error).strip()) from error
        self.stderr.write(f"adkweb's own database is backed up to {plain(str(options['file']))}")
