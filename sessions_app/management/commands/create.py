"""`adkweb create FILE|URL`: makes a database with ADK's tables, for google-adk's own services."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ...domain.errors import SourceError
from ...sources import adoption, database, registry, urls
from ...sources.finding import SESSION_FILE


class Command(BaseCommand):
    """Makes ADK's tables in an empty database."""

    help = "Create a database with ADK's tables, ready for google-adk's own session services."
    requires_system_checks = ()  # they load every page and route, which takes longer than the work

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Defines FILE|URL [--format]"""
        parser.add_argument(
            "source", metavar="FILE|URL", help="a SQLite file to create, or the URL of an empty database"
        )
        parser.add_argument(
            "--format",
            choices=["sqlite", "database"],
            help="for SQLite: SqliteSessionService's (default) or DatabaseSessionService's; PostgreSQL has the latter",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Creates the database. One that already has ADK's tables is left as it is."""
        text = options["source"]
        try:
            named = urls.read(text)
            if named.read_only:
                raise SourceError(f"{urls.without_password(text)} asks for reading only: nothing can be made there.")
            if isinstance(named, urls.File):
                path = named.path
                if path.is_dir():
                    raise SourceError(f"{text} is a folder; name a file to make in it.")
                if path.parts[-2:] == SESSION_FILE.parts:  # an agent has no such folder before its first run
                    path.parent.mkdir(exist_ok=True)
                path.touch()
            (source,) = registry.add(text)
            with database.connected(source):
                if not adoption.inspect(source.alias).empty:
                    raise CommandError(f"{source.where} has ADK's tables already.", returncode=2)
                adoption.create(source.alias, options["format"])
        except SourceError as error:
            raise CommandError(error.message, returncode=2) from error
        except OSError as error:
            raise CommandError(f"{text} can't be created: {error.strerror}", returncode=2) from error
        self.stdout.write(f"created {source.where}")
