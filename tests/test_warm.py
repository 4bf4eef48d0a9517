"""Processes of the tests are forked from one that has imported what they need."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.support import warm
from tests.support.warm import ROOT, SETTINGS

IMPORTED = """
import sys
before = set(sys.modules)
import adkweb.asgi
after = {name for name in set(sys.modules) - before if name.partition(".")[0] not in sys.stdlib_module_names}
print(*sorted(after))
"""
SETTLED = """
import django
django.setup()
from django.conf import settings
from django.db import connections
from sessions_app.sources import registry
print(settings.DATA_DIR, connections["default"].settings_dict["NAME"], settings.SECRET_KEY, settings.READ_ONLY)
print(*registry.sources)
"""


WITH_AGENT = """
import sys
from sessions_app.running import children
agent = children.subprocess.run([sys.executable, "-c", "import sys; print('google.adk' in sys.modules)"])
sys.exit(agent.returncode)
"""


def out_of(code: str, data: Path, **variables: str) -> list[str]:
    """What a program prints, word by word."""
    own = {"DJANGO_SETTINGS_MODULE": "adkweb.settings", "ADKWEB_DATA_DIR": str(data), "PYTHONPATH": str(ROOT)}
    env = {**os.environ, **own, **variables}
    return str(
        warm.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
    ).split()


def test_a_fork_imports_nothing_but_settings(tmp_path: Path) -> None:
    imported = out_of(IMPORTED, tmp_path)
    assert set(imported) >= set(SETTINGS)
    # allauth's middleware and views of its own are found by the settings.
    assert len(imported) < 10, imported


def test_a_fork_has_the_settings_of_its_own_environment(tmp_path: Path) -> None:
    for number in range(2):
        data, file = tmp_path / f"data{number}", tmp_path / f"agent{number}.db"
        file.touch()
        sources = f'["{file}"]'
        told = out_of(SETTLED, data, ADKWEB_SOURCES=sources, ADKWEB_SECRET_KEY="k", ADKWEB_READ_ONLY=str(number))
        assert told == [str(data), str(data / "adkweb.db"), "k", str(bool(number)), f"agent{number}"]


def test_a_fork_forks_the_processes_of_agents(tmp_path: Path) -> None:
    words = [sys.executable, "-c", WITH_AGENT]
    done = warm.run(words, cwd=tmp_path, capture_output=True, text=True, forks_agents=True)
    assert (done.stdout, done.stderr, done.returncode) == ("True\n", "", 0)
