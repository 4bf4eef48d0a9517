"""`adkweb import FILE … --into SOURCE`: files that `adkweb export` wrote enter a store."""

from argparse import ArgumentParser
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from rich.console import Console
from rich.table import Table

from ... import sources
from ...access import SYSTEM
from ...errors import Error, SourceError
from ...state import ABSENT
from ...transfer import FORMATS, importing
from ...transfer.items import Fault, Reader
from ...values import dumps
from ._progress import Bar, progress
from ._sources import one_source

_SHOWN = 60  # characters of a value


class Command(BaseCommand):
    """Brings sessions in; twice is as once."""

    help = "Bring exported sessions into a store. What is there already stays; an interrupted import goes on."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """FILE … --into SOURCE [--preview] [--state] [--format]"""
        parser.add_argument("file", nargs="+", metavar="FILE", help="what `adkweb export` wrote")
        parser.add_argument(
            "--into", required=True, metavar="SOURCE", help="the store: a SQLite file or a postgresql:// URL"
        )
        parser.add_argument("--preview", action="store_true", help="say what would be done, and write nothing")
        parser.add_argument(
            "--state", action="store_true", help="set app: and user: keys, too, where the store has them otherwise"
        )
        parser.add_argument("--format", choices=[*FORMATS], default="jsonl", help="of the files (jsonl)")

    def handle(self, *args: Any, **options: Any) -> None:
        """Every file is checked to its end before the first one writes."""
        if settings.READ_ONLY and not options["preview"]:
            raise CommandError("ADKWEB_READ_ONLY is set: nothing is written.", returncode=2)
        settings.READ_ONLY = options["preview"]  # which does not even adopt
        skipped = 0
        try:
            source = one_source(options["into"])
            files = options["file"]
            for name in files:
                self._check(name, source, options["format"])
            for name in files:
                report = self._bring(name, source, options)
                self._tell(name, report, options)
                skipped += report.skipped_count
        except SourceError as error:
            raise CommandError(error.message, returncode=2) from error
        except Error as error:
            raise CommandError(error.message) from error
        except KeyboardInterrupt as error:
            raise CommandError("Interrupted. The same command goes on where this stopped.", returncode=130) from error
        if skipped:
            raise CommandError(f"{skipped} sessions were skipped, as the store has others under their names.")

    def _check(self, name: str, source: sources.Source, form: str) -> None:
        with ExitStack() as opened, progress("checking", "bytes") as bar:
            opening = _Opening(name, source, form, opened, bar)
            try:
                importing.check(opening.read, opening.told)
            except Fault as fault:
                raise CommandError(f"{name}, line {fault.detail['line']}: {fault.message}", returncode=2) from fault
            except OSError as error:
                raise CommandError(f"{name} cannot be read: {error.strerror}", returncode=2) from error

    def _bring(self, name: str, source: sources.Source, options: dict[str, Any]) -> importing.Report:
        with ExitStack() as opened, progress("importing", "bytes") as bar:
            opening = _Opening(name, source, options["format"], opened, bar)
            try:
                return importing.bring(
                    opening.read(),
                    source.alias,
                    actor=SYSTEM,
                    state=options["state"],
                    preview=options["preview"],
                    told=opening.told,
                )
            except Fault as fault:  # it changed since it was checked
                raise CommandError(f"{name}, line {fault.detail['line']}: {fault.message}", returncode=2) from fault

    def _tell(self, name: str, report: importing.Report, options: dict[str, Any]) -> None:
        would = "would be " if options["preview"] else ""
        table = Table(show_header=False)
        table.add_column(justify="right")
        table.add_column()
        for number, what in (
            (report.new, f"new sessions {would}imported"),
            (report.resumed, f"half-imported sessions {would}finished"),
            (report.events, f"events {would}written"),
            (report.same, "sessions are there already"),
            (report.skipped_count, f"sessions {would}skipped"),
            (report.states_made, f"app and user states {would}made"),
            (report.differing_count, "app and user states differ from the store's"),
        ):
            table.add_row(f"{number:,}", what)
        # No terminal has a width of its own, and a script's lines are not to be broken.
        # Names are not markup: `:new:` is no emoji, and [red] no colour.
        console = Console(
            file=cast(IO[str], self.stdout),
            width=None if self.stdout.isatty() else 200,
            highlight=False,
            markup=False,
            emoji=False,
        )
        console.print(_plain(name), soft_wrap=True)
        console.print(table)
        for left in report.skipped:
            console.print(_plain(f"skipped {'/'.join(left.key[1:])}: {left.why}"), soft_wrap=True)
        for differing in report.differing:
            whose = "/".join(filter(None, (differing.app, differing.user)))
            verb = f"{would}set" if options["state"] else "kept; --state sets it"
            for change in differing.changes:
                old = "absent" if change.old is ABSENT else _short(change.old)
                console.print(_plain(f"{verb}: {whose} {change.key}: {old} → {_short(change.new)}"), soft_wrap=True)


class _Opening:
    """A file, opened as often as it is read, and how far that is."""

    def __init__(self, name: str, source: sources.Source, form: str, opened: ExitStack, bar: Bar) -> None:
        self._name, self._source, self._format = name, source, FORMATS[form]
        self._opened, self._bar = opened, bar
        self._reader: Reader | None = None
        self._told = 0

    def read(self) -> Reader:
        file: BinaryIO = self._opened.enter_context(Path(self._name).open("rb"))  # noqa: SIM115
        if not file.seekable():
            raise CommandError(f"{self._name} is no file: an import reads it twice.", returncode=2)
        self._bar.total(file.seek(0, 2))
        file.seek(0)
        self._reader, self._told = self._format.read(file, self._source.vendor == "postgresql"), 0
        return self._reader

    def told(self) -> None:
        if self._reader is not None:
            self._bar.moved(self._reader.bytes - self._told)
            self._told = self._reader.bytes


def _plain(text: str) -> str:
    """A line that moves no cursor, whatever names are in it."""
    return "".join(c if c.isprintable() else "�" for c in text)


def _short(value: Any) -> str:
    text = dumps(value).encode("utf-8", "replace").decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
