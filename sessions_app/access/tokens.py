"""Tokens, with which programs sign in. A token has one permission, for the apps that match a pattern; that of a companion
has none, and only reports.

    token, text = tokens.create("booking-agent", "append", "booking", by=actor)
    text = token.renew(by=actor, hours=24)
    token.revoke(by=actor)

Its text is shown once and stored as a hash. A token ends when it expires or is revoked, and with the person who made
it. A renewed token has a new text; the old one still works for a while, so that programs can be given the new one.
"""

import hashlib
import json
import logging
import secrets
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final, NamedTuple, cast

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, OperationalError, models, transaction
from django.db.models import Max, Q
from django.utils import timezone
from django.utils.translation import gettext as _

from ..domain.errors import AlreadyExists, Conflict, Invalid, NotFound
from ..domain.json_values import check_name
from ..domain.roles import COMPANION, OF_TOKENS, Permission
from .actor import PATTERN_LENGTH, Actor, Grant, checked_pattern
from .audit.record import record, record_with

log = logging.getLogger("adkweb.tokens")

PREFIX: Final = "adkweb_"  # scanners recognise a published secret by it
NAME_LENGTH: Final = 100
ADDRESS_LENGTH: Final = 45  # of an IPv6 address
MOST_DAYS: Final = 3650
MOST_HOURS: Final = 30 * 24
MOST_RATE: Final = 1_000_000
OVERLAP_HOURS: Final = 24  # in which a renewed token's old text still works, by default
SOON: Final = timedelta(days=7)  # before a token expires, the list warns
_USED_STEP: Final = timedelta(minutes=1)  # so that requests rarely cost a write
_TRUSTED_SECONDS: Final = 1.0  # looking a token up takes half the time of a small request
_BOUNDS: Final = {"days": (1, MOST_DAYS), "hours": (0, MOST_HOURS), "rate": (1, MOST_RATE)}


class TokenQuerySet(models.QuerySet["ApiToken"]):
    """The questions that are asked about tokens."""

    def named(self, name: str) -> "ApiToken":
        """Returns a token by its name. Raises NotFound."""
        token = self.filter(name=name).first()
        if token is None:
            raise NotFound(_("There's no token “%(name)s”.") % {"name": name})
        return token

    def listed(self) -> list["ApiToken"]:
        """Returns all tokens by name, with those that ended last."""
        until = dict(self.values_list("pk", Max("old_texts__until")))
        tokens = sorted(self.order_by("name"), key=lambda token: token.ended)
        for token in tokens:
            token.overlap = until.get(token.pk)
        return tokens

    def with_text(self, text: str) -> "ApiToken | None":
        """Returns the token with this text, or with an old text of it: then with the end of that text."""
        digest = _digest(text)
        if token := self.filter(digest=digest).first():
            return token
        old = OldTokenText.objects.select_related("token", "person").filter(digest=digest).first()
        if old is None:
            return None
        old.token.found_by = old
        return old.token


class TokenManager(models.Manager.from_queryset(TokenQuerySet)):  # type: ignore[misc]
    """Tokens with their person loaded."""

    def get_queryset(self) -> TokenQuerySet:
        """Returns the tokens, each with its person loaded."""
        return cast(TokenQuerySet, super().get_queryset().select_related("person"))


class ApiToken(models.Model):
    """A token. A token that ended stays, so that its name still says who wrote something.

    `person` created it, or renewed it last, and it ends with them; the number stays when the person is deleted, and is
    null if a command created it. `holders` are the names of the people who have its text, as JSON.
    """

    name = models.CharField(max_length=NAME_LENGTH, unique=True)
    digest = models.CharField(max_length=64, unique=True)
    permission = models.CharField(max_length=10, db_column="right")  # includes the permissions before it
    apps = models.CharField(max_length=PATTERN_LENGTH)
    created_by = models.CharField(max_length=150)
    created = models.DateTimeField(auto_now_add=True)
    used = models.DateTimeField(null=True)  # last, to the minute
    used_from = models.CharField(max_length=ADDRESS_LENGTH, default="")  # the address then
    rate = models.IntegerField(null=True)  # requests a minute
    renewed_by = models.CharField(max_length=150, default="")
    renewed = models.DateTimeField(null=True)
    revoked_by = models.CharField(max_length=150, default="")
    revoked = models.DateTimeField(null=True)
    expires = models.DateTimeField(null=True)
    holders = models.TextField(default="[]")
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.DO_NOTHING, null=True, related_name="+", db_constraint=False
    )

    overlap: datetime | None = None  # until when old texts still work, where that was asked
    found_by: "OldTokenText | None" = None  # an old text, if the token was found by one

    objects = TokenManager()

    @property
    def held_by(self) -> tuple[str, ...]:
        """Returns the names of the people who have its text."""
        return tuple(json.loads(self.holders))

    @property
    def maker(self) -> str:
        """Returns the name of the person who created it, or renewed it last."""
        return self.renewed_by or self.created_by

    @property
    def overlaps(self) -> bool:
        """Returns whether an old text still works."""
        return not self.revoked and self.overlap is not None and self.overlap > timezone.now()

    @property
    def ends(self) -> datetime | None:
        """Returns until when the text that it was found by works; None if it does not expire."""
        return self.found_by.until if self.found_by else self.expires

    @property
    def expired(self) -> bool:
        """Returns whether its time is over."""
        return self.ends is not None and self.ends <= timezone.now()

    @property
    def orphaned(self) -> bool:
        """Returns whether the person whom it ends with was deleted, or may no longer sign in."""
        text = self.found_by or self
        return text.person_id is not None and (text.person is None or not text.person.is_active)

    @property
    def ended(self) -> bool:
        """Returns whether every program with this token is refused."""
        return self.revoked is not None or self.expired or self.orphaned

    @property
    def ends_soon(self) -> bool:
        """Returns whether it will expire within a week."""
        return not self.ended and self.expires is not None and self.expires - timezone.now() <= SOON

    @property
    def serves_agents(self) -> bool:
        """Returns whether an agent can work with it: it may append."""
        return Grant(cast(Permission, self.permission)).gives("append")

    @property
    def actor(self) -> Actor | None:
        """Returns the actor that it stands for, or None if it ended. A companion's sees nothing."""
        if self.ended:
            return None
        grants = () if self.is_companion else (Grant(cast(Permission, self.permission), self.apps),)
        return Actor(f"token {self.name}", grants, f"token {self.pk}")

    @property
    def is_companion(self) -> bool:
        """Returns whether it is for reports of a companion, and for nothing else."""
        return self.permission == COMPANION

    def renew(self, *, by: Actor, hours: int = OVERLAP_HOURS, holders: Iterable[str] | None = None) -> str:
        """Gives it a new text, and as many days as it had, and returns the text.

        Old texts still work for `hours`, but no longer than they would have. From now on, the token ends with the
        person who renews it. It has the same holders if none are named. Raises NotAllowed, Invalid, and Conflict if it
        is revoked.
        """
        by.check_runs_everything()
        check("hours", hours)
        held = None if holders is None else _holders(holders)
        now, text = timezone.now(), _new_text()
        with transaction.atomic():
            self.refresh_from_db(from_queryset=ApiToken.objects.select_for_update(of=("self",)))
            if self.revoked:
                raise Conflict(_("The token “%(name)s” was revoked. Create a new one.") % {"name": self.name})
            record("token-renewed", by.name, app_name=self.apps, name=self.name, hours=hours, holders=held or None)
            until = now if self.ended else now + timedelta(hours=hours)
            self.old_texts.create(
                digest=self.digest,
                person_id=self.person_id,
                holders=self.holders,
                until=min(until, self.expires or until),
            )
            self.old_texts.filter(until__gt=until).update(until=until)
            if self.expires is not None:
                self.expires = now + (self.expires - (self.renewed or self.created))
            self.holders = self.holders if held is None else json.dumps(held)
            self.digest, self.person_id, self.renewed, self.renewed_by = _digest(text), _person(by), now, by.name
            self.save()
        known.clear()
        log.info("%s renewed the token %s; old texts still work until %s", by.name, self.name, until)
        self.overlap = until
        return text

    def revoke(self, *, by: Actor) -> None:
        """Revokes it, in this process at once and in others within a second. Raises NotAllowed.

        Does nothing if it is already revoked.
        """
        by.check_runs_everything()
        rows = ApiToken.objects.filter(pk=self.pk, revoked=None)
        if record_with(
            lambda: rows.update(revoked=timezone.now(), revoked_by=by.name), "token-revoked", by.name, name=self.name
        ):
            known.clear()
            log.info("%s revoked the token %s", by.name, self.name)
        self.refresh_from_db(fields=["revoked", "revoked_by"])


class OldTokenText(models.Model):
    """The text that a token had before it was renewed, as a hash. It ends with whoever had made or renewed it then."""

    token = models.ForeignKey(ApiToken, models.CASCADE, related_name="old_texts")
    digest = models.CharField(max_length=64, unique=True)
    until = models.DateTimeField()
    holders = models.TextField(default="[]")
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.DO_NOTHING, null=True, related_name="+", db_constraint=False
    )


def create(
    name: str,
    permission: str,
    apps: str,
    *,
    by: Actor,
    days: int | None = None,
    rate: int | None = None,
    holders: Iterable[str] = (),
) -> tuple[ApiToken, str]:
    """Creates a token and returns it with its text, which cannot be read again. Raises NotAllowed, Invalid,
    AlreadyExists.

    It ends with the account of the person who creates it; a command has none. It expires after `days`. `rate` is a
    limit of requests a minute of its own. `holders` names the people who have its text: any of them may be behind its
    program, so they can't decide on what it proposes.
    """
    by.check_runs_everything()
    name, apps = name.strip(), checked_pattern(apps, "apps") or "*"
    _check(name, permission)
    check("days", days)
    check("rate", rate)
    held, text = _holders(holders), _new_text()
    expires = None if days is None else timezone.now() + timedelta(days=days)
    try:
        with transaction.atomic():
            record("token-created", by.name, app_name=apps, name=name, permission=permission, holders=held or None)
            token = ApiToken.objects.create(
                name=name,
                digest=_digest(text),
                permission=permission,
                apps=apps,
                created_by=by.name,
                person_id=_person(by),
                expires=expires,
                rate=rate,
                holders=json.dumps(held),
            )
    except IntegrityError as error:
        raise AlreadyExists(
            _("There's already a token “%(name)s”. A name can't be reused, even after the token is revoked.")
            % {"name": name},
            field="name",
        ) from error
    log.info("%s created the token %s: %s, apps %s, expires %s", by.name, name, permission, apps, expires or "never")
    return token, text


class SignedIn(NamedTuple):
    """A program that is signed in. `rate` is its token's own limit of requests a minute, None if it has none. `reports` is
    the pattern of the apps about which a companion reports, None for any other program."""

    actor: Actor
    rate: int | None
    reports: str | None = None

    @property
    def most(self) -> int:
        """Returns how many requests a minute it may send: no more than other tokens. 0 is no limit."""
        return min((limit for limit in (self.rate, settings.RATE_TOKEN) if limit), default=0)


known: dict[str, tuple[float, SignedIn]] = {}  # by digest: until when it is trusted, and whose it is


def sign_in(text: str, address: str = "") -> SignedIn | None:
    """Returns the token with this text, or None if it is unknown or ended, or a companion's. Notes the minute of the use and
    its address."""
    signed_in = of_any(text, address)
    return signed_in if signed_in and signed_in.reports is None else None


def of_any(text: str, address: str = "") -> SignedIn | None:
    """Returns what `sign_in` does, also for a companion."""
    digest = _digest(text)
    until, signed_in = known.get(digest, (0.0, None))
    if signed_in is not None and time.monotonic() < until:
        return signed_in
    token = ApiToken.objects.with_text(text)
    actor = None if token is None else token.actor
    if token is None or actor is None:
        known.pop(digest, None)
        return None
    now = timezone.now()
    if token.used is None or now - token.used > _USED_STEP:
        stale = Q(used=None) | Q(used__lt=now - _USED_STEP)
        with suppress(OperationalError):  # locked: the next request writes it
            ApiToken.objects.filter(stale, pk=token.pk).update(used=now, used_from=address[:ADDRESS_LENGTH])
    left = _TRUSTED_SECONDS if token.ends is None else (token.ends - now).total_seconds()
    signed_in = SignedIn(actor, token.rate, token.apps if token.is_companion else None)
    known[digest] = (time.monotonic() + min(_TRUSTED_SECONDS, left), signed_in)
    return signed_in


def actor_of(text: str, address: str = "") -> Actor | None:
    """Returns the actor that a token stands for, or None if it is unknown or ended."""
    signed_in = sign_in(text, address)
    return None if signed_in is None else signed_in.actor


def actor_numbered(number: int) -> Actor | None:
    """Returns the actor that a token stands for now, or None if it ended."""
    token: ApiToken | None = ApiToken.objects.filter(pk=number).first()
    return None if token is None else token.actor


def knows(account: str, name: str) -> bool:
    """Returns whether an account (`token 3`) is a token that the person of this name made, renewed or holds, now or
    before it was renewed: they know, or knew, its text."""
    kind, _space, number = account.partition(" ")
    row = ApiToken.objects.filter(pk=int(number)).first() if kind == "token" else None
    if row is None:
        return False
    texts: list[ApiToken | OldTokenText] = [row, *OldTokenText.objects.filter(token=row).select_related("person")]
    held = {holder for text in texts for holder in json.loads(text.holders)}
    made = {text.person.get_username() for text in texts if text.person}
    return name in {*held, *made, row.created_by, row.renewed_by}


def has_holder(account: str) -> bool:
    """Returns whether an account (`token 3`) is a token with known holders."""
    kind, _space, number = account.partition(" ")
    return kind == "token" and ApiToken.objects.filter(pk=int(number)).exclude(holders="[]").exists()


def why_refused(text: str) -> str:
    """Returns the message for a program whose token has no actor."""
    token = ApiToken.objects.with_text(text)
    if token is None:
        return _("This token doesn't exist or has been revoked.")
    if token.revoked:
        return _("This token has been revoked.")
    if token.expired and OldTokenText.objects.filter(digest=_digest(text)).exists():
        return _("This token was renewed and has since expired. Use the new one.")
    if token.expired:
        return _("This token has expired. Create a new one.")
    if token.is_companion and not token.orphaned:
        return _("This token is for a companion, which only reports what an agent does.")
    return _("This token stopped working because the person who created it can no longer sign in.")


def _person(by: Actor) -> int | None:
    """Returns the number of the account that makes a token: `person 7` has 7, a command none."""
    kind, _space, number = by.account.partition(" ")
    return int(number) if kind == "person" else None


def _holders(names: Iterable[str]) -> list[str]:
    """Returns the names of accounts, each once. Raises Invalid for another one."""
    wanted = sorted({name.strip() for name in names} - {""})
    there = set(User.objects.filter(username__in=wanted, is_active=True).values_list("username", flat=True))
    if missing := [name for name in wanted if name not in there]:
        raise Invalid(_("There's no account “%(name)s”.") % {"name": missing[0]}, field="holders")
    return wanted


def _check(name: str, permission: str) -> None:
    """Raises Invalid for what no token can have."""
    if not name:
        raise Invalid(_("Enter a name for the token, such as the program that uses it."), field="name")
    try:
        check_name(name, _("The name"), NAME_LENGTH)
    except Invalid as error:
        raise Invalid(error.message, field="name") from error
    if not name.isprintable():
        raise Invalid(_("Names can't contain line breaks or invisible characters."), field="name")
    if permission not in OF_TOKENS:
        raise Invalid(
            _("Choose one of these permissions: %(names)s.") % {"names": ", ".join(OF_TOKENS)}, field="permission"
        )


def _new_text() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


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
        "days": _("Enter a whole number of days from 1 to %(most)s.") % most,
        "hours": _("Enter a whole number of hours from 0 to %(most)s.") % most,
        "rate": _("Enter a whole number of requests per minute from 1 to %(most)s.") % most,
    }[field]
    return Invalid(text, field=field)
