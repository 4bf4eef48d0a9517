"""Saved views: queries that people keep. They are adkweb's own data."""

import uuid
from typing import ClassVar

from django.conf import settings
from django.db import models


class SavedView(models.Model):
    """A query with its order and columns, by a name. `sort` and `columns` are as an address has them.

    `person` is null if the account of who made it is gone.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    name = models.CharField(max_length=60)
    folded = models.CharField(max_length=200)
    query = models.TextField()
    sort = models.CharField(max_length=40)
    columns = models.TextField()
    shared = models.BooleanField(default=False)
    created = models.FloatField()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["person", "folded"], name="one_view_of_a_name")]
        indexes: ClassVar = [models.Index(fields=["created"], condition=models.Q(shared=True), name="views_shared")]


class ViewWatch(models.Model):
    """Says that a person wants to be told when a session begins to match a view. `zone` is that of the query's times."""

    view = models.ForeignKey(SavedView, models.CASCADE, related_name="+")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    zone = models.CharField(max_length=60)
    created = models.FloatField()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["view", "person"], name="one_watch_of_a_view")]


class ViewNews(models.Model):
    """A session that began to match a view since the person last looked at it. `where` and `digest` are as in the index."""

    watch = models.ForeignKey(ViewWatch, models.CASCADE, related_query_name="viewnews_of", related_name="+")
    where = models.TextField()
    digest = models.CharField(max_length=32)
    names = models.TextField()
    at = models.FloatField()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["watch", "where", "digest"], name="one_piece_of_news")]


class Webhook(models.Model):
    """An address that is told, too, when a session begins to match a watched view.

    The secret is not kept: it follows from `salt` and adkweb's own key. `link` is where people reach adkweb.
    """

    watch = models.OneToOneField(ViewWatch, models.CASCADE, related_name="+")
    url = models.TextField()
    salt = models.CharField(max_length=64)
    link = models.TextField()
    created = models.FloatField()


class WebhookDelivery(models.Model):
    """A message to an address, sent or to be sent. Times are seconds.

    `state` is waiting, done or failed; `status` is HTTP's. `claimed_until` is past if no process sends it just now.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    hook = models.ForeignKey(Webhook, models.CASCADE, related_name="+")
    app_name = models.TextField()
    body = models.TextField()
    created = models.FloatField()
    state = models.CharField(max_length=10, default="waiting")
    due = models.FloatField()
    tries = models.IntegerField(default=0)
    status = models.IntegerField(null=True)
    message = models.TextField(default="")
    finished = models.FloatField(null=True)
    claimed_until = models.FloatField(default=0.0)

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["due"], condition=models.Q(state="waiting"), name="deliveries_due"),
            models.Index(fields=["hook", "created"], name="deliveries_of_hook"),
        ]
