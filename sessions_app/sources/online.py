"""Adds what adopting adds while agents write: no lock makes a writer wait for long, and none fails.

PostgreSQL: what needs an exclusive lock asks for it for LOCK_MILLISECONDS, then lets the writers pass and asks again. The
rows that are there are numbered in small batches, indexes are built CONCURRENTLY. SQLite: each step is a transaction of its
own with a pause after it, and an index that takes longer than BUILD_SECONDS is left out, unless its owner asks for it
(`patient`).

Every step can be seen in the database, so a process that is killed leaves nothing that the next one has to know.
"""

from contextlib import nullcontext

import psycopg
from django.db import DatabaseError, connections
from django.utils.translation import gettext as _

from ..errors import SourceError
from . import adoption
from .locks import alone, briefly
from .online_postgresql import PostgreSQL
from .online_sqlite import SQLite
from .steps import Moved


def add(alias: str, moved: Moved = lambda progress: None, *, patient: bool = False) -> None:
    """Adds what is missing; `moved` hears how far it is, and may raise to stop it.

    May be interrupted at any point, and goes on there when it is called again. Another process that does the same is waited
    for. Raises SourceError where this user may not do it, or where somebody else keeps a lock for a minute.
    """
    if connections[alias].vendor == "sqlite":
        SQLite(alias, moved, patient).add()
        return
    try:
        with alone(alias, moved) as check:
            PostgreSQL(alias, moved, check).add()
    except (DatabaseError, psycopg.Error) as error:
        raise SourceError(
            _(
                "Adopting this database stopped: %(error)s It goes on where it stopped when it is started again. It needs "
                "the tables' owner; until it is done, adkweb shows the database and writes nothing."
            )
            % {"error": f"{error}".strip().rstrip(".") + "."}
        ) from error


def release(alias: str) -> None:
    """Takes away what adopting added, all or nothing; ADK's tables are then as they were."""
    sqlite = connections[alias].vendor == "sqlite"
    with nullcontext() if sqlite else alone(alias, lambda progress: None):
        briefly(alias, adoption.to_release(alias))
