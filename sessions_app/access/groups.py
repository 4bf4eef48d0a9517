"""Keeps groups of people. What somebody may do is given to a group, and a person gets it by being in the group."""

import logging
from dataclasses import dataclass
from typing import Final

from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from ..domain.errors import AlreadyExists, Invalid, NotFound
from ..domain.json_values import check_name
from .actor import Actor
from .audit.record import record
from .people import check_keeps_people
from .roles import Role

log = logging.getLogger("adkweb.people")

NAME_LENGTH: Final = 150


@dataclass(frozen=True, slots=True)
class Members:
    """A group, with the names of its people."""

    name: str
    people: tuple[str, ...]


def listed(*, actor: Actor) -> list[Members]:
    """Returns all groups by name."""
    check_keeps_people(actor)
    return [_members(row) for row in Group.objects.prefetch_related("user_set").order_by("name")]


def get(name: str, *, actor: Actor) -> Members:
    """Returns a group. Raises NotFound."""
    check_keeps_people(actor)
    return _members(_row(name))


def make(name: str, *, actor: Actor) -> Members:
    """Makes an empty group. Raises Invalid and AlreadyExists."""
    check_keeps_people(actor)
    row = Group(name=_checked(name))
    with transaction.atomic():
        _save(row)
        record("group-made", actor.name, name=row.name)
    log.info("%s made the group %s", actor.name, row.name)
    return _members(row)


def rename(name: str, new_name: str, *, actor: Actor) -> Members:
    """Gives a group another name; its people and what they may do stay. Raises NotFound, Invalid and AlreadyExists."""
    check_keeps_people(actor)
    row = _row(name)
    row.name = _checked(new_name)
    with transaction.atomic():
        _save(row)
        record("group-renamed", actor.name, name=name, new_name=row.name)
    log.info("%s renamed the group %s to %s", actor.name, name, row.name)
    return _members(row)


def delete(name: str, *, actor: Actor) -> None:
    """Deletes a group. Its people keep their accounts, and lose what they may do by the group. Raises NotFound."""
    check_keeps_people(actor)
    with transaction.atomic():
        row = _row(name)
        for role in Role.objects.filter(group=row).order_by("pk"):
            role.record_as("role-taken", by=actor)
        row.delete()
        record("group-deleted", actor.name, name=name)
    log.info("%s deleted the group %s", actor.name, name)


def _checked(name: str) -> str:
    return checked_name(name, _("A group needs a name."), NAME_LENGTH)


def _save(row: Group) -> None:
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError as error:
        raise AlreadyExists(_("There is a group “%(name)s” already.") % {"name": row.name}, field="name") from error


def _row(name: str) -> Group:
    row = Group.objects.filter(name=name).first()
    if row is None:
        raise NotFound(_("There is no group “%(name)s”.") % {"name": name})
    return row


def _members(row: Group) -> Members:
    return Members(row.name, tuple(sorted(person.get_username() for person in row.user_set.all())))


# --- Names that people give: to a group, to a passkey -----------------------------------------------------------------


def checked_name(name: str, empty: str, limit: int) -> str:
    """Returns a name without blanks around it. Raises Invalid; `empty` is its message where there is no name."""
    name = name.strip()
    if not name:
        raise Invalid(empty, field="name")
    try:
        check_name(name, _("The name"), limit)
    except Invalid as error:
        raise Invalid(error.message, field="name") from error
    if not name.isprintable():
        raise Invalid(_("A name has no line breaks or other characters that cannot be seen."), field="name")
    return name
