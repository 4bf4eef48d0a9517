"""`adkweb export-user SOURCE`: writes everything of one user of an app to a file."""  # noqa: N999

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from ...access.actor import TERMINAL
from ...access.audit.record import record
from ...domain.errors import Error, SourceError
from ...domain.session_ref import SessionRef
from ...privacy import bundle
from ...search.index import feed
from ._output import output
from ._progress import progress
from ._sources import one_source


class Command(BaseCommand):
    """Exports everything about a user."""

    help = "Write everything of one user of an app to a zip file: sessions, state, artifacts. Nothing is changed."
    requires_system_checks = ()  # they load every page and route, which takes longer than the work

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Defines SOURCE --app --user --output"""
        parser.add_argument("source", metavar="SOURCE", help="a folder, a SQLite file or a postgresql:// URL")
        parser.add_argument("--app", required=True, help="the app")
        parser.add_argument("--user", required=True, help="the id of the user in the app")
        parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the zip file to write")

    def handle(self, *args: Any, **options: Any) -> None:
        """Brings the index up to date, which knows the artifacts, and writes the file."""
        settings.READ_ONLY = True
        try:
            call_command("migrate", verbosity=0, interactive=False)
            source = one_source(options["source"])
            of = SessionRef(source.alias, options["app"], options["user"], "")
            record("exported", TERMINAL.name, ref=of, what="everything of the user")
            with progress("indexing", "sessions") as bar:
                feed.catch_up(source.alias, bar.at)
            with output(options["output"]) as file, progress("exporting", "events") as bar:
                made = bundle.write(file, source.alias, options["app"], options["user"], actor=TERMINAL, moved=bar.at)
        except SourceError as error:
            raise CommandError(error.message, returncode=2) from error
        except Error as error:
            raise CommandError(error.message) from error
        except DatabaseError as error:
            raise CommandError(
                f"adkweb's own database (ADKWEB_DATABASE_URL) cannot be used: {error}", returncode=2
            ) from error
        except KeyboardInterrupt as error:
            raise CommandError("Interrupted.", returncode=130) from error
        except OSError as error:
            raise CommandError(f"{options['output']} cannot be written: {error.strerror}") from error
        self.stdout.write(f"{made.sessions:,} sessions, {made.events:,} events, {made.artifacts:,} artifacts")
        if made.missing:
            self.stderr.write(f"{made.missing:,} artifacts cannot be read here; about.json in the file names them")
        if not made.complete:
            self.stderr.write("Artifacts may be missing; about.json in the file says of which sessions")
