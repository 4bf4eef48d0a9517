"""Edits state and sessions for a person. Each action is one event, which says who did it, why, and what it replaced."""

import json
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _

from ..access.actor import SYSTEM as MACHINE
from ..access.actor import Actor
from ..access.audit import refusals
from ..access.shown import is_hidden, is_masked, shown, shown_change
from ..domain.adk_fields import check_fields
from ..domain.edit_note import EDIT_PREFIX, SYSTEM, edit_of
from ..domain.errors import AlreadyExists, Conflict, Held, Invalid, NotFound, StaleSession
from ..domain.event import Event, check_event, delta_of, new_id
from ..domain.json_values import check, equal
from ..domain.masks import has_dots
from ..domain.session_ref import SessionRef, own_session
from ..domain.state import ABSENT, STORED, UNKNOWN, Change, Scope, State, full_key, same, scope_of
from ..reads import timeline, views
from ..reads.event_views import EventView
from ..writes.append import Appended, Origin, append_event
from ..writes.sessions import create_session
from . import expiry, proposals

REASON_LENGTH: Final = 1000
_OVERWRITES: Final = 100  # tries: each one fails because someone else's write succeeded


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of an edit: its new value (ABSENT removes it), and the value that the person saw (ABSENT if there was
    none; UNKNOWN, for `overwrite_state`, if it does not matter)."""

    key: str
    value: Any
    seen: Any


def edit_state(
    ref: SessionRef,
    entries: Sequence[Entry],
    *,
    actor: Actor,
    reason: str = "",
    once: str = "",
    revision: float | None = None,
    of: Mapping[str, Any] | None = None,
) -> Appended:
    """Sets, adds or removes keys of any scope in one event of this session.

    Raises Conflict, and writes nothing, if a key no longer has the value that the person saw; `detail["current"]` has
    the current values. Raises Invalid, NotFound, NotAllowed, SourceError; Held if it now waits for a second person.

    `once` is a token of the form: if the same edit is sent again with it because the answer was lost, it is stored only
    once. With `revision`, the edit is stored only if the session still has that revision; otherwise raises
    StaleSession. `of` is the origin of the edit, `{"undoes": id}` or `{"restores": id}`, and when it ends (expiry.py);
    both are noted beside who and why."""
    entries = seen_as_stored(ref, entries, actor)
    event, seen = state_event(entries, actor, reason, once=once, of=of, app_name=ref.app_name)
    return append_once(ref, event, actor, seen, revision)


def overwrite_state(  # noqa: PLR0913  (what an edit says, as `edit_state` has it)
    ref: SessionRef,
    entries: Sequence[Entry],
    *,
    actor: Actor,
    only: Scope | None = None,
    reason: str = "",
    once: str = "",
    revision: float | None = None,
    of: Mapping[str, Any] | None = None,
) -> Appended | None:
    """Edits state as `edit_state` does, but overwrites a key whose `seen` is UNKNOWN, even if someone writes it in the
    meantime.

    Returns None if nothing would change. With `only`, edits the keys of this scope in `ref`, adkweb's own session of an
    app or a user. Raises what `edit_state` does."""
    actor.check_sees(ref)
    expected = {e.key for e in entries if e.seen is not UNKNOWN}
    entries = seen_as_stored(ref, entries, actor, only)
    for attempt in range(_OVERWRITES):
        state = stored_state(ref, only, revision)
        known = [_filled_in(e, state.get(e.key, ABSENT), actor, ref) for e in entries]
        if not _changes(known, actor, ref.app_name) and all(
            same(e.seen, state.get(e.key, ABSENT)) for e in known if e.key in expected
        ):
            return None
        try:
            if only:
                return _append_apart(ref, only, known, actor, reason, once, of)
            event, seen = state_event(known, actor, reason, once=once, of=of, app_name=ref.app_name)
            return append_once(ref, event, actor, seen, revision)
        except Conflict as conflict:
            changed = conflict.detail.get("changed")
            if changed is None or expected & {*changed} or attempt == _OVERWRITES - 1:
                raise
    raise AssertionError("unreachable")


def prepared_state(
    ref: SessionRef, entries: Sequence[Entry], *, actor: Actor, reason: str = "", revision: float | None = None
) -> proposals.Prepared:
    """Returns an edit of state that can be written later, and is then compared with the values that are there now where
    `seen` is UNKNOWN. Raises what `edit_state` does."""
    actor.check_sees(ref)
    entries = seen_as_stored(ref, entries, actor)
    state = stored_state(ref, None, revision)
    known = [_filled_in(each, state.get(each.key, ABSENT), actor, ref) for each in entries]
    return proposals.Prepared(*state_event(known, actor, reason, app_name=ref.app_name), revision)


def _filled_in(entry: Entry, stored: Any, actor: Actor, ref: SessionRef) -> Entry:
    """Returns an entry with the stored value as the seen one, if none was named.

    An actor who sends back the dots that hide a value changes nothing: they read a state, and write all of it."""
    if entry.seen is not UNKNOWN:
        return entry
    told = shown_change(Change(entry.key, stored, stored), actor, ref.app_name).new
    return replace(entry, seen=entry.value if same(entry.value, told) else stored)


def state_event(
    entries: Sequence[Entry],
    actor: Actor,
    reason: str,
    only: Scope | None = None,
    once: str = "",
    of: Mapping[str, Any] | None = None,
    app_name: str = "",
) -> tuple[Event, dict[str, Any]]:
    """Returns the event for an edit, and the values that the person saw in the keys that it changes. Writes nothing.

    `only` is the one scope that may be edited outside a conversation; `of` is as in `edit_state`. With `app_name`, keys
    whose value is hidden from the actor are written even if they already have it. Raises Invalid."""
    for entry in entries:
        if only and scope_of(entry.key)[0] != only:
            raise Invalid(_("%(key)s: keys here must start with %(scope)s:") % {"key": entry.key, "scope": only})
    changes = _changes(entries, actor, app_name)
    _check(entries, changes)
    event_id = edit_id(once, entries)
    event = {
        "id": event_id,
        "invocation_id": EDIT_PREFIX + event_id,
        "author": SYSTEM,
        "timestamp": time.time(),
        "actions": {"state_delta": {e.key: None if e.value is ABSENT else e.value for e in changes}},
        "custom_metadata": {"adkweb": {**expiry.resolved(of), **note(changes, actor, reason)}},
    }
    return check_event(event), {e.key: e.seen for e in changes}


def _changes(entries: Sequence[Entry], actor: Actor, app_name: str) -> list[Entry]:
    """Returns what an edit writes: not the values that are already there, unless they are hidden from the actor. If
    such an edit wrote nothing, the actor would learn that they guessed the value."""
    return [
        entry
        for entry in entries
        if not same(entry.value, entry.seen) or (app_name and is_hidden(entry.key, [entry.seen], actor, app_name))
    ]


def note(changes: Sequence[Entry], actor: Actor, reason: str) -> dict[str, Any]:
    """Returns the note of an edit: who, why, and what it replaces and removes. Raises Invalid for a reason that is too
    long."""
    return {
        "actor": actor.name,
        "reason": _check_reason(reason),
        "replaced": {e.key: _noted(e.seen) for e in changes if e.seen is not ABSENT},
        "removed": [e.key for e in changes if e.value is ABSENT],
    }


def edit_id(once: str, entries: Sequence[Entry]) -> str:
    """Returns the id of the event for an edit of state. It does not depend on the values that the person saw."""
    return id_of(once, [[e.key, None if e.value is ABSENT else e.value, e.value is ABSENT] for e in entries])


def id_of(once: str, what: Any) -> str:
    """Returns the id of an edit: always the same for the same `what` and form, a new one if `once` is empty.

    It is made with adkweb's key: `what` has values that may be masked, and someone who sees the id could try
    guesses."""
    if not once:
        return new_id()
    return str(
        uuid.UUID(bytes=salted_hmac("adkweb.edit", ascii([once, what]), algorithm="sha256").digest()[:16], version=4)
    )


def edit_app_state(
    source: str,
    app_name: str,
    entries: Sequence[Entry],
    *,
    actor: Actor,
    reason: str = "",
    once: str = "",
    of: Mapping[str, Any] | None = None,
) -> Appended:
    """Edits `app:` keys in adkweb's own session of the app, so that no running conversation becomes stale."""
    return _edit_apart(own_session(source, app_name), "app", entries, actor, reason, once, of)


def edit_user_state(  # noqa: PLR0913  (as `edit_app_state`, for one user)
    source: str,
    app_name: str,
    user_id: str,
    entries: Sequence[Entry],
    *,
    actor: Actor,
    reason: str = "",
    once: str = "",
    of: Mapping[str, Any] | None = None,
) -> Appended:
    """Edits `user:` keys in adkweb's own session of this user, so that no running conversation becomes stale."""
    return _edit_apart(own_session(source, app_name, user_id), "user", entries, actor, reason, once, of)


def append_once(
    ref: SessionRef,
    event: Event,
    actor: Actor,
    expected: Mapping[str, Any],
    revision: float | None = None,
    origin: Origin = "person",
) -> Appended:
    """Appends an edit. If it is already stored, returns the stored event, whatever was written since.

    An edit that ends a running invocation notes which one. An edit that needs a second person becomes a proposal.
    Raises what `append_event` does."""
    actor.check_sees(ref)
    given = event
    running = timeline.in_danger(ref, actor=MACHINE)
    if running and running.invocation_id:
        noted = {**edit_of(event), "ended": running.invocation_id}
        event = {**event, "custom_metadata": {**event["custom_metadata"], "adkweb": noted}}
    try:
        with expiry.kept(ref, event, actor):
            return append_event(ref, event, actor=actor, origin=origin, expected=expected, revision=revision)
    except (Conflict, Held) as refused:
        before = stored(ref, event)
        if before is None and isinstance(refused, Held):
            raise proposals.keep(ref, given, expected, revision, actor=actor) from None
        if before is None:
            raise
        return Appended(shown(before.data, actor, ref.app_name, "event"))


def stored(ref: SessionRef, event: Mapping[str, Any]) -> EventView | None:
    """Returns this edit as it is stored; None if it is not stored, or if another edit has its id. Raises
    SourceError."""
    try:
        before = timeline.event(ref, event["id"], actor=MACHINE)
    except NotFound:
        return None
    return before if equal(_told(before.data), _told(event)) else None


def _edit_apart(
    ref: SessionRef,
    scope: Scope,
    entries: Sequence[Entry],
    actor: Actor,
    reason: str,
    once: str,
    of: Mapping[str, Any] | None,
) -> Appended:
    entries = seen_as_stored(ref, entries, actor, scope)
    return _append_apart(ref, scope, entries, actor, reason, once, of)


def _append_apart(
    ref: SessionRef,
    scope: Scope,
    entries: Sequence[Entry],
    actor: Actor,
    reason: str,
    once: str,
    of: Mapping[str, Any] | None,
) -> Appended:
    # Checked first, so that a refused edit leaves no session behind.
    event, seen = state_event(entries, actor, reason, only=scope, once=once, of=of, app_name=ref.app_name)
    with suppress(AlreadyExists):
        create_session(*ref[:3], session_id=ref.session_id, actor=actor)
    return append_once(ref, event, actor, seen)


def _told(event: Mapping[str, Any]) -> list[Any]:
    """Returns what a person entered for an edit, without what may differ when it is sent again."""
    return [event.get("author"), event.get("content"), delta_of(event), edit_of(event).get("actor")]


def _check(entries: Sequence[Entry], changes: Sequence[Entry]) -> None:
    for name, times in Counter(entry.key for entry in entries).items():
        if times > 1:
            raise Invalid(_("%(key)s: appears twice in this edit") % {"key": name})
    for entry in entries:
        scope, bare = scope_of(entry.key)
        if scope not in STORED:
            raise Invalid(_("%(key)s: temp: keys live for one invocation and are never stored") % {"key": entry.key})
        if not bare and entry.seen is ABSENT:
            raise Invalid(_("Enter a name for the key."))
    if not changes:
        raise Invalid(_("Nothing would change."))


def _check_reason(reason: str) -> str:
    if len(reason) > REASON_LENGTH:
        raise Invalid(_("The reason is longer than %(n)s characters. Shorten it.") % {"n": REASON_LENGTH})
    return reason.strip()


def _noted(value: Any) -> Any:
    """Returns a replaced value as an event can hold it. A value that isn't JSON, such as NaN, becomes text."""
    try:
        return check(value)
    except Invalid:
        return json.dumps(value)


# --- An event that a person wrote by hand -----------------------------------------------------------------------------

_TRIES: Final = 5


def add_event(ref: SessionRef, event: Mapping[str, Any], *, actor: Actor, reason: str = "") -> Appended:
    """Appends an event that a person wrote by hand. It counts as an edit, whatever author and invocation it names.

    Raises Invalid with the path of the fault, NotFound, NotAllowed, Conflict (another event has its id), SourceError.
    """
    checked = check_event(event)
    if checked.get("partial"):
        raise Invalid(_("partial: partial events are never stored"))
    if camel := [name for name in checked if name != name.lower()]:
        raise Invalid(_("%(names)s: use snake_case for field names") % {"names": ", ".join(camel)})
    check_fields(checked)
    checked["author"] = checked["author"] or SYSTEM
    checked["invocation_id"] = checked["invocation_id"] or EDIT_PREFIX + str(uuid.uuid4())
    for attempt in range(_TRIES):
        state = views.session(ref, actor=MACHINE).state
        before = {name: state.get(name) for name in delta_of(checked)}
        noted = note([Entry(name, None, value) for name, value in before.items()], actor, reason)
        noted["removed"] = edit_of(checked).get("removed", [])
        checked["custom_metadata"] = {**checked.get("custom_metadata", {}), "adkweb": noted}
        try:
            return append_once(ref, checked, actor, before)
        except Conflict as conflict:
            # Someone has just written one of its keys: note again what it replaces.
            if "current" not in conflict.detail or attempt == _TRIES - 1:
                raise
    raise AssertionError("unreachable")


# --- The state that an edit is compared with, as it is stored, whoever may see it -------------------------------------


def stored_state(ref: SessionRef, only: Scope | None, revision: float | None) -> State:
    """Returns the keys that may be edited, with full names, as they are stored."""
    if only == "app":
        bare = views.app(ref.source, ref.app_name, actor=MACHINE)[1]
    elif only == "user":
        bare = views.user_state(ref.source, ref.app_name, ref.user_id, actor=MACHINE)
    else:
        view = views.session(ref, actor=MACHINE)
        if revision not in (None, view.revision):
            raise StaleSession
        return view.state.merged()
    return {full_key(only, name): value for name, value in bare.items()}


def seen_as_stored(ref: SessionRef, entries: Sequence[Any], actor: Actor, only: Scope | None = None) -> Sequence[Any]:
    """Returns the entries of an edit with the stored values in place of the dots that hid them from the actor.

    An actor who expects anything but the dots for a hidden value is guessing: they get the Conflict of a wrong guess,
    right or wrong, and the guess is recorded. Raises NotFound, SourceError."""
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
