"""Agents that answer from a script, in a folder of their own, and adkweb's children for them."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from sessions_app.running import children
from tests.support import warm


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder of agents for the tests of a module."""
    return Path(shutil.copytree(Path(__file__).parent / "agents", tmp_path_factory.mktemp("running") / "agents"))


@pytest.fixture(scope="module", autouse=True)
def _ended() -> Iterator[None]:
    """Ends all children after the tests of a module."""
    yield
    children.stop_all(4)


@pytest.fixture
def _warm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forks children, which spares each the two seconds of importing google-adk. test_children.py starts real ones."""
    warm.run([sys.executable, "-c", ""])  # the first fork waits for all imports, longer than an agent may take
    forking = SimpleNamespace(**{**vars(subprocess), "Popen": warm.Popen, "run": warm.run})
    monkeypatch.setattr(children, "subprocess", forking)
