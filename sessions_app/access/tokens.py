"""Manages the tokens of programs. A token has one right, for the apps that match a pattern.

Its text is shown once and stored as a hash. A token ends when it expires or is revoked, and with the person who made it.
A renewed token has a new text; the text from before goes on for a while, so that programs can be given the new one.
"""

import hashlib
import json
import logging
import secrets
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple, cast

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, OperationalError, transaction
from django.db.models import Max, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from ..domain.errors import AlreadyExists, Conflict, Invalid, NotFound
from ..domain.json_values import check_name
from ..models import ApiToken, OldTokenText
from .actor import RIGHTS, Actor, Grant, Right
from .audit.record import record, record_with

MOST_DAYS: Final = 3650
MOST_HOURS: Final = 30 * 24
MOST_RATE: Final = 1_000_000
OVERLAP_HOURS: Final = 24  # in which a renewed token's text from before goes on, unless somebody chooses another time

_BOUNDS: Final = {"days": (1, MOST_DAYS), "hours": (0, MOST_HOURS), "rate": (1, MOST_RATE)}


def number_of(field: str, text: str, *, needed: bool = False) -> int | None:
    """Reads a number as a form sends it: None for a blank, unless it is needed. Raises Invalid."""
    if not text.strip() and not needed:
        return None
    try:
        number = int(text)
    except ValueError as error:
        raise _refusal(field) from error
    check(field, number)
    return number


def check(field: str, number: int | None) -> None:
    """Raises Invalid for a number that is too small or too large."""
    least, most = _BOUNDS[field]
    if number is not None and not least <= number <= most:
        raise _refusal(field)


def _refusal(field: str) -> Invalid:
    most = {"most": _BOUNDS[field][1]}
    text = {
        "days": _("The days are a whole number from 1 to %(most)s.") % most,
        "hours": _("The hours are a whole number from 0 to %(most)s.") % most,
        "rate": _("The requests a minute are a whole number from 1 to %(most)s.") % most,
    }[field]
    return Invalid(text, field=field)


SOON: Final = timedelta(days=7)  # before a token expires, the list warns


@dataclass(frozen=True, slots=True)
class Token:
    """A token without its text. `right` includes the rights before it; `used` is None if it was never used.

    `expires` is None if it does not. `orphaned`: the person who made it, or who renewed it last, was deleted or may not
    sign in any more. `holders` are the people who have its text. Until `overlap`, texts from before it was renewed go on.
    """

    number: int
    name: str
    right: Right
    apps: str
    created_by: str
    created: datetime
    used: datetime | None
    used_from: str
    revoked_by: str
    revoked: datetime | None
    renewed_by: str
    renewed: datetime | None
    rate: int | None
    expires: datetime | None = None
    orphaned: bool = False
    holders: tuple[str, ...] = ()
    overlap: datetime | None = None

    @property
    def maker(self) -> str:
        """Returns the name of whoever made it, or renewed it last."""
        return self.renewed_by or self.created_by

    @property
    def overlaps(self) -> bool:
        """Tells whether a text from before it was renewed still goes on."""
        return not self.revoked and self.overlap is not None and self.overlap > timezone.now()

    @property
    def expired(self) -> bool:
        """Tells whether its time is over."""
        return self.expires is not None and self.expires <= timezone.now()

    @property
    def ended(self) -> bool:
        """Tells whether every program with this token is refused."""
        return self.revoked is not None or self.expired or self.orphaned

    @property
    def ends_soon(self) -> bool:
        """Tells whether it will expire within a week."""
        return not self.ended and self.expires is not None and self.expires - timezone.now() <= SOON


def token_of(row: ApiToken, holder: ApiToken | OldTokenText | None = None) -> Token:
    """Returns a token as it is told; `holder` is what is tied to a person, if it is not the token itself."""
    holder = holder or row
    return Token(
        number=row.pk,
        name=row.name,
        right=cast(Right, row.right),
        apps=row.apps,
        created_by=row.created_by,
        created=row.created,
        used=row.used,
        used_from=row.used_from,
        revoked_by=row.revoked_by,
        revoked=row.revoked,
        renewed_by=row.renewed_by,
        renewed=row.renewed,
        rate=row.rate,
        expires=row.expires,
        holders=tuple(json.loads(row.holders)),
        orphaned=holder.person_id is not None and (holder.person is None or not holder.person.is_active),
    )


log = logging.getLogger("adkweb.tokens")

PREFIX: Final = "adkweb_"  # scanners recognise a published secret by it
NAME_LENGTH: Final = 100
APPS_LENGTH: Final = 200
ADDRESS_LENGTH: Final = 45  # of an IPv6 address
_USED_STEP: Final = timedelta(minutes=1)  # so that a request rarely costs a write
_TRUSTED_SECONDS: Final = 1.0  # looking a token up takes half the time of a small request


class SignedIn(NamedTuple):
    """A program that is signed in. `rate` is its token's own limit of requests a minute, None if it has none."""

    actor: Actor
    rate: int | None

    @property
    def most(self) -> int:
        """Returns how many requests a minute it may send: no more than other tokens. 0 is no limit."""
        return min((limit for limit in (self.rate, settings.RATE_TOKEN) if limit), default=0)


known: dict[str, tuple[float, SignedIn]] = {}  # by digest: until when it is trusted, and whose it is


def create(
    name: str,
    right: str,
    apps: str,
    *,
    by: Actor,
    days: int | None = None,
    rate: int | None = None,
    holders: Iterable[str] = (),
) -> tuple[Token, str]:
    """Creates a token and returns it with its text, which cannot be read again. Raises NotAllowed, Invalid, AlreadyExists.

    It ends with the account that makes it, if a person does; a command has none. It expires after `days`.
    `rate` is a limit of requests a minute of its own. `holders` names the people who have its text: with it, they are one
    person, and do not decide on what its program proposes.
    """
    by.check_runs_everything()
    name, apps = name.strip(), apps.strip() or "*"
    _check(name, right, apps)
    check("days", days)
    check("rate", rate)
    held = _holders(holders)
    expires = None if days is None else timezone.now() + timedelta(days=days)
    text = _new_text()
    try:
        with transaction.atomic():
            record("token-created", by.name, app_name=apps, name=name, right=right, holders=held or None)
            row = ApiToken.objects.create(
                name=name,
                digest=_digest(text),
                right=right,
                apps=apps,
                created_by=by.name,
                person_id=_person(by),
                expires=expires,
                rate=rate,
                holders=json.dumps(held),
            )
    except IntegrityError as error:
        raise AlreadyExists(
            _("There is a token “%(name)s” already; a name stays with its token, revoked or not.") % {"name": name},
            field="name",
        ) from error
    log.info("%s created the token %s: %s, apps %s, expires %s", by.name, name, right, apps, expires or "never")
    return token_of(row), text


def renew(
    name: str,
    *,
    by: Actor,
    hours: int = OVERLAP_HOURS,
    holders: Iterable[str] | None = None,
) -> tuple[Token, str]:
    """Gives a token a new text, and as many days as it had, and returns it with the text.

    Texts from before go on for `hours`, but no longer than they would have. From now on, the token ends with the person
    who renews it. It has the same holders if none are named.
    Raises NotAllowed, NotFound, Invalid, and Conflict if it is revoked.
    """
    by.check_runs_everything()
    check("hours", hours)
    held = None if holders is None else _holders(holders)
    now, text = timezone.now(), _new_text()
    with transaction.atomic():
        row = _rows().select_for_update(of=("self",)).filter(name=name).first()
        if row is None:
            raise _not_found(name)
        token = token_of(row)
        if token.revoked:
            raise Conflict(_("The token “%(name)s” is revoked; make a new one.") % {"name": name})
        record("token-renewed", by.name, app_name=row.apps, name=name, hours=hours, holders=held or None)
        until = now if token.ended else now + timedelta(hours=hours)
        OldTokenText.objects.create(
            token=row,
            digest=row.digest,
            person_id=row.person_id,
            holders=row.holders,
            until=min(until, row.expires or until),
        )
        row.old_texts.filter(until__gt=until).update(until=until)
        if row.expires is not None:
            row.expires = now + (row.expires - (row.renewed or row.created))
        row.holders = row.holders if held is None else json.dumps(held)
        row.digest, row.person_id, row.renewed, row.renewed_by = _digest(text), _person(by), now, by.name
        row.save()
    known.clear()
    log.info("%s renewed the token %s; texts from before go on until %s", by.name, name, until)
    return replace(token_of(_rows().get(pk=row.pk)), overlap=until), text


def listed() -> list[Token]:
    """Returns all tokens by name, with those that ended last."""
    rows = _rows().annotate(overlap=Max("old_texts__until")).order_by("name")
    return sorted((replace(token_of(row), overlap=row.overlap) for row in rows), key=lambda token: token.ended)


def named(name: str) -> Token:
    """Returns a token by its name. Raises NotFound."""
    row = _rows().filter(name=name).first()
    if row is None:
        raise _not_found(name)
    return token_of(row)


def revoke(name: str, *, by: Actor) -> Token:
    """Revokes a token, in this process at once and in others within a second. Raises NotAllowed and NotFound.

    A token that is revoked already stays as it is.
    """
    by.check_runs_everything()
    rows = ApiToken.objects.filter(name=name, revoked=None)
    if record_with(
        lambda: rows.update(revoked=timezone.now(), revoked_by=by.name), "token-revoked", by.name, name=name
    ):
        known.clear()
        log.info("%s revoked the token %s", by.name, name)
    return named(name)


def sign_in(text: str, address: str = "") -> SignedIn | None:
    """Returns whose token this is, or None if it is unknown or ended. Notes the use, by minute, and its address."""
    digest = _digest(text)
    until, signed_in = known.get(digest, (0.0, None))
    if signed_in is not None and time.monotonic() < until:
        return signed_in
    token = _by_digest(digest)
    actor = None if token is None else _actor(token)
    if token is None or actor is None:
        known.pop(digest, None)
        return None
    now = timezone.now()
    if token.used is None or now - token.used > _USED_STEP:
        stale = Q(used=None) | Q(used__lt=now - _USED_STEP)
        with suppress(OperationalError):  # locked: the next request writes it
            ApiToken.objects.filter(stale, pk=token.number).update(used=now, used_from=address[:ADDRESS_LENGTH])
    left = _TRUSTED_SECONDS if token.expires is None else (token.expires - now).total_seconds()
    signed_in = SignedIn(actor, token.rate)
    known[digest] = (time.monotonic() + min(_TRUSTED_SECONDS, left), signed_in)
    return signed_in


def actor_of(text: str, address: str = "") -> Actor | None:
    """Returns the actor that a token stands for, or None if it is unknown or ended."""
    signed_in = sign_in(text, address)
    return None if signed_in is None else signed_in.actor


def actor_numbered(number: int) -> Actor | None:
    """Returns the actor that a token stands for now, or None if it ended."""
    row = _rows().filter(pk=number).first()
    return None if row is None else _actor(token_of(row))


def knows(account: str, name: str) -> bool:
    """Tells whether an account (`token 3`) is a token that the person of this name made, renewed or holds, now or before it
    was renewed: they know, or knew, its text."""
    kind, _space, number = account.partition(" ")
    row = ApiToken.objects.filter(pk=int(number)).select_related("person").first() if kind == "token" else None
    if row is None:
        return False
    texts: list[ApiToken | OldTokenText] = [row, *OldTokenText.objects.filter(token=row).select_related("person")]
    held = {holder for text in texts for holder in json.loads(text.holders)}
    made = {text.person.get_username() for text in texts if text.person}
    return name in {*held, *made, row.created_by, row.renewed_by}


def has_holder(account: str) -> bool:
    """Tells whether an account (`token 3`) is a token of which it is known who has its text."""
    kind, _space, number = account.partition(" ")
    return kind == "token" and ApiToken.objects.filter(pk=int(number)).exclude(holders="[]").exists()


def why_refused(text: str) -> str:
    """Returns the sentence for whoever sends a token for which there is no actor."""
    digest = _digest(text)
    token = _by_digest(digest)
    if token is None:
        return _("This token is unknown, or was revoked.")
    if token.revoked:
        return _("This token was revoked.")
    if token.expired and OldTokenText.objects.filter(digest=digest).exists():
        return _("This token was renewed, and the time of its text from before is over; use the new one.")
    if token.expired:
        return _("This token expired; make a new one.")
    return _("This token ended: the person who made it may not sign in any more.")


def _person(by: Actor) -> int | None:
    """Returns the number of the account that makes a token: `person 7` has 7, a command none."""
    kind, _space, number = by.account.partition(" ")
    return int(number) if kind == "person" else None


def _holders(names: Iterable[str]) -> list[str]:
    """Returns the names of accounts, each once. Raises Invalid for another one."""
    wanted = sorted({name.strip() for name in names} - {""})
    there = set(User.objects.filter(username__in=wanted, is_active=True).values_list("username", flat=True))
    if missing := [name for name in wanted if name not in there]:
        raise Invalid(_("There is no person “%(name)s”.") % {"name": missing[0]}, field="holders")
    return wanted


def _check(name: str, right: str, apps: str) -> None:
    """Raises Invalid for what no token can be."""
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


def _actor(token: Token) -> Actor | None:
    """Returns the actor that a token stands for, or None if it ended."""
    if token.ended:
        return None
    return Actor(f"token {token.name}", (Grant(token.right, token.apps),), f"token {token.number}")


def _rows() -> QuerySet[ApiToken]:
    return ApiToken.objects.select_related("person")


def _by_digest(digest: str) -> Token | None:
    """Returns the token with this text; with one from before, it has the end of that."""
    row = _rows().filter(digest=digest).first()
    if row is not None:
        return token_of(row)
    old = OldTokenText.objects.select_related("token", "person").filter(digest=digest).first()
    if old is None:
        return None
    return replace(token_of(old.token, old), expires=old.until)


def _not_found(name: str) -> NotFound:
    return NotFound(_("There is no token “%(name)s”.") % {"name": name})


def _new_text() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
