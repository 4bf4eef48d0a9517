"""How a person signs in: by a link on their own machine, or by a password; and who is signed in."""

import getpass
import hashlib
import ipaddress
import secrets
from collections.abc import Collection
from datetime import timedelta
from typing import Final

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY, get_user_model
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session as SignIn
from django.db import transaction
from django.utils import timezone

from ..models import SignInToken
from .sign_ins import digest

LINK_LIFETIME: Final = timedelta(days=1)
LINKS: Final = 20  # that nobody has opened; each start prints one


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
