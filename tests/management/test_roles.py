"""Commands ask nobody who they are: whoever runs one has this machine's files. Each row says what its command changes.

A new command without a row fails."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from adkweb.cli import COMMANDS
from tests.management.conftest import run
from tests.web.conftest import DEMO

# Gives what each command changes: nothing, adkweb's own database, or the source that it names.
CHANGES: Final = {
    "nothing": "backup export export-user find inbox replay tail doctor audit-head completion",
    "own": "migrate reindex restore token createsuperuser changepassword",
    "source": "create adopt release import serve answer say stop",
}
CHANGED: Final = {name: what for what, names in CHANGES.items() for name in names.split()}
WORDS: Final[dict[str, tuple[str, ...]]] = {
    "export": ("agent.db",),
    "export-user": ("agent.db", "--app", "booking", "--user", "ana", "--output", "ana.zip"),
    "find": ("booking", "agent.db"),
    "inbox": ("agent.db",),
    "replay": ("agent.db", "-q", "maleta", "--agents", str(DEMO.parent / "agents")),
    "doctor": ("agent.db",),
    "audit-head": (),
    "backup": ("copy.db",),
    "completion": ("bash",),
    "migrate": (),
    "reindex": ("agent.db",),
    "token": ("list",),
    "adopt": ("agent.db",),
    "release": ("agent.db",),
    "import": ("file.jsonl", "--into", "agent.db"),
    "answer": ("call-x", "agent.db", "--approve"),
    "say": ("booking/ana/s1", "hello", "agent.db"),
    "stop": ("booking/ana/s1", "agent.db"),
}


@pytest.fixture
def source(tmp_path: Path, ready: None) -> Path:
    """A copy of the demo, which is adopted, so that it has an id of its own."""
    path = Path(shutil.copy(DEMO, tmp_path / "agent.db"))
    assert run(tmp_path, "adopt", "agent.db")[0] == 0
    return path


def kept(path: Path) -> str:
    """All that a file holds: its tables and their rows."""
    with closing(sqlite3.connect(path)) as db:
        return "\n".join(db.iterdump())


def test_every_command_has_a_row() -> None:
    assert COMMANDS.keys() == CHANGED.keys()


@pytest.mark.parametrize("command", [name for name, what in CHANGED.items() if what != "source" and name in WORDS])
def test_a_command_that_reads_leaves_the_source_as_it_is(tmp_path: Path, source: Path, command: str) -> None:
    before = kept(source)
    code, _output, complaints = run(tmp_path, command, *WORDS[command])
    assert code in (0, 1), complaints
    assert kept(source) == before


@pytest.mark.parametrize("command", [name for name, what in CHANGED.items() if what == "source" and name in WORDS])
def test_a_command_that_writes_is_refused_where_adkweb_only_reads(tmp_path: Path, source: Path, command: str) -> None:
    (tmp_path / "file.jsonl").write_text(run(tmp_path, "export", "agent.db")[1])
    before = kept(source)
    code, _output, complaints = run(tmp_path, command, *WORDS[command], ADKWEB_READ_ONLY="true")
    assert code == 2, complaints
    assert "READ_ONLY" in complaints
    assert kept(source) == before
