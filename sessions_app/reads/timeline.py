"""A session's events, by page."""

import time
from typing import Final

from django.conf import settings
from django.db.models import Q
from django.utils.translation import gettext as _

from ..domain.invocations import Running, running
from ..domain.session_ref import SessionKey
from ..errors import NotFound
from ..sources import database
from .deltas import add_changes
from .event_views import EventView, after_cursor, before_cursor, events_of, filtered, ordered, view_of, views
from .lists import GLANCE
from .paging import Page

EVENTS: Final = 100  # events of a timeline page
IN_FLIGHT: Final = 100  # events looked through for the invocation in flight


# --- Events -----------------------------------------------------------------------------------------------------------


def events(
    key: SessionKey, *, before: str | None = None, kind: str = "", author: str = "", limit: int = EVENTS
) -> Page[EventView]:
    """A page of the timeline in append order, the newest or those before a cursor; `next` leads to earlier ones.

    `kind` is one of FILTERS.
    """
    with database.using(key.source):
        found = filtered(events_of(key), key, kind, author)
        if before:
            found = found.filter(before_cursor(key.source, before))
        rows, more = views(ordered(found, key.source), key.source, limit, key=key)
        page = rows[::-1]
        add_changes(key, page)
        return Page(page, page[0].cursor if more else None)


def event(key: SessionKey, event_id: str) -> EventView:
    """One event; raises NotFound."""
    with database.using(key.source):
        row = events_of(key).filter(id=event_id).first()
        if row is None:
            raise NotFound(_("There is no event %(id)s in this session; it may have been deleted.") % {"id": event_id})
        view = view_of(key, row)
        add_changes(key, [view])
        return view


def events_after(
    key: SessionKey, seq: int | str, *, kind: str = "", author: str = "", limit: int = EVENTS
) -> Page[EventView]:
    """The events after a place, or a cursor, at most `limit`, in append order: what somebody who was there has missed."""
    with database.using(key.source):
        after = Q(seq__gt=seq) if isinstance(seq, int) else after_cursor(key.source, seq)
        found = filtered(events_of(key).filter(after), key, kind, author)
        page, more = views(ordered(found, key.source, newest=False), key.source, limit, key=key)
        if page:
            add_changes(key, page)
        return Page(page, page[-1].cursor if more else None)


def newest_seq(key: SessionKey) -> int:
    """The place of a session's newest event; 0 where there is none."""
    with database.using(key.source):
        return events_of(key).order_by("-seq").values_list("seq", flat=True).first() or 0


def misses_more_than(key: SessionKey, seq: int, number: int) -> bool:
    """Whether more than `number` events follow a place."""
    with database.using(key.source):
        return bool(events_of(key).filter(seq__gt=seq).order_by("seq").values_list("seq")[number : number + 1])


def in_flight(key: SessionKey) -> Running | None:
    """The invocation that has begun and not ended, by the newest events and the silence that the settings define."""
    with database.using(key.source):
        newest, _more = views(ordered(events_of(key), key.source), key.source, IN_FLIGHT, GLANCE, key)
        return running([view.data for view in reversed(newest)], time.time(), settings.SILENCE_SECONDS)


def around(view: EventView, reach: int = 200) -> tuple[list[EventView], list[EventView]]:
    """The events before and after one, nearest first, at most `reach` each: for its neighbours and its paired calls."""
    with database.using(view.key.source):
        found = events_of(view.key)
        earlier = ordered(found.filter(before_cursor(view.key.source, view.cursor)), view.key.source)
        later = ordered(found.filter(after_cursor(view.key.source, view.cursor)), view.key.source, newest=False)
        return (
            views(earlier, view.key.source, reach, GLANCE, view.key)[0],
            views(later, view.key.source, reach, GLANCE, view.key)[0],
        )
