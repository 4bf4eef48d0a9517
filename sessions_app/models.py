"""ADK's four tables as Django models, and adkweb's own tables. They decide nothing.

ADK's tables are never migrated by Django (sources/ creates and adopts them) and never saved through these models
(writes/ writes them); they live in a source's database, adkweb's own tables in the default one.
"""

from datetime import UTC, datetime
from typing import Any, ClassVar, Final

from django.conf import settings
from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.expressions import Col
from django.db.models.fields.json import KeyTransform

from .domain.json_values import Stored
from .domain.positions import FIRST_TIME_SEQ, LAST_TIME_SEQ, SEQ_OF_1970, Position, Seq, seq_at, time_of
from .domain.units import event_in_seconds, in_seconds


def keeps_milliseconds(connection: BaseDatabaseWrapper) -> bool:
    """Tells whether a source was made by adk-js, which keeps times as milliseconds, in its columns and in its events."""
    return bool(connection.settings_dict["ADKWEB"].get("milliseconds"))


def stored_instant(seconds: float, connection: BaseDatabaseWrapper) -> float | str | datetime:
    """Returns seconds since the epoch as a source's tables keep them: REAL, milliseconds, text, or a timestamp in UTC."""
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
    """An event's JSON; its time is in seconds, whoever stored it."""

    def from_db_value(self, value: Any, expression: Any, connection: BaseDatabaseWrapper) -> Any:
        """Returns the event; if a query asked for a part of it, that part as it is stored."""
        found = super().from_db_value(value, expression, connection)
        return found if isinstance(expression, KeyTransform) else event_in_seconds(found)


def by_time(connection: BaseDatabaseWrapper) -> bool:
    """Tells whether a source orders events by time, because they have no numbers: PostgreSQL that was not adopted."""
    config = connection.settings_dict.get("ADKWEB", {})
    return connection.vendor == "postgresql" and not config.get("adopted", True)


# The place of an event by its time, as Seq makes it of what the column has.
MOMENT: Final = f"""least(greatest((extract(epoch FROM timestamp) * 1000000)::bigint + {SEQ_OF_1970}, {FIRST_TIME_SEQ}),
    {LAST_TIME_SEQ})"""


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
    """An event's number in append order. It grows within a session, with gaps. Only numbers that stand for a time may be
    equal.
    """

    _pyi_private_get_type: Seq  # for mypy

    def from_db_value(self, value: Any, expression: Any, connection: BaseDatabaseWrapper) -> Seq | None:
        """Returns the number; for a time, the number that stands for it."""
        return seq_at(read_instant(value)) if isinstance(value, datetime) else value

    def get_db_prep_value(self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False) -> Any:
        """Returns the number, or the time that it stands for in a source without numbers."""
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


class SignInToken(models.Model):
    """A link that signs a person in once. Only its hash is kept."""

    digest = models.CharField(max_length=64, primary_key=True)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    created = models.DateTimeField(auto_now_add=True)


class PasswordTries(models.Model):
    """The number of wrong passwords that were tried for a name or from an address. The key is a hash; times are seconds."""

    key = models.CharField(max_length=64, primary_key=True)
    count = models.IntegerField(default=0)
    until = models.FloatField(default=0.0)  # no try before
    seen = models.FloatField(default=0.0, db_index=True)


class ApiToken(models.Model):
    """A token that a program signs in with. Only its hash is kept. A revoked one stays, so that its name still says who."""

    name = models.CharField(max_length=100, unique=True)
    digest = models.CharField(max_length=64, unique=True)
    right = models.CharField(max_length=10)
    apps = models.CharField(max_length=200)
    created_by = models.CharField(max_length=150)
    created = models.DateTimeField(auto_now_add=True)
    used = models.DateTimeField(null=True)  # last, to the minute
    revoked_by = models.CharField(max_length=150, default="")
    revoked = models.DateTimeField(null=True)


class Job(models.Model):
    """Work that outlives a request (jobs/): who wants it, how far it is, and what came of it. Times are seconds.

    `where` is the database itself (registry.identity), because another one may get the alias. The names of the session are
    empty if the work is about none. `task` and `result` are JSON as text, because a JSON column refuses NaN, which ADK
    stores. In each lane, one job may wait. `person` is to be told what came of it; `told` is set once they know.
    """

    id = models.UUIDField(primary_key=True)
    kind = models.CharField(max_length=20)
    where = models.TextField()
    app_name = models.CharField(max_length=128, default="")
    user_id = models.CharField(max_length=128, default="")
    session_id = models.CharField(max_length=128, default="")
    task = models.TextField()
    result = models.TextField(default="")
    actor = models.CharField(max_length=150)
    right = models.CharField(max_length=10, default="admin")
    apps = models.CharField(max_length=200, default="*")
    language = models.CharField(max_length=20, default="")
    created = models.FloatField()
    lane = models.TextField(default="")
    state = models.CharField(max_length=10, default="waiting")
    message = models.TextField(default="")
    finished = models.FloatField(null=True)
    step = models.CharField(max_length=20, default="")
    done = models.BigIntegerField(default=0)
    total = models.BigIntegerField(default=0)
    beat = models.FloatField()  # the last sign of life
    claim = models.CharField(max_length=32, default="")
    claimed_until = models.FloatField(null=True)  # past: a process died, or lost the database, while working on it
    crashes = models.IntegerField(default=0)  # of processes, since somebody wanted it
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    told = models.BooleanField(default=False)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["lane"], condition=models.Q(state="waiting") & ~models.Q(lane=""), name="one_job_of_a_lane"
            )
        ]
        indexes: ClassVar = [
            models.Index(fields=["kind", "created"], condition=models.Q(state="waiting"), name="jobs_waiting"),
            models.Index(fields=["session_id", "user_id", "app_name"], name="jobs_of_session"),
            models.Index(
                fields=["person", "finished"],
                condition=models.Q(person__isnull=False, told=False, finished__isnull=False),
                name="jobs_untold",
            ),
        ]


class Projection(models.Model):
    """Records how far history/indexing.py has read a source's events. `where` is as in Job; the lists are JSON as text.

    `marks` are checkpoints: positions with the event that stood there, which show that a number was given again. `holes`
    are numbers that were passed over, each with the time until which its event is awaited. `created` has the newest
    positions of sessions. `deleted` says how far the source's `adkweb_deleted_writes` are read. If events have no numbers,
    `marks` says how far by_time.py is, and `seq` how much it has read. A record of another `version` is made anew.
    """

    where = models.TextField(unique=True)
    seq: "models.BigIntegerField[int, Seq]" = models.BigIntegerField(default=0)
    marks = models.TextField(default="[]")
    holes = models.TextField(default="[]")
    created = models.TextField(default="[]")
    deleted = models.BigIntegerField(default=0)
    version = models.IntegerField(default=1)


class StateOwner(models.Model):
    """The owner of state: a session, a user or an app; names that it does not need are empty. Also the owner of a session's
    highlights, or of an app's edits.
    """

    projection = models.ForeignKey(Projection, models.CASCADE, related_name="+")
    scope = models.CharField(max_length=10)
    app_name = models.TextField()
    user_id = models.TextField()
    session_id = models.TextField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["projection", "app_name", "user_id", "session_id", "scope"], name="one_owner_of_state"
            )
        ]


class StateChange(models.Model):
    """Says that the event at a position wrote a key, is a highlight, or is an edit (`key` is then its time). `since` is the
    first seq that a rewind takes back. On SQLite, the table has no rowid, which makes it half as large.
    """

    pk = models.CompositePrimaryKey("owner_id", "key", "place")
    owner_id = models.BigIntegerField()
    key = models.TextField()
    place: "models.BigIntegerField[int, Position]" = models.BigIntegerField()
    since: "models.BigIntegerField[int | None, Seq | None]" = models.BigIntegerField(null=True)
