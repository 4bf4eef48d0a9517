"""`adkweb find QUERY … [SOURCE …]`: lists the sessions that a query selects, with the line that matched."""

import json
import os
import re
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from ...access.actor import TERMINAL
from ...domain.errors import Error, SourceError
from ...search import damage, language, results
from ...search.index import feed
from ...search.results import as_json
from ...search.tree import Problem, Query
from ...sources import database, registry
from ._progress import progress
from ._sources import named_sources
from ._terminal import local_zone, plain, silence_logs, words

_PAGE: Final = 100
_MOST: Final = 10_000
_ASCENDING: Final = {"title", "user", "app"}  # the others start with the greatest
_SOURCE: Final = re.compile(r"postgres\w*(\+\w+)?://|~?/|\.{1,2}(/|$)|.*\.db$", re.IGNORECASE)
_STYLES: Final = {"running": "blue", "waiting": "yellow", "failed": "bold red", "stuck": "red", "idle": "dim"}
_LEAST: Final = 12  # cells of a title, however narrow the terminal is
_WIDEST: Final = {"user": 24, "app": 20}
_BEFORE: Final = 30  # characters of a query before a mistake in it
_SHOWN: Final = 100


class Command(BaseCommand):
    """Brings the index up to date, and searches it."""

    help = (
        "Find sessions by words, filters and state, as on pages. Nothing is adopted, and no source is changed. "
        "Words at the end that are paths or URLs are sources."
    )
    requires_system_checks = ()  # they load every page and route, which takes longer than the work

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Defines QUERY … [SOURCE …] [--sort] [--reverse] [--limit] [--json]"""
        parser.add_argument("query", nargs="+", metavar="QUERY", help="what to look for: user:nadia error:any expired")
        parser.add_argument(
            "source",
            nargs="*",
            metavar="SOURCE",
            help="a folder, a SQLite file or a postgresql:// URL; by default, those of ADKWEB_SOURCES",
        )
        parser.add_argument(
            "--sort",
            choices=[*results.SORTS],
            default="last",
            help="the column to sort by (last); numbers and times: greatest first",
        )
        parser.add_argument("--reverse", action="store_true", help="in reverse order")
        parser.add_argument("--limit", type=_limit, default=20, metavar="N", help="maximum number of sessions (20)")
        parser.add_argument("--json", action="store_true", help="one JSON object per line, as in the API")

    def handle(self, *args: Any, **options: Any) -> None:
        """Prints the sessions, and on standard error how many there are."""
        settings.READ_ONLY = True
        silence_logs()
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
        text, sources = _split([*options["query"], *options["source"]])
        query = language.parse(text, now=time.time(), zone=local_zone())
        if query.problems:
            raise CommandError("\n".join(_pointed(text, problem) for problem in query.problems))
        try:
            call_command("migrate", verbosity=0, interactive=False)
            self._feed(sources)
            self._show(query, options)
        except SourceError as error:
            raise CommandError(error.message, returncode=2) from error
        except Error as error:
            raise CommandError(error.message) from error
        except DatabaseError as error:
            if damage.mend(error):
                raise CommandError(
                    "The search index was damaged. Run the command again to rebuild it.", returncode=2
                ) from error
            raise CommandError(
                f"adkweb's own database (ADKWEB_DATABASE_URL) cannot be used: {error}", returncode=2
            ) from error
        except BrokenPipeError:  # `adkweb find … | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except KeyboardInterrupt as error:
            raise CommandError("Interrupted; the rest is read the next time.", returncode=130) from error

    def _feed(self, named: Sequence[str]) -> None:
        """Indexes what is new in these sources; without any, in those of ADKWEB_SOURCES."""
        if named:  # only these are searched
            registry.searched_folders.clear()
            for source in registry.listed():
                database.forget(source.alias)
        elif not settings.SOURCES:
            raise CommandError("Name a source after the query, or set ADKWEB_SOURCES.", returncode=2)
        for source in list(named_sources(named or settings.SOURCES)):
            database.open_source(source)
            with progress("indexing", "sessions") as bar:
                feed.catch_up(source.alias, bar.at)

    def _show(self, query: Query, options: dict[str, Any]) -> None:
        greatest_first = (options["sort"] not in _ASCENDING) != options["reverse"]
        sort = f"{'-' * greatest_first}{options['sort']}"
        pages = list(_pages(query, sort, options["limit"]))
        rows = [row for page in pages for row in page.rows]
        if options["json"]:
            lines: Iterable[str] = (json.dumps(as_json(row, TERMINAL)) for row in rows)
        else:
            lines = _Table(rows).lines() if sys.stdout.isatty() else map(_fields, rows)
        for line in lines:
            self.stdout.write(line)
        self.stdout.flush()
        self._note(pages[0], len(rows))

    def _note(self, first: results.Results, shown: int) -> None:
        """Prints on standard error what the lines don't show."""
        notes = [
            f"“{plain(part)}” is part of many words: only words that start with it were searched."
            for part in first.broad
        ]
        if not shown:
            notes.append("no session")
        elif shown < first.count:
            notes.append(f"{shown:,} of {first.count:,}{'+' * first.more} sessions; --limit N shows more")
        for note in notes:
            self.stderr.write(note, lambda text: text)


def _split(given: list[str]) -> tuple[str, list[str]]:
    """Separates a query from the sources after it. The first word always belongs to the query."""
    end = len(given)
    while end > 1 and (_SOURCE.match(given[end - 1]) or _exists(given[end - 1])):
        end -= 1
    return " ".join(given[:end]), given[end:]


def _exists(word: str) -> bool:
    with suppress(OSError, ValueError):
        return Path(word).exists()
    return False


def _pointed(text: str, problem: Problem) -> str:
    """Returns a mistake with the part of the query around it, and carets below its place."""
    first = max(0, problem.start - _BEFORE)
    shown = plain(text[first : first + _SHOWN])
    indent = cell_len(shown[: problem.start - first])
    width = max(1, cell_len(shown[problem.start - first : problem.end - first]))
    return f"{problem.message}\n  {shown}\n  {' ' * indent}{'^' * width}"


def _pages(query: Query, sort: str, limit: int) -> Iterator[results.Results]:
    cursor = None
    while True:
        page = results.search(query, actor=TERMINAL, sort=sort, cursor=cursor, limit=min(limit, _PAGE))
        yield page
        cursor, limit = page.next, limit - _PAGE
        if cursor is None or limit <= 0:
            return


def _fields(row: results.Row) -> str:
    """Returns a session on one line, its fields divided by tabs, for other programs."""
    ref, match = row.ref, row.match
    line = f"{match.before}{match.text}{match.after}" if match else ""
    names = [ref.app_name, ref.user_id, ref.session_id]
    fields = [ref.source, *names, row.status, _clock(row.last), str(row.turns), row.title, line]
    return "\t".join(words(field, 2_000) for field in fields)


class _Table:
    """Formats sessions for a terminal: two lines for each, not wider than it."""

    def __init__(self, rows: Sequence[results.Row]) -> None:
        self._console = Console(highlight=False, markup=False, emoji=False)
        self._rows = [(row, self._cells(row)) for row in rows]
        self._widths = {
            name: max(cell_len(name), *(cell_len(cells[name]) for _row, cells in self._rows))
            for name in ("status", "user", "app", "when", "turns")
            if self._rows
        }
        others = sum(self._widths.values()) + 2 * len(self._widths)
        self._widths = {"title": max(_LEAST, self._console.width - others), **self._widths}

    def lines(self) -> Iterator[str]:
        """Yields the heading and the sessions."""
        if self._rows:
            yield self._rendered(self._line({name: name for name in self._widths}, dict.fromkeys(self._widths, "dim")))
        for row, cells in self._rows:
            yield self._rendered(self._line(cells, {"title": "bold", "status": _STYLES[row.status]}))
            yield self._rendered(self._below(row))

    def _cells(self, row: results.Row) -> dict[str, str]:
        return {
            "title": words(row.title),
            "status": row.status,
            "user": words(row.ref.user_id, _WIDEST["user"]),
            "app": words(row.ref.app_name, _WIDEST["app"]),
            "when": _clock(row.last)[:-3],
            "turns": f"{row.turns:,}",
        }

    def _line(self, cells: dict[str, str], styles: dict[str, str]) -> Text:
        line = Text()
        for name, width in self._widths.items():
            cell = cells[name]
            if cell_len(cell) > width:
                cell = set_cell_size(cell, width - 1) + "…"
            padded = " " * (width - cell_len(cell)) + cell if name == "turns" else set_cell_size(cell, width)
            line.append("  " if line else "").append(padded, styles.get(name, ""))
        return line

    def _below(self, row: results.Row) -> Text:
        """Returns the session's id and the line that matched."""
        text = Text("  ").append(words(row.ref.session_id, 60), "dim")
        if match := row.match:
            text.append("  ").append(plain(match.before)).append(plain(match.text), "bold yellow")
            text.append(plain(match.after))
        return text

    def _rendered(self, text: Text) -> str:
        text.truncate(self._console.width, overflow="ellipsis")
        with self._console.capture() as captured:
            self._console.print(text, soft_wrap=True, end="")
        return captured.get()


def _clock(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, local_zone()).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):  # an event may hold anything
        return "–"


def _limit(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= _MOST:
        raise ArgumentTypeError(f"{plain(text)} is not a number from 1 to {_MOST:,}")
    return int(text)
