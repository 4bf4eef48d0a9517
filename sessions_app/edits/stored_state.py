"""Reads the state that an edit is compared with, as it is stored, whoever may see it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..access.actor import SYSTEM, Actor
from ..access.shown import unmasked
from ..domain.masks import has_dots
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, Scope, State, full_key, same
from ..errors import StaleSession
from ..reads import views


def stored_state(ref: SessionRef, only: Scope | None, revision: float | None) -> State:
    """Returns the keys that may be edited, with full names, as they are stored."""
    if only == "app":
        bare = views.app(ref.source, ref.app_name, actor=SYSTEM)[1]
    elif only == "user":
        bare = views.user_state(ref.source, ref.app_name, ref.user_id, actor=SYSTEM)
    else:
        view = views.session(ref, actor=SYSTEM)
        if revision not in (None, view.revision):
            raise StaleSession
        return view.state.merged()
    return {full_key(only, name): value for name, value in bare.items()}


def seen_as_stored(ref: SessionRef, entries: Sequence[Any], actor: Actor, only: Scope | None = None) -> Sequence[Any]:
    """Returns the entries of an edit with the stored values in place of dots that hid them from who overwrites them."""
    hidden = {each.key for each in entries if has_dots(each.seen) and not same(each.value, each.seen)}
    if not hidden:
        return entries
    state = stored_state(ref, only, None)
    return [
        replace(each, seen=unmasked(each.key, each.seen, state.get(each.key, ABSENT), actor, ref.app_name))
        if each.key in hidden
        else each
        for each in entries
    ]
