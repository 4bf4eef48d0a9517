"""Tells whether adkweb has tables of its own yet: a command of somebody who never started adkweb has none."""

from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.db import DatabaseError, connection
from django.db.models import QuerySet


def have_no_file() -> bool:
    """Tells whether adkweb has no database of its own yet. Reading it would make one."""
    name = str(connection.settings_dict["NAME"])
    return connection.vendor == "sqlite" and not (name.startswith("file:") or Path(name).exists())


def are_missing() -> bool:
    """Tells whether adkweb has no tables at all. Where only one is missing, somebody took it away."""
    try:
        return User._meta.db_table not in connection.introspection.table_names()
    except DatabaseError:
        return False  # it cannot be asked


def rows_of(query: QuerySet[Any]) -> list[Any]:
    """Returns the rows of a query; none where there are no tables yet, so that nobody can have written a rule."""
    if have_no_file():
        return []
    try:
        return list(query)
    except DatabaseError:
        if are_missing():
            return []
        raise
