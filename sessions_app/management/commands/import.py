"""`adkweb import FILE … --into SOURCE`: imports sessions into a source."""

import os
import re
import stat
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import IO, Any, cast

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from rich.console import Console
from rich.table import Table

from ... import transfer
from ...access.actor import TERMINAL
from ...domain.errors import Error, SourceError
from ...sources import registry
from ...transfer import FORMATS, import_job
from ...transfer.items import Fault, Reader, replacing_nul
from ._progress import Bar, progress
from ._sources import one_source
from ._terminal import plain, short


class Command(BaseCommand):
    """Imports sessions. Importing a file twice is the same as importing it once."""

    help = "Import sessions into a source. Existing sessions stay; an interrupted import continues."
    requires_system_checks = ()  # they load every page and route, which takes longer than the work

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Defines FILE … --into SOURCE [--preview] [--state] [--replace-nul] [--format]"""
        parser.add_argument("file", nargs="+", metavar="FILE", help="an export, a session of adk web, another database")
        parser.add_argument(
            "--into", required=True, metavar="SOURCE", help="the database: a SQLite file or a postgresql:// URL"
        )
        parser.add_argument("--preview", action="store_true", help="report what would be done, and write nothing")
        parser.add_argument(
            "--state", action="store_true", help="also set app: and user: keys that have other values in the source"
        )
        parser.add_argument(
            "--replace-nul", action="store_true", help="replace characters that PostgreSQL can't hold with “�”"
        )
        readable = [name for name, form in FORMATS.items() if form.read]
        parser.add_argument(
            "--format", choices=["auto", *readable], default="auto", help="the format of FILE (detected)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Checks every file to its end, and then imports them."""
        if settings.READ_ONLY and not options["preview"]:
            raise CommandError("ADKWEB_READ_ONLY is set: nothing is written.", returncode=2)
        settings.READ_ONLY = options["preview"]  # a preview does not even adopt
        skipped = 0
        try:
            source = one_source(options["into"])
            if not options["preview"]:
                TERMINAL.check_may_write(source.alias)
            inputs = [_Input(name, options["format"], source) for name in options["file"]]
            with replacing_nul(options["replace_nul"]):
                for each in inputs:
                    each.check()
                for each in inputs:
                    report = each.bring(options)
                    self._tell(each.name, report, options)
                    skipped += report.skipped_count
        except SourceError as error:
            raise CommandError(error.message, returncode=2) from error
        except Error as error:
            raise CommandError(error.message) from error
        except KeyboardInterrupt as error:
            raise CommandError("Interrupted. Run the same command again to continue.", returncode=130) from error
        if skipped:
            raise CommandError(f"{skipped} sessions were skipped because the source has others with their names.")

    def _tell(self, name: str, report: import_job.Report, options: dict[str, Any]) -> None:
        would = "would be " if options["preview"] else ""
        table = Table(show_header=False)
        table.add_column(justify="right")
        table.add_column()
        for number, what in (
            (report.new, f"new sessions {would}imported"),
            (report.resumed, f"partly imported sessions {would}finished"),
            (report.events, f"events {would}written"),
            (report.same, "sessions already exist"),
            (report.skipped_count, f"sessions {would}skipped"),
            (report.states_made, f"app and user states {would}created"),
            (report.differing_count, "app and user states differ from the source's"),
        ):
            table.add_row(f"{number:,}", what)
        # Without a terminal there is no width, and the lines must not be broken for a script.
        # Names are not markup: `:new:` is not an emoji, and [red] is not a colour.
        console = Console(
            file=cast(IO[str], self.stdout),
            width=None if self.stdout.isatty() else 200,
            highlight=False,
            markup=False,
            emoji=False,
        )
        console.print(plain(name), soft_wrap=True)
        console.print(table)
        if not report.secrets:
            console.print("This export is without secrets: agents ask for credentials again.", soft_wrap=True)
        for left in report.skipped:
            console.print(plain(f"skipped {'/'.join(left.ref[1:])}: {left.why}"), soft_wrap=True)
        for differing in report.differing:
            whose = "/".join(filter(None, (differing.app, differing.user)))
            verb = f"{would}set" if options["state"] else "kept; --state sets it"
            for change in differing.changes:
                old = short(change.old)
                console.print(plain(f"{verb}: {whose} {change.key}: {old} → {short(change.new)}"), soft_wrap=True)


class _Input:
    """A file or database to import, which is opened each time it is read."""

    def __init__(self, name: str, form: str, into: registry.Source) -> None:
        self.name, self._into = _shown(name), into
        self._place = name
        with suppress(OSError):
            mode = os.stat(name).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # a pipe would make it wait, and can be read only once
                raise CommandError(f"{name} is not a file.", returncode=2)
        with self._faults():
            self._format = FORMATS[transfer.recognise(name) if form == "auto" else form]

    def check(self) -> None:
        """Reads it to its end. Raises CommandError if something is wrong."""
        with self._faults(), progress("checking", "read") as bar:
            import_job.check(self._open, _Moves(bar))

    def bring(self, options: dict[str, Any]) -> import_job.Report:
        """Imports it, or finds out what that would do."""
        state, preview = options["state"], options["preview"]
        # A fault now means that the file has changed since it was checked.
        with self._faults(), progress("importing", "read") as bar:
            return import_job.bring(
                self._open, self._into.alias, actor=TERMINAL, state=state, preview=preview, told=_Moves(bar)
            )

    def _open(self) -> AbstractContextManager[Reader]:
        assert self._format.read  # noqa: S101  the parser refuses the others
        return self._format.read(self._place, not self._into.dialect.holds_any_text)

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except Fault as fault:
            where = ", ".join(filter(None, (self.name, fault.detail["place"])))
            raise CommandError(plain(f"{where}: {fault.message}"), returncode=2) from fault
        except OSError as error:
            raise CommandError(f"{self.name} cannot be read: {error.strerror}", returncode=2) from error


class _Moves:
    """Moves a bar to where a reader is."""

    def __init__(self, bar: Bar) -> None:
        self._bar = bar
        self._reader: Reader | None = None
        self._done = 0

    def __call__(self, reader: Reader) -> None:
        if reader is not self._reader:
            self._reader, self._done = reader, 0
            self._bar.total(reader.total)
        self._bar.moved(reader.done - self._done)
        self._done = reader.done


def _shown(address: str) -> str:
    """Returns a path as it is, and a URL without its password."""
    return re.sub(r"(?<=[?&]password=)[^&]*", "…", re.sub(r"(://[^/:@]*):.*@", r"\1@", address))
