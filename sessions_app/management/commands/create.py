"""`adkweb create FILE|URL`: a new database with ADK's tables, for google-adk's own services."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ... import adopt, sources
from ...errors import SourceError


class Command(BaseCommand):
    """Makes ADK's tables in an empty database."""

    help = "Make a database with ADK's tables, which google-adk's own session services use at once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """FILE or URL, and the format."""
        parser.add_argument("source", metavar="FILE|URL", help="a SQLite file to make, or the URL of an empty database")
        parser.add_argument(
            "--format",
            choices=["sqlite", "database"],
            help="for SQLite: SqliteSessionService's (default) or DatabaseSessionService's; PostgreSQL has the latter",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Creates it; an existing database with ADK's tables is left as it is."""
        text = options["source"]
        if "://" not in text:
            path = Path(text)
            if not path.parent.is_dir():
                raise CommandError(f"{path.parent} is not a folder.")
            path.touch()
        try:
            (source,) = sources.add(text)
            with sources.connected(source):
                if not adopt.inspect(source.alias).empty:
                    raise CommandError(f"{source.where} has ADK's tables already.")
                adopt.create(source.alias, options["format"] or ("sqlite" if source.vendor == "sqlite" else "database"))
        except SourceError as error:
            raise CommandError(error.message) from error
        self.stdout.write(f"created {source.where}")
