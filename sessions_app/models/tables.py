"""Returns whether adkweb has tables of its own yet: before its first start, commands have none."""

from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.db import DatabaseError, connection
from django.db.models import QuerySet


def have_no_file() -> bool:
    """Returns whether adkweb has no database of its own yet. Reading it would create one."""
    name = str(connection.settings_dict["NAME"])
    return connection.vendor == "sqlite" and not (name.startswith("file:") or Path(name).exists())


def are_missing() -> bool:
    """Returns whether adkweb has no tables at all. If only one is missing, someone removed it."""
    try:
        return User._meta.db_table not in connection.introspection.table_names()
    except DatabaseError:
        return False  # it cannot be asked


def rows_of(query: QuerySet[Any]) -> list[Any]:
    """Returns the rows of a query; none if there are no tables yet, and so no rules."""
    if have_no_file():
        return []
    try:
        return list(query)
    except DatabaseError:
        if are_missing():
            return []
        raise
