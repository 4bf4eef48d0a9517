"""The audit's tables: acts that are not events of a session, and how far they were sent elsewhere."""

import json
from typing import Any, ClassVar

from django.db import models

from ..domain.session_ref import SessionRef


class AuditRow(models.Model):
    """An act: who did what, when, about what. Rows are only added; triggers refuse every change (the migration).

    `number` counts from 1 without gaps. `digest` is the hash of the row, which contains the digest before it
    (`previous`), and `seal` shows that someone with adkweb's key wrote it. `at` is in seconds, `detail` is JSON as
    text. Names that an act is not about are empty.
    """

    number = models.BigIntegerField(primary_key=True)
    at = models.FloatField()
    act = models.CharField(max_length=40)
    by = models.TextField()
    address = models.TextField(default="")
    source = models.TextField(default="")
    app_name = models.TextField(default="")
    user_id = models.TextField(default="")
    session_id = models.TextField(default="")
    detail = models.TextField(default="{}")
    previous = models.CharField(max_length=64)
    digest = models.CharField(max_length=64)
    seal = models.CharField(max_length=64)

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["act", "number"], name="audit_of_act"),
            models.Index(fields=["by", "number"], name="audit_of_person"),
            models.Index(fields=["app_name", "number"], name="audit_of_app"),
        ]

    event_id: str = ""  # of an edit, which history/audit_log.py shows as a row without a number

    @property
    def ref(self) -> SessionRef:
        """Returns the session that it is about, or as many of its names as there are."""
        return SessionRef(self.source, self.app_name, self.user_id, self.session_id)

    @property
    def details(self) -> dict[str, Any]:
        """Returns what `detail` says."""
        details: dict[str, Any] = json.loads(self.detail)
        return details


class AuditReceiver(models.Model):
    """A receiver to which the audit is sent (`syslog`, `webhook`), and how far that is. Times are seconds.

    `sent` is the number of the last row that it has. While a process sends to it, `claim` is that process's until
    `claimed_until`. After `tries` failed, the next one is `due`, and `message` is the last error.
    """

    name = models.CharField(max_length=10, primary_key=True)
    sent = models.BigIntegerField(default=0)
    claim = models.CharField(max_length=32, default="")
    claimed_until = models.FloatField(default=0.0)
    tries = models.IntegerField(default=0)
    due = models.FloatField(default=0.0)
    message = models.TextField(default="")
