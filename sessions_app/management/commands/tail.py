"""`adkweb tail SOURCE`: prints a line for each event of a source, as it happens."""

import os
import select
import stat
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, Final

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ...access.actor import TERMINAL
from ...domain.errors import SourceError
from ...domain.kinds import TABLE
from ...domain.state import ABSENT, UNKNOWN, Change
from ...reads.changes import Following, Only
from ...reads.event_views import EventView
from ...sources import registry
from ...sources.dialect import Either
from ...sources.finding import SESSION_FILE
from ._terminal import local_zone, plain, short, silence_logs, words
from ._words import told

LOOK_SECONDS: Final = Either(sqlite=0.2, postgresql=0.5)
_AWAY_SECONDS: Final = 1.0  # between the first two tries of a source that does not answer
_LONGEST_AWAY_SECONDS: Final = 8.0
_MOST_LINES: Final = 10_000
_CHIPS: Final = 8  # on a line
_LEAST: Final = 24  # characters for what happened, however narrow the terminal is

_SCOPES: Final = {"session": "blue", "user": "magenta", "app": "yellow", "temp": "dim"}


class Command(BaseCommand):
    """Follows a source until it is interrupted."""

    help = "Follow a source in the terminal: its newest events, then each new one. Nothing is changed or adopted."
    requires_system_checks = ()  # they load every page and route, which takes longer than the work

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Defines SOURCE [--app] [--user] [--session] [--lines]"""
        parser.add_argument("source", metavar="SOURCE", help="a folder, a SQLite file or a postgresql:// URL")
        parser.add_argument("--app", help="only this app's events")
        parser.add_argument("--user", help="only this user's events")
        parser.add_argument("--session", help="only the events of the session with this id")
        parser.add_argument(
            "--lines", type=_lines, default=10, metavar="N", help="how many of the newest events come first (10)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Prints the newest events and then each new one, until Ctrl+C."""
        settings.READ_ONLY = True
        silence_logs()
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
        with suppress(KeyboardInterrupt):
            try:
                self._follow(options["source"], Only(options["app"], options["user"], options["session"]), options)
            except BrokenPipeError:  # `adkweb tail … | head`
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def _follow(self, text: str, only: Only, options: dict[str, Any]) -> None:
        try:
            sources = registry.add(text)
        except SourceError as error:
            raise CommandError(error.message, returncode=2) from error
        folder = bool(registry.folders())
        if not sources:
            self.stderr.write(f"{plain(text)}: no {SESSION_FILE} yet; it is followed as soon as there is one")
        feeds = {source.alias: _Feed(source, only) for source in sources}
        if not folder:
            self._first(feeds[sources[0].alias])
        line = Line(only, several=folder)
        for view in _newest(feeds.values(), options["lines"]):
            self._show(line.of(view))
        while True:
            for feed in feeds.values():
                self._tell(feed, line)
            if folder:
                for source in registry.listed():
                    feeds.setdefault(source.alias, _Feed(source, only, whole=True))
            _wait(min((feed.look_seconds for feed in feeds.values()), default=0.5))

    def _tell(self, feed: "_Feed", line: "Line") -> None:
        """Prints what is new, and what is wrong with the source."""
        for view in feed.more():
            self._show(line.of(view))
        if note := feed.note():
            self.stderr.write(plain(note))

    def _first(self, feed: "_Feed") -> None:
        """Opens a source that was named directly. Raises CommandError if it cannot be opened at the start."""
        try:
            feed.open()
        except SourceError as error:
            raise CommandError(error.message, returncode=2) from error

    def _show(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()


class _Feed:
    """A source that is followed, even if it does not answer for a while."""

    def __init__(self, source: registry.Source, only: Only, *, whole: bool = False) -> None:
        self._source, self._only, self._whole = source, only, whole
        self.look_seconds = LOOK_SECONDS.on(source.alias)
        self._following: Following | None = None
        self._problem = self._told = ""
        self._retry = 0.0
        self._pause = _AWAY_SECONDS

    def open(self) -> Following:
        """Opens the source, if it is not open yet. Raises SourceError."""
        if self._following is None:
            self._following = Following(self._source, self._only, whole=self._whole, actor=TERMINAL)
        return self._following

    def newest(self, number: int) -> list[EventView]:
        """Returns the newest events, or none if the source does not answer."""
        with self._away():
            return self.open().newest(number) if number else []
        return []

    def more(self) -> Iterator[EventView]:
        """Yields the new events, or none while the source does not answer."""
        if time.monotonic() < self._retry:
            return
        with self._away():
            yield from self.open().more()
            self._problem, self._pause = "", _AWAY_SECONDS

    def note(self) -> str:
        """Returns the message to print now: that the source stopped answering, that it is back, or ""."""
        if self._problem == self._told or (self._problem and self._told):
            return ""
        self._told = self._problem
        return self._problem or f"{self._source.where} is back."

    @contextmanager
    def _away(self) -> Iterator[None]:
        try:
            yield
        except SourceError as error:
            self._problem = error.message
            self._retry = time.monotonic() + self._pause
            self._pause = min(_LONGEST_AWAY_SECONDS, self._pause * 2)


class Line:
    """Formats events as lines. On a terminal, they have colours and are not wider than it."""

    def __init__(self, only: Only, *, several: bool) -> None:
        self._console = Console(highlight=False, markup=False, emoji=False)
        self._width = self._console.width if sys.stdout.isatty() else None
        named = (not several, only.app is not None, only.user is not None, only.session is not None)
        self._parts = [index for index, fixed in enumerate(named) if not fixed]
        self._before: list[str] = []

    def of(self, view: EventView) -> str:
        """Returns the line of an event."""
        description = view.description
        text, end = Text(), Text()
        text.append(_clock(view.timestamp), "dim")
        self._where(view, text)
        author = {"user": "green", "system": "yellow"}.get(description.author, "magenta")
        text.append(f"  {words(description.author, 40) or '–'}", author)
        text.append(f"  {description.kind}", "bold red" if description.failed else TABLE[description.kind].style)
        for change in view.changes[:_CHIPS]:
            end.append(f"  {_chip(change)}", _SCOPES[change.scope])
        if len(view.changes) > _CHIPS:
            end.append(f"  +{len(view.changes) - _CHIPS}", "dim")
        if description.tokens:
            end.append(f"  {description.tokens:,} tok" if description.tokens < 10**15 else "  … tok", "dim")
        if happened := told(view):
            room = self._width - cell_len(text.plain) - cell_len(end.plain) - 2 if self._width else len(happened)
            text.append("  ").append(words(happened, max(_LEAST, room)))
        return self._rendered(text.append_text(end))

    def _where(self, view: EventView, text: Text) -> None:
        """Adds the names that the command does not already give. Those of the line before are dimmed."""
        parts = [view.ref[index] for index in self._parts]
        for number, part in enumerate(parts):
            same = self._before[: number + 1] == parts[: number + 1]
            text.append("  " if number == 0 else "/", "dim").append(words(part, 60), "dim" if same else "cyan")
        self._before = parts

    def _rendered(self, text: Text) -> str:
        if self._width:
            text.truncate(self._width, overflow="ellipsis")
        if not self._console.is_terminal:
            return text.plain
        with self._console.capture() as captured:
            self._console.print(text, soft_wrap=True, end="")
        return captured.get()


def _chip(change: Change) -> str:
    old = "" if change.old is UNKNOWN or change.old is ABSENT else f"{short(change.old, 24)} "
    return f"{words(change.key, 48)} {old}→ {'removed' if change.new is ABSENT else short(change.new, 32)}"


def _clock(seconds: float) -> str:
    try:
        moment = datetime.fromtimestamp(seconds, local_zone())
    except (OverflowError, ValueError, OSError):  # an event may hold anything
        return "--:--:--"
    today = datetime.now(local_zone()).date()
    return moment.strftime("%H:%M:%S" if moment.date() == today else "%Y-%m-%d %H:%M:%S")


def _newest(feeds: Iterable[_Feed], number: int) -> list[EventView]:
    """Returns the newest events: of several sources by time, of one in the order of appending."""
    newest = [feed.newest(number) for feed in feeds]
    if len(newest) == 1:
        return newest[0]
    return sorted((view for views in newest for view in views), key=lambda view: view.timestamp)[-number:]


def _wait(seconds: float) -> None:
    """Waits until the next look. Raises BrokenPipeError as soon as no one reads the output."""
    if hasattr(select, "poll") and stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode):
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        if any(event & (select.POLLERR | select.POLLHUP) for _file, event in poll.poll(seconds * 1000)):
            raise BrokenPipeError
    else:
        time.sleep(seconds)


def _lines(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > _MOST_LINES:
        raise ArgumentTypeError(f"{plain(text)} is not a number from 0 to {_MOST_LINES:,}")
    return int(text)
