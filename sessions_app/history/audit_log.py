"""Lists the audit together with the edits of all sessions, in order of time.

An edit is an event of its session. Here it shows who changed which keys, when and why, but no value, so that an
auditor, who may read no session, may read it.
"""

import heapq
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from django.utils.translation import gettext as _

from ..access.actor import PEOPLE, Actor
from ..access.audit.record import canonical, record
from ..access.handles import shown_ref
from ..domain.edit_note import edit_of, is_edit, until_of
from ..domain.errors import Error
from ..domain.positions import Position
from ..models import AuditRow
from ..reads import audit_rows
from ..reads.audit_rows import Filter
from ..reads.event_views import EventView
from ..reads.lists import PAGE
from ..reads.paging import Page, read_cursor, write_cursor
from ..reads.size_limits import LARGE
from . import edit_log
from .edit_log import LAST, EditAt, of_each_source, position_below, views_at
from .index import build
from .index.tables import EditPosition

_LAST_NUMBER: Final = 2**63 - 1
EDIT: Final = "edit"  # the act of all edits
LOOK_SECONDS: Final = 0.5  # that a page searches for the edits of one person, who may have made few of many
_SOME: Final = 50  # edits that are read at once
_MICROSECONDS: Final = 1_000_000
_TOLD: Final = ("approved_by", "undoes", "restores", "forked", "batch")  # of an edit's note


class Edits(NamedTuple):
    """Some edits, the newest first. Below `ends`, edits were not read. `missing` names the sources of which some are
    missing."""

    rows: list[tuple[EditAt, AuditRow]]
    ends: EditAt | None
    missing: list[str]


def entries(
    only: Filter, before: str | None = None, limit: int = PAGE, *, actor: Actor
) -> tuple[Page[AuditRow], list[str]]:
    """Returns a page of the acts and edits that a filter selects, the newest first; and a description of what is
    missing.

    Raises Invalid and NotAllowed.
    """
    audit_rows.check_audits(actor)
    number, below = _read(before)
    acts = audit_rows.newest(only, number, limit + 1, actor=actor) if only.act != EDIT else []
    edits = newest(only, below, limit + 1) if only.act in ("", EDIT) else Edits([], None, [])
    page, more = _merged(acts, edits, limit)
    number = min((each.number for each in page if each.number), default=number)
    shown = sum(not each.number for each in page)
    below = edits.rows[shown - 1][0] if shown else below
    if edits.ends and not any(at >= edits.ends for at, _each in edits.rows[shown:]):
        below = min(below, edits.ends)
    return Page(page, write_cursor(number, *below) if more else None), edits.missing


def _merged(acts: list[AuditRow], edits: Edits, limit: int) -> tuple[list[AuditRow], bool]:
    """Returns a page of acts and edits, and whether there is more. Anything older than the end of the edits waits for
    the next page."""
    both = heapq.merge(acts, [entry for _at, entry in edits.rows], key=lambda each: -each.at)
    ends = edits.ends[0] / 1_000_000 if edits.ends else 0.0
    rows = [each for each in both if each.at >= ends]
    return rows[:limit], len(rows) > limit or edits.ends is not None


def _read(before: str | None) -> tuple[int, EditAt]:
    """Reads a cursor: the number of the last row that was shown, and the last edit. Raises Invalid."""
    if not before:
        return _LAST_NUMBER, LAST
    number, moment, source, position = read_cursor(before, int, int, str, int)
    return number, (moment, source, Position(position))


def export(only: Filter, *, actor: Actor) -> Iterator[bytes]:
    """Returns the selected acts and edits as lines of JSON, the oldest first, and records that.

    Raises Invalid and NotAllowed.
    """
    audit_rows.check_audits(actor)
    if only.day:
        _first, _after = only.seconds
    chosen = {f"only_{each.name}": getattr(only, each.name) for each in fields(only)}
    record("exported", actor.name, ref=None, format="audit", **chosen)
    return _lines(only, actor)


def _lines(only: Filter, actor: Actor) -> Iterator[bytes]:
    acts = [audit_rows.lines(only, actor=actor)] if only.act != EDIT else []
    edits = lines(only, actor) if only.act in ("", EDIT) else []
    for _at, line in heapq.merge(*edits, *acts, key=lambda each: each[0]):
        yield line.encode() + b"\n"


# --- Edits, as the audit shows them -----------------------------------------------------------------------------------


def newest(only: Filter, below: EditAt | None, limit: int) -> Edits:
    """Returns the newest edits that a filter selects, or the newest below `below`. Raises Invalid.

    The caller has checked that the actor may read the audit.
    """
    first = 0
    if only.day:
        first, after = (round(seconds * _MICROSECONDS) for seconds in only.seconds)
        below = min(below, (after, "", Position(0))) if below else (after, "", Position(0))
    until = time.monotonic() + build.SECONDS
    bounds = first, limit, until + LOOK_SECONDS
    answers, problems = of_each_source(lambda source: _newest_of(source, only, below, bounds), until)
    rows = sorted((row for some, _end in answers for row in some), key=lambda row: row[0], reverse=True)
    ends = [end for _some, end in answers if end]
    return Edits(rows, max(ends, default=None), [*map(_missing, problems)])


def _newest_of(
    source: str, only: Filter, below: EditAt | None, bounds: tuple[int, int, float]
) -> tuple[list[tuple[EditAt, AuditRow]], EditAt | None]:
    """Returns at least `limit` edits of one source since `first`, or all; and where they end, if it took too long."""
    first, limit, until = bounds
    rows: list[tuple[EditAt, AuditRow]] = []
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
) -> tuple[list[tuple[EditAt, AuditRow]], EditPosition | None]:
    """Returns the next edits beyond a position that a filter selects, and where to continue; None if there are no
    more."""
    reach = build.reach(source)
    if reach is None:
        return [], None
    of_app = only.app.__eq__ if only.app else None
    positions = edit_log.positions_of_edits(reach.projection, at, _SOME, of_app, oldest=oldest)
    rows, left = [], LARGE
    for edit_at, view in views_at(source, reach, positions, PEOPLE):
        entry = _entry(edit_at, view)
        if (view.unread or is_edit(view.data)) and only.by in ("", entry.by):
            rows.append((edit_at, entry))
        left -= view.weight
        if left < 0:
            return rows, EditPosition(edit_at[0], edit_at[2])
    return rows, positions[-1] if len(positions) == _SOME else None


def _entry(edit_at: EditAt, view: EventView) -> AuditRow:
    note = edit_of(view.data)
    more: dict[str, Any] = {name: _text(note[name]) for name in _TOLD if note.get(name)}
    if before := view.description.actions.get("rewind_before_invocation_id"):
        more["rewinds"] = _text(before)
    if until := until_of(note):
        more["until"] = datetime.fromtimestamp(until, UTC).isoformat(" ", "seconds")
    keys = [change.key for change in view.changes]
    detail = {"keys": keys, "reason": _text(note.get("reason") or ""), **more}
    shown = {name: value for name, value in detail.items() if value}
    at, by = edit_at[0] / _MICROSECONDS, _text(note.get("actor") or "")
    row = AuditRow(number=0, at=at, act=EDIT, by=by, detail=json.dumps(shown), **view.ref._asdict())
    row.event_id = view.id
    return row


def _missing(problem: Error) -> str:
    # The error may name paths and hosts, which an auditor need not know.
    words = _("Edits from the source “%(source)s” are missing: it isn't answering, or is still being indexed.")
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
    answers, problems = of_each_source(lambda source: _lines_of(source, only, actor), time.monotonic() + build.SECONDS)
    return [*answers, *(iter([(0.0, _line(0.0, canonical({"missing": _missing(each)})))]) for each in problems)]


def _lines_of(source: str, only: Filter, actor: Actor) -> Iterator[tuple[float, str]]:
    first, after = (round(seconds * _MICROSECONDS) for seconds in only.seconds) if only.day else (0, LAST[0])
    at: EditPosition | None = EditPosition(first, Position(0))
    while at is not None:
        some, at = _some(source, only, at, oldest=True)
        for (moment, *_rest), entry in some:
            if moment >= after:
                return
            about = {**shown_ref(entry.ref, actor)._asdict(), "by": entry.by, "event_id": entry.event_id}
            yield entry.at, _line(entry.at, canonical(entry.details), **about)


def _line(at: float, detail: str, **about: str) -> str:
    """Returns an edit with the field names of a row. It has no number and no digest: it is its session's event."""
    return canonical({"act": EDIT, "at": at, "detail": detail, **about})
