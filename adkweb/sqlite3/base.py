"""Defines the database backend, in the module in which Django looks for it."""

from pathlib import Path
from typing import Any

from django.db.backends.sqlite3 import base

from sessions_app.access import private_files


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's SQLite backend, which creates the file itself: SQLite would create one that everybody can read."""

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Returns a connection to a file that is closed to others."""
        name = str(conn_params["database"])
        if not name.startswith(("file:", ":memory:")):
            private_files.keep_database(Path(name))
        return super().get_new_connection(conn_params)
