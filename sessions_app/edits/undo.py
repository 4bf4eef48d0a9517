"""Plans how to undo an event, and how to restore state to a moment. The plan is then written as an edit like any other.

A plan has, for each key, the value to write and the current one: the edit is compared with what the person saw, so that
no one's write is lost (edits.edit_state). Values that can't be known are left alone and listed. Nothing here writes."""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from django.utils.translation import gettext as _

from ..access.actor import SYSTEM as MACHINE
from ..access.actor import Actor
from ..access.shown import is_hidden
from ..domain.edit_note import edit_of
from ..domain.errors import Error, Invalid
from ..domain.json_values import check
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, STORED, UNKNOWN, Scope, Scoped, State, same, scope_of
from ..history import key_history, moments
from ..reads import timeline, views
from ..reads.deltas import Writer
from ..reads.event_views import EventView
from ..writes.incomplete import check_complete
from .edit import Entry

_LOOKED_UP: Final = 20  # missing keys, for which the event that removed them is looked up


@dataclass(frozen=True, slots=True)
class Step:
    """One key to restore: to the value `then`, from the value `now`. `wrote` is the value it is expected to have now.

    If `now` differs from `wrote`, someone has written the key since, and a person has to choose."""

    key: str
    then: Any
    wrote: Any
    now: Any

    @property
    def contested(self) -> bool:
        """Returns whether someone has written the key since."""
        return self.wrote is UNKNOWN or not same(self.wrote, self.now)

    @property
    def entry(self) -> Entry:
        """Returns the edit of this key."""
        return Entry(self.key, self.then, self.now)


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of an undo or a restore: which event it is about, the keys, and the keys whose value cannot be
    known."""

    event: EventView
    steps: list[Step] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    @property
    def entries(self) -> list[Entry]:
        """Returns the edits of all keys."""
        return [step.entry for step in self.steps]


def undo(ref: SessionRef, event_id: str, *, actor: Actor) -> Plan:
    """Plans the undo of an event: each key of its delta gets its value from just before. An undo can be undone, too.

    Raises Invalid if there is nothing to undo, with the reason (`detail["writer"]` is the event that already did it);
    Conflict for a session that is being copied or imported; NotFound, Behind, SourceError."""
    event = timeline.event(ref, event_id, actor=actor)
    check_complete(views.session(ref, actor=MACHINE).state.session)
    stored = timeline.event(ref, event_id, actor=MACHINE)
    if stored.size:
        raise Invalid(_("This event is too large to undo."))
    wrote = moments.made(stored, actor=MACHINE)
    if not wrote:
        raise Invalid(_("This event didn't change any state, so there is nothing to undo."))
    before = moments.state_at(ref, event_id, before=True, actor=MACHINE).state
    now = moments.state_now(ref, actor=MACHINE)
    plan, settled = _plan(event, wrote, before.get, now.state, actor)
    if not plan.steps:
        raise _nothing(event, settled, plan.unknown, now.writers, actor)
    return plan


def undo_by_note(event: EventView, state: Scoped, *, actor: Actor) -> Plan | None:
    """Plans the undo of an edit without reading history: its note has what it replaced, which was compared under the
    lock when it was written.

    `event` and the current `state` are as SYSTEM sees them. The plan has no steps if there is nothing to undo. Returns
    None if the note isn't enough: then use `undo`."""
    replaced = edit_of(event.data).get("replaced")
    if event.size or not isinstance(replaced, dict) or any(map(_stands_for_another, replaced.values())):
        return None
    wrote = moments.made(event, actor=MACHINE)
    return _plan(event, wrote, lambda name: replaced.get(name, ABSENT), state, actor)[0]


def _stands_for_another(noted: Any) -> bool:
    """Returns whether a note may have this text for a value that isn't JSON, such as NaN (edit.note)."""
    if not isinstance(noted, str):
        return False
    try:
        check(json.loads(noted))
    except (Invalid, RecursionError):
        return True
    except ValueError:
        return False
    return False


def _plan(
    event: EventView, wrote: State, before: Callable[[str], Any], state: Scoped, actor: Actor
) -> tuple[Plan, list[str]]:
    """Returns the plan that gives the keys that an event wrote their values from before, and the keys that already have
    them."""
    plan, settled = Plan(event), []
    for name, value in sorted(wrote.items()):
        then, current = before(name), state.get(name)
        if then is UNKNOWN or is_hidden(name, (then, value, current), actor, event.ref.app_name):
            plan.unknown.append(name)
        elif same(then, value):
            continue  # it wrote the value that was there
        elif same(current, then):
            settled.append(name)
        else:
            plan.steps.append(Step(name, then, value, current))
    return plan, settled


def restore(
    ref: SessionRef, event_id: str, *, actor: Actor, keys: Collection[str] = (), scopes: Collection[Scope] = STORED
) -> Plan:
    """Plans to restore keys, or whole scopes if `keys` is empty, to their values just after an event.

    Raises Invalid for a key that exists neither then nor now, and if nothing differs; Conflict for a session that is
    being copied or imported; NotFound, Behind, SourceError."""
    event = timeline.event(ref, event_id, actor=actor)
    check_complete(views.session(ref, actor=MACHINE).state.session)
    moment, now = moments.state_at(ref, event_id, actor=MACHINE), moments.state_now(ref, actor=MACHINE)
    then, stand = moment.state.merged(), now.state.merged()
    for name in keys:
        if name not in then and name not in stand:
            raise Invalid(_("The key “%(key)s” didn't exist then and doesn't exist now.") % {"key": name})
    names = set(keys) or {name for name in then.keys() | stand.keys() if scope_of(name)[0] in scopes}
    plan = Plan(event)
    for name in sorted(names):
        value, current = then.get(name, ABSENT), stand.get(name, ABSENT)
        if value is UNKNOWN or is_hidden(name, (value, current), actor, ref.app_name):
            plan.unknown.append(name)
        elif not same(value, current):
            plan.steps.append(Step(name, value, current, current))
    if not plan.steps:
        raise Invalid(_("The state is already the same as it was then.") + _left_alone(plan.unknown))
    return plan


def _nothing(
    event: EventView, settled: list[str], unknown: list[str], writers: Mapping[str, Writer], actor: Actor
) -> Error:
    if not settled and not unknown:
        return Invalid(_("This event wrote the values that were already there, so there is nothing to undo."))
    if not settled:
        return Invalid(_("This can't be undone.") + _left_alone(unknown))
    removed = [name for name in settled if name not in writers][:_LOOKED_UP]
    told = [
        *(writers[name] for name in settled if name in writers),
        *(_last(event.ref, name, actor) for name in removed),
    ]
    others = [writer for writer in told if writer and (writer.ref, writer.event_id) != (event.ref, event.id)]
    last = max(others, key=lambda writer: writer.seq or 0, default=None)
    if last is None:
        return Invalid(
            _("Nothing to undo: the keys already have the values from before this event.") + _left_alone(unknown)
        )
    if _undoes(last, event, actor):
        said = _("This has already been undone by event %(id)s.") % {"id": last.event_id}
    else:
        said = _("Nothing to undo: event %(id)s already restored the values from before this event.") % {
            "id": last.event_id
        }
    return Invalid(said + _left_alone(unknown), writer=last)


def _last(ref: SessionRef, name: str, actor: Actor) -> Writer | None:
    """Returns the event that last wrote or removed a key."""
    write = next(iter(key_history.history(ref, name, limit=1, actor=actor).rows), None)
    if write is None or not write.event_id:
        return None
    return Writer(write.event_id, write.seq, write.author, write.actor, write.timestamp, write.ref)


def _undoes(writer: Writer, event: EventView, actor: Actor) -> bool:
    try:
        return (
            writer.ref == event.ref
            and edit_of(timeline.event(writer.ref, writer.event_id, actor=actor).data).get("undoes") == event.id
        )
    except Error:  # deleted in the meantime: the message is only less exact
        return False


def _left_alone(unknown: list[str]) -> str:
    if not unknown:
        return ""
    named = ", ".join(unknown[:10]) + ("…" if len(unknown) > 10 else "")
    return " " + _("Earlier values are unknown for these keys: %(keys)s.") % {"keys": named}
