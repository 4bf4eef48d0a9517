"""Tables of sessions that are deleted some day, and of those that may not be. Times are seconds."""

from typing import ClassVar

from django.db import models


class SessionHold(models.Model):
    """Says that a session must be kept, by whom, since when and why. `where`, `digest` and `names` are as in the index."""

    where = models.TextField()
    digest = models.CharField(max_length=32)
    names = models.TextField()
    reason = models.CharField(max_length=500)
    by = models.CharField(max_length=150)
    at = models.FloatField()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["where", "digest"], name="one_hold")]


class RetentionRule(models.Model):
    """Says after how many days without a write the sessions of an app are deleted, and whether they are exported before.

    `where` is registry.identity. `account` is of who set the rule, as in Job: it acts with their rights. `due` is the next
    run; `result` is what the last one did, as JSON.
    """

    where = models.TextField()
    app_name = models.CharField(max_length=128)
    days = models.IntegerField()
    export = models.BooleanField(default=False)
    by = models.CharField(max_length=150)
    account = models.CharField(max_length=40, default="")
    changed = models.FloatField()
    due = models.FloatField()
    result = models.TextField(default="")

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["where", "app_name"], name="one_retention_rule")]
