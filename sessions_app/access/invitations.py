"""Invites people by link. An invitation is used once, within LIFETIME, and names the groups that the person gets. It ends
earlier with the rights of the admin who made it.

invitation, text = invitations.make("Ana, support", ["Support"], actor=actor)
person = invitations.accept(text, "ana", "correct horse battery staple")
"""

import hashlib
import logging
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from ..domain.errors import Invalid, NotFound
from ..domain.json_values import check_name
from ..models import Invitation as Row
from . import passwords
from .actor import TERMINAL, Actor
from .audit.record import record, record_with
from .people import check_keeps_people, groups_named, new_account, taken

log = logging.getLogger("adkweb.people")

LIFETIME: Final = timedelta(days=7)
NOTE_LENGTH: Final = 100


@dataclass(frozen=True, slots=True)
class Invitation:
    """An invitation that nobody has used, without its text."""

    id: int
    note: str
    admin: bool
    groups: tuple[str, ...]
    created_by: str
    created: datetime
    ends: datetime


def make(note: str, groups: Collection[str], *, actor: Actor, admin: bool = False) -> tuple[Invitation, str]:
    """Makes an invitation and returns it with the text for its link, which cannot be read again. Raises Invalid."""
    check_keeps_people(actor)
    note = note.strip()
    try:
        check_name(note, _("This text"), NOTE_LENGTH)
    except Invalid as error:
        raise Invalid(error.message, field="note") from error
    text = secrets.token_urlsafe(32)
    with transaction.atomic():
        row = Row.objects.create(digest=_digest(text), note=note, admin=admin, created_by=actor.name)
        row.groups.set(groups_named(groups))
        record("invited", actor.name, note=note, admin=admin, groups=list(groups))
    log.info("%s made an invitation: %s, admin %s, groups %s", actor.name, note, admin, list(groups))
    return _invitation(row), text


def listed(*, actor: Actor) -> list[Invitation]:
    """Returns the invitations that can still be used, the newest first."""
    check_keeps_people(actor)
    return [_invitation(row) for row in _usable().prefetch_related("groups").order_by("-created", "-pk")]


def withdraw(invitation_id: int, *, actor: Actor) -> None:
    """Makes an invitation useless. One that was used, or is gone, stays so."""
    check_keeps_people(actor)
    row = Row.objects.filter(pk=invitation_id).first()
    if row and record_with(
        lambda: Row.objects.filter(pk=row.pk).delete()[0], "invitation-withdrawn", actor.name, note=row.note
    ):
        log.info("%s withdrew an invitation", actor.name)


def of(text: str) -> Invitation:
    """Returns the invitation of a link. Raises NotFound if it was used or withdrawn, is too old, or who made it is no
    admin any more."""
    return _invitation(_row(text, _usable()))


def accept(text: str, name: str, password: str) -> User:
    """Uses up an invitation, and makes an account of a name and a password that the person chose.

    Raises NotFound, AlreadyExists and Invalid; the invitation can still be used after the last two.
    """
    with transaction.atomic():
        row = _row(text, _usable().select_for_update())
        person = new_account(name)
        passwords.check(password, person)
        person.set_password(password)
        person.is_superuser = row.admin
        try:
            with transaction.atomic():
                person.save()
        except IntegrityError as error:
            raise taken(name) from error
        person.groups.set(row.groups.all())
        groups = [group.name for group in row.groups.all()]
        row.delete()
        record("joined", person.get_username(), invited_by=row.created_by, admin=row.admin, groups=groups)
    log.info("%s made an account by an invitation of %s", person.get_username(), row.created_by)
    return person


def _usable() -> QuerySet[Row]:
    makers = User.objects.filter(is_active=True, is_superuser=True).values("username")
    by = Q(created_by=TERMINAL.name) | Q(created_by__in=makers)
    return Row.objects.filter(by, created__gte=timezone.now() - LIFETIME)


def _row(text: str, rows: QuerySet[Row]) -> Row:
    row = rows.filter(digest=_digest(text)).first()
    if row is None:
        raise NotFound(_("This invitation was used already or withdrawn, or is too old. Ask for a new one."))
    return row


def _invitation(row: Row) -> Invitation:
    groups = tuple(sorted(group.name for group in row.groups.all()))
    return Invitation(row.pk, row.note, row.admin, groups, row.created_by, row.created, row.created + LIFETIME)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
