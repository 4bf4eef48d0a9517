"""The sessions of a replay or of a what-if of many sessions, and the trials of a what-if. A replay and a
what-if are each a Job."""

from typing import ClassVar

from django.db import models

from .own import Job


class TriedSession(models.Model):
    """A session of a replay, or of a what-if of many sessions, which has a job of its own for it: `what_if`. `where` is
    registry.identity, `names` the session as JSON.

    `result` is "" until it was tried. Of a replay, sessions with the same `result`, `what` and `label` are shown as a group.
    `outcome` is the outcome as JSON, with values as they are stored: they are masked for each reader.
    """

    job = models.ForeignKey(Job, models.CASCADE, related_name="+")
    number = models.IntegerField()
    where = models.TextField()
    names = models.TextField()
    result = models.CharField(max_length=10, default="")
    what = models.CharField(max_length=10, default="")
    label = models.TextField(default="")  # agent and tool as JSON, or why it is undecided
    outcome = models.TextField(default="")
    what_if = models.ForeignKey(Job, models.CASCADE, null=True, related_name="+")

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["job", "number"], name="one_replay_item")]
        indexes: ClassVar = [
            models.Index(fields=["job", "result", "number"], name="replay_result"),
            models.Index(fields=["names"], name="replays_of_session"),
        ]


class Trial(models.Model):
    """One try of a what-if (trying/whatif.py), whose job says what was changed. Times are seconds.

    `begins` is the id of the message from which the agent ran, "" for a new one. `events` is a JSON array of what came from
    there. `question` is a call of a tool that someone has to decide, as JSON, and `answer` the decision. `ended` is how it
    ended, as JSON; all of them are "" as long as there is nothing.
    """

    job = models.ForeignKey(Job, models.CASCADE, related_name="trials")
    number = models.IntegerField()
    begins = models.CharField(max_length=128, default="")
    events = models.TextField(default="[]")
    question = models.TextField(default="")
    answer = models.TextField(default="")
    ended = models.TextField(default="")
    seconds = models.FloatField(default=0.0)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["job", "number"], name="one_trial_of_a_number")]
