"""Replays: their sessions, each with its outcome. The replay itself is a Job of the kind “replay”."""

from typing import ClassVar

from django.db import models

from .own import Job


class ReplayItem(models.Model):
    """A session of a replay. `where` is registry.identity, `names` the session as JSON.

    `result` is "" until it was replayed. Sessions with the same `result`, `what` and `label` are shown as a group. `outcome`
    is the outcome as JSON, with values as they are stored: they are masked for each reader.
    """

    job = models.ForeignKey(Job, models.CASCADE, related_name="+")
    number = models.IntegerField()
    where = models.TextField()
    names = models.TextField()
    result = models.CharField(max_length=10, default="")
    what = models.CharField(max_length=10, default="")
    label = models.TextField(default="")  # agent and tool as JSON, or why it is undecided
    outcome = models.TextField(default="")

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["job", "number"], name="one_replay_item")]
        indexes: ClassVar = [
            models.Index(fields=["job", "result", "number"], name="replay_result"),
            models.Index(fields=["names"], name="replays_of_session"),
        ]
