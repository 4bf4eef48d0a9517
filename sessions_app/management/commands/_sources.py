"""Holds what the commands on sources share."""

from argparse import ArgumentParser
from collections.abc import Iterable, Iterator
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from ...access.actor import TERMINAL
from ...domain.errors import NotAllowed, NotRecorded, SourceError
from ...sources import database, registry
from ...sources.finding import DEPTH, SESSION_FILE
from ._terminal import plain


class OverSources(BaseCommand):
    """A command that handles each named source. The exit code is 2 if one cannot be used."""

    done = ""  # what it prints about a source afterwards: "adopted"
    requires_system_checks = ()  # they load every page and route, which takes longer than the work

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Defines SOURCE …"""
        parser.add_argument(
            "source", nargs="+", metavar="SOURCE", help="a folder, a SQLite file or a postgresql:// URL"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Handles one source after the other."""
        if settings.READ_ONLY:
            raise CommandError("ADKWEB_READ_ONLY is set: nothing is written.", returncode=2)
        for source in named_sources(options["source"]):
            try:
                TERMINAL.check_may_write(source.alias)
                self.do(source)
            except (SourceError, NotAllowed) as error:
                raise CommandError(error.message, returncode=2) from error
            except NotRecorded as error:
                raise CommandError(error.message) from error
            self.stdout.write(plain(f"{self.done} {source.where}"))

    def do(self, source: registry.Source) -> None:
        """Does the command's work on a source. Raises SourceError."""
        raise NotImplementedError


def named_sources(texts: Iterable[str]) -> Iterator[registry.Source]:
    """Yields the sources that paths and URLs name. Raises CommandError for one that isn't a source."""
    for text in texts:
        try:
            sources = registry.add(text)
        except SourceError as error:
            raise CommandError(error.message, returncode=2) from error
        if not sources:
            raise CommandError(f"{text}: no {SESSION_FILE} in this folder, {DEPTH} levels deep.", returncode=2)
        yield from sources


def one_source(text: str) -> registry.Source:
    """Opens and returns the source that a path or URL names. A folder may hold only one. Raises SourceError."""
    sources = list(named_sources([text]))
    if len(sources) > 1:
        raise CommandError(
            f"{text} holds {len(sources)} sources; name one: {', '.join(source.where for source in sources)}",
            returncode=2,
        )
    database.open_source(sources[0])
    return sources[0]
