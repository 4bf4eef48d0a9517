"""Saved views: a query with its order and columns, for one person or for all; and who watches them.

    view = views.save(person, name="Failed", query="error:any", sort="", columns="", shared=False)
    view = SavedView.objects.of(view.id, person)
    view.change(by=person, shared=True)
    view.watch(person, "UTC")

A view that was read for a person shows what they may see: what rules of masking hide from them, it has as dots.
"""

import functools
import time
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC
from itertools import islice
from typing import Any, ClassVar, Final, Self
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, models, transaction
from django.db.models import Count, Q
from django.urls import reverse
from django.utils.timezone import get_default_timezone
from django.utils.translation import gettext as _

from ...access.audit.record import record
from ...access.roles import actor_of
from ...access.shown import shown_words_anywhere
from ...domain.errors import AlreadyExists, Invalid, NotAllowed, NotFound
from .. import tree
from ..language import MOST_CHARACTERS, parse
from ..lines import clean
from ..selecting import about, apps
from ..words import folded

NAME_LENGTH: Final = 60
MOST: Final = 50  # views of a person
SHOWN: Final = 100  # views that a page lists
MOST_WATCHED: Final = 20  # views that a person watches
CONDITIONS: Final = 20  # of a query that is watched
_SORT_LENGTH: Final = 40
_COLUMNS_LENGTH: Final = 10_000


class SavedViewQuerySet(models.QuerySet["SavedView"]):
    """The questions that are asked about views."""

    def listed(self, person: User) -> "list[SavedView]":
        """Returns a person's own views and those that are shared with them, the oldest first."""
        rows = self.filter(Q(person=person) | Q(shared=True)).select_related("person").order_by("created", "id")
        return [view.read_for(person) for view in islice(filter(seen_by(person), rows), SHOWN)]

    def of(self, view_id: str | UUID, person: User) -> "SavedView":
        """Returns a view. Raises NotFound if there is none, or it is another person's alone."""
        try:
            wanted = view_id if isinstance(view_id, UUID) else UUID(view_id)
        except ValueError:
            rows = self.none()
        else:
            rows = self.filter(pk=wanted).select_related("person")
        for view in filter(seen_by(person), rows):
            return view.read_for(person)
        raise NotFound(_("This view doesn't exist, or isn't shared with you."))


class SavedView(models.Model):
    """A query with its order and columns, by a name. `sort` and `columns` are as an address has them.

    `person` is null if the account of who made it is gone.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    name = models.CharField(max_length=NAME_LENGTH)
    folded = models.CharField(max_length=200)
    query = models.TextField()
    sort = models.CharField(max_length=_SORT_LENGTH)
    columns = models.TextField()
    shared = models.BooleanField(default=False)
    created = models.FloatField()

    own = False  # whether the person for whom it was read may change it

    objects = SavedViewQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["person", "folded"], name="one_view_of_a_name")]
        indexes: ClassVar = [models.Index(fields=["created"], condition=models.Q(shared=True), name="views_shared")]

    def get_absolute_url(self) -> str:
        """Returns the address of the page that shows what it selects."""
        return f"{reverse('search')}?view={self.pk}"

    @property
    def owner(self) -> str:
        """Returns the name of who made it; "" if their account is gone."""
        return self.person.get_username() if self.person else ""

    def read_for(self, person: User) -> Self:
        """Returns it as a person sees it: what rules hide are dots, unless they typed it. It must not be saved."""
        self.own = self.person_id in (None, person.pk)
        if self.person_id != person.pk:
            actor = actor_of(person)
            self.name, self.query, self.columns = (
                shown_words_anywhere(text, actor) for text in (self.name, self.query, self.columns)
            )
        return self

    def change(self, *, by: User, **fields: Any) -> "SavedView":
        """Changes some fields, and returns it as it is now. If it is not shared any more, others do not watch it any more,
        and one whose account is gone belongs to who changed it.

        Raises what `save` does."""
        check_may_keep(by)
        row = self._stored(by)
        actor = actor_of(by)
        # A field that came back as they saw it stays as it is stored: rules may have hidden a part of it.
        hidden = {} if row.person else {name: getattr(row, name) for name in ("name", "query", "columns")}
        same = {name for name, text in hidden.items() if fields.get(name) == shown_words_anywhere(text, actor)}
        for name, value in _checked({name: value for name, value in fields.items() if name not in same}).items():
            setattr(row, name, value)
        if not row.shared:
            row.person = row.person or by
        row._write("view-changed", by)
        if not row.shared:
            ViewWatch.objects.filter(view=row).exclude(person=row.person).delete()
        return row.read_for(by)

    def remove(self, *, by: User) -> None:
        """Deletes it. Raises NotAllowed and NotFound."""
        actor_of(by).check_may_write()
        row = self._stored(by)
        with transaction.atomic():
            row.delete()
            record("view-deleted", by.get_username(), name=row.name, shared=row.shared)

    def watch(self, person: User, zone: str) -> None:
        """Tells a person from now on what begins to match. `zone` is theirs. Raises Invalid, NotAllowed and NotFound."""
        check_may_keep(person)
        if not is_simple(parse(SavedView.objects.of(self.pk, person).query, now=time.time(), zone=UTC)):
            raise Invalid(_("A watched query can have up to %(n)s conditions.") % {"n": CONDITIONS})
        if ViewWatch.objects.filter(person=person).exclude(view=self).count() >= MOST_WATCHED:
            raise Invalid(_("You can watch up to %(n)s views.") % {"n": MOST_WATCHED})
        given = {"zone": zone}
        ViewWatch.objects.update_or_create(
            view=self, person=person, defaults=given, create_defaults={**given, "created": time.time()}
        )

    def is_watched_by(self, person: User) -> bool:
        """Tells whether a person watches it."""
        return ViewWatch.objects.filter(view=self, person=person).exists()

    def _stored(self, by: User) -> "SavedView":
        """Returns it as it is stored, for somebody who changes it. Raises NotAllowed and NotFound."""
        row = SavedView.objects.filter(pk=self.pk).select_related("person").first()
        if row is None:
            raise NotFound(_("This view doesn't exist, or isn't shared with you."))
        if row.person_id not in (None, by.pk):
            raise NotAllowed(_("This view belongs to someone else. Save it under a new name."))
        return row

    def _write(self, act: str, by: User) -> None:
        try:
            with transaction.atomic():
                self.save()
                record(act, by.get_username(), name=self.name, query=self.query, shared=self.shared)
        except IntegrityError as error:
            message = _("You already have a view called “%(name)s”.") % {"name": self.name}
            raise AlreadyExists(message, field="name") from error


class ViewWatchQuerySet(models.QuerySet["ViewWatch"]):
    """The questions that are asked about who watches what."""

    def of(self, view_id: UUID, person: User) -> "ViewWatch":
        """Returns the watch of a view that a person may see. Raises NotFound."""
        view = SavedView.objects.of(view_id, person)
        watch = self.filter(view=view, person=person).select_related("person").first()
        if watch is None:
            raise NotFound(_("Watch this view first. Its webhook reports sessions that start to match."))
        watch.view = view
        return watch

    def end(self, view_id: UUID, person: User) -> None:
        """Tells a person no more of a view, whether they may still see it or not. Raises NotAllowed."""
        actor_of(person).check_may_write()
        self.filter(view=view_id, person=person).delete()

    def listed(self, person: User) -> "list[ViewWatch]":
        """Returns the watches of a person, those of the oldest views first, each with its number of news."""
        rows = self.filter(person=person).select_related("view__person").order_by("view__created", "view_id")
        sees = seen_by(person)
        watches = [watch for watch in rows.annotate(n=Count("viewnews_of")) if sees(watch.view)]
        for watch in watches:
            watch.news = watch.n  # type: ignore[attr-defined]
            watch.view.read_for(person)
        return watches


class ViewWatch(models.Model):
    """Says that a person wants to be told when a session begins to match a view. `zone` is that of the query's times."""

    view = models.ForeignKey(SavedView, models.CASCADE, related_name="+")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    zone = models.CharField(max_length=60)
    created = models.FloatField()

    news = 0  # how many sessions began to match since the person looked, where that was asked; NEWS if there are more

    objects = ViewWatchQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["view", "person"], name="one_watch_of_a_view")]


def save(person: User, view_id: UUID | None = None, /, **fields: Any) -> SavedView:
    """Saves a view: `name`, `query`, `sort`, `columns`, `shared`. With the id of a view that was deleted, it has it again.

    Raises AlreadyExists, Invalid and NotAllowed."""
    check_may_keep(person)
    if SavedView.objects.filter(person=person).count() >= MOST:
        raise Invalid(_("You can have up to %(n)s views. Delete one first.") % {"n": MOST}, field="name")
    view = SavedView(person=person, created=time.time(), **_checked(fields))
    if view_id and not SavedView.objects.filter(pk=view_id).exists():
        view.pk = view_id
    view._write("view-saved", person)
    return view.read_for(person)


def check_may_keep(person: User) -> None:
    """Raises NotAllowed for somebody who sees no app: they have nothing to search."""
    actor = actor_of(person)
    actor.check_permission("read")
    actor.check_may_write()


def is_simple(query: tree.Query) -> bool:
    """Tells whether a query can be watched: it is asked about each session that is written to."""
    return query.tree is None or len(list(tree.leaves(query.tree))) <= CONDITIONS


def every_app() -> frozenset[tuple[str, str]]:
    """Returns all indexed apps, each with its source."""
    return frozenset((app.source, app.name) for app in apps())


def seen_by(person: User) -> Callable[[SavedView], bool]:
    """Returns what tells whether a person may see a view: their own, or one that is shared and about apps that all exist for
    them. What somebody looks for in an app is nothing to people without a role there."""
    actor = actor_of(person)
    every = functools.cache(every_app)
    unseen = functools.cache(lambda: frozenset(app for app in every() if not actor.may_see(*app)))

    def is_seen(view: SavedView) -> bool:
        if view.person_id == person.pk:
            return True
        if not view.shared or actor.sees_all:
            return view.shared
        query = parse(view.query, now=time.time(), zone=get_default_timezone())
        some = about(query.tree, every()) or every()
        return bool(some) and some.isdisjoint(unseen())

    return is_seen


def _checked(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns fields of a view as they are stored. Raises Invalid."""
    checked = dict(fields)
    if "query" in fields:
        checked["query"] = clean(str(fields["query"]), MOST_CHARACTERS + 1)
    if "name" in fields:
        name = " ".join(str(fields["name"]).replace("\0", "").split())
        if not name:
            raise Invalid(_("Enter a name for the view."), field="name")
        if len(name) > NAME_LENGTH or len(folded(name)) > 200:
            raise Invalid(_("A name can have up to %(n)s characters.") % {"n": NAME_LENGTH}, field="name")
        checked |= {"name": name, "folded": folded(name)}
    if problems := parse(checked.get("query", ""), now=time.time(), zone=get_default_timezone()).problems:
        raise Invalid(_("The query has a mistake: %(message)s") % {"message": problems[0].message}, field="query")
    for name, length in (("sort", _SORT_LENGTH), ("columns", _COLUMNS_LENGTH)):
        if len(fields.get(name, "")) > length or "\0" in fields.get(name, ""):
            raise Invalid(_("This view can't be saved: it has too many columns."), field="name")
    return checked
