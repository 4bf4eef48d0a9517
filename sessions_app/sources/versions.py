"""Compares adkweb's own database with this version of adkweb."""

from functools import cache

from django.db import connections
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder


def missing(alias: str = "default") -> list[str]:
    """Returns the migrations that the database lacks: ["sessions_app 0037_exact_numbers"]. Raises DatabaseError."""
    return _names(set(_loader().graph.nodes) - _applied(alias))


def newer(alias: str = "default") -> list[str]:
    """Returns the migrations of the database that this adkweb does not know: a newer one made them. Raises DatabaseError."""
    loader = _loader()
    known = set(loader.disk_migrations).union(*(each.replaces for each in loader.disk_migrations.values()))
    return _names({(app, name) for app, name in _applied(alias) - known if app in loader.migrated_apps})


@cache
def _loader() -> MigrationLoader:
    return MigrationLoader(None)


def _applied(alias: str) -> set[tuple[str, str]]:
    return set(MigrationRecorder(connections[alias]).applied_migrations())


def _names(migrations: set[tuple[str, str]]) -> list[str]:
    return sorted(" ".join(each) for each in migrations)
