"""Defines the database backend, in the module in which Django looks for it."""

from typing import Any

from django.db import DEFAULT_DB_ALIAS
from django.db.backends.postgresql import base

from sessions_app.sources import hung
from sessions_app.sources.poolers import PreparedCursor, ReadOnlyCursor, is_pooled


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's PostgreSQL backend, which prepares statements only if the server itself answers, and only reads if a
    source's settings have `read_only`."""

    def get_connection_params(self) -> dict[str, Any]:
        """Returns how to connect. No setting is sent along: PgBouncer refuses those that it does not know."""
        parameters = super().get_connection_params()
        if self._source.get("read_only"):
            parameters["cursor_factory"] = ReadOnlyCursor
        elif parameters["cursor_factory"] is base.ServerBindingCursor:
            parameters["cursor_factory"] = PreparedCursor
        return parameters

    def _configure_connection(self, connection: Any) -> bool:
        """Prepares a new connection for use, and stops it from preparing statements behind a pooler."""
        commit: bool = super()._configure_connection(connection)  # type: ignore[misc]
        if self.alias != DEFAULT_DB_ALIAS:
            hung.opened(self.alias, connection)
        connection.read_only = self._source.get("read_only")
        if self._source.get("prepares") is None and connection.prepare_threshold and is_pooled(connection):
            connection.prepare_threshold = None
        return commit

    def create_cursor(self, name: str | None = None) -> Any:
        """Returns a cursor of the driver."""
        if self._source.get("prepares") is False:
            self.connection.prepare_threshold = None
        cursor = super().create_cursor(name)
        cursor.source = self._source
        return cursor

    @property
    def _source(self) -> dict[str, Any]:
        """Returns what adkweb keeps about this database, for all threads."""
        kept: dict[str, Any] = self.settings_dict.setdefault("ADKWEB", {})
        return kept
