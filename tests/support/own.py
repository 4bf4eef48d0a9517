"""adkweb's own database as users have it, a file or a PostgreSQL server, which threads and processes can share.

pytest-django's is in memory, where SQLite's locks are others; `own_database` puts a real one in its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.core.management import call_command
from django.db import connections
from environ import Env


@contextmanager
def own_database(url: str) -> Iterator[None]:
    """Makes what a URL names the default database, for this process, until the end."""
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
    """A file with adkweb's own tables."""
    with own_database(f"sqlite:///{path}"):
        call_command("migrate", verbosity=0, interactive=False)
    return path
