"""Invites people by link. An invitation is used once, within a week, and names the groups and the role that the person gets.
It ends earlier with the permissions of the admin who made it.

    invitation, text = invitations.make("Ana, support", ["Support"], role="viewer", apps="booking*", actor=actor)
    person = invitations.accept(text, "ana", "correct horse battery staple")
"""

import hashlib
import logging
import secrets
from collections.abc import Collection
from typing import Final

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from ..domain.errors import Invalid, NotFound
from ..domain.json_values import check_name
from ..models import Invitation
from . import passwords, roles
from .actor import TERMINAL, Actor
from .audit.record import record, record_with
from .people import check_keeps_people, groups_named, new_account, taken

log = logging.getLogger("adkweb.people")

NOTE_LENGTH: Final = 100


def make(
    note: str, groups: Collection[str], *, actor: Actor, admin: bool = False, role: str = "", apps: str = ""
) -> tuple[Invitation, str]:
    """Makes an invitation and returns it with the text for its link, which cannot be read again.

    Raises Invalid, and NotAllowed for a role that the actor may not give."""
    check_keeps_people(actor)
    _sources, apps = roles.checked(role, by=actor, apps=apps) if role else ("", "")
    note = note.strip()
    try:
        check_name(note, _("The note"), NOTE_LENGTH)
    except Invalid as error:
        raise Invalid(error.message, field="note") from error
    text = secrets.token_urlsafe(32)
    with transaction.atomic():
        invitation = Invitation.objects.create(
            digest=_digest(text), note=note, admin=admin, role=role, apps=apps, created_by=actor.name
        )
        invitation.groups.set(groups_named(groups))
        record("invited", actor.name, app_name=apps, note=note, admin=admin, role=role, groups=list(groups))
    log.info("%s created an invitation: %s, admin %s, role %s, groups %s", actor.name, note, admin, role, list(groups))
    return invitation, text


def listed(*, actor: Actor) -> QuerySet[Invitation]:
    """Returns the invitations that can still be used, each with its groups, the newest first."""
    check_keeps_people(actor)
    return _usable().prefetch_related("groups").order_by("-created", "-pk")


def cancel(invitation_id: int, *, actor: Actor) -> None:
    """Makes an invitation useless. One that was used, or is gone, stays so."""
    check_keeps_people(actor)
    invitations = Invitation.objects.filter(pk=invitation_id)
    invitation = invitations.first()
    if invitation and record_with(
        lambda: invitations.delete()[0], "invitation-withdrawn", actor.name, note=invitation.note
    ):
        log.info("%s cancelled an invitation", actor.name)


def of(text: str) -> Invitation:
    """Returns the invitation of a link. Raises NotFound if it was used or cancelled, is too old, or its author is no
    longer an admin."""
    return _with(text, _usable())


def accept(token: str, name: str, password: str) -> User:
    """Uses up an invitation, and makes an account of a name and a password that the person chose, with what was offered.

    Raises NotFound, AlreadyExists and Invalid, and NotAllowed where nobody may give a role now; the invitation can still be
    used after the last three."""
    with transaction.atomic():
        invitation = _with(token, _usable().select_for_update())
        person = new_account(name)
        passwords.check(password, person)
        person.set_password(password)
        person.is_superuser = invitation.admin
        try:
            with transaction.atomic():
                person.save()
        except IntegrityError as error:
            raise taken(name) from error
        person.groups.set(invitation.groups.all())
        by, groups = invitation.created_by, invitation.group_names
        invitation.delete()
        record("joined", person.get_username(), invited_by=by, admin=invitation.admin, groups=groups)
        if invitation.role:
            roles.give(invitation.role, by=_maker(by), apps=invitation.apps, person=person.get_username())
    log.info("%s created an account with an invitation from %s", person.get_username(), by)
    return person


def _usable() -> QuerySet[Invitation]:
    makers = User.objects.filter(is_active=True, is_superuser=True).values("username")
    by = Q(created_by=TERMINAL.name) | Q(created_by__in=makers)
    return Invitation.objects.filter(by, created__gte=timezone.now() - Invitation.LIFETIME)


def _maker(name: str) -> Actor:
    return TERMINAL if name == TERMINAL.name else roles.actor_of(User.objects.get(username=name))


def _with(text: str, invitations: QuerySet[Invitation]) -> Invitation:
    invitation = invitations.filter(digest=_digest(text)).first()
    if invitation is None:
        raise NotFound(_("This invitation has expired, was cancelled or has already been used. Ask for a new one."))
    return invitation


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
