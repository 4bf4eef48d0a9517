"""What the commands over sources share."""

from argparse import ArgumentParser
from collections.abc import Iterator

from django.core.management.base import CommandError

from ... import sources
from ...errors import SourceError


def add_argument(parser: ArgumentParser) -> None:
    """The sources that a command is about."""
    parser.add_argument("source", nargs="+", metavar="SOURCE", help="a folder, a SQLite file or a postgresql:// URL")


def named(texts: list[str]) -> Iterator[sources.Source]:
    """The sources that these texts name; CommandError, exit code 2, where one is none."""
    for text in texts:
        try:
            found = sources.add(text)
        except SourceError as error:
            raise CommandError(error.message, returncode=2) from error
        if not found:
            raise CommandError(
                f"{text}: no {sources.SESSION_FILE} in this folder, {sources.DEPTH} levels deep.", returncode=2
            )
        yield from found
