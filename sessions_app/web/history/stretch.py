"""How the state changes along the events around one: what a page holds to step from event to event by itself."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from ...domain.errors import Behind, Invalid
from ...domain.positions import Seq
from ...domain.session_ref import SessionRef
from ...domain.state import ABSENT, STORED, TEMP, UNKNOWN, Change, Scoped, same, scope_of
from ...history import moments
from ...history.moments import Moment
from ...history.overview import ERROR, STATE
from ...history.steps import Held, changes_along, kinds_along
from ...reads import timeline
from ...reads.event_views import EventView
from ...reads.paging import write_cursor
from ...search import outline
from ...sources import database
from ..html.render import page
from ..html.state_panel import ROWS, Row, others_called, session_of, turn_of, written_last
from ..request import actor

_AROUND: Final = 40  # events before the one that is asked for, and after it


@dataclass(frozen=True, slots=True)
class _Step:
    """Holds what a template shows of an event. `asks`: the state there cannot be made of rows alone, so it is asked for."""

    event: EventView
    rows: list[Row]
    count: int
    changed: int
    differing: int
    asks: bool
    writes: bool
    failed: bool


@require_GET
def stretch(request: HttpRequest, **names: str) -> HttpResponse:
    """Returns what history/moment/_panel.html would show after each of the events around ?at=, as what differs from the
    event before. It is empty where that cannot be told so."""
    ref, who = SessionRef(**names), actor(request)
    event = timeline.event(ref, request.GET.get("at", ""), actor=who)
    context: dict[str, Any] = {
        "ref": ref,
        "ordered": True,
        **{name: request.GET.get(name, "") for name in ("kind", "author")},
    }
    if event.seq is not None and database.is_numbered(ref.source):
        before = timeline.events(ref, before=write_cursor(event.seq + 1), limit=_AROUND + 1, actor=who)
        after = timeline.events_after(ref, event.seq, limit=_AROUND, actor=who)
        context |= {"begins": not before.next, "ends": not after.next}
        with suppress(Behind, Invalid):
            context |= _steps(ref, before.rows + after.rows, request)
    return page(request, "history/moment/_stretch.html", context)


def _steps(ref: SessionRef, events: Sequence[EventView], request: HttpRequest) -> dict[str, Any]:
    who = actor(request)
    changes = changes_along(ref, events, actor=who)
    if changes is None:
        return {}
    writers = [held.writer for each in changes for held in each.values() if held.writer]
    also, called = written_last(ref, writers), others_called(ref, writers, who)
    known = outline.outline(ref, [event.seq for event in events if event.seq is not None], actor=who, also=also)
    turns = known.turn_numbers(also)
    start = moments.state_at(ref, events[0].id, actor=who)
    rows = [
        _rows(each, moments.made(event, actor=who) if number else {}, start.now, turns, called)
        for number, (event, each) in enumerate(zip(events, changes, strict=True))
    ]
    sizes = _sizes({scope: len(start.state.scope(scope)) for scope in STORED}, changes)
    drawn = _sizes(
        {scope: len(start.state.scope(scope).keys() | start.now.scope(scope).keys()) for scope in STORED},
        [{name: held for name, held in each.items() if start.now.get(name) is ABSENT} for each in changes],
    )
    asks = _asks(events, changes, rows, sizes, drawn)
    kinds = kinds_along(ref, events, actor=who)
    steps = [
        _Step(event, shown, sum(size.values()), _changed(shown), differ, ask, STATE in kind, ERROR in kind)
        for event, shown, size, differ, ask, kind in zip(
            events, rows, sizes, _differing(start, rows), asks, kinds, strict=True
        )
    ]
    return {"steps": steps, "numbers": known.numbers, "total": known.events}


def _rows(
    changes: Mapping[str, Held],
    made: Mapping[str, Any],
    now: Scoped,
    turns: Mapping[Seq, int],
    called: Mapping[SessionRef, str],
) -> list[Row]:
    """Returns the rows of what was written since the event before; what this event itself `made` is marked."""
    return [
        Row(
            *(name, held.value, held.writer, held.initial),
            Change(name, held.before, made.get(name, UNKNOWN)) if held.own else None,
            turn=turn_of(held.writer, turns),
            session=session_of(held.writer, called),
            now=now.get(name),
        )
        for name, held in sorted(changes.items())
    ]


def _changed(rows: Sequence[Row]) -> int:
    changes = [row.change for row in rows if row.change]
    return sum(change.new is UNKNOWN or not same(change.old, change.new) for change in changes)


def _differing(start: Moment, rows: Sequence[Sequence[Row]]) -> list[int]:
    """Returns how many keys differ from now after each event."""
    names, numbers = moments.differing(start), []
    for each in rows:
        names -= {row.key for row in each}
        names |= {row.key for row in each if row.differs}
        numbers.append(len(names))
    return numbers


def _sizes(start: dict[str, int], changes: Sequence[Mapping[str, Held]]) -> list[dict[str, int]]:
    """Returns how many of these keys each scope has after each event."""
    sizes, there = [start], {name: held.value is not ABSENT for name, held in changes[0].items()}
    for each in changes[1:]:
        size = dict(sizes[-1])
        for name, held in each.items():
            size[scope_of(name)[0]] += (held.value is not ABSENT) - there[name]
            there[name] = held.value is not ABSENT
        sizes.append(size)
    return sizes


def _asks(
    events: Sequence[EventView],
    changes: Sequence[Mapping[str, Held]],
    rows: Sequence[Sequence[Row]],
    sizes: Sequence[Mapping[str, int]],
    drawn: Sequence[Mapping[str, int]],
) -> list[bool]:
    """Returns for each event whether its panel has more than rows that come, go or differ: keys that are unknown, or not
    stored; a scope that is empty, or has more keys than are shown: with those that were set later, so many are `drawn`."""
    moving = {scope_of(name)[0] for name in changes[0]}
    unknown: set[str] = set()
    asks = []
    for event, each, shown, size, most in zip(events, changes, rows, sizes, drawn, strict=True):
        unknown -= each.keys()
        unknown |= {name for name, held in each.items() if held.value is UNKNOWN}
        temporary = any(name.startswith(TEMP) for name in event.description.delta)
        gone = sum(row.value is ABSENT and not row.later for row in shown)
        fits = all(size[scope] and most[scope] + gone <= ROWS for scope in moving)
        asks.append(bool(unknown) or temporary or not fits)
    return asks
