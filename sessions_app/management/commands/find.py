"""`adkweb find QUERY … [SOURCE …]`: lists the sessions that a query selects, with the line that matched."""

import json
import re
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError
from rich.cells import cell_len
from rich.text import Text

from ...access.actor import TERMINAL
from ...search import language, results
from ...search.results import as_json
from ...search.tree import Problem, Query
from ._index import up_to_date
from ._table import TableRow, table
from ._terminal import clock, local_zone, plain, words

_PAGE: Final = 100
_MOST: Final = 10_000
_ASCENDING: Final = {"title", "user", "app"}  # the others start with the greatest
_SOURCE: Final = re.compile(r"postgres\w*(\+\w+)?://|~?/|\.{1,2}(/|$)|.*\.db$", re.IGNORECASE)
_STYLES: Final = {
    "running": "blue",
    "waiting": "yellow",
    "failed": "bold red",
    "stopped": "yellow",
    "stuck": "red",
    "idle": "dim",
}
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
        text, sources = _split([*options["query"], *options["source"]])
        query = language.parse(text, now=time.time(), zone=local_zone())
        if query.problems:
            raise CommandError("\n".join(pointed(text, problem) for problem in query.problems))
        with up_to_date(sources):
            self._show(query, options)

    def _show(self, query: Query, options: dict[str, Any]) -> None:
        greatest_first = (options["sort"] not in _ASCENDING) != options["reverse"]
        sort = f"{'-' * greatest_first}{options['sort']}"
        pages = list(_pages(query, sort, options["limit"]))
        rows = [row for page in pages for row in page.rows]
        if options["json"]:
            lines: Iterable[str] = (json.dumps(as_json(row, TERMINAL)) for row in rows)
        elif sys.stdout.isatty():
            lines = table([*map(_row, rows)], wide="title", right="turns")
        else:
            lines = map(_fields, rows)
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


def pointed(text: str, problem: Problem) -> str:
    """Returns a mistake with the part of the query around it, and carets below its place."""
    first = max(0, problem.start - _BEFORE)
    shown = plain(text[first : first + _SHOWN])
    indent = cell_len(shown[: problem.start - first])
    width = max(1, cell_len(shown[problem.start - first : problem.end - first]))
    return f"{problem.message}\n  {shown}\n  {' ' * indent}{'^' * width}"


def selected(query: Query) -> Iterator[results.Row]:
    """Yields all sessions that a query selects, the newest first."""
    for page in _pages(query, "-last", sys.maxsize):
        yield from page.rows


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
    fields = [ref.source, *names, row.status, clock(row.last), str(row.turns), row.title, line]
    return "\t".join(words(field, 2_000) for field in fields)


def _row(row: results.Row) -> TableRow:
    """Returns a session as a row; below it are its id and the line that matched."""
    below = Text("  ").append(words(row.ref.session_id, 60), "dim")
    if match := row.match:
        below.append("  ").append(plain(match.before)).append(plain(match.text), "bold yellow")
        below.append(plain(match.after))
    cells = {
        "title": words(row.title),
        "status": row.status,
        "user": words(row.ref.user_id, _WIDEST["user"]),
        "app": words(row.ref.app_name, _WIDEST["app"]),
        "when": clock(row.last)[:-3],
        "turns": f"{row.turns:,}",
    }
    return TableRow(cells, {"title": "bold", "status": _STYLES[row.status]}, below)


def _limit(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= _MOST:
        raise ArgumentTypeError(f"{plain(text)} is not a number from 1 to {_MOST:,}")
    return int(text)
