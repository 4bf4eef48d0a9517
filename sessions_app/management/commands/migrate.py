"""`adkweb migrate`: makes adkweb's own tables, or completes them, for one process after the other."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg
from django.conf import settings
from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import DatabaseError, connections

from ...sources import dialect, locks, versions
from ._terminal import plain

_PAUSE_SECONDS: Final = 0.5
# Connection errors that waiting doesn't solve.
_LASTING: Final = ("authentication", "password", "pg_hba", "does not exist", "unable to open", "startup parameter")


class Command(migrate.Command):
    """Does what Django's command does, but waits for the database, and only one process does it at a time."""

    help = "Create or migrate the tables of adkweb's own database, as every start of adkweb does. --check only checks."

    def handle(self, *args: Any, **options: Any) -> None:
        """Migrates. Exits with 2 if the database cannot be used, or is of an adkweb that this one does not know."""
        alias = options["database"]
        try:
            self._wait_for(alias)
            if why := versions.why_refused(versions.applied(alias)):
                raise CommandError(f"adkweb's own database (ADKWEB_DATABASE_URL) {why}", returncode=2)
            with self._alone(alias):
                if not options["check_unapplied"]:
                    versions.take_over(alias)
                super().handle(*args, **options)
        except (DatabaseError, psycopg.Error) as error:
            raise CommandError(
                f"adkweb's own database (ADKWEB_DATABASE_URL) cannot be used: {str(error).strip()}", returncode=2
            ) from error

    def _wait_for(self, alias: str) -> None:
        """Waits until a server answers: it may be starting at the same time as adkweb."""
        until, said = time.monotonic() + settings.WAIT_SECONDS, False
        while True:
            try:
                connections[alias].ensure_connection()
            except DatabaseError as error:
                if time.monotonic() >= until or any(sign in str(error) for sign in _LASTING):
                    raise
                if not said:
                    self.stderr.write(
                        plain(f"Waiting up to {settings.WAIT_SECONDS:g} s for adkweb's own database: {error}")
                    )
                said = True
                time.sleep(_PAUSE_SECONDS)
            else:
                return

    @contextmanager
    def _alone(self, alias: str) -> Iterator[None]:
        """Keeps out other processes. Those that had to wait then find nothing left to do."""
        if not dialect.of(alias).is_file:
            with locks.alone(alias, lambda _: None, locks.MIGRATING):
                yield
            return
        file = Path(str(connections[alias].settings_dict["NAME"]))
        if not file.is_file():  # it is in memory
            yield
            return
        folder = os.open(file.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)  # ends with the process, too
            yield
        finally:
            os.close(folder)
