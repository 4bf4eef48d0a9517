"""Reads the state that an edit is compared with, as it is stored, whoever may see it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..access.actor import SYSTEM, Actor
from ..access.audit import refusals
from ..access.shown import is_hidden, is_masked, shown
from ..domain.errors import Conflict, StaleSession
from ..domain.masks import has_dots
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, UNKNOWN, Scope, State, full_key, same
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
    """Returns the entries of an edit with the stored values in place of dots that hid them from who overwrites them.

    Whoever expects anything but the dots in place of a value that is hidden from them guesses it. They get the Conflict of
    a wrong guess, whether or not it is right, and the guess is recorded. Raises NotFound, SourceError."""
    known = [each for each in entries if each.seen is not UNKNOWN and each.seen is not ABSENT]
    if not known or not is_masked(actor, ref.app_name):
        return entries
    state = stored_state(ref, only, None)
    hidden = [e for e in known if is_hidden(e.key, [state.get(e.key, ABSENT)], actor, ref.app_name)]
    seen = shown({e.key: state[e.key] for e in hidden}, actor, ref.app_name)
    if guessed := [e for e in hidden if not same(e.seen, seen.get(e.key, ABSENT))]:
        for each in guessed:
            if not has_dots(each.seen):  # or they saw it when other rules hid other parts of it
                refusals.note("refused", actor.name, f"guess of {each.key}", ref)
        keys = {e.key for e in guessed} | {e.key for e in known if not same(e.seen, state.get(e.key, ABSENT))}
        keys -= {e.key for e in hidden} - {e.key for e in guessed}
        current = {key: state.get(key, ABSENT) for key in keys}
        raise Conflict(current=shown(current, actor, ref.app_name), changed=sorted(keys))
    stored = {e.key: state[e.key] for e in hidden if not same(e.value, e.seen)}
    return [replace(each, seen=stored.get(each.key, each.seen)) for each in entries]
