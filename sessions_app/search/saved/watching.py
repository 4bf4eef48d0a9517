"""Watches views: whom to tell that a session begins to match, and how many did since they last looked.

A session begins to match when its row of the index is written: it did not match just before, and does just after. So
nothing is remembered of the sessions that match, however many they are. What becomes true by time alone (a session is
stuck) is looked for from time to time.
"""

import json
import time
from collections import Counter
from collections.abc import Collection, Iterator
from typing import ClassVar, Final

from django.contrib.auth.models import User
from django.db import models
from django.db.models import Count
from django.utils.functional import cached_property

from ...access.actor import Actor
from ...access.roles import actor_of
from ...domain.session_ref import SessionRef
from ...models import SearchSession
from ...reads.labels import called
from ...sources import registry
from . import views, webhooks
from .views import SavedView, ViewWatch

NEWS: Final = 100  # sessions of a view that a person is told of before they look
_TOLD: Final = 50  # at once


class ViewNews(models.Model):
    """A session that began to match a view since the person last looked at it. `where` and `digest` are as in the index."""

    watch = models.ForeignKey(ViewWatch, models.CASCADE, related_query_name="viewnews_of", related_name="+")
    where = models.TextField()
    digest = models.CharField(max_length=32)
    names = models.TextField()
    at = models.FloatField()

    title = ""  # of the session, as the person may see it, where that was asked

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["watch", "where", "digest"], name="one_piece_of_news")]

    @cached_property
    def ref(self) -> SessionRef:
        """Returns the session. Its source is "" if that is closed."""
        return SessionRef(registry.alias_of(self.where) or "", *json.loads(self.names))


def looked(watched: SavedView, person: User) -> set[SessionRef]:
    """Notes that a person has looked at a view: what began to match is no news any more. Returns these sessions."""
    news = list(ViewNews.objects.filter(watch__view=watched, watch__person=person))
    if news:
        ViewNews.objects.filter(pk__in=[each.pk for each in news]).delete()
    aliases = registry.aliases()
    return {SessionRef(aliases.get(each.where, ""), *json.loads(each.names)) for each in news}


def counts(names: Collection[str]) -> dict[str, dict[str, int]]:
    """Returns how many sessions are news to people, by their names and the ids of the views that they watch."""
    rows = ViewWatch.objects.filter(person__username__in=names).annotate(n=Count("viewnews_of"))
    told: dict[str, dict[str, int]] = {name: {} for name in names}
    for name, view_id, n in rows.values_list("person__username", "view_id", "n"):
        told[name][str(view_id)] = n
    return told


def newest() -> int:
    """Returns the number of the newest piece of news."""
    return ViewNews.objects.order_by("-pk").values_list("pk", flat=True).first() or 0


def news_between(after: int, upto: int, names: Collection[str]) -> Iterator[ViewNews]:
    """Yields the news from after a number up to another, for people of some names. What they may not see is left out."""
    rows = ViewNews.objects.filter(pk__gt=after, pk__lte=upto, watch__person__username__in=names).order_by("pk")
    for news in rows.select_related("watch__view__person", "watch__person")[:_TOLD]:
        person, view, ref = news.watch.person, news.watch.view, news.ref
        actor = actor_of(person)
        if ref.source and views.seen_by(person)(view) and actor.may_see(ref.source, ref.app_name):
            view.read_for(person)
            news.title = called({ref: ""}, actor)[ref] or ref.session_id
            yield news


def note(watches: Collection[ViewWatch], sessions: Collection[SearchSession], where: str) -> list[SearchSession]:
    """Notes that sessions begin to match, for those who watch and may see them. Returns those that are news to anybody."""
    alias = registry.alias_of(where) or ""
    has = Counter(ViewNews.objects.filter(watch__in=watches).values_list("watch_id", flat=True))
    told, rows = set(), []
    for each in watches:
        if not views.seen_by(each.person)(each.view):
            continue
        actor = actor_of(each.person)
        seen = [session for session in sessions if _may_see(actor, alias, session)]
        webhooks.queue(each, seen, alias)
        for session in seen:
            if has[each.pk] < NEWS:
                has[each.pk] += 1
                told.add(session)
                rows.append(
                    ViewNews(watch=each, where=where, digest=session.digest, names=session.names, at=time.time())
                )
    ViewNews.objects.bulk_create(rows, batch_size=200, ignore_conflicts=True)
    return sorted(told, key=lambda session: session.pk)


def _may_see(actor: Actor, alias: str, session: SearchSession) -> bool:
    return actor.may_see(alias, json.loads(session.names)[0])
