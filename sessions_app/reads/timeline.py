"""Reads a session's events, by page."""

import time
from collections.abc import Collection
from itertools import takewhile
from typing import Final

from django.conf import settings
from django.db.models import Q
from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..domain.edit_note import ended_by
from ..domain.errors import Invalid, NotFound
from ..domain.invocations import Running, running
from ..domain.json_values import KEY_LENGTH, check_name
from ..domain.positions import NO_SEQ, Seq, SeqRange
from ..domain.session_ref import SessionRef
from ..sources import database
from .deltas import add_changes
from .event_views import EventView, after_cursor, before_cursor, events_of, filtered, ordered, view_of, views
from .lists import GLANCE
from .paging import Page

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

    `kind` is one of FILTERS. With `between`, there are no others than those of a range."""
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
            raise NotFound(_("There is no event %(id)s in this session; it may have been deleted.") % {"id": event_id})
        view = view_of(ref, row, actor)
        add_changes(ref, [view], actor)
        return view


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
    """Returns the seqs and the times of some events, by id. Those that are gone are left out, however strange their ids."""
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
    """Tells whether more than `number` events follow a seq."""
    actor.check_sees(ref)
    with database.using(ref.source):
        return bool(events_of(ref).filter(seq__gt=seq).order_by("seq").values_list("seq")[number : number + 1])


def in_flight(ref: SessionRef, *, actor: Actor) -> Running | None:
    """Returns the invocation that has begun and not ended, judging by the newest events and SILENCE_SECONDS; None if
    there is none."""
    return standing(ref, actor=actor)[0]


def standing(ref: SessionRef, *, actor: Actor) -> tuple[Running | None, EventView | None]:
    """Returns the invocation in flight and, if the newest invocation was ended by an edit, that edit."""
    actor.check_sees(ref)
    with database.using(ref.source):
        newest, _more = views(ordered(events_of(ref), ref.source), ref.source, actor, IN_FLIGHT, GLANCE, ref)
        run = running([view.data for view in reversed(newest)], time.time(), settings.SILENCE_SECONDS)
    edits = takewhile(lambda view: view.description.edit, newest)
    return run, None if run else next((view for view in edits if ended_by(view.description.edit)), None)


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
