"""Manages the tokens of programs. A token has one right, for the apps that match a pattern.

Its text is shown once and stored as a hash.
"""

import hashlib
import logging
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, cast

from django.db import IntegrityError, OperationalError, transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _

from ..domain.json_values import check_name
from ..errors import AlreadyExists, Invalid, NotFound
from ..models import ApiToken
from .actor import RIGHTS, Actor, Right

log = logging.getLogger("adkweb.tokens")

PREFIX: Final = "adkweb_"  # scanners recognise a published secret by it
NAME_LENGTH: Final = 100
APPS_LENGTH: Final = 200
_USED_STEP: Final = timedelta(minutes=1)  # so that a request rarely costs a write
_TRUSTED_SECONDS: Final = 1.0  # looking a token up takes half the time of a small request

known: dict[str, tuple[float, Actor]] = {}  # by digest: until when it is trusted, and its actor


@dataclass(frozen=True, slots=True)
class Token:
    """A token without its text. `right` includes the rights before it; `used` is None if it was never used."""

    name: str
    right: Right
    apps: str
    created_by: str
    created: datetime
    used: datetime | None
    revoked_by: str
    revoked: datetime | None


def create(name: str, right: str, apps: str, *, by: str) -> tuple[Token, str]:
    """Creates a token and returns it with its text, which cannot be read again. Raises Invalid and AlreadyExists."""
    name, apps = name.strip(), apps.strip() or "*"
    if not name:
        raise Invalid(_("A token needs a name: that of the program that uses it."), field="name")
    try:
        check_name(name, _("The name"), NAME_LENGTH)
        check_name(apps, _("The pattern"), APPS_LENGTH)
    except Invalid as error:
        raise Invalid(error.message, field="name") from error
    if not (name + apps).isprintable():
        raise Invalid(_("A name has no line breaks or other characters that cannot be seen."), field="name")
    if right not in RIGHTS:
        raise Invalid(_("The right is one of: %(names)s.") % {"names": ", ".join(RIGHTS)}, field="right")
    text = PREFIX + secrets.token_urlsafe(32)
    try:
        with transaction.atomic():
            row = ApiToken.objects.create(name=name, digest=_digest(text), right=right, apps=apps, created_by=by)
    except IntegrityError as error:
        raise AlreadyExists(
            _("There is a token “%(name)s” already; a name stays with its token, revoked or not.") % {"name": name},
            field="name",
        ) from error
    log.info("%s created the token %s: %s, apps %s", by, name, right, apps)
    return _token(row), text


def listed() -> list[Token]:
    """Returns all tokens by name, with the revoked ones last."""
    rows = ApiToken.objects.order_by("name")
    return sorted((_token(row) for row in rows), key=lambda token: token.revoked is not None)


def revoke(name: str, *, by: str) -> Token:
    """Revokes a token, in this process at once and in others within a second. Raises NotFound.

    A token that is revoked already stays as it is.
    """
    found = ApiToken.objects.filter(name=name)
    if found.filter(revoked=None).update(revoked=timezone.now(), revoked_by=by):
        known.clear()
        log.info("%s revoked the token %s", by, name)
    row = found.first()
    if row is None:
        raise NotFound(_("There is no token “%(name)s”.") % {"name": name})
    return _token(row)


def actor_of(text: str) -> Actor | None:
    """Returns the actor that a token stands for, or None if it is unknown or revoked."""
    digest = _digest(text)
    until, actor = known.get(digest, (0.0, None))
    if actor is not None and time.monotonic() < until:
        return actor
    row = ApiToken.objects.filter(digest=digest, revoked=None).first()
    if row is None:
        known.pop(digest, None)
        return None
    now = timezone.now()
    if row.used is None or now - row.used > _USED_STEP:
        stale = Q(used=None) | Q(used__lt=now - _USED_STEP)
        with suppress(OperationalError):  # locked: the next request writes it
            ApiToken.objects.filter(stale, pk=row.pk).update(used=now)
    actor = Actor(f"token {row.name}", cast(Right, row.right), row.apps)
    known[digest] = (time.monotonic() + _TRUSTED_SECONDS, actor)
    return actor


def _token(row: ApiToken) -> Token:
    return Token(
        row.name,
        cast(Right, row.right),
        row.apps,
        row.created_by,
        row.created,
        row.used,
        row.revoked_by,
        row.revoked,
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
