"""Shows which events of a session an agent's model gets, and why it doesn't get the others.

Rewinds and summaries that lie far from the events on a page come from the index of history/. A page of a long session
therefore costs as much as a page of a short one. A call and its response are put beside each other if they are at most
REACH events apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from django.db.models import Q, QuerySet

from ..access.actor import Actor
from ..domain.content import object_of
from ..domain.description import Part
from ..domain.edit_note import SYSTEM
from ..domain.invocations import begins_turn
from ..domain.kinds import describe
from ..domain.positions import NO_SEQ, Seq
from ..domain.session_ref import SessionRef
from ..history.index import build
from ..models import Event
from ..reads.event_views import EventView, after_cursor, before_cursor, events_of, ordered, view_of, views
from ..sources import database
from . import causes
from .content import Content
from .contents import Contents, contents, in_order, task
from .exclusion import Kind, Reader, Reason
from .sizes import Sizes, sizes_of
from .summaries import covering, retained, timestamp_of

PAGE: Final = 100  # events of a conversation shown at once
REACH: Final = 1_000  # events that are read before and after those on the page
_RECENT: Final = 200  # events that are searched for the agents that speak
TIMELINE_SECONDS: Final = 0.2  # how long a timeline waits to learn which events to grey out


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The reason an event is not given to the model. `by` and `seq` are the id and seq of the event that caused it, if
    one did."""

    kind: Kind
    by: str = ""
    seq: Seq | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One content of the request with its parts, made from `events`; or an event that is left out, with the reason."""

    event: EventView
    content: Content | None = None
    parts: list[Part] = field(default_factory=list)
    events: list[EventView] = field(default_factory=list)
    left_out: LeftOut | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """A page of what an agent's model got, in its order; `earlier` is the cursor of the page before.

    `agents` and `branches` are those of the newest events. `task` is what an agent in an isolation scope gets first.
    Only the newest page knows how everything is `sized`.
    """

    reader: Reader
    lines: list[Line]
    earlier: str | None
    agents: list[str]
    branches: list[str]
    task: str | None = None
    sized: "Sized | None" = None


@dataclass(frozen=True, slots=True)
class Sized:
    """The size of what an agent's model got, as far as it was read: only the newest part if `partly`.

    `turns` has the event with which each turn starts, and its characters; None for what comes before the first.
    `unread` events are too large to be read whole, and counted only in part.
    """

    sizes: Sizes
    turns: list[tuple[EventView | None, int]]
    partly: bool
    unread: int


# --- A timeline -------------------------------------------------------------------------------------------------------


def left_out(ref: SessionRef, views: Sequence[EventView], *, actor: Actor) -> dict[str, LeftOut]:
    """Returns, by id, the events that no agent gets any longer: a rewind undid them, or a summary covers them.

    Returns nothing if events have no order. Raises Behind, soon, if the source is not read yet."""
    actor.check_sees(ref)
    seqs = [view.seq for view in views if view.seq is not None]
    if not seqs or not database.has_order(ref.source):
        return {}
    build.catch_up(ref.source, TIMELINE_SECONDS, ref)
    stretches = causes.rewinds(ref, min(seqs))
    summaries = causes.summaries(ref, stretches, [timestamp_of(view.data) for view in views])
    kinds: dict[str, tuple[Kind, Seq]] = {}
    for view, seq in zip(views, seqs, strict=True):
        by = causes.taken_by(stretches, seq)
        if by is not None:
            kinds[view.id] = ("rewind" if by == seq else "rewound", by)
        elif not view.description.actions.get("compaction"):
            mine = [each.range for each in summaries if each.is_for(view.data)]
            covered = covering(retained(mine), timestamp_of(view.data))
            if covered is not None:
                kinds[view.id] = ("compacted", Seq(covered))
    ids = causes.ids_of(ref, {by for _kind, by in kinds.values()})
    return {name: LeftOut(kind, ids.get(by, ""), by) for name, (kind, by) in kinds.items() if kind != "rewind"}


# --- The conversation -------------------------------------------------------------------------------------------------


def conversation(
    ref: SessionRef,
    at: EventView | None = None,
    agent: str = "",
    branch: str | None = None,
    before: str | None = None,
    *,
    actor: Actor,
    given: bool = False,
) -> Conversation:
    """Returns a page of what an agent's model got: the newest, or the one before a cursor.

    With `at`, only the events up to and including this one count; if `given`, only those before it, which is what the
    model that wrote it got. Without an agent, the reader is the one that spoke last, or that wrote `at`. It reads with
    the branch, isolation scope and node path of that event; `branch` replaces the first of these. Raises Behind,
    Invalid."""
    actor.check_sees(ref)
    has_order = database.has_order(ref.source)
    if has_order:
        build.catch_up(ref.source, ref=ref)
    with database.using(ref.source):
        upto = events_upto(ref, at, without=given)
        recent = views(ordered(upto, ref.source), ref.source, actor, _RECENT, ref=ref)[0]
        reader = _reader([at, *recent] if at and given else recent, agent, branch)
        window, (start, end), (earlier, rest) = _window(ref, upto, before, actor)
    more: list[EventView] = []
    rewound = None
    if has_order and window:
        last_seq = None if at is None or at.seq is None else Seq(at.seq - 1 if given else at.seq)
        more, rewound = _from_afar(ref, window, last_seq, actor)
    early = [view for view in more if (view.seq or 0) < (window[0].seq or 0)]
    late = [view for view in more if (view.seq or 0) > (window[-1].seq or 0)]
    every = [*early, *window, *late]
    known = None if rewound is None else _by_index(every, rewound)
    result = contents([view.data for view in every], reader, known, ends=not rest)
    first, last = len(early) + start if start else -1, len(early) + end
    return Conversation(
        reader,
        _lines(ref, every, result, range(first, last)),
        window[start].cursor if start or earlier else None,
        list(dict.fromkeys([*_agents(recent), *([reader.agent] if reader.agent else [])])),
        sorted({str(view.data["branch"]) for view in recent if view.data.get("branch")} | ({reader.branch} - {""})),
        task([view.data for view in window], reader),
        None if before else _sized(every, result, partly=earlier),
    )


def events_upto(ref: SessionRef, at: EventView | None, *, without: bool = False) -> QuerySet[Event]:
    """Returns a session's events up to one of them, with or without it, or all of them, in no order."""
    if at is None:
        return events_of(ref)
    earlier = before_cursor(at.cursor)
    return events_of(ref).filter(earlier if without else earlier | Q(id=at.id))


def _reader(recent: Sequence[EventView], agent: str, branch: str | None) -> Reader:
    """Returns how the agent read last, as far as the newest events show; `recent` has the newest first."""
    agent = agent or next(iter(_agents(recent)), "")
    last = next((view.data for view in recent if view.description.author == agent and agent), {})
    if branch is None:
        branch = str(last.get("branch") or "")
    path = object_of(last, "node_info").get("path")
    return Reader(agent, branch, last.get("isolation_scope"), str(path or ""))


def _agents(recent: Sequence[EventView]) -> list[str]:
    authors = (view.description.author for view in recent)
    return list(dict.fromkeys(author for author in authors if author not in ("", "user", SYSTEM)))


def _window(
    ref: SessionRef, upto: QuerySet[Event], before: str | None, actor: Actor
) -> tuple[list[EventView], tuple[int, int], tuple[bool, bool]]:
    """Returns the events of a page with REACH before and after, the page's bounds in them, and whether there are
    further events before and after."""
    rows = upto.filter(before_cursor(before)) if before else upto
    window, earlier = views(ordered(rows, ref.source), ref.source, actor, PAGE + REACH, ref=ref)
    window.reverse()
    page = (max(0, len(window) - PAGE), len(window))
    more = False
    if before and window:
        later = upto.filter(after_cursor(window[-1].cursor))
        rest, more = views(ordered(later, ref.source, newest=False), ref.source, actor, REACH, ref=ref)
        window += rest
    return window, page, (earlier, more)


def _from_afar(
    ref: SessionRef, window: Sequence[EventView], upto: Seq | None, actor: Actor
) -> tuple[list[EventView], dict[Seq, Seq]]:
    """Returns what affects a window from outside: events with summaries that cover a part of it, and, by the seq of
    each event that was undone, the seq of its rewind."""
    stretches = causes.rewinds(ref, NO_SEQ, upto)
    moments = [timestamp_of(view.data) for view in window]
    first, last = window[0].seq or 0, window[-1].seq or 0
    seqs = [each.range[0] for each in causes.summaries(ref, stretches, moments, upto)]
    outside = [seq for seq in seqs if not first <= seq <= last]
    more: list[EventView] = []
    with database.using(ref.source):
        for start in range(0, len(outside), causes.CHUNK):
            rows = events_of(ref).filter(seq__in=outside[start : start + causes.CHUNK])
            more += [view_of(ref, row, actor) for row in ordered(rows, ref.source, newest=False)]
    return more, {
        seq: by for view in window if (by := causes.taken_by(stretches, seq := view.seq or NO_SEQ)) is not None
    }


def _by_index(views: Sequence[EventView], rewound: dict[Seq, Seq]) -> dict[int, int]:
    """Returns the rewinds by index among these events instead of by seq. A rewind that is not among them keeps its seq,
    negated."""
    indexes = {view.seq: number for number, view in enumerate(views)}
    return {indexes[seq]: indexes.get(by, -by) for seq, by in rewound.items()}


def _sized(views: Sequence[EventView], result: Contents, *, partly: bool) -> Sized:
    sizes = sizes_of(result.contents, lambda index: begins_turn(views[index].description))
    turns = [(views[turn.index] if turn.index >= 0 else None, turn.characters) for turn in sizes.turns]
    return Sized(sizes, turns, partly, sum(bool(view.size) for view in views))


def _lines(ref: SessionRef, views: Sequence[EventView], result: Contents, shown: range) -> list[Line]:
    reasons = result.left_out.values()
    ids = causes.ids_of(ref, {Seq(-reason.by) for reason in reasons if reason.by is not None and reason.by < 0})
    return [_line(views, index, item, ids) for index, item in in_order(result) if index in shown]


def _line(views: Sequence[EventView], index: int, item: Content | Reason, ids: dict[Seq, str]) -> Line:
    if isinstance(item, Content):
        event = views[item.index]
        told = {
            "content": {"parts": list(item.parts)},
            "long_running_tool_ids": event.data.get("long_running_tool_ids"),
        }
        return Line(event, item, describe(told).parts, [views[each] for each in item.events])
    if item.by is None:
        # No one knows whether an event that can't be read is empty.
        return Line(views[index], left_out=LeftOut("unread" if views[index].unread else item.kind))
    if item.by < 0:
        seq = Seq(-item.by)
        return Line(views[index], left_out=LeftOut(item.kind, ids.get(seq, ""), seq))
    return Line(views[index], left_out=LeftOut(item.kind, views[item.by].id, views[item.by].seq))
