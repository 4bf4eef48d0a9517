"""Watches views: whom to tell that a session begins to match, and how many did since they last looked.

A session begins to match when its row of the index is written: it did not match just before, and does just after. So
nothing is remembered of the sessions that match, however many they are. What becomes true by time alone (a session is
stuck) is looked for from time to time.
"""

import json
import time
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC
from typing import Any, Final
from uuid import UUID

from django.db.models import Count
from django.utils.translation import gettext as _

from ...access.actor import Actor
from ...access.roles import actor_of
from ...domain.errors import Invalid
from ...domain.session_ref import SessionRef
from ...models import SearchSession, ViewNews, ViewWatch
from ...reads.labels import called
from ...sources import registry
from .. import tree
from ..language import parse
from . import views, webhooks

MOST: Final = 20  # views that a person watches
CONDITIONS: Final = 20  # of a query that is watched
NEWS: Final = 100  # sessions of a view that a person is told of before they look
_TOLD: Final = 50  # at once


@dataclass(frozen=True, slots=True)
class Watched:
    """A view that a person watches, and how many sessions began to match since they looked; NEWS if it is more."""

    view_id: UUID
    name: str
    count: int


@dataclass(frozen=True, slots=True)
class News:
    """A session that began to match a view. `number` grows from one to the next."""

    number: int
    view_id: UUID
    view: str
    ref: SessionRef
    title: str


def watch(view_id: UUID, person: Any, zone: str) -> None:
    """Watches a view from now on. Raises Invalid, NotAllowed and NotFound."""
    views.check_may_keep(person)
    view = views.get(view_id, person)
    if not is_simple(parse(view.query, now=time.time(), zone=UTC)):
        raise Invalid(_("A query that is watched has at most %(n)s conditions.") % {"n": CONDITIONS})
    if ViewWatch.objects.filter(person=person).exclude(view_id=view.id).count() >= MOST:
        raise Invalid(_("A person watches at most %(n)s views.") % {"n": MOST})
    ViewWatch.objects.update_or_create(
        view_id=view.id, person=person, defaults={"zone": zone}, create_defaults={"zone": zone, "created": time.time()}
    )


def is_simple(query: tree.Query) -> bool:
    """Tells whether a query can be watched: it is asked about each session that is written to."""
    return query.tree is None or len(list(tree.leaves(query.tree))) <= CONDITIONS


def unwatch(view_id: UUID, person: Any) -> None:
    """Does not watch a view any more. Raises NotAllowed."""
    actor_of(person).check_may_write()
    ViewWatch.objects.filter(view_id=view_id, person=person).delete()


def looked(view_id: UUID, person: Any) -> set[SessionRef]:
    """Notes that a person has looked at a view: what began to match is no news any more. Returns these sessions."""
    news = ViewNews.objects.filter(watch__view_id=view_id, watch__person=person)
    rows = list(news.values_list("pk", "where", "names"))
    if rows:
        ViewNews.objects.filter(pk__in=[pk for pk, _where, _names in rows]).delete()
    aliases = {where: registry.alias_of(where) or "" for where in {where for _pk, where, _names in rows}}
    return {SessionRef(aliases[where], *json.loads(names)) for _pk, where, names in rows}


def watched(person: Any) -> list[Watched]:
    """Returns the views that a person watches, the oldest first."""
    rows = ViewWatch.objects.filter(person=person).select_related("view__person").order_by("view__created", "view_id")
    counted = {row.view_id: row for row in rows.annotate(n=Count("viewnews_of"))}
    some = views.visible([row.view for row in counted.values()], person)
    return [Watched(view.id, view.name, counted[view.id].n) for view in some]


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


def news_between(after: int, upto: int, names: Collection[str]) -> Iterator[tuple[str, News]]:
    """Yields the news from after a number up to another, each with the name of the person whom it is for.

    What that person may not see is left out.
    """
    rows = ViewNews.objects.filter(pk__gt=after, pk__lte=upto, watch__person__username__in=names).order_by("pk")
    for row in rows.select_related("watch__view", "watch__person")[:_TOLD]:
        actor = actor_of(row.watch.person)
        alias = registry.alias_of(row.where)
        ref = SessionRef(alias or "", *json.loads(row.names))
        seen = views.visible([row.watch.view], row.watch.person)
        if alias and seen and actor.may_see(ref.source, ref.app_name):
            title = called({ref: ""}, actor)[ref] or ref.session_id
            yield row.watch.person.get_username(), News(row.pk, row.watch.view_id, seen[0].name, ref, title)


def note(watches: Collection[ViewWatch], sessions: Collection[SearchSession], where: str) -> list[SearchSession]:
    """Notes that sessions begin to match, for those who watch and may see them. Returns those that are news to anybody."""
    alias = registry.alias_of(where) or ""
    has = Counter(ViewNews.objects.filter(watch__in=watches).values_list("watch_id", flat=True))
    told, rows = set(), []
    for each in watches:
        if not views.visible([each.view], each.person):
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
