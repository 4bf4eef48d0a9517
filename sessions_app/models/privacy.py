"""Sessions that may not be deleted. Times are seconds."""

from typing import ClassVar

from django.db import models


class SessionHold(models.Model):
    """A session that must be kept: who decided so, since when and why. `where`, `digest` and `names` are as in the
    index."""

    where = models.TextField()
    digest = models.CharField(max_length=32)
    names = models.TextField()
    reason = models.CharField(max_length=500)
    by = models.CharField(max_length=150)
    at = models.FloatField()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["where", "digest"], name="one_hold")]
