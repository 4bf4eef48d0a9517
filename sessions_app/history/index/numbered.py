"""Reads a source whose events have numbers, for the index: what is new since a seq, in order."""

import json
import time
from collections.abc import Sequence
from typing import Any, Final

from django.db.models import BigIntegerField, QuerySet
from django.db.models.expressions import RawSQL

from ...domain.positions import Seq, first_position, seq_of
from ...domain.session_ref import SessionRef
from ...models import Projection
from ...reads.changes import Hole, still_missing
from ...sources import database, dialect
from . import read_source
from .read_source import Batch
from .tables import Row

_HOLES: Final = 500  # ranges of missing seqs that are watched, at most
_PATIENCE_SECONDS: Final = 600.0  # after which a missing seq belongs to a transaction that was rolled back


class Numbered:
    """The order.Order of a source whose events have numbers."""

    version = 4

    def __init__(self, source: str) -> None:
        self._source = source
        self._newest: Seq | None = None

    def batch(self, at: Projection, size: int, ref: SessionRef | None) -> Batch:
        """Returns the next batch. `ref` isn't needed: whatever is new is read, in any session."""
        source, seq = self._source, _checked(self._source, at)
        holes: list[Hole] = [hole for each in json.loads(at.holes) if (hole := Hole(*each)).until > time.time()]
        late, later = read_source.late(source, holes, size) if holes else ([], False)
        read, more = read_source.events(source, seq, size)
        more = more or later
        top = seq_of(read[-1].position) if read else seq
        rows, created, deleted = [*late, *read], json.loads(at.created), at.deleted
        if seq < at.seq:  # what comes after is dropped, and read again
            created = [position for position in created if position < first_position(seq + 1)]
        if database.keeps_creations(source):
            made, created = read_source.creations(source, seq, top if more else None, created)
            gone, deleted = read_source.deleted(source, at.deleted, seq if seq < at.seq else None)
            rows += [*made, *gone]
        else:
            created = []
        if dialect.of(source).commits_out_of_order:
            visible = {seq_of(row.position) for row in (*late, *read)}
            holes = still_missing(holes, seq, visible, time.time() + _PATIENCE_SECONDS)[-_HOLES:]
        noted = {"seq": top, "holes": json.dumps(holes), "created": json.dumps(created), "deleted": deleted}
        noted["marks"] = _checkpoints(at, seq, top, rows)
        if more and self._newest is None:
            self._newest = read_source.newest(source)
        return Batch(rows, noted, self._newest or 0, more, first_position(seq + 1) if seq < at.seq else None)

    def kept(self) -> None:
        """Has nothing to remember."""

    @staticmethod
    def rows_at(source: str, seqs: Sequence[Seq]) -> tuple[str, Sequence[Any]]:
        """Returns the events with these numbers."""
        seq = dialect.of(source).seq
        return f"events WHERE {seq} IN ({', '.join(['%s'] * len(seqs))}) ORDER BY {seq} DESC", seqs

    @staticmethod
    def among(events: QuerySet[Any], source: str, seqs: Sequence[Seq]) -> Any:
        """Returns those that have these numbers."""
        seq = RawSQL(dialect.of(source).seq, [], BigIntegerField())
        return events.annotate(at=seq).filter(at__in=seqs)


def _checked(source: str, at: Projection) -> Seq:
    """Returns how far the source is read, after a check that the events of the checkpoints are still there.

    If one is gone, its seq may belong to another event by now (SQLite reuses it; a file was created again): reading
    continues from the checkpoint before it.
    """
    checkpoints = json.loads(at.marks)
    while checkpoints and not read_source.is_there(source, checkpoints[-1][0], checkpoints[-1][1:]):
        checkpoints.pop()
    return Seq(checkpoints[-1][0] if checkpoints else 0)


def _checkpoints(at: Projection, seq: Seq, top: Seq, rows: Sequence[Row]) -> str:
    checkpoints = [each for each in json.loads(at.marks) if each[0] <= seq]
    if top > seq:
        newest = max((row for row in rows if row.event_id), key=lambda row: row.position)
        checkpoints = _thinned([*checkpoints, [top, *newest.ref[1:], newest.event_id]])
    return json.dumps(checkpoints)


def _thinned(checkpoints: list[Any]) -> list[Any]:
    """Returns a few of many checkpoints: the further back, the fewer."""
    top = checkpoints[-1][0]
    kept = [checkpoints[-1]]
    for each in reversed(checkpoints[:-1]):
        if top - each[0] >= 2 * (top - kept[-1][0]):
            kept.append(each)
    return kept[::-1]
