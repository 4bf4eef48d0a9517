"""Keeps the accounts of people: who is an admin, who may sign in, and which groups they are in.

    people.change("ana", actor=actor, active=False, admin=False, groups=["Support"])

An account is never deleted, because its name is in edits. There is always an admin who can sign in.
"""

import logging
from collections.abc import Collection, Iterable
from typing import Final

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Prefetch, QuerySet
from django.utils.translation import gettext as _

from ..domain.errors import AlreadyExists, Conflict, Invalid, NotAllowed, NotFound
from . import second_factor, sign_ins
from .actor import AGENT, PEOPLE, SYSTEM, TERMINAL, Actor
from .audit.record import record

log = logging.getLogger("adkweb.people")

# An account of such a name would write edits that look like the machine's.
RESERVED: Final = frozenset(each.name for each in (SYSTEM, TERMINAL, AGENT, PEOPLE))


def keeps_people(actor: Actor) -> bool:
    """Returns whether an actor is an admin, who may make, change and deactivate accounts and groups."""
    if actor is TERMINAL:
        return True
    return get_user_model().objects.filter(username=actor.name, is_active=True, is_superuser=True).exists()


def check_keeps_people(actor: Actor) -> None:
    """Raises NotAllowed unless an actor is an admin."""
    if not keeps_people(actor):
        raise NotAllowed(_("Only admins can see and change accounts and groups."))


def listed(*, actor: Actor) -> QuerySet[User]:
    """Returns all accounts, each with its groups, by name, with those that are deactivated last."""
    check_keeps_people(actor)
    groups = Prefetch("groups", Group.objects.order_by("name"))
    return User.objects.prefetch_related(groups).order_by("-is_active", "username")


def get(name: str, *, actor: Actor) -> User:
    """Returns an account with its groups. Raises NotFound."""
    person = listed(actor=actor).filter(username=name).first()
    if person is None:
        raise NotFound(_("There's no account “%(name)s”.") % {"name": name})
    return person


def change(name: str, *, actor: Actor, active: bool, admin: bool, groups: Collection[str]) -> User:
    """Sets whether someone may sign in and is an admin, and which groups they are in.

    Someone who may no longer sign in is signed out everywhere. Raises NotFound, Invalid for a group that does not
    exist, and Conflict if no admin would be left.
    """
    check_keeps_people(actor)
    with transaction.atomic():
        chosen = groups_named(groups)
        admins = list(get_user_model().objects.select_for_update().filter(is_active=True, is_superuser=True))
        person = get(name, actor=actor)
        if not (active and admin):
            _check_not_last(person, admins)
        person.is_active, person.is_superuser = active, admin
        person.save(update_fields=["is_active", "is_superuser"])
        person.groups.set(chosen)
        record("account-changed", actor.name, name=name, active=active, admin=admin, groups=list(groups))
        if not active:
            sign_ins.end_all(person.pk)
    log.info("%s changed the account %s: active %s, admin %s, groups %s", actor.name, name, active, admin, list(groups))
    return person


def browsers_of(name: str, *, actor: Actor) -> list[sign_ins.Browser]:
    """Returns the browsers that someone is signed in with. Raises NotFound."""
    return sign_ins.listed(get(name, actor=actor).pk)


def end_sign_in(name: str, which: str, *, actor: Actor) -> None:
    """Signs one of someone's browsers out, or all of them if `which` is empty. Raises NotFound."""
    person_id = get(name, actor=actor).pk
    record("sign-out", actor.name, name=name, browsers="one" if which else "all")
    if not which:
        sign_ins.end_all(person_id)
    else:
        sign_ins.end(person_id, which)
    log.info("%s signed %s out: %s", actor.name, name, "one browser" if which else "everywhere")


def has_second_factor(name: str, *, actor: Actor) -> bool:
    """Returns whether someone has a second factor. Raises NotFound."""
    return second_factor.exists(get(name, actor=actor))


def reset_second_factor(name: str, *, actor: Actor) -> None:
    """Removes the second factor that someone lost, and signs them out everywhere. Raises NotFound."""
    person = get(name, actor=actor)
    second_factor.reset(person, by=actor.name)
    sign_ins.end_all(person.pk)


def groups_named(names: Iterable[str]) -> list[Group]:
    """Returns groups by their names. Raises Invalid if one does not exist."""
    wanted = set(names)
    rows = list(Group.objects.filter(name__in=wanted).order_by("name"))
    if missing := wanted - {row.name for row in rows}:
        raise Invalid(_("There's no group “%(name)s”.") % {"name": min(missing)}, field="groups")
    return rows


def new_account(name: str) -> User:
    """Returns an account of a new name, without a password, which is not saved yet. Raises Invalid and
    AlreadyExists."""
    accounts = get_user_model()
    person = accounts(username=accounts.normalize_username(name.strip()))
    person.set_unusable_password()
    try:
        person.clean_fields(exclude=["password"])
    except ValidationError as error:
        raise Invalid(" ".join(error.messages), field="name") from error
    # “Ana” beside “ana” would be taken for her.
    if person.username.lower() in RESERVED or accounts.objects.filter(username__iexact=person.username).exists():
        raise taken(person.username)
    return person


def taken(name: str) -> AlreadyExists:
    """Returns the error for a name that someone has already."""
    return AlreadyExists(_("The name “%(name)s” is already taken. Choose another one.") % {"name": name}, field="name")


def _check_not_last(person: User, admins: list[User]) -> None:
    # One with a password can sign in from anywhere; one without only by the link in the terminal.
    able = [each for each in admins if each.has_usable_password()] or admins
    if [each.pk for each in able] == [person.pk]:
        raise Conflict(
            _("%(name)s is the last admin who can sign in, so nothing was changed. Make someone else an admin first.")
            % {"name": person.get_username()}
        )
