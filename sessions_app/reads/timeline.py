"""Reads a session's events, by page."""

import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final, NamedTuple

from django.db.models import Q, TextField
from django.db.models.expressions import RawSQL
from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..access.shown import shown
from ..domain import pending
from ..domain.edit_note import ended_by
from ..domain.errors import Invalid, NotFound
from ..domain.invocations import Running, begins_turn, running_of
from ..domain.json_values import KEY_LENGTH, check_name
from ..domain.positions import NO_SEQ, Seq, SeqRange
from ..domain.session_ref import SessionRef
from ..sources import agents, database
from ..sources.dialect import Either, if_json
from . import at_work
from .at_work import AtWork
from .deltas import add_changes
from .event_views import EventView, after_cursor, before_cursor, events_of, filtered, measured, ordered, view_of, views
from .lists import GLANCE
from .paging import Page
from .size_limits import LARGE, size_of_event

EVENTS: Final = 100  # events of a timeline page
IN_FLIGHT: Final = 100  # events that are searched for the invocation in flight


# --- Events -----------------------------------------------------------------------------------------------------------


def events(
    ref: SessionRef,
    *,
    actor: Actor,
    before: str | None = None,
    kind: str = "",
    author: str = "",
    between: SeqRange | None = None,
    limit: int = EVENTS,
) -> Page[EventView]:
    """Returns a page of the timeline in append order: the newest events, or those before a cursor. `next` leads to
    earlier ones.

    `kind` is one of FILTERS. With `between`, only those of a range."""
    actor.check_sees(ref)
    with database.using(ref.source):
        query = filtered(events_of(ref), ref, kind, author, between)
        if before:
            query = query.filter(before_cursor(before))
        rows, more = views(ordered(query, ref.source), ref.source, actor, limit, ref=ref)
        page = rows[::-1]
        add_changes(ref, page, actor)
        return Page(page, page[0].cursor if more else None)


def event(ref: SessionRef, event_id: str, *, actor: Actor) -> EventView:
    """Returns an event. Raises NotFound."""
    with database.using(ref.source):
        row = events_of(ref).filter(id=event_id).first() if actor.may_see(ref.source, ref.app_name) else None
        if row is None:
            raise NotFound(_("There's no event “%(id)s” in this session. It may have been deleted.") % {"id": event_id})
        view = view_of(ref, row, actor)
        add_changes(ref, [view], actor)
        return view


def events_at(ref: SessionRef, seqs: Collection[Seq], *, actor: Actor) -> list[EventView]:
    """Returns those of a session's events that have one of a few seqs, in append order."""
    actor.check_sees(ref)
    with database.using(ref.source):
        query = ordered(events_of(ref).filter(seq__in=seqs), ref.source, newest=False)
        page, _more = views(query, ref.source, actor, EVENTS, ref=ref) if seqs else ([], False)
        if page:
            add_changes(ref, page, actor)
        return page


def events_after(
    ref: SessionRef,
    seq: Seq | str,
    *,
    actor: Actor,
    kind: str = "",
    author: str = "",
    between: SeqRange | None = None,
    limit: int = EVENTS,
) -> Page[EventView]:
    """Returns at most `limit` events after a seq or a cursor, in append order: what a reader has missed since."""
    actor.check_sees(ref)
    with database.using(ref.source):
        after = Q(seq__gt=seq) if isinstance(seq, int) else after_cursor(seq)
        query = filtered(events_of(ref).filter(after), ref, kind, author, between)
        page, more = views(ordered(query, ref.source, newest=False), ref.source, actor, limit, ref=ref)
        if page:
            add_changes(ref, page, actor)
        return Page(page, page[-1].cursor if more else None)


def ends_of(ref: SessionRef, event_ids: Collection[str], *, actor: Actor) -> dict[str, tuple[Seq, float]]:
    """Returns the seqs and the times of some events, by id. Missing ones are left out, however strange their ids."""
    actor.check_sees(ref)
    ids = [event_id for event_id in event_ids if _is_storable(event_id)]
    with database.using(ref.source):
        rows = events_of(ref).filter(id__in=ids).values_list("id", "seq", "timestamp")
        return {event_id: (seq, at) for event_id, seq, at in rows if seq is not None}


def _is_storable(event_id: str) -> bool:
    try:
        return bool(check_name(event_id, "", KEY_LENGTH))
    except Invalid:
        return False


def newest_seq(ref: SessionRef, *, actor: Actor) -> Seq:
    """Returns the seq of a session's newest event; 0 if there is none."""
    actor.check_sees(ref)
    with database.using(ref.source):
        return events_of(ref).order_by("-seq").values_list("seq", flat=True).first() or NO_SEQ


def misses_more_than(ref: SessionRef, seq: Seq, number: int, *, actor: Actor) -> bool:
    """Returns whether more than `number` events follow a seq."""
    actor.check_sees(ref)
    with database.using(ref.source):
        return bool(events_of(ref).filter(seq__gt=seq).order_by("seq").values_list("seq")[number : number + 1])


def in_flight(ref: SessionRef, *, actor: Actor) -> Running | None:
    """Returns the invocation that has started and not ended, as far as it is known, or else judging by the newest events and
    SILENCE_SECONDS; None if there is none."""
    return status_of(ref, actor=actor).running


def in_danger(ref: SessionRef, *, actor: Actor) -> Running | None:
    """Returns the invocation that a write from outside would end now. None if none runs, if it waits for a person, or if
    adkweb has started the agent: that one takes in what others write (running/launcher.py)."""
    status = status_of(ref, actor=actor)
    if status.running is None or status.running.waiting:
        return None
    is_own = status.at_work is not None and status.at_work.is_own
    return None if is_own and agents.address_of(ref.source, ref.app_name) is None else status.running


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """The status of a session, by what is known of its agent, and its newest events. Its `name` is the one that the list of
    sessions shows; "none" of one without turns.

    `running` is the invocation in flight, `cut` the edit that ended the newest invocation, and `failed` the last error of a
    turn that failed. `last` is when it was last active; None if only edits were read. `at_work` is what the agent does, if
    that is known; `unfinished` is the last event of a run that can be continued."""

    name: str
    running: Running | None
    cut: EventView | None
    failed: EventView | None
    last: float | None
    at_work: AtWork | None = None
    unfinished: EventView | None = None


def status_of(ref: SessionRef, *, actor: Actor) -> SessionStatus:
    """Returns the status of a session."""
    actor.check_sees(ref)
    with database.using(ref.source):
        newest, more = views(ordered(events_of(ref), ref.source), ref.source, actor, IN_FLIGHT, GLANCE, ref)
    events = [(view.data, view.description) for view in reversed(newest)]
    known = at_work.of(ref, actor=actor)
    run = known.running(events)
    silent = None if run else running_of(events, time.time(), math.inf)
    no_turns = not more and not any(begins_turn(view.description) for view in newest)
    edits = takewhile(lambda view: view.description.edit, newest)
    cut = None if run else next((view for view in edits if ended_by(view.description.edit)), None)
    failed = _failure(newest)
    last = next((view for view in newest if not view.description.edit), None)
    if run or silent:
        name = "stuck" if silent else "waiting" if run and run.waiting else "running"
    else:
        stopped = last and "stopped" in last.description.kinds
        name = "failed" if failed else "none" if no_turns else "stopped" if stopped else "idle"
    ended = None if run else pending.unfinished(events, silent)
    unfinished = next((view for view in newest if ended and view.data is ended[0]), None)
    return SessionStatus(name, run, cut, failed, last.timestamp if last else None, known.at_work, unfinished)


def _failure(newest: Sequence[EventView]) -> EventView | None:
    """Returns the last error of the last turn, from a session's newest events, the newest first."""
    for view in newest:
        description = view.description
        if description.failed and not description.edit:
            return view
        if begins_turn(description):
            return None
    return None


def around(view: EventView, reach: int = 200, *, actor: Actor) -> tuple[list[EventView], list[EventView]]:
    """Returns the events before and after one, nearest first, at most `reach` each: for its neighbours and its paired
    calls."""
    actor.check_sees(view.ref)
    with database.using(view.ref.source):
        query = events_of(view.ref)
        earlier = ordered(query.filter(before_cursor(view.cursor)), view.ref.source)
        later = ordered(query.filter(after_cursor(view.cursor)), view.ref.source, newest=False)
        return (
            views(earlier, view.ref.source, actor, reach, GLANCE, view.ref)[0],
            views(later, view.ref.source, actor, reach, GLANCE, view.ref)[0],
        )


_LONGEST: Final = 50_000  # bytes of an event that are searched for its author
_NAME: Final = 300  # characters of an author that are read
_AUTHOR: Final = Either(
    postgresql=f"left(event_data ->> 'author', {_NAME})",
    sqlite=if_json("event_data", f"substr(json_extract(event_data, '$.author'), 1, {_NAME})"),
)


# --- When some events were, and who wrote them, without the rest of them ----------------------------------------------


class Glimpse(NamedTuple):
    """When an event was, in seconds, and its author; empty if the event is long."""

    at: float
    author: str


def glimpses(ref: SessionRef, seqs: Collection[Seq], actor: Actor) -> dict[Seq, Glimpse]:
    """Returns glimpses of the events with these seqs, by seq. Expects the source to be open."""
    sql = f"CASE WHEN {size_of_event(ref.source)} <= {_LONGEST} THEN {_AUTHOR.on(ref.source)} END"
    author = RawSQL(sql, [], TextField())
    rows = events_of(ref).filter(seq__in=seqs).annotate(author=author).values_list("seq", "timestamp", "author")
    return {
        seq: Glimpse(at, str(shown({"author": name or ""}, actor, ref.app_name, "event")["author"]))
        for seq, at, name in rows
    }


def tools_of(ref: SessionRef, seqs: Collection[Seq], *, actor: Actor) -> dict[Seq, list[str]]:
    """Returns the names of the tools whose answers are in the events with these seqs, by seq, as far as all of them weigh
    less than a page may."""
    actor.check_sees(ref)
    with database.using(ref.source):
        events = measured(events_of(ref)).filter(seq__in=seqs)
        some, _more = views(events, ref.source, actor, len(seqs), ref=ref)
    return {
        view.seq: [
            *dict.fromkeys(part.name for part in view.description.parts if part.kind == "response" and part.name)
        ]
        for view in some
        if view.seq is not None
    }


# --- The events of one turn -------------------------------------------------------------------------------------------

MOST: Final = 500  # events of a turn
_AT_ONCE: Final = 50


@dataclass(slots=True)
class Turn:
    """The events of a turn, in append order. With `cut`, the turn has more than were read."""

    events: list[EventView] = field(default_factory=list)
    cut: bool = False


def turn_at(ref: SessionRef, event_id: str = "", *, actor: Actor) -> Turn:
    """Returns the turn with an event, or the newest one. Reads at most MOST events of it. Raises NotFound."""
    actor.check_sees(ref)
    with database.using(ref.source):
        rows = events_of(ref)
        row = (rows.filter(id=event_id) if event_id else ordered(rows, ref.source)).first()
        if row is None and event_id:
            raise NotFound(_("There's no event “%(id)s” in this session. It may have been deleted.") % {"id": event_id})
        turn = _around(view_of(ref, row, actor), actor) if row else Turn()
        add_changes(ref, turn.events, actor)
        return turn


def _around(view: EventView, actor: Actor) -> Turn:
    turn, events = Turn(), [view]
    if not begins_turn(view.description):
        for each in _beside(view, actor, before_cursor, newest=True):
            if len(events) == MOST or _weight(events, each) > LARGE:
                turn.cut = True
                break
            events.append(each)
            if begins_turn(each.description):
                break
    turn.events = events[::-1]
    for each in _beside(view, actor, after_cursor, newest=False):
        if begins_turn(each.description):
            break
        if len(turn.events) == MOST or _weight(turn.events, each) > LARGE:
            turn.cut = True
            break
        turn.events.append(each)
    return turn


def _weight(events: list[EventView], more: EventView) -> int:
    return sum(each.weight for each in events) + more.weight


_Cursor = Callable[[str], Q]


def _beside(view: EventView, actor: Actor, beside: _Cursor, *, newest: bool) -> Iterator[EventView]:
    """Yields the events before or after one, the nearest first. Reads a few at once."""
    source, cursor, number = view.ref.source, view.cursor, 1  # often, the nearest one is enough
    while cursor:
        query = ordered(events_of(view.ref).filter(beside(cursor)), source, newest=newest)
        rows, more = views(query, source, actor, number, LARGE, view.ref)
        yield from rows
        cursor, number = rows[-1].cursor if more else "", _AT_ONCE
