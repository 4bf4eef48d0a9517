"""Compares adkweb's own database with this version of adkweb."""

from functools import cache
from typing import Final

from django.db import connections
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

Migrations = set[tuple[str, str]]
FIRST: Final = ("sessions_app", "0001_initial")
# Before the first release, 43 migrations created what the first one creates now. The last of them left the same tables.
_SECOND: Final = ("sessions_app", "0002_queued_edit")
_LAST: Final = ("sessions_app", "0043_user_handles")


def applied(alias: str = "default") -> Migrations:
    """Returns the migrations that made a database. Raises DatabaseError."""
    return set(MigrationRecorder(connections[alias]).applied_migrations())


def missing(alias: str = "default") -> list[str]:
    """Returns the migrations that the database lacks: ["sessions_app 0002_rooms"]. Raises DatabaseError."""
    return _names(set(_loader().graph.nodes) - applied(alias))


def why_refused(made_by: Migrations) -> str:
    """Returns why this adkweb can't use a database that these migrations created; empty if it can.

    "was made by a newer adkweb (sessions_app 0999_later), which this one would harm. Install …"
    """
    if _LAST in made_by:
        return ""
    if _SECOND in made_by:
        last = max(name for app, name in made_by if app == FIRST[0])
        return (
            f"was made before the first release of adkweb, and its tables are not the last ones from then ({last}). To keep "
            "it, see “From before the first release” in docs/operations.md; to start over, move it away."
        )
    loader = _loader()
    known = set(loader.disk_migrations).union(*(each.replaces for each in loader.disk_migrations.values()))
    if newer := _names({(app, name) for app, name in made_by - known if app in loader.migrated_apps}):
        return (
            f"was made by a newer adkweb ({', '.join(newer)}), which this one would harm. Install that version again, or "
            "restore a backup from before it."
        )
    return ""


def take_over(alias: str) -> None:
    """Notes that a database from before the first release has everything that 0001_initial creates. Any other stays as
    it is."""
    if _LAST in applied(alias):
        rows = MigrationRecorder(connections[alias]).migration_qs.filter(app=FIRST[0])
        rows.exclude(name=FIRST[1]).delete()


@cache
def _loader() -> MigrationLoader:
    return MigrationLoader(None)


def _names(migrations: Migrations) -> list[str]:
    return sorted(" ".join(each) for each in migrations)
