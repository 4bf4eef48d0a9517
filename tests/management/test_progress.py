"""The bar on a terminal: it moves while a command works, however large its steps are, and is nowhere else."""

import io
import time

import pytest
from rich.console import Console

from sessions_app.management.commands import _progress
from tests.support.at_work import until


def test_it_moves_with_each_step_that_takes_a_while_and_knows_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(_progress, "Console", lambda stderr: Console(file=shown, force_terminal=True, width=120))
    with _progress.progress("folding", "events") as bar:
        bar.total(300)
        for number in (100, 200, 300):
            bar.moved(100)
            until(lambda: f"{number} events" in shown.getvalue(), f"{number} events are shown")  # noqa: B023
            time.sleep(0.15)
    assert "67%" in shown.getvalue()


def test_where_no_terminal_is_nothing_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    with _progress.progress("folding", "events") as bar:
        bar.moved(1)
    assert capsys.readouterr() == ("", "")
