"""Keeps roles: what people and groups may do, per source and app pattern.

A viewer reads, an editor appends events, an admin does everything; an auditor reads the audit and nothing else. Who has
no role sees no app.
"""

import logging
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal

from django.contrib.auth.models import AbstractBaseUser, Group, User
from django.db import transaction
from django.db.models import Q
from django.db.models.signals import m2m_changed, post_delete, post_save
from django.utils.translation import gettext as _

from ..domain.errors import AlreadyExists, Conflict, Invalid, NotFound
from ..domain.json_values import check_name
from ..models import Role
from . import tokens
from .actor import Actor, Grant, Right
from .audit.record import record

log = logging.getLogger("adkweb.roles")

RoleName = Literal["viewer", "editor", "admin", "auditor"]
ROLES: Final[tuple[RoleName, ...]] = ("viewer", "editor", "admin", "auditor")
_RIGHTS: Final[dict[str, Right]] = {"viewer": "read", "editor": "append", "admin": "admin"}
_PATTERN_LENGTH: Final = 200
_TRUSTED_SECONDS: Final = 1.0  # as long as a token is (tokens.py)

known: dict[int, tuple[float, Actor]] = {}  # by the key of a person: until when it is trusted, and their actor


@dataclass(frozen=True, slots=True)
class GivenRole:
    """A role that somebody has. `person` or `group` is empty."""

    number: int
    role: RoleName
    sources: str
    apps: str
    reveals: bool
    person: str
    group: str
    given_by: str

    @property
    def holder(self) -> str:
        """Returns the name of whoever has it."""
        return self.person or self.group


def actor_of(person: AbstractBaseUser) -> Actor:
    """Returns the actor that an account is. A change of roles holds at once here, and within a second elsewhere."""
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
    rows = list(Role.objects.filter(Q(person_id=person.pk) | Q(group__user=person.pk)).distinct().order_by("pk"))
    grants = tuple(_grant(row) for row in rows if row.role in _RIGHTS)
    audits = any(row.role == "auditor" for row in rows) or any(g.is_whole and g.right == "admin" for g in grants)
    return Actor(person.get_username(), grants, account, audits)


def _grant(row: Role) -> Grant:
    return Grant(_RIGHTS[row.role], row.apps, row.sources, row.reveals)


def actor_numbered(number: int) -> Actor | None:
    """Returns the actor that the account with this key is now, or None if it is gone."""
    person = User.objects.filter(pk=number).first()
    return None if person is None else actor_of(person)


def listed() -> list[GivenRole]:
    """Returns all roles: those of groups first, then those of people, by name."""
    rows = Role.objects.select_related("person", "group").order_by("group__name", "person__username", "pk")
    return sorted((_given(row) for row in rows), key=lambda role: role.group == "")


def held_by(person: str, groups: Collection[str]) -> list[GivenRole]:
    """Returns the roles that a person has, those by groups first."""
    return [role for role in listed() if role.person == person or role.group in groups]


def holders() -> tuple[list[str], list[str]]:
    """Returns the names of the groups and of the people who may get a role, in alphabetical order."""
    groups = Group.objects.order_by("name").values_list("name", flat=True)
    return list(groups), list(
        User.objects.filter(is_active=True).order_by("username").values_list("username", flat=True)
    )


def give(
    role: str,
    *,
    by: Actor,
    sources: str = "*",
    apps: str = "*",
    person: str = "",
    group: str = "",
    reveals: bool = False,
) -> GivenRole:
    """Gives a role to a person or to a group: `give("editor", by=actor, apps="booking*", person="maria")`.

    Raises Invalid, NotFound where there is no such person or group, AlreadyExists, NotAllowed.
    """
    by.check_runs_everything()
    by.check_may_write()
    if role not in ROLES:
        raise Invalid(_("The role is one of: %(names)s.") % {"names": ", ".join(ROLES)}, field="role")
    if bool(person) == bool(group):
        raise Invalid(_("Name a person or a group."), field="person")
    sources, apps = (_pattern(sources, "sources"), _pattern(apps, "apps")) if role != "auditor" else ("*", "*")
    holder: dict[str, Any] = {"person": _person(person)} if person else {"group": _group(group)}
    with transaction.atomic():
        row, made = Role.objects.get_or_create(
            role=role, sources=sources, apps=apps, **holder, defaults={"given_by": by.name, "reveals": reveals}
        )
        if not made and row.reveals == reveals:
            raise AlreadyExists(_("%(name)s has this role already.") % {"name": person or group}, field="person")
        if not made:
            row.reveals, row.given_by = reveals, by.name
            row.save()
        _record("role-given", by, _given(row))
    log.info("%s gave the role %s (sources %s, apps %s) to %s", by.name, role, sources, apps, person or group)
    return _given(row)


def take(number: int, *, by: Actor) -> GivenRole:
    """Takes a role from whoever has it. Raises NotFound, NotAllowed, and Conflict for the role of the last admin."""
    by.check_runs_everything()
    by.check_may_write()
    with keeping_an_admin():
        row = Role.objects.select_related("person", "group").filter(pk=number).first()
        if row is None:
            raise NotFound(_("This role is gone already."))
        role = _given(row)
        row.delete()
        _record("role-taken", by, role)
    log.info("%s took the role %s from %s", by.name, role.role, role.holder)
    return role


def of_group(name: str) -> list[GivenRole]:
    """Returns the roles that a group has."""
    return [role for role in listed() if role.group == name]


def record_taken(some: Iterable[GivenRole], *, by: Actor) -> None:
    """Records that roles went with their group."""
    for role in some:
        _record("role-taken", by, role)


@contextmanager
def keeping_an_admin() -> Iterator[None]:
    """Undoes what its block did, and raises Conflict, if nobody is left who runs everything.

    Two people who take away each other's role wait for one another.
    """
    whole = Role.objects.filter(role="admin", sources="*", apps="*")
    people = User.objects.filter(is_active=True)
    with transaction.atomic():
        list(whole.select_for_update())
        list(people.filter(is_superuser=True).select_for_update())
        yield
        runs_everything = Q(is_superuser=True) | Q(pk__in=whole.values("person")) | Q(groups__in=whole.values("group"))
        if not people.filter(runs_everything).exists():
            raise Conflict(
                _("Nobody would be left who may give roles. Make somebody else an admin of everything first.")
            )


def make_admin(person: User) -> None:
    """Makes a person an admin of everything: the owner of this machine, or the first person."""
    Role.objects.get_or_create(role="admin", sources="*", apps="*", person=person, defaults={"given_by": "adkweb"})


def _record(act: str, by: Actor, role: GivenRole) -> None:
    about: dict[str, Any] = {"role": role.role, "sources": role.sources, "reveals": role.reveals}
    record(act, by.name, app_name=role.apps, person=role.person, group=role.group, **about)


def _given(row: Role) -> GivenRole:
    person, group = row.person.get_username() if row.person else "", row.group.name if row.group else ""
    return GivenRole(row.pk, row.role, row.sources, row.apps, row.reveals, person, group, row.given_by)  # type: ignore[arg-type]


def _pattern(text: str, field: str) -> str:
    pattern = text.strip() or "*"
    try:
        check_name(pattern, _("The pattern"), _PATTERN_LENGTH)
    except Invalid as error:
        raise Invalid(error.message, field=field) from error
    if not pattern.isprintable():
        raise Invalid(_("A pattern has no line breaks or other characters that cannot be seen."), field=field)
    return pattern


def _person(name: str) -> User:
    person = User.objects.filter(username=name).first()
    if person is None:
        raise NotFound(_("There is no person “%(name)s”.") % {"name": name}, field="person")
    return person


def _group(name: str) -> Group:
    group = Group.objects.filter(name=name).first()
    if group is None:
        raise NotFound(_("There is no group “%(name)s”.") % {"name": name}, field="group")
    return group


def _forget(**_signal: Any) -> None:
    known.clear()


for _changed in (post_save, post_delete):
    _changed.connect(_forget, Role, weak=False)
    _changed.connect(_forget, User, weak=False)
m2m_changed.connect(_forget, User.groups.through, weak=False)


# --- What somebody may do now: roles and tokens change while a job or a long answer runs ------------------------------


def actor_now(name: str, account: str) -> Actor:
    """Returns who acts by an account, with the rights of now: none if it, or the token, is gone.

    Without an account it is the machine itself."""
    kind, _space, number = account.partition(" ")
    if not kind:
        return Actor.holding(name, "admin")
    actor = (actor_numbered if kind == "person" else tokens.actor_numbered)(int(number))
    return actor or Actor(name, (), account)
