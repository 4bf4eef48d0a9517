"""Saves views: a query with its order and columns, for one person or for all."""

import functools
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final
from uuid import UUID

from django.contrib.auth.models import AbstractBaseUser
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils.timezone import get_default_timezone
from django.utils.translation import gettext as _

from ...access.actor import SYSTEM
from ...access.audit.record import record
from ...access.roles import actor_of
from ...access.shown import shown_words_anywhere
from ...domain.errors import AlreadyExists, Invalid, NotAllowed, NotFound
from ...models import SavedView, ViewWatch
from ..language import MOST_CHARACTERS, parse
from ..lines import clean
from ..selecting import about, apps
from ..words import folded

NAME_LENGTH: Final = 60
MOST: Final = 50  # views of a person
SHOWN: Final = 100  # views that a page lists
_SORT_LENGTH: Final = 40
_COLUMNS_LENGTH: Final = 10_000


@dataclass(frozen=True, slots=True)
class View:
    """A saved view as a person sees it. `owner` made it; `own` says that this person may change it."""

    id: UUID
    name: str
    query: str
    sort: str
    columns: str
    shared: bool
    owner: str
    own: bool


def listed(person: AbstractBaseUser) -> list[View]:
    """Returns a person's own views and those that are shared with them, the oldest first."""
    rows = SavedView.objects.filter(Q(person=person) | Q(shared=True)).select_related("person")
    is_seen = _seen_by(person)
    return [_view(row, person) for row in islice(filter(is_seen, rows.order_by("created", "id")), SHOWN)]


def visible(rows: Iterable[SavedView], person: AbstractBaseUser) -> list[View]:
    """Returns those of some views that a person may see."""
    return [_view(row, person) for row in filter(_seen_by(person), rows)]


def get(view_id: str | UUID, person: AbstractBaseUser) -> View:
    """Returns a view. Raises NotFound if there is none, or it is another person's alone."""
    return _view(_row(view_id, person), person)


def save(person: Any, view_id: UUID | None = None, /, **fields: Any) -> View:
    """Saves a view: `name`, `query`, `sort`, `columns`, `shared`. With the id of a view that was deleted, it has it again.

    Raises AlreadyExists, Invalid and NotAllowed."""
    check_may_keep(person)
    if SavedView.objects.filter(person=person).count() >= MOST:
        raise Invalid(_("A person has at most %(n)s views: delete one first.") % {"n": MOST}, field="name")
    row = SavedView(person=person, created=time.time(), **_checked(fields))
    if view_id and not SavedView.objects.filter(pk=view_id).exists():
        row.pk = view_id
    _write(row, "view-saved", person)
    return _view(row, person)


def change(view_id: UUID, person: AbstractBaseUser, **fields: Any) -> View:
    """Changes some fields of a view. If it is not shared any more, others do not watch it any more.

    Raises what `save` does, and NotFound."""
    check_may_keep(person)
    row = _own(view_id, person)
    for name, value in _checked(fields).items():
        setattr(row, name, value)
    _write(row, "view-changed", person)
    if not row.shared:
        ViewWatch.objects.filter(view=row).exclude(person=row.person).delete()
    return _view(row, person)


def delete(view_id: UUID, person: AbstractBaseUser) -> View:
    """Deletes a view, and returns what it was. Raises NotAllowed and NotFound."""
    row = _own(view_id, person)
    view = _view(row, person)
    with transaction.atomic():
        row.delete()
        record("view-deleted", person.get_username(), name=view.name, shared=view.shared)
    return view


def check_may_keep(person: AbstractBaseUser) -> None:
    """Raises NotAllowed for somebody who sees no app: they have nothing to search."""
    actor = actor_of(person)
    actor.check_right("read")
    actor.check_may_write()


def _row(view_id: str | UUID, person: AbstractBaseUser) -> SavedView:
    try:
        wanted = view_id if isinstance(view_id, UUID) else UUID(view_id)
    except ValueError:
        wanted = None
    row = SavedView.objects.filter(pk=wanted).select_related("person").first() if wanted else None
    if row is None or not _seen_by(person)(row):
        raise NotFound(_("There is no such view, or it is not shared with you."))
    return row


def _own(view_id: UUID, person: AbstractBaseUser) -> SavedView:
    actor_of(person).check_may_write()
    row = _row(view_id, person)
    if not _may_change(row, person):
        raise NotAllowed(_("This view is another person's. Save it under a name of your own."))
    return row


def _may_change(row: SavedView, person: AbstractBaseUser) -> bool:
    return row.person is None or row.person.pk == person.pk


def _checked(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns fields of a view as they are stored. Raises Invalid."""
    checked = dict(fields)
    if "query" in fields:
        checked["query"] = clean(str(fields["query"]), MOST_CHARACTERS + 1)
    if "name" in fields:
        name = " ".join(str(fields["name"]).replace("\0", "").split())
        if not name:
            raise Invalid(_("A view needs a name."), field="name")
        if len(name) > NAME_LENGTH or len(folded(name)) > 200:
            raise Invalid(_("A name has at most %(n)s characters.") % {"n": NAME_LENGTH}, field="name")
        checked |= {"name": name, "folded": folded(name)}
    if problems := parse(checked.get("query", ""), now=time.time(), zone=get_default_timezone()).problems:
        raise Invalid(_("The query has a mistake: %(message)s") % {"message": problems[0].message}, field="query")
    for name, length in (("sort", _SORT_LENGTH), ("columns", _COLUMNS_LENGTH)):
        if len(fields.get(name, "")) > length or "\0" in fields.get(name, ""):
            raise Invalid(_("This view cannot be saved: its columns are too many."), field="name")
    return checked


def _write(row: SavedView, act: str, by: AbstractBaseUser) -> None:
    try:
        with transaction.atomic():
            row.save()
            record(act, by.get_username(), name=row.name, query=row.query, shared=row.shared)
    except IntegrityError as error:
        raise AlreadyExists(_("You have a view “%(name)s” already.") % {"name": row.name}, field="name") from error


def every_app() -> frozenset[tuple[str, str]]:
    """Returns all indexed apps, each with its source."""
    return frozenset((app.source, app.name) for app in apps())


def _seen_by(person: AbstractBaseUser) -> Callable[[SavedView], bool]:
    """Returns what tells whether a person may see a view: their own, or one that is shared and about apps that all exist for
    them. What somebody looks for in an app is nothing to people without a role there."""
    actor = actor_of(person)
    every = functools.cache(every_app)
    unseen = functools.cache(lambda: frozenset(app for app in every() if not actor.may_see(*app)))

    def is_seen(row: SavedView) -> bool:
        if row.person is not None and row.person.pk == person.pk:
            return True
        if not row.shared or actor.sees_all:
            return row.shared
        query = parse(row.query, now=time.time(), zone=get_default_timezone())
        some = about(query.tree, every()) or every()
        return bool(some) and some.isdisjoint(unseen())

    return is_seen


def _view(row: SavedView, person: AbstractBaseUser) -> View:
    owner = row.person.get_username() if row.person else ""
    # Who typed it sees it.
    actor = SYSTEM if row.person is not None and row.person.pk == person.pk else actor_of(person)
    name, query, columns = (shown_words_anywhere(text, actor) for text in (row.name, row.query, row.columns))
    return View(row.pk, name, query, row.sort, columns, row.shared, owner, _may_change(row, person))
