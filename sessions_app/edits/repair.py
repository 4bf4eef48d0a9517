"""Repairs drift: an event makes stored state and the events agree again."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.utils.translation import gettext as _

from ..access.actor import SYSTEM as MACHINE
from ..access.actor import Actor
from ..access.shown import shown
from ..domain.errors import Conflict, Invalid, StaleSession
from ..domain.event import Event
from ..domain.session_ref import SessionRef
from ..domain.state import State, same
from ..history.drift import Drift, any_shared, own, shared
from ..reads import views
from ..writes.append import Appended
from . import edit
from .edit import Entry

_TRIES: Final = 20  # each one fails because someone else's append succeeded


@dataclass(frozen=True, slots=True)
class Choice:
    """The repair of a key: the stored value stays and becomes an event (`keep`), or the value from the events is
    restored.

    `said` and `stored` are the two values that the person saw when choosing."""

    key: str
    keep: bool
    said: Any
    stored: Any


def choose(ref: SessionRef, keep: Collection[str], put_back: Collection[str], *, actor: Actor) -> list[Choice]:
    """Returns a choice for each of these keys, with its drift as it is now.

    Raises Invalid for a key that does not differ, or that no event can repair; NotFound, Behind, SourceError."""
    names, kept = [*keep, *put_back], set(keep)
    found = [*own(ref, actor=actor).drifted, *(shared(ref, actor=actor).drifted if any_shared(names) else ())]
    changes = {each.change.key: each.change for each in found if not each.stray}
    for name, times in Counter(names).items():
        if name not in changes:
            raise Invalid(_("%(key)s has no difference that an event can repair") % {"key": name})
        if times > 1:
            raise Invalid(_("%(key)s: appears twice in this edit") % {"key": name})
    return [Choice(name, name in kept, changes[name].old, changes[name].new) for name in names]


def repair(ref: SessionRef, choices: Sequence[Choice], *, actor: Actor, reason: str = "", once: str = "") -> Appended:
    """Makes stored state and events agree again in the chosen keys, with one event of this session.

    Raises Conflict, and writes nothing, if the stored value or what the events say has changed since;
    `detail["current"]` has the stored values. Raises Invalid, NotFound, NotAllowed, SourceError. `once` is a token of
    the form: the same repair sent again with it is stored only once."""
    actor.check_may("append", ref.source, ref.app_name)
    event = repair_event(choices, actor, reason, once)
    for _attempt in range(_TRIES):
        found = own(ref, actor=MACHINE)
        drifted = [
            *found.drifted,
            *(shared(ref, actor=MACHINE).drifted if any_shared(choice.key for choice in choices) else ()),
        ]
        if (stored := _still(drifted, choices)) is None:
            if once and (before := edit.stored(ref, event)):
                return Appended(shown(before.data, actor, ref.app_name, "event"))
            state = views.session(ref, actor=actor).state
            raise Conflict(current={choice.key: state.get(choice.key) for choice in choices})
        try:
            return edit.append_once(ref, event, actor, stored, found.revision)
        except StaleSession:  # the session changed in the meantime; it is read again
            continue
    raise Conflict


def repair_event(choices: Sequence[Choice], actor: Actor, reason: str, once: str = "") -> Event:
    """Returns the event for a repair. Writes nothing.

    It notes as replaced the values that it does not keep. Raises Invalid, also for a stored value that is not JSON,
    which no event can hold."""
    entries = [
        Entry(each.key, each.stored, each.said) if each.keep else Entry(each.key, each.said, each.stored)
        for each in choices
    ]
    return edit.state_event(entries, actor, reason, once=once)[0]


def _still(found: Sequence[Drift], choices: Sequence[Choice]) -> State | None:
    """Returns the stored values of the chosen keys; None if one of them is no longer what the person saw."""
    drifted = {each.change.key: each.change for each in found if not each.stray}
    for choice in choices:
        change = drifted.get(choice.key)
        if change is None or not (same(change.old, choice.said) and same(change.new, choice.stored)):
            return None
    return {choice.key: choice.stored for choice in choices}
