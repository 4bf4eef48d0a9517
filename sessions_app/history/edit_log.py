"""Lists every edit in every session, by page."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from django.db import connection, transaction

from ..access.actor import Actor
from ..domain.edit_note import is_edit
from ..domain.errors import Behind, Error, SourceError
from ..domain.positions import Position, Seq, position_of, seq_of
from ..models import Event, Projection, StateChange
from ..reads.event_views import EventView, batches, edit_view, measured
from ..reads.lists import PAGE
from ..reads.paging import Page, read_cursor, write_cursor
from ..reads.size_limits import LARGE, Size
from ..sources import database, dialect, registry
from . import order
from .index import build
from .index.tables import ALL_EDITS, EDITS, LAST_MOMENT, EditPosition, Reach, moment_key


def positions_of_edits(
    projection: int,
    beyond: EditPosition | None,
    limit: int,
    sees: Callable[[str], bool] | None = None,
    *,
    oldest: bool = False,
) -> list[EditPosition]:
    """Returns the newest edits, or the newest ones below `beyond`; of all apps, or of those that `sees` accepts.

    With `oldest`, returns the oldest ones, or the oldest above `beyond`.
    """
    kept = _owners_of_edits(projection)
    owners = [owner for app, owner in kept.items() if (app is None if sees is None else app is not None and sees(app))]
    moment, position = beyond or (0 if oldest else LAST_MOMENT, Position(0))
    rows: list[EditPosition] = []
    with connection.cursor() as cursor:
        for owner in owners:
            cursor.execute(_EDITS[oldest], [owner, moment_key(moment), position, limit])
            rows += [EditPosition(int(row[0]), row[1]) for row in cursor.fetchall()]
    return sorted(rows, reverse=not oldest)[:limit]


_EDITS: Final = {
    False: """SELECT key, place FROM sessions_app_statechange WHERE owner_id = %s AND (key, place) < (%s, %s)
        ORDER BY key DESC, place DESC LIMIT %s""",
    True: """SELECT key, place FROM sessions_app_statechange WHERE owner_id = %s AND (key, place) > (%s, %s)
        ORDER BY key, place LIMIT %s""",
}


def drop_edits(reach: Reach, gone: Iterable[EditPosition]) -> None:
    """Forgets edits whose events were deleted, unless someone has continued reading since."""
    with transaction.atomic():
        same = Projection.objects.select_for_update().filter(pk=reach.projection, marks=reach.checkpoints)
        if same.exists():
            owners = list(_owners_of_edits(reach.projection).values())
            for moment, position in gone:
                StateChange.objects.filter(owner_id__in=owners, key=moment_key(moment), place=position).delete()


# Steps from app to app along the index, so the number of owners doesn't matter.
_OWNERS_OF_EDITS: Final = """WITH RECURSIVE apps (name) AS (
        SELECT min(app_name) FROM sessions_app_stateowner WHERE projection_id = %(projection)s
        UNION ALL SELECT (SELECT min(o.app_name) FROM sessions_app_stateowner AS o
            WHERE o.projection_id = %(projection)s AND o.app_name > apps.name) FROM apps WHERE apps.name IS NOT NULL)
    SELECT o.app_name, o.scope, o.id FROM apps JOIN sessions_app_stateowner AS o ON o.projection_id = %(projection)s
        AND o.app_name = apps.name AND o.user_id = '' AND o.session_id = '' AND o.scope IN (%(one)s, %(all)s)"""


def _owners_of_edits(projection: int) -> dict[str | None, int]:
    """Returns the owner that has the edits of each app, and under None the one that has all."""
    with connection.cursor() as cursor:
        cursor.execute(_OWNERS_OF_EDITS, {"projection": projection, "one": EDITS, "all": ALL_EDITS})
        return {None if scope == ALL_EDITS else app: number for app, scope, number in cursor.fetchall()}


@dataclass(frozen=True, slots=True)
class Only:
    """Selects edits by their app, by a part of the name of who made them, and by a part of a key. Empty texts select all.

    What is compared is what the actor is shown."""

    app: str = ""
    by: str = ""
    key: str = ""

    def selects(self, edit: EventView) -> bool:
        """Tells whether an edit is selected."""
        by, key = self.by.casefold(), self.key.casefold()
        return (
            self.app in ("", edit.ref.app_name)
            and by in str(edit.description.edit.get("actor", "")).casefold()
            and (not key or any(key in change.key.casefold() for change in edit.changes))
        )


ALL: Final = Only()
_AT_ONCE: Final = 50  # edits asked for at once, at least
LOOKED_AT: Final = 500  # edits of a source, for a page of those that are selected
_LAST: Final = Position(2**63 - 1)
# Orders the edits of all sources: moment, source, position.
EditAt = tuple[int, str, Position]
LAST: Final[EditAt] = (LAST_MOMENT, "-", Position(0))  # beyond all edits


def position_below(below: EditAt | None, source: str) -> EditPosition | None:
    """Returns the position in one source that corresponds to `below` among the edits of all."""
    return below and EditPosition(
        below[0], below[2] if source == below[1] else Position(0) if source > below[1] else _LAST
    )


def edits_of(
    source: str, below: EditAt | None, limit: int, actor: Actor, only: Only = ALL
) -> tuple[list[tuple[EditAt, EventView]], EditAt | None]:
    """Returns the edits of one source, as far as it is read, until `limit` of them are selected; and where they end, if
    they are too large or too many to continue."""
    reach, left, looked_at, selected = build.reach(source), LARGE, 0, 0

    def sees(app: str) -> bool:
        return only.app in ("", app) and actor.may_see(source, app)

    at = position_below(below, source)
    edits: list[tuple[EditAt, EventView]] = []
    while reach and selected < limit:
        if at and looked_at >= LOOKED_AT:
            return edits, (at.moment, source, at.position)
        every = not only.app and actor.sees_all_of(source)
        positions = positions_of_edits(reach.projection, at, max(limit, _AT_ONCE), None if every else sees)
        looked_at += len(positions)
        for edit_at, view in views_at(source, reach, positions, actor):
            if (view.unread or is_edit(view.data)) and actor.may_see(source, view.ref.app_name):
                edits.append((edit_at, view))
                selected += only.selects(view)
            left -= view.weight
            if left < 0:
                return edits, edit_at
        if len(positions) < max(limit, _AT_ONCE):
            break
        at = positions[-1]
    return edits, None


def views_at(
    source: str, reach: Reach, positions: Sequence[EditPosition], actor: Actor
) -> Iterator[tuple[EditAt, EventView]]:
    """Yields the events at some positions, as an actor sees them. At the end, forgets those that were deleted."""
    by_position = {each.position: each for each in positions}
    gone = {*by_position}
    with database.using(source):
        for row in events_at(source, [seq_of(position) for position in by_position]):
            at = by_position[position_of(row.at)]  # type: ignore[attr-defined]
            gone.discard(at.position)
            yield (at.moment, source, at.position), edit_view(source, row, actor)
    if gone:
        drop_edits(reach, [by_position[position] for position in gone])


def events_at(source: str, seqs: Sequence[Seq]) -> Iterator[Event]:
    """Yields the events that have these seqs, in this order, from any session. Each has its seq as `at`.

    They are read in several queries if they are large, so that a caller who stops early has not read them all.
    """
    if not seqs:
        return
    events = order.of(source).among(Event.objects.using(source), source, seqs)
    sizes: dict[Seq, int] = {}
    for at, size in events.annotate(size=Size("event_data")).values_list("at", "size"):
        sizes[at] = sizes.get(at, 0) + (size or 0)
    there = [seq for seq in seqs if seq in sizes]
    turn = {seq: number for number, seq in enumerate(there)}
    for begin, end in batches([dialect.of(source).unpacked(sizes[seq]) for seq in there], LARGE):
        rows: list[Any] = list(measured(events.filter(at__in=there[begin:end])))
        yield from sorted(rows, key=lambda row: turn[row.at])


T = TypeVar("T")


def edits(
    before: str | None = None,
    limit: int = PAGE,
    seconds: float | None = None,
    only: Only = ALL,
    *,
    actor: Actor,
) -> tuple[Page[EventView], list[Error]]:
    """Returns a page of the edits in every session of every source, the newest first; and the errors of sources.

    The page has `limit` edits that `only` selects, or fewer if they are rare. Those between them are on it, too, if they
    are of the same app: one may have undone another.
    An actor who may not see every app gets the edits in the apps that they may see. A source that does not answer is
    left out (SourceError). A source that isn't fully read after `seconds` shows what is read so far (Behind).
    """
    rows: list[tuple[EditAt, EventView]] = []
    below: EditAt | None = tuple(read_cursor(before, int, str, int)) if before else None
    ends: EditAt | None = None
    until = time.monotonic() + (build.SECONDS if seconds is None else seconds)
    answers, problems = of_each_source(
        lambda source: edits_of(source, below, limit + 1, actor, only), until, lambda source: actor.has("read", source)
    )
    for some, end in answers:
        rows += some
        ends = max(ends, end) if ends and end else ends or end
    rows.sort(key=lambda each: each[0], reverse=True)
    read = [
        each for each in rows if ends is None or each[0] >= ends
    ]  # older than this, a source may have edits that were not read
    selected = [at for at, view in read if only.selects(view)]
    page = [each for each in read if len(selected) <= limit or each[0] >= selected[limit - 1]]
    last = page[-1][0] if page else ends
    more = len(rows) > len(page) or ends is not None
    return Page([view for _at, view in page], write_cursor(*last) if last and more else None), problems


def of_each_source(
    read: Callable[[str], T], until: float, wanted: Callable[[str], bool] = lambda source: True
) -> tuple[list[T], list[Error]]:
    """Reads each source after catching up with it. Returns the answers, and errors with their `source`.

    A source that isn't fully read at the time `until` answers with what is read so far (Behind).
    """
    answers: list[T] = []
    problems: list[Error] = []
    for source in registry.listed():
        if not wanted(source.alias):
            continue
        try:
            if not database.has_order(database.get(source.alias).alias):
                continue
            try:
                build.catch_up(source.alias, max(0.0, until - time.monotonic()))
            except Behind as error:
                problems.append(Behind(f"{source.alias}: {error.message}", **error.detail, source=source.alias))
            answers.append(read(source.alias))
        except SourceError as error:  # the other sources still answer
            error.detail["source"] = source.alias
            problems.append(error)
    return answers, problems
