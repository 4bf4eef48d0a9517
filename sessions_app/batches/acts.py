"""Acts on one session: sets keys, undoes an event, deletes, or tags. Each act is first tried, then done.

Trying writes nothing, and records what the act expects to find when it is done. If something else is there by then, the
session is left alone.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from django.utils.translation import gettext as _

from ..access import approval
from ..access.actor import SYSTEM, Actor
from ..access.shown import is_hidden
from ..domain.edit_note import EDIT_PREFIX, edit_of
from ..domain.errors import Conflict, Invalid, NotAllowed, NotFound, StaleSession
from ..domain.event import Event
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, Scoped, same
from ..edits import queue, undo
from ..edits.edit import Entry, append_once, id_of, state_event
from ..reads import timeline, views
from ..writes.append import Origin
from ..writes.sessions import delete_session
from .items import CHANGED, MOVED, SAME, TO_DO

Begin = Callable[[], None]


class Tried(NamedTuple):
    """The result of trying an act: TO_DO or SAME, and what the act will expect to find."""

    outcome: str
    expects: str


class Done(NamedTuple):
    """The result of an act, and the event that it wrote."""

    outcome: str
    event_id: str = ""


class Act(Protocol):
    """Something that can be done to a session."""

    def do(self, ref: SessionRef, expects: str, *, first: bool, begin: Begin) -> Done | None:
        """Acts on a session. Returns None if an agent is running there: to be done later.

        With `first`, the app has no event of the batch yet: this one represents all of them in lists of edits. An act
        that was already done is not repeated. Raises NotFound, NotAllowed, Invalid, Conflict, SourceError."""


class Triable(Act, Protocol):
    """An act that is tried first."""

    def try_(self, ref: SessionRef) -> Tried:
        """Returns what the act would do. Writes nothing. Raises NotFound, NotAllowed, Invalid, SourceError."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Sets and removes keys. `values` are by full key, ABSENT for one that is to be removed."""

    batch: str
    actor: Actor
    values: Mapping[str, Any] = field(hash=False)
    reason: str = ""
    approved_by: str = ""  # the second person

    def try_(self, ref: SessionRef) -> Tried:
        """Returns whether any key has another value, and the keys' current values."""
        self.actor.check_may("append", ref.source, ref.app_name)
        state = views.session(ref, actor=SYSTEM).state
        entries = self._entries(state)
        if any(is_hidden(e.key, (e.seen, e.value), self.actor, ref.app_name) for e in entries):
            raise NotAllowed(_("You can't see the values of these keys."))
        return Tried(TO_DO, json.dumps(_digests(entries))) if _changes(entries) else Tried(SAME, "")

    def do(self, ref: SessionRef, expects: str, *, first: bool, begin: Begin) -> Done | None:
        """Writes one event, if the keys still have the values that were there when the edit was tried.

        A key that has the new value by now need not be written: sessions share it, and the batch has written it in
        another one."""
        view = views.session(ref, actor=SYSTEM)  # whatever an agent writes after this makes the append stale
        entries = self._entries(view.state)
        expected, current = json.loads(expects), _digests(entries)
        changes = _changes(entries)
        if not changes or any(current[entry.key] != expected[entry.key] for entry in changes):
            return was_done(self.batch, ref) or Done(MOVED if changes else SAME)
        note = _note(self.batch, first, self.approved_by)
        return _append(ref, state_event(entries, self.actor, self.reason, of=note), self.actor, view.revision)

    def _entries(self, state: Scoped) -> list[Entry]:
        return [Entry(key, value, state.get(key)) for key, value in self.values.items()]


@dataclass(frozen=True, slots=True)
class Undo:
    """Undoes the event that an earlier batch wrote, if no one has changed one of its keys since."""

    batch: str
    actor: Actor
    reason: str = ""
    approved_by: str = ""  # the second person

    def do(self, ref: SessionRef, expects: str, *, first: bool, begin: Begin) -> Done | None:
        """Undoes the event `expects`."""
        self.actor.check_sees(ref)
        view = views.session(ref, actor=SYSTEM)  # whatever an agent writes after this makes the append stale
        try:
            event = timeline.event(ref, expects, actor=SYSTEM)
            plan = undo.undo_by_note(event, view.state, actor=self.actor)
            if plan is None:
                plan = undo.undo(ref, expects, actor=self.actor)
        except Invalid:  # its values are there again
            return was_done(self.batch, ref) or Done(SAME)
        if not plan.steps:
            return was_done(self.batch, ref) or Done(SAME)
        if plan.unknown or any(step.contested for step in plan.steps):
            return was_done(self.batch, ref) or Done(MOVED)
        note = {"undoes": expects, **_note(self.batch, first, self.approved_by)}
        return _append(ref, state_event(plan.entries, self.actor, self.reason, of=note), self.actor, view.revision)


@dataclass(frozen=True, slots=True)
class Delete:
    """Deletes sessions."""

    actor: Actor

    def try_(self, ref: SessionRef) -> Tried:
        """Returns the session's revision."""
        self.actor.check_may("admin", ref.source, ref.app_name)
        return Tried(TO_DO, repr(views.session(ref, actor=self.actor, partly=True).revision))

    def do(self, ref: SessionRef, expects: str, *, first: bool, begin: Begin) -> Done | None:
        """Deletes the session, if nothing was written to it since."""
        if repr(views.session(ref, actor=self.actor, partly=True).revision) != expects:
            return Done(MOVED)
        if not queue.is_idle(ref):
            return None
        begin()
        try:
            delete_session(ref, actor=self.actor, revision=float(expects))
        except StaleSession:
            return Done(MOVED)
        return Done(CHANGED)


def event_id_of(batch: str, ref: SessionRef) -> str:
    """Returns the id of the event that a batch writes to a session: always the same, so that it writes only one."""
    return id_of(batch, ref[1:])


def _note(batch: str, first: bool, second: str) -> dict[str, str]:
    return {"batch": batch, **({"for_batch": batch} if first else {}), **({"approved_by": second} if second else {})}


def _append(ref: SessionRef, made: tuple[Event, dict[str, Any]], actor: Actor, revision: float) -> Done | None:
    if not queue.is_idle(ref):
        return None
    event, seen = made
    origin: Origin = "approved" if "approved_by" in edit_of(event) else "person"
    if origin == "person":  # a rule was added since it started: a batch makes no proposals for single sessions
        approval.check(ref.source, ref.app_name, seen, actor=actor)
    event_id = event_id_of(edit_of(event)["batch"], ref)
    event |= {"id": event_id, "invocation_id": EDIT_PREFIX + event_id}
    try:
        append_once(ref, event, actor, seen, revision, origin)
    except StaleSession:  # an agent has started
        return None
    except Conflict as conflict:
        if "changed" not in conflict.detail:
            raise
        return Done(MOVED)
    return Done(CHANGED, event_id)


def was_done(batch: str, ref: SessionRef) -> Done | None:
    """Returns whether a batch has written its event to a session, even if that was not noted: its process may have
    died."""
    try:
        return Done(CHANGED, timeline.event(ref, event_id_of(batch, ref), actor=SYSTEM).id)
    except NotFound:
        return None


def _changes(entries: list[Entry]) -> list[Entry]:
    return [entry for entry in entries if not same(entry.value, entry.seen)]


def _digests(entries: list[Entry]) -> dict[str, str]:
    """Returns a digest of each key's value: values may be large."""
    return {entry.key: _digest([] if entry.seen is ABSENT else [entry.seen]) for entry in entries}


def _digest(values: list[Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:32]
