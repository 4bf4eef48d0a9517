"""Keeps roles: what people and groups may do, per source and app pattern. domain/roles.py defines what each role
allows.

    role = roles.give("editor", by=actor, apps="booking*", person="maria")
    roles.remove(role.pk, by=actor)

People without a role see no app.
"""

import logging
import time
from typing import Any, ClassVar, Final

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, Group, User
from django.db import models, transaction
from django.db.models import F, Q
from django.db.models.signals import m2m_changed, post_delete, post_save
from django.utils.translation import gettext as _

from ..domain.errors import AlreadyExists, Conflict, Invalid, NotFound
from ..domain.roles import ROLES
from . import tokens
from .actor import Actor, Grant, checked_pattern
from .audit.record import record

log = logging.getLogger("adkweb.roles")

_TRUSTED_SECONDS: Final = 1.0  # as long as a token is (tokens.py)

known: dict[int, tuple[float, Actor]] = {}  # by the key of a person: until when it is trusted, and their actor


class RoleQuerySet(models.QuerySet["Role"]):
    """The questions that are asked about roles."""

    def held_by(self, person: AbstractBaseUser) -> "RoleQuerySet":
        """Returns the roles that a person has, including those of their groups."""
        return self.filter(Q(person=person.pk) | Q(group__user=person.pk))

    def listed(self) -> "RoleQuerySet":
        """Returns the roles of groups first, then those of people, by name."""
        by_group = F("group__name").asc(nulls_last=True)
        return self.select_related("person", "group").order_by(by_group, "person__username", "pk")


class Role(models.Model):
    """A role (domain/roles.py) of a person or a group, in the apps and sources whose names match patterns."""

    role = models.CharField(max_length=10)
    sources = models.CharField(max_length=200, default="*")
    apps = models.CharField(max_length=200, default="*")
    reveals = models.BooleanField(default=False)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, null=True, related_name="+")
    group = models.ForeignKey("auth.Group", models.CASCADE, null=True, related_name="+")
    given_by = models.CharField(max_length=150)
    given = models.DateTimeField(auto_now_add=True)

    objects = RoleQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["role", "sources", "apps", "person"],
                condition=models.Q(person__isnull=False),
                name="one_role_of_person",
            ),
            models.UniqueConstraint(
                fields=["role", "sources", "apps", "group"],
                condition=models.Q(group__isnull=False),
                name="one_role_of_group",
            ),
            models.CheckConstraint(
                condition=models.Q(person__isnull=True, group__isnull=False)
                | models.Q(person__isnull=False, group__isnull=True),
                name="role_of_person_or_group",
            ),
        ]

    @property
    def holder(self) -> str:
        """Returns the name of the person or group that has it."""
        return self.person.get_username() if self.person else self.group.name if self.group else ""

    @property
    def grants(self) -> list[Grant]:
        """Returns the permission that it gives; nothing for an auditor."""
        kind = ROLES.get(self.role)  # a later adkweb on the same database may know another one
        return [Grant(kind.permission, self.apps, self.sources, self.reveals)] if kind and kind.permission else []

    def record_as(self, act: str, *, by: Actor) -> None:
        """Records in the audit that it was given or taken."""
        about: dict[str, Any] = {"group" if self.group else "person": self.holder}
        about |= {"role": self.role, "sources": self.sources, "reveals": self.reveals}
        record(act, by.name, app_name=self.apps, **about)


def actor_of(person: AbstractBaseUser) -> Actor:
    """Returns the actor of an account. A change of roles applies at once here, and within a second elsewhere."""
    until, actor = known.get(person.pk, (0.0, None))
    if actor is None or time.monotonic() >= until or actor.name != person.get_username():
        actor = _actor_of(person)
        known[person.pk] = (time.monotonic() + _TRUSTED_SECONDS, actor)
    return actor


def _actor_of(person: AbstractBaseUser) -> Actor:
    account = f"person {person.pk}"
    if not person.is_active:
        return Actor(person.get_username(), (), account)
    if getattr(person, "is_superuser", False):
        return Actor(person.get_username(), (Grant("admin", reveals=True),), account, audits=True)
    roles = list(Role.objects.held_by(person).order_by("pk"))
    grants = tuple(grant for role in roles for grant in role.grants)
    audits = any(role.role in ROLES and ROLES[role.role].audits for role in roles) or any(
        g.is_whole and g.permission == "admin" for g in grants
    )
    return Actor(person.get_username(), grants, account, audits)


def actor_numbered(number: int) -> Actor | None:
    """Returns the current actor of the account with this key, or None if it is gone."""
    person = User.objects.filter(pk=number).first()
    return None if person is None else actor_of(person)


def holders() -> tuple[list[str], list[str]]:
    """Returns the names of the groups and of the people who may get a role, in alphabetical order."""
    groups = Group.objects.order_by("name").values_list("name", flat=True)
    return list(groups), list(
        User.objects.filter(is_active=True).order_by("username").values_list("username", flat=True)
    )


def checked(role: str, *, by: Actor, sources: str = "*", apps: str = "*") -> tuple[str, str]:
    """Returns the patterns of sources and apps of a role that `by` may give. Raises Invalid, NotAllowed."""
    by.check_runs_everything()
    by.check_may_write()
    if role not in ROLES:
        raise Invalid(_("Choose one of these roles: %(names)s.") % {"names": ", ".join(ROLES)}, field="role")
    if ROLES[role].permission is None:
        sources = apps = ""
    return checked_pattern(sources, "sources") or "*", checked_pattern(apps, "apps") or "*"


def give(
    role: str,
    *,
    by: Actor,
    sources: str = "*",
    apps: str = "*",
    person: str = "",
    group: str = "",
    reveals: bool = False,
) -> Role:
    """Gives a role to a person or to a group.

    Raises Invalid, NotFound if there is no such person or group, AlreadyExists, NotAllowed.
    """
    sources, apps = checked(role, by=by, sources=sources, apps=apps)
    if bool(person) == bool(group):
        raise Invalid(_("Choose a person or a group."), field="holder")
    holder: dict[str, Any] = {"person": _person(person)} if person else {"group": _group(group)}
    with transaction.atomic():
        given, made = Role.objects.get_or_create(
            role=role, sources=sources, apps=apps, **holder, defaults={"given_by": by.name, "reveals": reveals}
        )
        if not made and given.reveals == reveals:
            raise AlreadyExists(_("%(name)s already has this role.") % {"name": given.holder}, field="holder")
        if not made:
            given.reveals, given.given_by = reveals, by.name
            given.save()
        given.record_as("role-given", by=by)
    log.info("%s gave the role %s (sources %s, apps %s) to %s", by.name, role, sources, apps, given.holder)
    return given


def remove(number: int, *, by: Actor) -> Role:
    """Removes a role. Raises NotFound, NotAllowed, and Conflict for the role of the last admin."""
    by.check_runs_everything()
    by.check_may_write()
    whole = Role.objects.filter(role="admin", sources="*", apps="*")
    people = User.objects.filter(is_active=True)
    with transaction.atomic():
        # Two people who remove each other's role wait for one another.
        list(whole.select_for_update())
        list(people.filter(is_superuser=True).select_for_update())
        role = Role.objects.select_related("person", "group").filter(pk=number).first()
        if role is None:
            raise NotFound(_("This role has already been removed."))
        role.delete()
        role.record_as("role-taken", by=by)
        runs_everything = Q(is_superuser=True) | Q(pk__in=whole.values("person")) | Q(groups__in=whole.values("group"))
        if not people.filter(runs_everything).exists():
            raise Conflict(
                _(
                    "No one would be left who can assign roles. First make someone else an admin of all sources "
                    "and apps."
                )
            )
    log.info("%s removed the role %s from %s", by.name, role.role, role.holder)
    return role


def make_admin(person: User) -> None:
    """Makes a person an admin of everything: the owner of this machine, or the first person."""
    Role.objects.get_or_create(role="admin", sources="*", apps="*", person=person, defaults={"given_by": "adkweb"})


def _person(name: str) -> User:
    person = User.objects.filter(username=name).first()
    if person is None:
        raise NotFound(_("There's no account “%(name)s”.") % {"name": name}, field="holder")
    return person


def _group(name: str) -> Group:
    group = Group.objects.filter(name=name).first()
    if group is None:
        raise NotFound(_("There's no group “%(name)s”.") % {"name": name}, field="holder")
    return group


def _forget(**_signal: Any) -> None:
    known.clear()
    transaction.on_commit(known.clear)  # before the commit, another reader would get the old roles again


for _changed in (post_save, post_delete):
    _changed.connect(_forget, Role, weak=False)
    _changed.connect(_forget, User, weak=False)
m2m_changed.connect(_forget, User.groups.through, weak=False)


# --- What someone may do now: roles and tokens change while a job or a long answer runs ------------------------------


def actor_now(name: str, account: str) -> Actor:
    """Returns the actor of an account with its current permissions: none if it, or the token, is gone.

    Without an account it is the machine itself."""
    kind, _space, number = account.partition(" ")
    if not kind:
        return Actor.holding(name, "admin")
    actor = (actor_numbered if kind == "person" else tokens.actor_numbered)(int(number))
    return actor or Actor(name, (), account)
