"""Shows a progress bar on standard error if that is a terminal, and nothing otherwise."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskProgressColumn, TextColumn
from rich.text import Text

from ...history.index.build import time_left

_SECONDS = 0.1  # between two moves that are shown


class Bar(Protocol):
    """Shows a command's progress."""

    def total(self, number: int) -> None:
        """Sets the total."""

    def moved(self, number: int) -> None:
        """Adds to what is done."""

    def at(self, done: int, total: int) -> None:
        """Sets what is done, and the total."""


@contextmanager
def progress(verb: str, unit: str) -> Iterator[Bar]:
    """Shows a bar while the block runs."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.completed:,.0f} " + unit),
        _Left(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as shown:
        yield _Bar(shown, verb)


class _Left(ProgressColumn):
    """The time that is left, in the same words as on pages: about 20 s left."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        return Text("" if task.time_remaining is None else time_left(task.time_remaining))


class _Bar:
    def __init__(self, shown: Progress, verb: str) -> None:
        self._shown, self._task = shown, shown.add_task(verb, total=None)
        self._waiting, self._told = 0, 0.0

    def total(self, number: int) -> None:
        self._shown.update(self._task, total=number)

    def moved(self, number: int) -> None:
        self._waiting += number
        if (now := time.monotonic()) - self._told >= _SECONDS:
            self._shown.advance(self._task, self._waiting)
            self._waiting, self._told = 0, now

    def at(self, done: int, total: int) -> None:
        self._shown.update(self._task, completed=done, total=total)
