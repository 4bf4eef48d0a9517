"""Batches: the sessions that one act is about. The act itself is a Job of the kind “batch”."""

from typing import ClassVar

from django.db import models

from .own import Job


class BatchItem(models.Model):
    """A session of a batch. `where` is registry.identity, `names` the session as JSON.

    `expects` is what the act is compared with: a digest of the values that were there when it was tried, a session's
    revision, or the id of the event that is to be undone. `outcome` is "" until the act is done here; `event_id` is the
    event that it wrote. With `begun`, a deletion was about to happen: if the session is gone, this batch deleted it.
    """

    job = models.ForeignKey(Job, models.CASCADE, related_name="+")
    number = models.IntegerField()
    where = models.TextField()
    names = models.TextField()
    expects = models.TextField(default="")
    held = models.BooleanField(default=False)  # when it was tried, an agent was running
    begun = models.BooleanField(default=False)
    outcome = models.CharField(max_length=10, default="")
    event_id = models.TextField(default="")
    message = models.TextField(default="")

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["job", "number"], name="one_batch_item")]
        indexes: ClassVar = [models.Index(fields=["job", "outcome", "number"], name="batch_outcome")]
