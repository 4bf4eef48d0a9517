"""Reads the events of one turn: from a user message to the next one."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from django.db.models import Q
from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..domain.errors import NotFound
from ..domain.session_ref import SessionRef
from ..domain.turns import begins_turn
from ..sources import database
from .deltas import add_changes
from .event_views import EventView, after_cursor, before_cursor, events_of, ordered, view_of, views
from .weights import LARGE

MOST: Final = 500  # events of a turn
_AT_ONCE: Final = 50


@dataclass(slots=True)
class Turn:
    """The events of a turn, in append order. `cut` tells that the turn has more of them than are read."""

    events: list[EventView] = field(default_factory=list)
    cut: bool = False


def turn_at(ref: SessionRef, event_id: str = "", *, actor: Actor) -> Turn:
    """Returns the turn with an event, or the newest one. Reads at most MOST events of it. Raises NotFound."""
    actor.check_sees(ref)
    with database.using(ref.source):
        rows = events_of(ref)
        row = (rows.filter(id=event_id) if event_id else ordered(rows, ref.source)).first()
        if row is None and event_id:
            raise NotFound(_("There is no event %(id)s in this session; it may have been deleted.") % {"id": event_id})
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
