"""Writes into a session right before a message goes to its agent: state that is set, or a rewind to before an earlier
message, which the new one replaces. Each is an edit: it needs an editor, and is checked as every other one.

    say(ref, "Book the first one", first=First(instead_of="e4"), actor=actor)
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from django.utils.translation import gettext as _

from ..access import approval
from ..access.actor import SYSTEM, Actor
from ..domain.errors import Invalid
from ..domain.invocations import begins_turn
from ..domain.session_ref import SessionRef
from ..domain.state import same
from ..edits import edit, rewind
from ..edits.edit import Entry
from ..edits.proposals import Prepared
from ..models import Job
from ..reads import timeline
from ..reads.event_views import EventView
from ..writes.append import check_append

Write = Callable[[str], object]  # writes what comes first, at most once for the id of a run


@dataclass(frozen=True, slots=True)
class First:
    """The keys to set, as an edit has them, and why; or the event with the message that is replaced; and the revision that
    the session had when someone looked at it, None if that doesn't matter. A key whose `seen` is UNKNOWN is overwritten,
    every other one must still have the value that was seen."""

    entries: Sequence[Entry] = ()
    reason: str = ""
    instead_of: str = ""
    revision: float | None = None

    @property
    def changes(self) -> list[Entry]:
        """Returns the keys that someone changed: a hidden value that was left alone stays as it is."""
        return [each for each in self.entries if not same(each.value, each.seen)]

    @property
    def writes(self) -> bool:
        """Returns whether there is anything to write."""
        return bool(self.changes or self.instead_of)

    def check(self, ref: SessionRef, *, actor: Actor) -> list[str]:
        """Returns those of its keys that need a second person. Raises NotAllowed for who isn't an editor, Invalid for a
        mistake."""
        if not self.writes:
            return []
        actor.check_may("append", ref.source, ref.app_name)
        if self.changes and self.instead_of:
            raise Invalid(_("Set state, or replace a message, but not both at once."))
        keys = [each.key for each in self.changes]
        if self.instead_of:
            keys = [each.key for each in replaced(ref, self.instead_of, actor=actor).plan.changes]
        return [] if actor is SYSTEM else approval.held_keys(ref.source, ref.app_name, keys)

    def prepared(self, ref: SessionRef, *, actor: Actor) -> Prepared:
        """Returns the edit that it writes, for a proposal. Raises what an edit and a rewind raise."""
        if self.instead_of:
            before = timeline.event(ref, self.instead_of, actor=actor).invocation_id
            prepared = rewind.prepared(ref, before, actor=actor, reason=self.reason, revision=self.revision)
        else:
            prepared = edit.prepared_state(ref, self.changes, actor=actor, reason=self.reason, revision=self.revision)
        check_append(ref, prepared.event, actor=actor, origin="approved")
        return prepared

    def writer(self, ref: SessionRef, *, actor: Actor) -> Write | None:
        """Returns what writes it; None if there's nothing to write."""
        return (lambda once: self.write(ref, once, actor=actor)) if self.writes else None

    def write(self, ref: SessionRef, once: str, *, actor: Actor) -> None:
        """Writes it. Raises what an edit and a rewind raise."""
        if self.instead_of:
            before = timeline.event(ref, self.instead_of, actor=actor).invocation_id
            rewind.rewind(ref, before, actor=actor, reason=self.reason, revision=self.revision, once=once)
        elif self.changes:
            edit.overwrite_state(ref, self.changes, actor=actor, reason=self.reason, once=once, revision=self.revision)


NOTHING: Final = First()


@dataclass(frozen=True, slots=True)
class Replaced:
    """An earlier message of the user with its files, and the rewind to before it."""

    text: str
    files: int
    plan: rewind.Plan


def replaced(ref: SessionRef, event_id: str, *, actor: Actor) -> Replaced:
    """Returns what happens when another message takes the place of an earlier one. Raises Invalid for an event that isn't a
    message with which a turn began, and what `rewind.plan` raises."""
    event = timeline.event(ref, event_id, actor=actor)
    plan = rewind.plan(ref, event.invocation_id, actor=actor) if event.invocation_id else None
    if plan is None or plan.first.id != event.id or not begins_turn(event.description):
        raise Invalid(_("Only a message of the user with which a turn began can be edited and sent again."))
    text = "".join(part.value for part in event.description.parts if part.kind == "text")
    return Replaced(text, len(event.description.media), plan)


def rewound(ref: SessionRef, run: Job, *, actor: Actor) -> EventView | None:
    """Returns the rewind that was written before a run, if nothing came after it."""
    proposed = json.loads(run.task).get("written", "")
    for event in timeline.events(ref, limit=1, actor=actor).rows:
        before = event.description.actions.get("rewind_before_invocation_id")
        if before and event.id in (proposed, edit.id_of(run.pk.hex, ["rewind", before])):
            return event
    return None
