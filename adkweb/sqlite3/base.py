"""Defines the database backend, in the module in which Django looks for it."""

import os
import sqlite3
import time
from pathlib import Path
from typing import Any

from django.db.backends.sqlite3 import base

from sessions_app.access import private_files

_opened: dict[str, tuple[int, int]] = {}  # by path, the file that this process opened first


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's SQLite backend, which creates the file itself: SQLite would create one that everyone can read.

    It does so once. If the file is deleted or replaced later, the next statement notices it: SQLite would create an
    empty one, or continue in one that is no longer visible."""

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Returns a connection to a file that is closed to others."""
        name = str(conn_params["database"])
        if name.startswith(("file:", ":memory:")):
            return super().get_new_connection(conn_params)
        if name in _opened:
            _check(name)
        private_files.keep_database(Path(name))
        until = time.monotonic() + conn_params.get("timeout", 5.0)  # as sqlite3 has it
        while True:
            try:
                connection = super().get_new_connection(conn_params)
                break
            except sqlite3.OperationalError as error:
                # Everything else waits for a lock, but not the switch to WAL, which several processes may try at once.
                if "locked" not in str(error) or time.monotonic() > until:
                    raise
                time.sleep(0.01)
        _opened[name] = _file(name)
        return connection

    def create_cursor(self, name: str | None = None) -> Any:
        """Returns a cursor. Raises OperationalError once the file is not the one that was opened."""
        if (path := str(self.settings_dict["NAME"])) in _opened:
            _check(path)
        return super().create_cursor(name)


def _check(path: str) -> None:
    try:
        same = _file(path) == _opened[path]
    except OSError as error:
        raise sqlite3.OperationalError(f"adkweb's own database is gone: {path}") from error
    if not same:
        raise sqlite3.OperationalError(f"adkweb's own database is gone: {path} is another file now")


def _file(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino
