"""Signs people in through a link on their own machine, and knows who is signed in."""

import getpass
import hashlib
import ipaddress
import secrets
from collections.abc import Collection
from datetime import timedelta
from typing import Final

from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY, get_user_model
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session as SignIn
from django.db import transaction
from django.utils import timezone

from ..models import SignInToken
from . import roles
from .actor import TERMINAL
from .audit.record import record
from .sign_ins import digest, has_ended

LINK_LIFETIME: Final = timedelta(days=1)
LINKS: Final = 20  # links that are kept while no one opens them; each start prints one


def sign_in_token() -> str:
    """Returns a token for one sign-in as the owner of this process. The newest LINKS tokens stay valid.

    While there is no admin, the owner becomes one: someone who can start adkweb can create any account in the terminal
    anyway.
    """
    person = _owner()
    token = secrets.token_urlsafe(24)
    SignInToken.objects.create(digest=_digest(token), person=person)
    kept = SignInToken.objects.filter(created__gte=timezone.now() - LINK_LIFETIME).order_by("-created", "-pk")[:LINKS]
    SignInToken.objects.exclude(pk__in=[row.pk for row in kept]).delete()
    return token


def _owner() -> User:
    """Returns the account of the person who started adkweb."""
    accounts = get_user_model().objects
    with transaction.atomic():
        person, made = accounts.get_or_create(username=_login_name())
        if not person.password:
            person.set_unusable_password()
            person.save(update_fields=["password"])
        if made:
            roles.make_admin(person)
            record("account-made", TERMINAL.name, name=person.get_username(), role="admin")
        if person.is_active and not accounts.filter(is_active=True, is_superuser=True).exists():
            person.is_superuser = True
            person.save(update_fields=["is_superuser"])
            record("admin-made", TERMINAL.name, name=person.get_username())
    return person


def redeem(token: str) -> User | None:
    """Uses up a token and returns its person, or None if it is unknown, used already or older than a day."""
    with transaction.atomic():
        tokens = SignInToken.objects.filter(digest=_digest(token), created__gte=timezone.now() - LINK_LIFETIME)
        row = tokens.select_related("person").first()
        if row is None or not tokens.delete()[0]:
            return None
    return row.person if row.person.is_active else None


def signed_in(keys: Collection[str]) -> dict[str, User]:
    """Returns the people behind these sign-in keys, by key, without the sign-ins that have ended."""
    by_digest = {digest(key): key for key in keys}
    rows = SignIn.objects.filter(session_key__in=by_digest, expire_date__gt=timezone.now())
    decoded = ((row, row.get_decoded()) for row in rows)
    noted = {by_digest[row.session_key]: note for row, note in decoded if not has_ended(note)}
    people = get_user_model().objects.in_bulk(
        {int(note[SESSION_KEY]) for note in noted.values() if SESSION_KEY in note}
    )
    signed = {}
    for key, note in noted.items():
        person = people.get(int(note.get(SESSION_KEY, 0)))
        # The hash differs after the password was changed. Pages check this, too.
        if person and person.is_active and note.get(HASH_SESSION_KEY) == person.get_session_auth_hash():
            signed[key] = person
    return signed


def admin_exists() -> bool:
    """Returns whether there is an active superuser with a password."""
    admins = get_user_model().objects.filter(is_superuser=True, is_active=True)
    return any(person.has_usable_password() for person in admins)


def anybody_can() -> bool:
    """Returns whether people of other machines could sign in: an admin by a password, or all by the identity
    provider."""
    return bool(settings.OIDC_ISSUER) or admin_exists()


def is_loopback(host: str) -> bool:
    """Returns whether a host is this machine's loopback: `localhost`, `127.0.0.1` or `[::1]`."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # in a container, the user id may have no name
        return "developer"


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
