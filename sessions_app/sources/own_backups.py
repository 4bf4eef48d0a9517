"""Backs up adkweb's own database to one file, and restores it. The file is a SQLite database, whatever it was made
from.

So a backup of SQLite can be restored into PostgreSQL, and the other way round. It leaves out what is read again from
the sources automatically (the indexes of history/ and search/).
"""

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final

from django.apps import apps
from django.conf import settings
from django.core.management import call_command
from django.core.management.color import no_style
from django.db import connections, transaction
from django.db.models import Model, QuerySet
from django.db.models.sql import InsertQuery

from ..access import private_files
from ..domain.errors import AlreadyExists, Conflict, Invalid, NotFound
from ..models.pages import SOME, in_pages
from ..models.tables import have_no_file
from . import dialect, versions
from .dialect import Either

INDEXES: Final = frozenset(
    {
        *("Projection", "StateOwner", "StateChange", "SearchSource", "Waiting", "SearchOwner", "SearchSession"),
        *(
            "SearchName",
            "SearchFact",
            "SearchValue",
            "SearchSpan",
            "SearchPending",
            "SearchKey",
            "DriftedSession",
            "SearchDoc",
        ),
        *("SearchWord", "SearchWrite", "DueSession"),
    }
)
# Filled by Django itself, or by adkweb as soon as it opens a source.
_BOOKKEEPING: Final = frozenset({"ContentType", "Permission", "KnownSource"})
_ALIAS: Final = "adkweb-copy"


def backup(path: Path) -> None:
    """Writes a copy of adkweb's own database as it is at one moment, while it is used. Only its owner can read the
    file.

    Raises AlreadyExists, and NotFound if there is nothing to back up yet."""
    if path.exists():
        raise AlreadyExists(f"{path} already exists. A backup never overwrites a file: choose another name.")
    if have_no_file() or versions.FIRST not in versions.applied():
        raise NotFound("adkweb's own database doesn't exist yet, so there is nothing to back up.")
    part = path.with_name(f".{path.name}.{os.getpid()}")
    private_files.new_file(part)
    try:
        _SAVE.on("default")(part)
        _keep(part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def restore(path: Path, *, replace: bool = False) -> None:
    """Replaces adkweb's own database with a backup, all or nothing. An older adkweb's backup is migrated.

    Raises Invalid for a file that isn't a backup, and Conflict for a database in use, unless it may be replaced."""
    _check(path)
    migrate()
    if is_used("default") and not replace:
        raise Conflict(
            "adkweb's own database has accounts, tokens or other data. They would be lost. Make a backup, then use "
            "--replace."
        )
    with tempfile.TemporaryDirectory(dir=settings.DATA_DIR) as folder:
        file = Path(folder, "restored.db")
        private_files.new_file(file)
        with closing(_read(path)) as given, closing(sqlite3.connect(file)) as made:
            given.backup(made)
        _LOAD.on("default")(file)


def _save_file(part: Path) -> None:
    with closing(sqlite3.connect(part)) as file:
        connections["default"].connection.backup(file)
        file.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it


def _save_rows(part: Path) -> None:
    with opened(part) as alias:
        copy("default", alias)


def _load_file(file: Path) -> None:
    with opened(file):  # which migrates an older adkweb's
        pass
    connections["default"].ensure_connection()
    with closing(sqlite3.connect(file)) as made:
        made.backup(connections["default"].connection)


def _load_rows(file: Path) -> None:
    with opened(file) as alias:
        copy(alias, "default")


_SAVE: Final[Either[Callable[[Path], None]]] = Either(postgresql=_save_rows, sqlite=_save_file)
_LOAD: Final[Either[Callable[[Path], None]]] = Either(postgresql=_load_rows, sqlite=_load_file)


def _check(path: Path) -> None:
    """Raises Invalid if a file isn't a complete backup of this adkweb, or of an older one."""
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
    if versions.FIRST not in applied:
        raise Invalid(f"{path} is not a backup of adkweb's own database.")
    if why := versions.why_refused(applied):
        raise Invalid(f"{path} {why}")


def _read(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def _keep(path: Path) -> None:
    """Returns when a file is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# --- Rows, from one database to another, whatever kind each is --------------------------------------------------------


def tables() -> list[type[Model]]:
    """Returns the models of all own tables, those of Django's parts too."""
    models = apps.get_models(include_auto_created=True)
    return [model for model in models if model._meta.managed and not model._meta.proxy]


def is_used(alias: str) -> bool:
    """Returns whether a database was ever used: it has accounts, tokens, jobs or anything else that is stored."""
    kept = (model for model in tables() if model.__name__ not in INDEXES | _BOOKKEEPING)
    return any(QuerySet(model, using=alias).exists() for model in kept)


@contextmanager
def opened(path: Path) -> Iterator[str]:
    """Opens a SQLite file as a database with own tables of this version, and yields its alias."""
    given = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(path), "OPTIONS": {"transaction_mode": "IMMEDIATE"}}
    configured = connections.configure_settings({"default": given})["default"]
    with _as_default(configured):  # migrations move rows of the default database, whichever is migrated
        migrate()
    connections.databases[_ALIAS] = configured
    try:
        yield _ALIAS
    finally:
        connections[_ALIAS].close()
        del connections[_ALIAS]
        del connections.databases[_ALIAS]


@contextmanager
def _as_default(configured: dict[str, Any]) -> Iterator[None]:
    before, connection = connections.databases["default"], connections["default"]
    connections.databases["default"] = configured
    del connections["default"]
    try:
        yield
    finally:
        connections["default"].close()
        connections.databases["default"] = before
        connections["default"] = connection


def migrate() -> None:
    """Creates or migrates own tables in the default database."""
    call_command("migrate", verbosity=0, interactive=False)


def copy(source: str, target: str) -> int:
    """Replaces the rows of a database with those of another, all or nothing. Returns their number."""
    with transaction.atomic(using=source):
        with connections[source].cursor() as cursor:
            dialect.of(source).freeze(cursor)
        with transaction.atomic(using=target), _emptied(target):
            return sum(_copy(model, source, target) for model in tables() if model.__name__ not in INDEXES)


@contextmanager
def _emptied(alias: str) -> Iterator[None]:
    """Empties all own tables, and lets nothing but this transaction write to them. The audit refuses this otherwise."""
    connection = connections[alias]
    names = [name for name in connection.introspection.table_names() if name.startswith("sessions_app_")]
    names = sorted({*names, *(model._meta.db_table for model in tables())})
    quoted = [connection.ops.quote_name(name) for name in names]
    with connection.cursor() as cursor:
        if dialect.of(alias).is_file:  # which has just been made
            for model in (model for model in tables() if model.__name__ in _BOOKKEEPING):
                QuerySet(model, using=alias).delete()
            yield
            return
        for name in quoted:
            cursor.execute(f"ALTER TABLE {name} DISABLE TRIGGER USER")
        for statement in connection.ops.sql_flush(no_style(), names):
            cursor.execute(statement)
        yield
        for statement in connection.ops.sequence_reset_sql(no_style(), tables()):
            cursor.execute(statement)
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for name in quoted:
            cursor.execute(f"ALTER TABLE {name} ENABLE TRIGGER USER")


def _copy(model: type[Model], source: str, target: str) -> int:
    rows: Iterator[Model] = in_pages(QuerySet(model, using=source))
    count = 0
    while some := list(islice(rows, SOME)):
        query: Any = InsertQuery(model)
        query.insert_values(model._meta.concrete_fields, some, raw=True)  # as they are: no field gets the current time
        query.get_compiler(using=target).execute_sql()
        count += len(some)
    return count
