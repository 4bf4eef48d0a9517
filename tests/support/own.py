"""Gives tests adkweb's own database as users have it: in a file or on PostgreSQL, shared by threads and processes.

pytest-django's database is in memory, where SQLite locks differently. `own_database` replaces it with a real one.
"""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.core.management import call_command
from django.db import connections
from environ import Env


@contextmanager
def own_database(url: str) -> Iterator[None]:
    """Makes the database of a URL this process's default database until the end of the block."""
    before = connections.databases["default"]
    connection = connections["default"]
    options = {**before.get("OPTIONS", {})} if url.startswith("sqlite") else {}
    changed = {**before, "OPTIONS": options, **Env.db_url_config(url)}
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
    shutil.copyfile(_tables(), path)
    return path


def started_before(data: Path, tables: Path) -> Path:
    """Makes a data directory as after a first start, which takes seconds to make `tables`. Returns the directory."""
    data.mkdir(mode=0o700)
    Path(shutil.copy(tables, data / "adkweb.db")).chmod(0o600)
    return data


@functools.cache
def _tables() -> Path:
    """Makes adkweb's own tables, which are empty, in a file that lives as long as this process."""
    folder = tempfile.mkdtemp(prefix="adkweb-own-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder, "adkweb.db")
    with own_database(f"sqlite:///{path}"):
        call_command("migrate", verbosity=0, interactive=False)
    return path
