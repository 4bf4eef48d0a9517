"""Gives tests adkweb's own database as users have it: in a file or on PostgreSQL, shared by threads and processes.

pytest-django's database is in memory, where SQLite locks differently. `own_database` replaces it with a real one.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import allauth
import django
from django.db import connections
from environ import Env

from tests.support import warm
from tests.support.warm import ROOT


@contextmanager
def own_database(url: str) -> Iterator[None]:
    """Makes the database of a URL this process's default database until the end of the block."""
    before = connections.databases["default"]
    connection = connections["default"]
    options = {**before.get("OPTIONS", {})} if url.startswith("sqlite") else {}
    changed = {**before, "OPTIONS": options, **Env.db_url_config(url)}
    if url.startswith("sqlite"):
        changed["ENGINE"] = "adkweb.sqlite3"
    connections.databases["default"] = connections.configure_settings({"default": changed})["default"]
    del connections["default"]
    try:
        yield
    finally:
        connections["default"].close()
        connections.databases["default"] = before
        connections["default"] = connection


def migrated(path: Path) -> Path:
    """Makes adkweb's own tables in a file, and returns its path. Copying them takes a hundredth of the time of making."""
    shutil.copyfile(tables(), path)
    return path


def started_before(data: Path, tables: Path) -> Path:
    """Makes a data directory as after a first start, which takes seconds to make `tables`. Returns the directory."""
    data.mkdir(mode=0o700)
    Path(shutil.copy(tables, data / "adkweb.db")).chmod(0o600)
    return data


@functools.cache
def tables() -> Path:
    """Returns a file with adkweb's own tables, which are empty. All processes of all runs share it: copy it, never open it.

    Its name has a hash of what it is made of: after a change there, it is made anew, by `manage.py migrate`."""
    made_of = hashlib.sha256(f"{django.__version__} {allauth.__version__}".encode())
    files = [file for folder in ("migrations", "models") for file in (ROOT / "sessions_app" / folder).glob("*.py")]
    for file in [*sorted(files), ROOT / "adkweb" / "settings.py"]:
        made_of.update(file.name.encode() + file.read_bytes())
    path = ROOT / ".pytest_cache" / "adkweb-own" / f"{made_of.hexdigest()[:16]}.db"
    if not path.exists():
        with tempfile.TemporaryDirectory() as folder:
            part = make_tables(Path(folder)).rename(Path(folder, path.name))
            path.parent.mkdir(parents=True, exist_ok=True)
            # In one step: another process may make it, too.
            Path(shutil.copy(part, f"{path}.{os.getpid()}")).replace(path)
    return path


def make_tables(data: Path) -> Path:
    """Makes adkweb's own tables in an empty data directory, by its migrations, which takes seconds. Returns their file."""
    variables = {"ADKWEB_DATA_DIR": str(data), "DJANGO_SETTINGS_MODULE": "adkweb.settings", "PYTHONPATH": str(ROOT)}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ADKWEB_")}
    command = [sys.executable, str(ROOT / "manage.py"), "migrate", "--verbosity=0"]
    warm.run(command, env={**kept, **variables}, check=True)
    with closing(sqlite3.connect(data / "adkweb.db")) as made:
        made.execute("PRAGMA journal_mode = DELETE")  # a copy in memory can have no log beside it
    return data / "adkweb.db"
