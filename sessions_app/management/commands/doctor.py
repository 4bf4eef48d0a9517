"""`adkweb doctor [SOURCE …]`: says what is wrong, and what to do about it."""

import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator
from typing import Any, Final

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from rich.console import Console
from rich.text import Text

from ...access.audit import heads
from ...domain.errors import Invalid, SourceError
from ...sources import identity, registry, urls
from ...sources.finding import DEPTH, SESSION_FILE
from ...sources.orphans import orphans
from ._audit_checks import check_audit
from ._checks import BAD, NOTE, OK, Finding, own
from ._rows import some
from ._source_checks import check
from ._terminal import plain, silence_logs

_NO_SOURCE: Final = (
    "no source was named, so no session was checked: adkweb doctor --drift SOURCE, where SOURCE is a folder, a SQLite "
    "file or a postgresql:// URL; or set ADKWEB_SOURCES."
)
_STYLES: Final = {OK: "green", NOTE: "bold yellow", BAD: "bold red"}


class Command(BaseCommand):
    """Checks adkweb and its sources. The exit code is 1 if something is wrong."""

    help = (
        "Check adkweb's own database, its settings and the sources, and say what to do. Nothing is changed or adopted."
    )
    requires_system_checks = ()  # this command itself reports what is wrong with the settings

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Defines [SOURCE …] [--drift] [--audit] [--head LINE]"""
        parser.add_argument(
            "source",
            nargs="*",
            metavar="SOURCE",
            help="a folder, a SQLite file or a postgresql:// URL; by default, those of ADKWEB_SOURCES",
        )
        parser.add_argument(
            "--drift", action="store_true", help="replay the events of every session, not only of the newest 100"
        )
        parser.add_argument(
            "--audit", action="store_true", help="verify every row of the audit, and name the first that is wrong"
        )
        parser.add_argument(
            "--head",
            metavar="LINE",
            help="an earlier line of `adkweb audit-head`: with --audit, check that the audit still has it",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Prints a line for each check: ✓ fine, ! worth knowing, ✗ wrong."""
        settings.READ_ONLY = True
        identity.keeps = False
        silence_logs()
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
        self._console = Console(highlight=False, markup=False, emoji=False)
        self._bad = 0
        try:
            published = heads.read(options["head"]) if options["head"] is not None else None
        except Invalid as error:
            raise CommandError(error.message) from error
        try:
            findings = list(own())
            self._ready = findings[0].grade == OK
            self._say("adkweb", findings)
            if options["audit"] or published:
                self._say("audit", check_audit(published, ready=self._ready))
            named = options["source"] or settings.SOURCES
            for text in named:
                self._source(text, every_session=options["drift"])
            if named and self._ready:
                self._say("kept", self._orphans())
            if options["drift"] and not named:
                self._say("drift", [Finding(BAD, _NO_SOURCE)])
        except KeyboardInterrupt as error:
            raise CommandError("Interrupted.", returncode=130) from error
        finally:
            identity.keeps = True
        if self._bad:
            raise SystemExit(1)

    def _source(self, text: str, *, every_session: bool) -> None:
        try:
            sources = registry.add(text)
        except SourceError as error:
            self._say(urls.without_password(text) if urls.is_url(text) else text, [Finding(BAD, error.message)])
            return
        if not sources:
            self._say(text, [Finding(NOTE, f"no {SESSION_FILE} in this folder, {DEPTH} levels deep.")])
        for source in sources:
            self._say(source.where, check(source, every_session=every_session, ready=self._ready))

    def _orphans(self) -> Iterator[Finding]:
        """Lists what is kept about sources that were not named, and so isn't shown."""
        away = [source.where for source in registry.listed() if source.alias not in registry.identities]
        maybe = f" Or it is one that could not be opened here: {some(away)}." if away else ""
        try:
            left = orphans(registry.aliases())
        except DatabaseError as error:
            yield Finding(BAD, f"adkweb's own database can't be read for what it stores about sources: {error}")
            return
        for orphan in left:
            rows = ", ".join(f"{n} {kind}" for kind, n in orphan.rows.items())
            label = f", opened last as {orphan.label}" if orphan.label else ""
            yield Finding(
                NOTE, f"about a source that was not named here{label}: {rows}. Name it to get them back.{maybe}"
            )
        if not left:
            yield Finding(OK, "everything that people stored about sources belongs to a named one")

    def _say(self, heading: str, findings: Iterable[Finding]) -> None:
        self._print(Text(plain(heading), "bold"))
        for finding in findings:
            self._bad += finding.grade == BAD
            self._print(Text.assemble("  ", (finding.grade, _STYLES[finding.grade]), " ", plain(finding.text)))

    def _print(self, text: Text) -> None:
        with self._console.capture() as captured:
            self._console.print(text, soft_wrap=True, end="")
        self.stdout.write(captured.get() if self._console.is_terminal else text.plain)
        self.stdout.flush()
