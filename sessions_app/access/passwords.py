"""Checks new passwords, and gives a person one."""

import logging

from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest
from django.utils.translation import gettext as _

from ..domain.errors import Invalid, NotAllowed
from . import identities, lockout, sign_ins
from .audit.record import record

log = logging.getLogger("adkweb.people")


def check(password: str, person: User) -> None:
    """Raises Invalid where a person may not have a password: it is short, common, only digits or like their name."""
    if len(password) > lockout.LONGEST_PASSWORD:
        raise Invalid(
            _("A password can have up to %(n)s characters.") % {"n": lockout.LONGEST_PASSWORD}, field="password"
        )
    try:
        validate_password(password, person)
    except ValidationError as error:
        raise Invalid(" ".join(error.messages), field="password") from error


def confirm(request: HttpRequest, person: User, old: str = "") -> None:
    """Raises Invalid unless this is the person's password, if they have one, and TooOften."""
    if person.has_usable_password() and lockout.person_of(request, person.get_username(), old, "confirm") != person:
        raise Invalid(_("Wrong password."), field="old")


def change(request: HttpRequest, person: User, old: str, new: str) -> User:
    """Gives a person a new password, signs out all their browsers and returns them. Raises Invalid, TooOften,
    NotAllowed.

    A person who has a password must know it.
    """
    if identities.opens_alone(person):
        # It would still open the account long after the provider closed it.
        raise NotAllowed(
            _("You sign in with %(provider)s, so you don't have a password here.") % {"provider": settings.OIDC_NAME}
        )
    confirm(request, person, old)
    check(new, person)
    with transaction.atomic():
        person.set_password(new)
        person.save(update_fields=["password"])
        sign_ins.end_all(person.pk)
        record("password-changed", person.get_username())
    log.info("%s changed their password", person.get_username())
    return person
