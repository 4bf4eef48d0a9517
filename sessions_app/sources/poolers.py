"""What works behind a pooler, such as PgBouncer in transaction mode.

It gives each transaction another connection to the server. What is kept in one is lost or, worse, seen by someone else:
prepared statements, server-side cursors, temporary tables, locks of a session, and everything that SET sets without
LOCAL.
"""

from collections.abc import Iterator
from typing import Any, Final

import psycopg

from .finding import log

_IDLE: Final = psycopg.pq.TransactionStatus.IDLE


def is_pooled(connection: Any) -> bool:
    """Returns whether a pooler answers instead of the server: the process that it names is then not the server's."""
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    return bool(row[0] != connection.info.backend_pid)


class PreparedCursor(psycopg.Cursor[Any]):
    """A cursor that survives a pooler no one has noticed: one that stood there only later, or that
    ADKWEB_PREPARED_STATEMENTS=true denies.

    The server then says that a statement is not prepared, or that another one is. From then on, no statement of the
    source is prepared.
    """

    source: dict[str, Any]

    def execute(self, query: Any, params: Any = None, **more: Any) -> Any:
        """Runs a statement, and again without preparing it. Within a transaction, which the error has ended, raises
        it."""
        try:
            return super().execute(query, params, **more)
        except (psycopg.errors.InvalidSqlStatementName, psycopg.errors.DuplicatePreparedStatement) as error:
            name = self.connection.info.dbname
            log.warning("there is a pooler in front of %s, so statements are no longer prepared there: %s", name, error)
            self.source["prepares"], self.connection.prepare_threshold = False, None
            if self.connection.info.transaction_status != _IDLE:
                raise
            return super().execute(query, params, **more)


class ReadOnlyCursor(psycopg.ClientCursor[Any]):
    """A cursor that can't write: the server refuses it, whatever a statement says.

    psycopg itself starts transactions with READ ONLY. A statement outside of a transaction gets its own, in the same
    round trip; this needs the values within the text of the statement, as Django has them by default.
    """

    def execute(self, query: Any, params: Any = None, **more: Any) -> Any:
        """Runs a statement in a transaction that only reads."""
        if not self.connection.autocommit or self.connection.info.transaction_status != _IDLE:
            return super().execute(query, params, **more)
        text = query if isinstance(query, str) else query.as_string(self)
        try:
            super().execute(f"BEGIN READ ONLY;\n{text}\n;COMMIT", params, **more)
        except psycopg.Error:
            if self.connection.info.transaction_status != _IDLE and not self.connection.closed:
                self.connection.rollback()
            raise
        self.nextset()
        return self

    def stream(self, query: Any, params: Any = None, **more: Any) -> Iterator[Any]:
        """Yields rows as they come, in a transaction that only reads."""
        with self.connection.transaction():  # a savepoint, if there is one already
            yield from super().stream(query, params, **more)

    def executemany(self, *_: Any, **__: Any) -> None:
        """Refuses what only writing needs."""
        raise psycopg.errors.ReadOnlySqlTransaction("adkweb only reads here")

    copy = executemany  # type: ignore[assignment]
