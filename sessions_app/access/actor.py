"""Who asks, what they may do, and how a developer signs in on their own machine.

Until roles exist, everybody who is signed in may read and edit everything, unless adkweb was started read-only; a program
may do what its token allows (tokens.py).
"""

import getpass
import hashlib
import ipaddress
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Final, Literal

from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY, get_user_model
from django.contrib.auth.models import AbstractBaseUser, User
from django.contrib.sessions.models import Session as SignIn
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from ..errors import NotAllowed
from ..models import SignInToken
from .sign_ins import digest

LINK_LIFETIME: Final = timedelta(days=1)
LINKS: Final = 20  # that nobody has opened; each start prints one

Right = Literal["read", "append", "admin"]
RIGHTS: Final[tuple[Right, ...]] = ("read", "append", "admin")  # each includes those before it


@dataclass(frozen=True, slots=True)
class Actor:
    """Who asks: the name goes into every edit. What they may do, in apps whose names match a pattern (`booking*`)."""

    name: str
    right: Right = "admin"
    apps: str = "*"

    def may_see(self, app_name: str) -> bool:
        """Whether an app exists for this actor."""
        return fnmatchcase(app_name, self.apps)

    def check_may(self, right: Right, app_name: str) -> None:
        """Raises NotAllowed where this actor lacks a right in an app."""
        if not self.may_see(app_name):
            raise NotAllowed(_("%(name)s may do nothing in the app “%(app)s”.") % {"name": self.name, "app": app_name})
        self.check_right(right)

    def check_right(self, right: Right) -> None:
        """Raises NotAllowed where this actor lacks a right in whatever app."""
        if right != "read":
            self.check_may_write()
        if RIGHTS.index(self.right) < RIGHTS.index(right):
            raise NotAllowed(
                _("This needs the scope “%(right)s”; %(name)s has “%(own)s”.")
                % {"right": right, "name": self.name, "own": self.right}
            )

    def check_may_write(self) -> None:
        """Raises NotAllowed where nobody may change anything."""
        if settings.READ_ONLY:
            raise NotAllowed(_("adkweb was started with --read-only: it shows everything and writes nothing."))


SYSTEM: Final = Actor("adkweb")  # the machine itself


def actor_of(person: AbstractBaseUser) -> Actor:
    """The actor that a signed-in person is."""
    return Actor(person.get_username())


def sign_in_token() -> str:
    """A fresh token for one sign-in as the developer who owns this process; those of other starts stay good, up to LINKS."""
    person, _created = get_user_model().objects.get_or_create(username=_login_name())
    if not person.password:
        person.set_unusable_password()
        person.save(update_fields=["password"])
    token = secrets.token_urlsafe(24)
    SignInToken.objects.create(digest=_digest(token), person=person)
    kept = SignInToken.objects.filter(created__gte=timezone.now() - LINK_LIFETIME).order_by("-created", "-pk")[:LINKS]
    SignInToken.objects.exclude(pk__in=[row.pk for row in kept]).delete()
    return token


def redeem(token: str) -> User | None:
    """The person whom an unused token of the last day signs in; the token is used up by this."""
    with transaction.atomic():
        found = SignInToken.objects.filter(digest=_digest(token), created__gte=timezone.now() - LINK_LIFETIME)
        row = found.select_related("person").first()
        if row is None or not found.delete()[0]:
            return None
    return row.person


def signed_in(keys: Collection[str]) -> dict[str, str]:
    """By the key of a browser's sign-in, the name of the person it stands for; none that ended, however it did."""
    by_digest = {digest(key): key for key in keys}
    rows = SignIn.objects.filter(session_key__in=by_digest, expire_date__gt=timezone.now())
    noted = {by_digest[row.session_key]: row.get_decoded() for row in rows}
    people = get_user_model().objects.in_bulk(
        {int(note[SESSION_KEY]) for note in noted.values() if SESSION_KEY in note}
    )
    found = {}
    for key, note in noted.items():
        person = people.get(int(note.get(SESSION_KEY, 0)))
        # The hash differs once the password was changed, as for pages.
        if person and person.is_active and note.get(HASH_SESSION_KEY) == person.get_session_auth_hash():
            found[key] = person.get_username()
    return found


def admin_exists() -> bool:
    """Whether somebody has an account with a password and every right."""
    admins = get_user_model().objects.filter(is_superuser=True, is_active=True)
    return any(person.has_usable_password() for person in admins)


def is_loopback(host: str) -> bool:
    """Whether an address or name can only be this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user id without a name
        return "developer"


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
