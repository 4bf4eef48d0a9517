"""Keeps groups of people. What someone may do is given to a group, and a person gets it by being in the group."""

import logging
from typing import Final

from django.contrib.auth.models import Group, User
from django.db import IntegrityError, transaction
from django.db.models import Prefetch, QuerySet
from django.utils.translation import gettext as _

from ..domain.errors import AlreadyExists, Invalid, NotFound
from ..domain.json_values import check_name
from .actor import Actor
from .audit.record import record
from .people import check_keeps_people
from .roles import Role

log = logging.getLogger("adkweb.people")

NAME_LENGTH: Final = 150


def listed(*, actor: Actor) -> QuerySet[Group]:
    """Returns all groups, each with its people, by name."""
    check_keeps_people(actor)
    return Group.objects.prefetch_related(Prefetch("user_set", User.objects.order_by("username"))).order_by("name")


def get(name: str, *, actor: Actor) -> Group:
    """Returns a group with its people. Raises NotFound."""
    group = listed(actor=actor).filter(name=name).first()
    if group is None:
        raise NotFound(_("There's no group “%(name)s”.") % {"name": name})
    return group


def make(name: str, *, actor: Actor) -> Group:
    """Makes an empty group. Raises Invalid and AlreadyExists."""
    check_keeps_people(actor)
    group = Group(name=_checked(name))
    with transaction.atomic():
        _save(group)
        record("group-made", actor.name, name=group.name)
    log.info("%s created the group %s", actor.name, group.name)
    return group


def rename(name: str, new_name: str, *, actor: Actor) -> Group:
    """Gives a group another name; its members and their permissions stay. Raises NotFound, Invalid and
    AlreadyExists."""
    group = get(name, actor=actor)
    group.name = _checked(new_name)
    with transaction.atomic():
        _save(group)
        record("group-renamed", actor.name, name=name, new_name=group.name)
    log.info("%s renamed the group %s to %s", actor.name, name, group.name)
    return group


def delete(name: str, *, actor: Actor) -> None:
    """Deletes a group. Its members keep their accounts, but lose the group's permissions. Raises NotFound."""
    with transaction.atomic():
        group = get(name, actor=actor)
        for role in Role.objects.listed().filter(group=group):
            role.record_as("role-taken", by=actor)
        group.delete()
        record("group-deleted", actor.name, name=name)
    log.info("%s deleted the group %s", actor.name, name)


def _checked(name: str) -> str:
    return checked_name(name, _("Enter a name for the group."), NAME_LENGTH)


def _save(group: Group) -> None:
    try:
        with transaction.atomic():
            group.save()
    except IntegrityError as error:
        raise AlreadyExists(_("There's already a group “%(name)s”.") % {"name": group.name}, field="name") from error


# --- Names that people give: to a group, to a passkey -----------------------------------------------------------------


def checked_name(name: str, empty: str, limit: int) -> str:
    """Returns a name without blanks around it. Raises Invalid; `empty` is its message for an empty name."""
    name = name.strip()
    if not name:
        raise Invalid(empty, field="name")
    try:
        check_name(name, _("The name"), limit)
    except Invalid as error:
        raise Invalid(error.message, field="name") from error
    if not name.isprintable():
        raise Invalid(_("Names can't contain line breaks or invisible characters."), field="name")
    return name
