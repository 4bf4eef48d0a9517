"""Rules that people write about the state of an app, and the sessions that broke them. Times are seconds."""

import json
from typing import ClassVar

from django.db import models
from django.utils.translation import gettext as _

from ..domain.positions import Position
from .own import Job


class Rule(models.Model):
    """A rule of an app. `where` is registry.identity, `digest` is that of the app's name, which `names` has as JSON.

    `walked` is the last session of the index that the `job` has checked, and `within` the position that it has reached
    in the next one. `checked` is when it finished; 0 for not yet.
    """

    where = models.TextField()
    digest = models.CharField(max_length=32)
    names = models.TextField()
    title = models.CharField(max_length=100, default="")
    condition = models.CharField(max_length=1000)
    created = models.FloatField()
    created_by = models.CharField(max_length=150)
    job = models.UUIDField(null=True)
    walked = models.BigIntegerField(default=0)
    within: "models.BigIntegerField[int | None, Position | None]" = models.BigIntegerField(null=True)
    checked = models.FloatField(default=0.0)

    class Meta:
        indexes: ClassVar = [models.Index(fields=["where", "digest"], name="rules_of_app")]

    source: str = ""  # the alias of its source, and
    work: Job | None = None  # the job that checks it, where checks/rules.py gave it out

    @property
    def app_name(self) -> str:
        """Returns the name of its app."""
        (name,) = json.loads(self.names)
        return str(name)

    @property
    def name(self) -> str:
        """Returns its name: its title, or its condition."""
        return self.title or self.condition

    @property
    def percent(self) -> int | None:
        """Returns the progress of its check, None if none is running."""
        return min(99, self.work.percent) if self.work and self.work.state == "waiting" else None

    @property
    def stopped(self) -> str:
        """Returns why its check ended early, "" if it did not."""
        if self.checked or self.percent is not None:
            return ""
        return (self.work and self.work.message) or _("The check was stopped.")


class Breach(models.Model):
    """A session broke a rule, first at `position` with the event `event_id`; empty if no event did it, or none is
    known. `now` says whether its state breaks the rule now. `created` is the time at which the session was created:
    another one may get the same id later.
    """

    rule = models.ForeignKey(Rule, models.CASCADE, related_name="+")
    digest = models.CharField(max_length=32)
    names = models.TextField()
    position: "models.BigIntegerField[int, Position]" = models.BigIntegerField()
    event_id = models.TextField(default="")
    at = models.FloatField()
    now = models.BooleanField()
    created = models.FloatField()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["rule", "digest"], name="one_breach")]
        indexes: ClassVar = [
            models.Index(fields=["rule", "at", "id"], name="breaches_by_time"),
            models.Index(fields=["at"], name="breaches_newest"),
            models.Index(fields=["rule"], condition=models.Q(now=True), name="breaches_now"),
        ]


class CheckedSession(models.Model):
    """The position up to which a session's changes were checked against all rules at the time. `created` is as in
    Breach.
    """

    where = models.TextField()
    digest = models.CharField(max_length=32)
    created = models.FloatField()
    upto: "models.BigIntegerField[int, Position]" = models.BigIntegerField()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["where", "digest"], name="one_checked_session")]


class DueSession(models.Model):
    """A session that the index has read again, to be checked against the rules of its app."""

    where = models.TextField(db_index=True)
    digest = models.CharField(max_length=32)
