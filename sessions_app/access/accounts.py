"""Asks again what somebody may do: roles and tokens change while a job or a long answer goes on."""

from . import roles, tokens
from .actor import Actor


def actor_now(name: str, account: str) -> Actor:
    """Returns who acts by an account, with the rights of now: none if it, or the token, is gone.

    Without an account it is the machine itself."""
    kind, _space, number = account.partition(" ")
    if not kind:
        return Actor.holding(name, "admin")
    actor = (roles if kind == "person" else tokens).actor_numbered(int(number))
    return actor or Actor(name, (), account)
