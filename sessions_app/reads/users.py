"""Finds the user whom an address or a form means, by the id or by its handle."""

from collections.abc import Callable, Iterable
from hashlib import md5
from typing import Final

from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..access.handles import are_hidden, handle_of, is_hidden_user
from ..domain.errors import NotFound
from ..domain.masks import is_handle
from ..domain.session_ref import SessionRef
from ..models import SearchOwner, Session
from ..sources import database, dialect, registry

_NEWEST: Final = 200  # sessions whose users are searched if the index does not have a user yet


def meant(source: str, app_name: str, user_id: str, *, actor: Actor) -> str:
    """Returns the id of the user of an app who is meant by an id or by a handle.

    An id that is hidden from the actor counts as unknown, whether there is such a user or not. A handle is searched in
    the search index, and among the users of the newest sessions, which the index may not have yet.

    Raises NotFound, SourceError."""
    if not actor.may_see(source, app_name):
        return user_id
    hidden = are_hidden(source, app_name, actor)
    if is_handle(user_id):
        if (known := _user_of(source, app_name, user_id)) is not None:
            return known
        if hidden:
            raise NotFound(_("This user doesn't exist or isn't indexed yet. Try again in a moment."))
    elif hidden and is_hidden_user(source, app_name, user_id, actor):
        raise NotFound(_("You can't use ids in this format. Use the handle that you see instead."))
    return user_id


def ref_meant(ref: SessionRef, *, actor: Actor) -> SessionRef:
    """Returns the session with these names, of which the user's may be a handle. Raises what `meant` does."""
    return ref._replace(user_id=meant(*ref[:3], actor=actor))


def in_cursor(source: str, app_name: str, text: str, there: Callable[[], Iterable[str]], *, actor: Actor) -> str | None:
    """Returns the id of the user in a cursor, which holds what the actor sees of it; None if it can no longer be found.

    `there` returns the ids of the users who could be meant: those with a session at the moment of the cursor."""
    if not are_hidden(source, app_name, actor):
        return text
    if is_handle(text):
        return next((user_id for user_id in there() if handle_of(user_id) == text), None)
    return None if is_hidden_user(source, app_name, text, actor) else text


def order_of_users(source: str) -> tuple[str, str]:
    """Returns the SQL that puts users whose ids are hidden in an order, and its parameter.

    The order of ids would reveal between which others an id is: someone who may write could create sessions of the same
    moment for users with readable ids."""
    return f"md5(%s || {dialect.of(source).hexadecimal('user_id')})", salted_hmac("adkweb.rank", "").hexdigest()


def rank_of(user_id: str) -> str:
    """Returns the rank of a user in that order."""
    text = salted_hmac("adkweb.rank", "").hexdigest() + user_id.encode("utf-8", "surrogatepass").hex()
    return md5(text.encode(), usedforsecurity=False).hexdigest()


def _user_of(source: str, app_name: str, handle: str) -> str | None:
    owners = SearchOwner.objects.filter(source__where=registry.identity(source), app_name=app_name, shown=handle)
    for user_id in owners.values_list("user_id", flat=True):
        if handle_of(user_id) == handle:  # the index has only a part of an id that no database of ours can hold
            return user_id
    with database.using(source):
        newest = Session.objects.using(source).filter(app_name=app_name).order_by("-update_time")
        for user_id in set(newest.values_list("user_id", flat=True)[:_NEWEST]):
            if handle_of(user_id) == handle:
                return str(user_id)
    return None
