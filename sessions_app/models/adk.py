"""ADK's four tables as Django models.

They are never migrated by Django (sources/ creates and adopts them) and never saved through these models (writes/
writes them). They live in a source's database.
"""

from datetime import UTC, datetime
from typing import Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.expressions import Col
from django.db.models.fields.json import KeyTransform

from ..domain.json_values import Stored
from ..domain.positions import Seq, seq_at, time_of
from ..domain.units import event_in_seconds, in_seconds


def keeps_milliseconds(connection: BaseDatabaseWrapper) -> bool:
    """Returns whether adk-js created a source, whose columns and events have times in milliseconds."""
    return bool(connection.settings_dict["ADKWEB"].get("milliseconds"))


def stored_instant(seconds: float, connection: BaseDatabaseWrapper) -> float | str | datetime:
    """Returns seconds since the epoch as a source's tables keep them: REAL, milliseconds, text, or a timestamp in
    UTC."""
    if connection.settings_dict["ADKWEB"]["real_times"]:
        return seconds
    if keeps_milliseconds(connection) and connection.vendor == "sqlite":
        return round(seconds * 1000)
    moment = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
    return moment if connection.vendor == "postgresql" else moment.strftime("%Y-%m-%d %H:%M:%S.%f")


def read_instant(value: float | str | datetime) -> float:
    """Returns seconds since the epoch from whatever form a table keeps."""
    if isinstance(value, int | float):
        return in_seconds(value)
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    return moment.replace(tzinfo=UTC).timestamp() if moment.tzinfo is None else moment.timestamp()


class Instant(models.Field):  # type: ignore[type-arg]
    """A moment, in Python as seconds since the epoch (float), which is ADK's own unit."""

    def get_internal_type(self) -> str:
        """Returns a type that Django's backends do not know, so they do not convert it."""
        return "Instant"

    def from_db_value(self, value: Any, expression: Any, connection: BaseDatabaseWrapper) -> float | None:
        """Returns seconds, however the table keeps them."""
        return None if value is None else read_instant(value)

    def get_db_prep_value(self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False) -> Any:
        """Returns the form that the table keeps."""
        return None if value is None else stored_instant(value, connection)


class EventData(models.JSONField):
    """An event's JSON; its time is in seconds, no matter who stored it."""

    def from_db_value(self, value: Any, expression: Any, connection: BaseDatabaseWrapper) -> Any:
        """Returns the event; if a query asked for a part of it, that part as it is stored."""
        found = super().from_db_value(value, expression, connection)
        return found if isinstance(expression, KeyTransform) else event_in_seconds(found)


def by_time(connection: BaseDatabaseWrapper) -> bool:
    """Returns whether a source orders events by time because they have no numbers: PostgreSQL, not adopted."""
    config = connection.settings_dict.get("ADKWEB", {})
    return connection.vendor == "postgresql" and not config.get("adopted", True)


class _SeqCol(Col):
    """The column `events.seq`: the rowid on SQLite, and the time on PostgreSQL if adkweb has added no column."""

    def as_postgresql(self, compiler: Any, connection: BaseDatabaseWrapper) -> tuple[str, list[Any]]:
        if by_time(connection):
            return f"{compiler.quote_name_unless_alias(self.alias)}.timestamp", []
        sql, parameters = super().as_sql(compiler, connection)
        return sql, [*parameters]

    def as_sqlite(self, compiler: Any, connection: BaseDatabaseWrapper) -> tuple[str, list[Any]]:
        return f"{compiler.quote_name_unless_alias(self.alias)}.rowid", []


class SeqField(models.BigIntegerField):  # type: ignore[type-arg]
    """An event's number in append order. It grows within a session, with gaps. Only numbers that are times may be
    equal.
    """

    _pyi_private_get_type: Seq  # for mypy

    def from_db_value(self, value: Any, expression: Any, connection: BaseDatabaseWrapper) -> Seq | None:
        """Returns the number; for a time, the number for it."""
        return seq_at(read_instant(value)) if isinstance(value, datetime) else value

    def get_db_prep_value(self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False) -> Any:
        """Returns the number, or its time in a source without numbers."""
        if isinstance(value, int) and by_time(connection):
            return stored_instant(time_of(Seq(value)), connection)
        return super().get_db_prep_value(value, connection, prepared)

    def get_col(self, alias: str, output_field: models.Field | None = None) -> Col:  # type: ignore[type-arg]
        """Returns the column: on SQLite, the rowid."""
        return _SeqCol(alias, self, output_field)

    @property
    def cached_col(self) -> Col:
        """Returns the column of the model's own table."""
        return _SeqCol(self.model._meta.db_table, self)


class App(models.Model):
    """An app: the state that all its users share. Its keys have no `app:`."""

    app_name = models.CharField(max_length=128, primary_key=True)
    state = models.JSONField()
    update_time = Instant()

    class Meta:
        managed = False
        db_table = "app_states"


class User(models.Model):
    """A user of an app: the state that all their sessions share. Its keys have no `user:`."""

    pk = models.CompositePrimaryKey("app_name", "user_id")
    app_name = models.CharField(max_length=128)
    user_id = models.CharField(max_length=128)
    state = models.JSONField()
    update_time = Instant()

    class Meta:
        managed = False
        db_table = "user_states"


class Session(models.Model):
    """A conversation with its own state. `update_time` is its revision."""

    pk = models.CompositePrimaryKey("app_name", "user_id", "id")
    app_name = models.CharField(max_length=128)
    user_id = models.CharField(max_length=128)
    id = models.CharField(max_length=128)
    state = models.JSONField()
    create_time = Instant()
    update_time = Instant()

    class Meta:
        managed = False
        db_table = "sessions"


class Event(models.Model):
    """An event, as ADK's JSON."""

    pk = models.CompositePrimaryKey("app_name", "user_id", "session_id", "id")
    app_name = models.CharField(max_length=128)
    user_id = models.CharField(max_length=128)
    session_id = models.CharField(max_length=128)
    id = models.CharField(max_length=128)
    invocation_id = models.CharField(max_length=256)
    timestamp = Instant()
    event_data = EventData(null=True, decoder=Stored)
    seq = SeqField()
    session = models.ForeignObject(
        Session,
        on_delete=models.DO_NOTHING,
        from_fields=("app_name", "user_id", "session_id"),
        to_fields=("app_name", "user_id", "id"),
        related_name="events",
    )

    class Meta:
        managed = False
        db_table = "events"
