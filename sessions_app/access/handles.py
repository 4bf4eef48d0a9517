"""Gives the users whose ids are hidden a handle: `user-3f9a2c81d07be455` stands for `ana@example.com`.

A rule by form may include the ids of users (domain/masks.py). Someone who may not see such an id gets its handle
wherever the id would be: in words, addresses, answers, files. Inside adkweb, a session keeps its real names; whatever
leaves is translated here.

A handle is computed from the id and ADKWEB_SECRET_KEY, so it is the same in every app, and no one can compute it from
an id. A rule therefore hides ids in all apps: if one app showed ids, trying an id there would show its handle. A handle
has 64 bits: among a million users, two share one with a chance of 1 in 37 million.
"""

from django.conf import settings
from django.utils.crypto import salted_hmac

from ..domain.masks import HANDLE, HANDLE_DIGITS
from ..domain.session_ref import SessionRef
from . import masking
from .actor import SYSTEM, TERMINAL, Actor


def handle_of(user_id: str) -> str:
    """Returns the handle of a user's id."""
    text = user_id.encode("utf-8", "surrogatepass")
    return (
        HANDLE
        + salted_hmac("adkweb.handle", text, secret=settings.SECRET_KEY, algorithm="sha256").hexdigest()[:HANDLE_DIGITS]
    )


def is_hidden_user(source: str, app_name: str, user_id: str, actor: Actor) -> bool:
    """Returns whether an actor sees the handle of a user in place of the id."""
    return masking.mask_of_all().hides_id(user_id) and not sees_ids(source, app_name, actor)


def shown_user(source: str, app_name: str, user_id: str, actor: Actor) -> str:
    """Returns what an actor may see of the id of a user: the id, or its handle."""
    return handle_of(user_id) if is_hidden_user(source, app_name, user_id, actor) else user_id


def shown_ref(ref: SessionRef, actor: Actor) -> SessionRef:
    """Returns the names of a session as an actor may see them. Only for showing: there is no session of that name."""
    return ref._replace(user_id=shown_user(*ref[:3], actor))


def in_address(user_id: str) -> str:
    """Returns the name of a user in a page's address: the handle for everyone, if a rule hides the id. So links can be
    passed on, and no browser's history and no proxy keeps the id."""
    return handle_of(user_id) if masking.mask_of_all().hides_id(user_id) else user_id


def sees_ids(source: str, app_name: str, actor: Actor) -> bool:
    """Returns whether an actor sees the ids of an app's users whatever the rules: people who may reveal values there,
    and agents, which work with what is stored."""
    # An account may have the name of one of these.
    if actor is SYSTEM or actor is TERMINAL or actor.is_agent_of(app_name):
        return True
    return actor.may_reveal(source, app_name)


def are_hidden_anywhere(actor: Actor) -> bool:
    """Returns whether any id of a user of any app may be hidden from an actor."""
    return masking.mask_of_all().hides_ids and not sees_ids("", "", actor)


def are_hidden(source: str, app_name: str, actor: Actor) -> bool:
    """Returns whether any id of an app's users may be hidden from an actor."""
    return masking.mask_of_all().hides_ids and not sees_ids(source, app_name, actor)
