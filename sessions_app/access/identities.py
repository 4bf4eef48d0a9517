"""Keeps which account belongs to whom at the identity provider, and which groups they are in.

    person = identities.person_of(identity)  # makes the account at the first sign-in; raises NotAllowed, AlreadyExists

No one gets an account because of a name or an email address. People who have one connect it: signed in, and with its
password.
"""

import logging
from typing import Final

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from ..domain.errors import AlreadyExists, Conflict, NotAllowed
from . import people
from .audit.record import record
from .oidc import Identity
from .roles import Role

log = logging.getLogger("adkweb.people")

_GIVER: Final = "setting ADKWEB_OIDC_ROLES"  # no account can have a name with a blank


def keep_roles() -> None:
    """Gives groups the roles in ADKWEB_OIDC_ROLES, and removes those that are no longer in it."""
    wanted = set(settings.OIDC_ROLES)
    with transaction.atomic():
        for row in Role.objects.filter(given_by=_GIVER).select_related("group"):
            given = (row.group.name if row.group else "", row.role, row.apps)
            if given in wanted and row.sources == "*":
                wanted.discard(given)
            else:
                record("role-taken", _GIVER, app_name=row.apps, group=given[0], role=row.role)
                row.delete()
        for name, role, apps in sorted(wanted):
            group, _made = Group.objects.get_or_create(name=name)
            _row, made = Role.objects.get_or_create(
                group=group, role=role, apps=apps, sources="*", defaults={"given_by": _GIVER}
            )
            if made:
                record("role-given", _GIVER, app_name=apps, group=name, role=role)


def person_of(identity: Identity) -> User:
    """Returns the account of an identity, in the groups that its provider names now. At the first sign-in, makes it.

    Raises NotAllowed for someone in no group that has a role and for a deactivated account, AlreadyExists and Invalid
    for a name that cannot be given, and Conflict.
    """
    keep_roles()
    try:
        with transaction.atomic():
            person = _connected(identity) or _new_person(identity)
            _set_groups(person, identity)
    except IntegrityError as error:
        raise Conflict(_("Sign-in failed because another sign-in was in progress. Try again.")) from error
    if not person.is_active:
        raise NotAllowed(_("The account “%(name)s” was deactivated. Ask an admin.") % {"name": person.get_username()})
    return person


def is_known(identity: Identity) -> bool:
    """Returns whether an identity has an account."""
    return _connected(identity) is not None


def is_connected(person: User) -> bool:
    """Returns whether an account belongs to someone at the provider."""
    return bool(SocialAccount.objects.filter(provider=settings.OIDC_ISSUER, user=person).exists())


def opens_alone(person: User) -> bool:
    """Returns whether the provider is the only way into an account. A superuser may have a password beside it."""
    return not (person.is_superuser or person.has_usable_password()) and is_connected(person)


def connect(person: User, identity: Identity) -> None:
    """Connects the account of someone who proved that it is theirs. Raises Conflict if either is connected already."""
    keep_roles()
    with transaction.atomic():
        if is_known(identity) or is_connected(person):
            raise Conflict(
                _("This account, or your account at the provider, is already connected. Nothing was changed.")
            )
        record("account-connected", person.get_username(), issuer=identity.issuer, subject=identity.subject)
        SocialAccount.objects.create(provider=identity.issuer, uid=identity.subject, user=person)
        _set_groups(person, identity)
    log.info("%s connected their account with %s", person.get_username(), identity.issuer)


def _connected(identity: Identity) -> User | None:
    row = SocialAccount.objects.filter(provider=identity.issuer, uid=identity.subject).select_related("user").first()
    return row.user if row else None


def _new_person(identity: Identity) -> User:
    if not _mapped(identity):
        raise NotAllowed(
            _("%(name)s isn't in any %(provider)s group with access to adkweb. Ask an admin for access.")
            % {"provider": settings.OIDC_NAME, "name": identity.name}
        )
    try:
        person = people.new_account(identity.name)
    except AlreadyExists as error:
        raise AlreadyExists(
            _(
                "There's already an account “%(name)s” that isn't connected to %(provider)s. If it's yours, "
                "sign in with its password and connect it on the Password page. If not, ask an admin."
            )
            % {"provider": settings.OIDC_NAME, "name": identity.name}
        ) from error
    record("account-made", identity.issuer, name=person.get_username(), subject=identity.subject)
    person.save()
    SocialAccount.objects.create(provider=identity.issuer, uid=identity.subject, user=person)
    log.info("%s created an account by signing in at %s", person.get_username(), identity.issuer)
    return person


def _set_groups(person: User, identity: Identity) -> None:
    """Puts a person into those groups of ADKWEB_OIDC_ROLES that the provider names, and removes them from its other
    groups."""
    names = _mapped(identity)
    theirs = Group.objects.filter(name__in=[group for group, _role, _apps in settings.OIDC_ROLES])
    lost = list(theirs.filter(user=person).exclude(name__in=names).order_by("name"))
    new = list(theirs.filter(name__in=names).exclude(user=person).order_by("name"))
    person.groups.remove(*lost)
    person.groups.add(*new)
    if lost or new:
        added, taken = [each.name for each in new], [each.name for each in lost]
        name = person.get_username()
        record("account-changed", identity.issuer, name=name, groups_added=added, groups_taken=taken)


def _mapped(identity: Identity) -> frozenset[str]:
    return identity.groups & {group for group, _role, _apps in settings.OIDC_ROLES}
