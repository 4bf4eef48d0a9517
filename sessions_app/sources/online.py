"""Adopts a database while agents write: no writer waits for long, and none fails.

On PostgreSQL, a statement that needs an exclusive lock waits for it at most LOCK_MILLISECONDS, then lets the writers
pass and tries again. Existing rows are numbered in small batches, and indexes are built CONCURRENTLY. On SQLite, each
step is a transaction of its own with a pause after it. An index that takes longer than BUILD_SECONDS is left out,
unless the owner asks for it (`patient`).

The database itself shows whether a step is done, so the next process can resume where a killed one stopped."""

from contextlib import nullcontext

import psycopg
from django.db import DatabaseError
from django.utils.translation import gettext as _

from ..domain.errors import SourceError
from . import adoption, dialect
from .locks import alone, briefly
from .online_postgresql import PostgreSQL
from .online_sqlite import SQLite
from .steps import Moved


def add(alias: str, moved: Moved = lambda progress: None, *, patient: bool = False) -> None:
    """Adds what is missing. Calls `moved` with its progress; `moved` may raise to stop it.

    May be interrupted at any point; the next call resumes there. Waits for another process that adopts the same
    database. Raises SourceError if this user may not do it, or if someone else keeps a lock for a minute."""
    if dialect.of(alias).is_file:
        SQLite(alias, moved, patient).add()
        return
    try:
        with alone(alias, moved) as check:
            PostgreSQL(alias, moved, check).add()
    except (DatabaseError, psycopg.Error) as error:
        raise SourceError(
            _(
                "Adoption stopped: %(error)s Start it again to continue. It must run as the tables' owner, and "
                "the database stays read-only until it is done."
            )
            % {"error": f"{error}".strip().rstrip(".") + "."}
        ) from error


def release(alias: str) -> None:
    """Removes everything that adopting added, in one transaction. ADK's tables are then as they were."""
    with nullcontext() if dialect.of(alias).is_file else alone(alias, lambda progress: None):
        briefly(alias, adoption.to_release(alias))
