"""Reads edits as the audit shows them: who changed which keys of which session, when and why, and no value."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from django.utils.translation import gettext as _

from ..access.actor import PEOPLE, Actor
from ..access.audit.chain import canonical
from ..access.handles import shown_ref
from ..domain.edit_note import edit_of, is_edit, until_of
from ..domain.errors import Error
from ..domain.positions import Position
from ..reads.audit_rows import Entry, Filter
from ..reads.event_views import EventView
from ..reads.weights import LARGE
from . import indexing, kept_edits
from .edit_log import of_each_source
from .edited import LAST, EditAt, position_below, views_at
from .keeping import EditPosition

EDIT: Final = "edit"  # the act of all edits
LOOK_SECONDS: Final = 0.5  # that a page looks for the edits of one person, who may have made few of many
_SOME: Final = 50  # edits that are read at once
_MICROSECONDS: Final = 1_000_000
_TOLD: Final = ("approved_by", "undoes", "restores", "forked", "batch")  # of an edit's note


class Edits(NamedTuple):
    """Some edits, the newest first. Below `ends`, edits were not looked at. `missing` says of which sources some are."""

    rows: list[tuple[EditAt, Entry]]
    ends: EditAt | None
    missing: list[str]


def newest(only: Filter, below: EditAt | None, limit: int) -> Edits:
    """Returns the newest edits that a filter selects, or the newest below `below`. Raises Invalid.

    The caller has checked that the actor may read the audit.
    """
    first = 0
    if only.day:
        first, after = (round(seconds * _MICROSECONDS) for seconds in only.seconds)
        below = min(below, (after, "", Position(0))) if below else (after, "", Position(0))
    until = time.monotonic() + indexing.SECONDS
    bounds = first, limit, until + LOOK_SECONDS
    answers, problems = of_each_source(lambda source: _newest_of(source, only, below, bounds), until)
    rows = sorted((row for some, _end in answers for row in some), key=lambda row: row[0], reverse=True)
    ends = [end for _some, end in answers if end]
    return Edits(rows, max(ends, default=None), [*map(_missing, problems)])


def _newest_of(
    source: str, only: Filter, below: EditAt | None, bounds: tuple[int, int, float]
) -> tuple[list[tuple[EditAt, Entry]], EditAt | None]:
    """Returns at least `limit` edits of one source since `first`, or all; and where they end, if it took too long."""
    first, limit, until = bounds
    rows: list[tuple[EditAt, Entry]] = []
    at = position_below(below, source)
    while len(rows) < limit:
        some, at = _some(source, only, at, oldest=False)
        rows += [row for row in some if row[0][0] >= first]
        if at is None or at.moment < first:
            break
        if time.monotonic() > until:
            return rows, (at.moment, source, at.position)
    return rows, None


def _some(
    source: str, only: Filter, at: EditPosition | None, *, oldest: bool
) -> tuple[list[tuple[EditAt, Entry]], EditPosition | None]:
    """Returns the next edits beyond a position that a filter selects, and where to go on; None if there are no more."""
    standing = indexing.standing(source)
    if standing is None:
        return [], None
    of_app = only.app.__eq__ if only.app else None
    positions = kept_edits.edits(standing.projection, at, _SOME, of_app, oldest=oldest)
    rows, left = [], LARGE
    for edit_at, view in views_at(source, standing, positions, PEOPLE):
        entry = _entry(edit_at, view)
        if (view.unread or is_edit(view.data)) and only.by in ("", entry.by):
            rows.append((edit_at, entry))
        left -= view.weight
        if left < 0:
            return rows, EditPosition(edit_at[0], edit_at[2])
    return rows, positions[-1] if len(positions) == _SOME else None


def _entry(edit_at: EditAt, view: EventView) -> Entry:
    note = edit_of(view.data)
    more: dict[str, Any] = {name: _text(note[name]) for name in _TOLD if note.get(name)}
    if before := view.description.actions.get("rewind_before_invocation_id"):
        more["rewinds"] = _text(before)
    if until := until_of(note):
        more["until"] = datetime.fromtimestamp(until, UTC).isoformat(" ", "seconds")
    keys = [change.key for change in view.changes]
    detail = {"keys": keys, "reason": _text(note.get("reason") or ""), **more}
    shown = {name: value for name, value in detail.items() if value}
    return Entry(0, edit_at[0] / _MICROSECONDS, EDIT, _text(note.get("actor") or ""), "", view.ref, shown, view.id)


def _missing(problem: Error) -> str:
    # The error may name paths and hosts, which an auditor need not know.
    words = _("Edits of the source “%(source)s” are missing: it does not answer, or is still being read.")
    return words % {"source": problem.detail["source"]}


def _text(value: Any) -> str:
    """Returns a value of a note as a text. What was forked is named by its session."""
    if isinstance(value, Mapping):
        return str(value.get("session") or "")
    return value if isinstance(value, str) else str(value)


# --- All of them, as lines of JSON ------------------------------------------------------------------------------------


def lines(only: Filter, actor: Actor) -> list[Iterator[tuple[float, str]]]:
    """Returns for each source its edits as lines of JSON, the oldest first, each with its time.

    A source that cannot be read has one line that says so. The caller has checked that the actor may read the audit.
    """
    answers, problems = of_each_source(
        lambda source: _lines_of(source, only, actor), time.monotonic() + indexing.SECONDS
    )
    return [*answers, *(iter([(0.0, _line(0.0, {"missing": _missing(each)}))]) for each in problems)]


def _lines_of(source: str, only: Filter, actor: Actor) -> Iterator[tuple[float, str]]:
    first, after = (round(seconds * _MICROSECONDS) for seconds in only.seconds) if only.day else (0, LAST[0])
    at: EditPosition | None = EditPosition(first, Position(0))
    while at is not None:
        some, at = _some(source, only, at, oldest=True)
        for (moment, *_rest), entry in some:
            if moment >= after:
                return
            yield entry.at, _line(entry.at, entry.detail, replace(entry, ref=shown_ref(entry.ref, actor)))


def _line(at: float, detail: dict[str, Any], entry: Entry | None = None) -> str:
    """Returns an edit with the names that a row has. It has no number and no digest: it is its session's event."""
    about = {**entry.ref._asdict(), "by": entry.by, "event_id": entry.event_id} if entry else {}
    return canonical({"act": EDIT, "at": at, "detail": canonical(detail), **about})
