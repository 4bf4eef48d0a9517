"""`adkweb inbox [SOURCE …]`: lists the calls that wait for an answer, the oldest first."""

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator
from typing import Any, Final

from django.conf import settings
from django.core.management.base import BaseCommand
from rich.text import Text

from ...access.actor import TERMINAL
from ...domain.pending import CREDENTIAL
from ...search import inbox
from ...search.inbox import Waiting
from ._index import up_to_date
from ._running import add_agents, use_agents
from ._table import TableRow, table
from ._terminal import clock, short, words

_WIDEST: Final = 24  # cells of a tool's name


class Command(BaseCommand):
    """Brings the index up to date, and lists what waits."""

    help = (
        "List what waits for an answer, the oldest first: confirmations, requests for input, sign-ins and long-running "
        "tools. Nothing is adopted, and no source is changed."
    )
    requires_system_checks = ()  # they load every page and route, which takes longer than the work

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Defines [SOURCE …] [--passed-over] [--json] [--agents]"""
        parser.add_argument(
            "source",
            nargs="*",
            metavar="SOURCE",
            help="a folder, a SQLite file or a postgresql:// URL; by default, those of ADKWEB_SOURCES",
        )
        parser.add_argument("--passed-over", action="store_true", help="those after which the user said something else")
        parser.add_argument("--json", action="store_true", help="one JSON object per line, as in the API")
        add_agents(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Prints the calls, and on standard error how many others were passed over."""
        read_only = settings.READ_ONLY
        with up_to_date(options["source"]):
            use_agents(options)
            settings.RUN_AGENTS = settings.RUN_AGENTS is not False  # by whoever runs this
            settings.READ_ONLY = read_only  # whether a call can be answered doesn't depend on this command
            shown = self._show(_waiting(options["passed_over"]), as_json=options["json"])
            for note in _notes(shown, options["passed_over"]):
                self.stderr.write(note, lambda text: text)

    def _show(self, calls: Iterator[Waiting], *, as_json: bool) -> bool:
        """Prints the calls. Returns whether there is one."""
        shown = False
        if as_json:
            lines: Iterable[str] = (json.dumps(inbox.as_json(each, TERMINAL)) for each in calls)
        elif sys.stdout.isatty():
            lines = table([*map(_row, calls)], wide="asks")
        else:
            lines = map(_fields, calls)
        for line in lines:
            shown = True
            self.stdout.write(line)
        self.stdout.flush()
        return shown


def _notes(shown: bool, passed_over: bool) -> Iterator[str]:
    """Yields what the lines don't show."""
    if passed_over:
        if not shown:
            yield "Nothing was passed over."
        return
    if not shown:
        yield "Nothing waits for an answer."
    if over := inbox.count(actor=TERMINAL, passed_over=True):
        many = f"{inbox.COUNTED:,}+" if over > inbox.COUNTED else str(over)
        yield f"{many} passed over (the user said something else); --passed-over lists them"


def _waiting(passed_over: bool) -> Iterator[Waiting]:
    cursor = None
    while True:
        page = inbox.waiting(actor=TERMINAL, passed_over=passed_over, cursor=cursor)
        yield from page.rows
        cursor = page.next
        if cursor is None:
            return


def _asks(each: Waiting) -> str:
    """Returns the agent's own words, else the arguments."""
    if each.kind == CREDENTIAL:
        return f"Sign in for {each.tool}"
    if each.asked is None:
        return each.why or "–"
    return each.asked.hint or ("" if each.asked.args is None else short(each.asked.args, 240))


def _fields(each: Waiting) -> str:
    """Returns a call on one line, its fields divided by tabs, for other programs."""
    fields = [inbox.id_of(each, TERMINAL), clock(each.since), each.kind, each.tool, _asks(each), *each.ref]
    return "\t".join(words(field, 2_000) for field in fields)


def _row(each: Waiting) -> TableRow:
    """Returns a call as a row; below it are its source, app, user and session."""
    cells = {
        "since": clock(each.since)[:-3],
        "kind": each.kind,
        "tool": words(each.tool, _WIDEST),
        "asks": words(_asks(each)),
    }
    below = Text("  ").append("/".join(words(name, 60) for name in each.ref[1:]), "dim")
    return TableRow(cells, {"kind": "yellow", "asks": "bold"}, below)
