"""Remembers in a browser's session who has given the right password, and still has to show their second factor.

    pending.begin(request, person, "password", "/edits/")
    waiting = pending.of(request)  # None if there is nobody

Nobody is signed in by it: pages, sockets and programs ask Django's own sign-in.
"""

import time
from dataclasses import dataclass
from typing import Final

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils.crypto import constant_time_compare

SECONDS: Final = 600.0  # between the password and the code
_KEY: Final = "pending"


@dataclass(frozen=True, slots=True)
class Pending:
    """A person in the middle of signing in: how they began, and where they want to go."""

    person: User
    how: str
    next_page: str


def begin(request: HttpRequest, person: User, how: str, next_page: str) -> None:
    """Notes that a person has passed the first step."""
    request.session.cycle_key()
    request.session[_KEY] = {
        "person": person.pk,
        "hash": person.get_session_auth_hash(),
        "how": how,
        "next": next_page,
        "until": time.time() + SECONDS,
    }


def of(request: HttpRequest) -> Pending | None:
    """Returns who is in the middle of signing in. None if that took too long, or the account was changed meanwhile."""
    note = request.session.get(_KEY)
    if note is None or note["until"] < time.time():
        return None
    person = get_user_model().objects.filter(pk=note["person"], is_active=True).first()
    if person is None or not constant_time_compare(note["hash"], person.get_session_auth_hash()):
        return None
    return Pending(person, note["how"], note["next"])


def end(request: HttpRequest) -> None:
    """Forgets who it was."""
    request.session.pop(_KEY, None)
