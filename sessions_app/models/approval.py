"""Approval: which edits need a second person. A proposal itself is a Job of the kind “proposal”."""

from django.db import models


class ApprovalRule(models.Model):
    """A rule (access/approval.py): edits of some keys, or batches of more than `sessions`, need a second person.

    `keys` is a pattern. It is empty, or `sessions` None, if the rule is not about that.
    """

    sources = models.CharField(max_length=200, default="*")
    apps = models.CharField(max_length=200, default="*")
    keys = models.CharField(max_length=200, default="")
    sessions = models.IntegerField(null=True)
    days = models.IntegerField(default=7)
    made_by = models.CharField(max_length=150)
    made = models.DateTimeField(auto_now_add=True)
