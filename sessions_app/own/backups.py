"""Backs up adkweb's own database to one file, and restores it. The file is a SQLite database, whatever it was made from.

So a backup of SQLite can be restored into PostgreSQL, and the other way round.
"""

import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Final

from django.conf import settings
from django.db import connections
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from ..access import private_files
from ..domain.errors import AlreadyExists, Conflict, Invalid, NotFound
from . import copying

_FIRST: Final = ("sessions_app", "0001_initial")


def backup(path: Path) -> None:
    """Writes a copy of adkweb's own database as it is at one moment, while it is used. Only its owner can read the file.

    Raises AlreadyExists, and NotFound if there is nothing to back up yet."""
    if path.exists():
        raise AlreadyExists(f"{path} exists already. A backup overwrites nothing: name another file.")
    connection = connections["default"]
    name = str(connection.settings_dict["NAME"])
    missing = connection.vendor == "sqlite" and not Path(name).exists()  # connecting would make it
    if missing or _FIRST not in MigrationRecorder(connection).applied_migrations():
        raise NotFound("adkweb's own database is not there yet, so there is nothing to back up.")
    part = path.with_name(f".{path.name}.{os.getpid()}")
    private_files.new_file(part)
    try:
        if connection.vendor == "sqlite":
            with closing(sqlite3.connect(part)) as file:
                connection.connection.backup(file)
                file.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
        else:
            with copying.opened(part) as alias:
                copying.copy("default", alias)
        _keep(part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def restore(path: Path, *, replace: bool = False) -> None:
    """Makes adkweb's own database what a backup has, all or nothing. An older adkweb's backup is completed.

    Raises Invalid for a file that is no backup, and Conflict for a database that is used, unless it may be replaced."""
    _check(path)
    copying.migrate()
    if copying.is_used("default") and not replace:
        raise Conflict(
            "adkweb's own database has accounts, tokens or other data. They would be lost. Make a backup, then use "
            "--replace."
        )
    with tempfile.TemporaryDirectory(dir=settings.DATA_DIR) as folder:
        file = Path(folder, "restored.db")
        private_files.new_file(file)
        with closing(_read(path)) as given, closing(sqlite3.connect(file)) as made:
            given.backup(made)
        with copying.opened(file) as alias:
            if connections["default"].vendor == "postgresql":
                copying.copy(alias, "default")
                return
        connections["default"].ensure_connection()
        with closing(sqlite3.connect(file)) as made:
            made.backup(connections["default"].connection)


def _check(path: Path) -> None:
    """Raises Invalid if a file is no whole backup of this adkweb, or of an older one."""
    if not path.is_file():
        raise Invalid(f"There is no file {path}.")
    try:
        with closing(_read(path)) as file:
            whole = file.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
            applied = set(file.execute("SELECT app, name FROM django_migrations"))
    except sqlite3.Error as error:
        raise Invalid(f"{path} is not a backup of adkweb's own database: {error}") from error
    if not whole:
        raise Invalid(f"{path} is damaged.")
    if _FIRST not in applied:
        raise Invalid(f"{path} is not a backup of adkweb's own database.")
    if unknown := applied - set(MigrationLoader(None).graph.nodes):
        raise Invalid(f"{path} was made by a newer adkweb: this one does not know {max(unknown)[1]}.")


def _read(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def _keep(path: Path) -> None:
    """Returns when a file is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
