"""Defines the people of the tests:

Alice may do everything, Bob may only read, and Charlie cannot see the app booking.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Final
from unittest.mock import patch

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User

from sessions_app.access import approval, masking, roles, tokens
from sessions_app.access.actor import Actor
from sessions_app.access.roles import Role

ALICE: Final = Actor.holding("alice", "admin")
BOB: Final = Actor.holding("bob", "read")
CHARLIE: Final = Actor.holding("charlie", "admin", "weather*")


def _account(name: str) -> User:
    accounts = get_user_model().objects
    return accounts.filter(username=name).first() or accounts.create_user(name)


def an_admin(name: str) -> User:
    """Somebody without a password who is an admin of everything, as whoever opens the printed link is."""
    person = _account(name)
    roles.make_admin(person)
    return person


def as_admin(name: str, number: int | None = None) -> Actor:
    """Acts as an admin of everything, without an account of adkweb or with the one of this number."""
    return Actor.holding(name, "admin", account="" if number is None else f"person {number}")


def somebody(name: str, role: str = "", apps: str = "*", sources: str = "*") -> User:
    """Somebody without a password, who has this role and no other, or none."""
    person = _account(name)
    for role_of_theirs in Role.objects.filter(person=person):
        role_of_theirs.delete()
    if role:
        Role.objects.create(person=person, role=role, apps=apps, sources=sources, given_by="adam")
    return person


@contextmanager
def within_a_second() -> Iterator[None]:
    """What is trusted for a second (rights, tokens, rules) is trusted until this ends, however slow the machine is.

    Else a page that takes longer asks for them twice, and has one query more."""
    now = time.monotonic()
    with ExitStack() as stack:
        for module in (approval, masking, roles, tokens):
            stack.enter_context(patch.object(module, "time", SimpleNamespace(monotonic=lambda: now)))
        yield
