"""Lists the audit, and the edits of all sessions beside its rows, in the order of time.

An edit is an event of its session. Here it says who changed which keys, when and why, and no value: so an auditor, who may
read no session, may read it.
"""

import heapq
from collections.abc import Iterator
from dataclasses import fields
from typing import Final

from ..access.actor import Actor
from ..access.audit.record import record
from ..domain.positions import Position
from ..reads import audit_rows
from ..reads.audit_rows import Entry, Filter
from ..reads.lists import PAGE
from ..reads.paging import Page, read_cursor, write_cursor
from . import audited_edits
from .audited_edits import EDIT, Edits
from .edited import LAST, EditAt

_LAST_NUMBER: Final = 2**63 - 1


def entries(
    only: Filter, before: str | None = None, limit: int = PAGE, *, actor: Actor
) -> tuple[Page[Entry], list[str]]:
    """Returns a page of the acts and edits that a filter selects, the newest first; and what is missing, in words.

    Raises Invalid and NotAllowed.
    """
    audit_rows.check_audits(actor)
    number, below = _read(before)
    acts = audit_rows.newest(only, number, limit + 1, actor=actor) if only.act != EDIT else []
    edits = audited_edits.newest(only, below, limit + 1) if only.act in ("", EDIT) else Edits([], None, [])
    page, more = _merged(acts, edits, limit)
    number = min((each.number for each in page if each.number), default=number)
    shown = sum(not each.number for each in page)
    below = edits.rows[shown - 1][0] if shown else below
    if edits.ends and not any(at >= edits.ends for at, _each in edits.rows[shown:]):
        below = min(below, edits.ends)
    return Page(page, write_cursor(number, *below) if more else None), edits.missing


def _merged(acts: list[Entry], edits: Edits, limit: int) -> tuple[list[Entry], bool]:
    """Returns a page of acts and edits, and whether there is more. What is older than where the edits end waits."""
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
    edits = audited_edits.lines(only, actor) if only.act in ("", EDIT) else []
    for _at, line in heapq.merge(*edits, *acts, key=lambda each: each[0]):
        yield line.encode() + b"\n"
