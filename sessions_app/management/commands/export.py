"""`adkweb export SOURCE`: writes sessions to a file or to standard output."""

import os
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from ...access.actor import TERMINAL
from ...domain.errors import Error, SourceError
from ...transfer import FORMATS, WRITTEN, exporting
from ...transfer import export as written
from ...transfer.items import EventItem, Item
from ._output import output
from ._progress import progress
from ._sources import one_source
from ._terminal import plain


class Command(BaseCommand):
    """Exports the sessions of a source."""

    help = "Write the sessions of a source to a file. Nothing is changed or adopted."
    requires_system_checks = ()  # they load every page and route, which takes longer than the work

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Defines SOURCE [--app] [--user] [--session] [--format] [--with-secrets] [--skip-damaged] [--output]"""
        parser.add_argument("source", metavar="SOURCE", help="a folder, a SQLite file or a postgresql:// URL")
        parser.add_argument("--app", help="only this app's sessions")
        parser.add_argument("--user", help="only this user's sessions")
        parser.add_argument("--session", help="only the session with this id")
        parser.add_argument(
            "--format",
            choices=WRITTEN,
            default="jsonl",
            help="the format of the file (jsonl)",
        )
        parser.add_argument(
            "--with-secrets",
            action="store_true",
            help="with tokens and passwords, and everything that rules hide (jsonl)",
        )
        parser.add_argument(
            "--skip-damaged", action="store_true", help="leave out what can't be read, and list it in the first line"
        )
        parser.add_argument("-o", "--output", metavar="FILE", help="the file to write (standard output)")

    def handle(self, *args: Any, **options: Any) -> None:
        """Writes each session as it is at one moment, always in the same order."""
        settings.READ_ONLY = True
        only = exporting.Filter(options["app"], options["user"], options["session"])
        try:
            if FORMATS[options["format"]].write_one:  # it asks adkweb's own index
                call_command("migrate", verbosity=0, interactive=False)
            source = one_source(options["source"])
            skips = options["skip_damaged"]
            left_out = exporting.damaged(source.alias, only, actor=TERMINAL) if skips else None
            with output(options["output"]) as file, progress("exporting", "events") as bar:
                bar.total(exporting.count(source.alias, only, actor=TERMINAL))
                for line in written(
                    options["format"],
                    source.alias,
                    only,
                    actor=TERMINAL,
                    told=lambda items: _told(items, bar.moved),
                    secrets=options["with_secrets"],
                    left_out=left_out,
                ):
                    file.write(line)
            for row, why in left_out.rows.items() if left_out else ():
                self.stderr.write(f"Left out: {plain('/'.join(row))} ({plain(why)})")
        except SourceError as error:
            raise CommandError(error.message, returncode=2) from error
        except Error as error:
            raise CommandError(error.message) from error
        except KeyboardInterrupt as error:
            raise CommandError("Interrupted.", returncode=130) from error
        except BrokenPipeError as error:  # `adkweb export … | head`
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise CommandError("The reader of the export is gone.") from error
        except OSError as error:
            raise CommandError(
                f"{options['output'] or 'standard output'} cannot be written: {error.strerror}"
            ) from error


def _told(items: Iterator[Item], moved: Any) -> Iterator[Item]:
    for item in items:
        if isinstance(item, EventItem):
            moved(1)
        yield item
