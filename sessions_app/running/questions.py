"""Reads what a session's agent asks right now, from its events alone: the index may be a moment behind."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from ..access.actor import SYSTEM, Actor
from ..domain.answers import Field, fields, fields_seen
from ..domain.description import AUTH_CALL, Part
from ..domain.errors import Conflict
from ..domain.masks import has_dots
from ..domain.pending import Pending, asked, pending, rewinds
from ..domain.session_ref import SessionRef
from ..reads import timeline
from ..reads.event_views import EventView, events_of
from ..sources import database


@dataclass(frozen=True, slots=True)
class Question:
    """A call that waits for an answer, with the call itself."""

    of: Pending
    call: Part


def form_of(ref: SessionRef, event_id: str, call: Part, *, actor: Actor) -> list[Field] | None:
    """Returns the form of the answer to an input request, `call` as the actor sees it: what is hidden there starts with
    dots. Returns None if there can be no form."""
    actor.check_sees(ref)
    seen = asked(call).schema
    if not has_dots(seen):
        return fields(seen)
    stored = {each.id: each for each in timeline.event(ref, event_id, actor=SYSTEM).description.calls}
    return fields_seen(asked(stored[call.id]).schema, seen) if call.id in stored else None


def asked_by(ref: SessionRef, event_id: str, *, actor: Actor) -> list[Question]:
    """Returns the questions of an event that wait for an answer, in its order. Raises NotFound for a missing event."""
    asking = timeline.event(ref, event_id, actor=actor)
    later = list(_after(ref, asking, actor))
    known = {str(view.data.get("invocation_id")) for view in (asking, *later)}
    if any(_began_before(ref, rewinds(view.description), known) for view in later):
        return []
    calls = {part.id: part for part in asking.description.calls}
    signs_in = any(call.name == AUTH_CALL for call in calls.values())  # which names its tool by an earlier call
    earlier = timeline.events(ref, before=asking.cursor, actor=actor).rows if signs_in else ()
    waiting = pending([view.data for view in (*earlier, asking, *later)])
    return [Question(each, calls[each.call_id]) for each in waiting if each.event_id == asking.id]


def _after(ref: SessionRef, asking: EventView, actor: Actor) -> Iterator[EventView]:
    cursor: str | None = asking.cursor
    while cursor:
        page = timeline.events_after(ref, cursor, actor=actor)
        yield from page.rows
        cursor = page.next


def _began_before(ref: SessionRef, invocation: str, known: set[str]) -> bool:
    """Returns whether a rewind undoes an invocation that is not among the known ones, and so began before them."""
    if not invocation or invocation in known:
        return False
    with database.using(ref.source):
        return events_of(ref).filter(invocation_id=invocation).exists()


def check_waits(ref: SessionRef, calls: Sequence[Sequence[str]], *, actor: Actor) -> None:
    """Raises Conflict unless each of some calls, given by its event and its id, waits for an answer."""
    for event_id in {event for event, _call in calls}:
        waiting = {each.of.call_id for each in asked_by(ref, event_id, actor=actor)}
        if not waiting.issuperset(call for event, call in calls if event == event_id):
            raise Conflict(_("This doesn't wait for an answer any longer. Nothing was sent."))
