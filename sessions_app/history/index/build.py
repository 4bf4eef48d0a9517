"""Builds the index of where each key was written, and keeps it up to date with a source that grows."""

import json
import logging
import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from django.db import OperationalError, transaction
from django.utils.translation import gettext as _

from ...domain.errors import Behind, Invalid
from ...domain.positions import Position, Seq, first_position, seq_of
from ...domain.session_ref import SessionRef
from ...domain.state import STORED
from ...models import Projection, StateChange, StateOwner
from ...reads.changes import Hole, still_missing
from ...sources import adoption, database, dialect, errors, registry
from .. import unadopted
from . import read_source
from .tables import Owners, Row, Standing, drop_after, insert

log = logging.getLogger("adkweb.history")

SECONDS: Final = 2.0  # a page waits so long for what is not read yet
VERSION: Final = 3  # of what is kept; what another version kept is read anew
_BY_TIME: Final = -2  # version if events have no numbers; once adopted, everything is read anew
BATCH: Final = 5_000  # events read at once, at most
FIRST_BATCH: Final = 500
SMALLEST_BATCH: Final = 20
_BATCH_SECONDS: Final = 0.3  # a batch aims to take this long, however much its events wrote
_PAUSE: Final = 0.05  # of the time that a batch took; the agent needs the machine, too
_HOLES: Final = 500  # ranges of missing seqs that are watched, at most
_PATIENCE_SECONDS: Final = 600.0  # after which a missing seq belongs to a transaction that was rolled back
_LOCK_SECONDS: Final = 0.2  # whoever finds another thread reading waits at least so long
_PACE_SECONDS: Final = 10.0  # after so long without reading, the pace is measured anew
_MINUTES: Final = 90  # from so many seconds on, the time left is told in minutes


# --- Reading what is new ----------------------------------------------------------------------------------------------


def catch_up(source: str, seconds: float | None = None, ref: SessionRef | None = None) -> Standing:
    """Reads the events that are not read yet. If several threads ask, only one reads.

    Raises Behind if that takes longer than `seconds` (by default, SECONDS), with the `share` that is done and the time
    that is `left`. If events have no numbers, what was just written to other sessions than `ref` may be read a little
    later. Raises Invalid if they have no order either, NotFound, SourceError.
    """
    seconds = SECONDS if seconds is None else seconds
    pace = paces[source]
    if seconds <= SECONDS and time.monotonic() - pace.told < 1:  # a page that asks twice
        seconds = 0.0
    until = time.monotonic() + seconds
    if not pace.lock.acquire(timeout=max(_LOCK_SECONDS, seconds)):
        raise pace.behind()
    try:
        for reached, total in _read(source, ref):
            pace.moved(reached.seq, total)
            if time.monotonic() > until and reached.seq < total:
                raise pace.behind()
    except OperationalError as error:  # adkweb's own database takes no writes; what was read before can be asked
        log.warning("adkweb's own database: what is new in %s cannot be noted: %s", source, error)
        raise Behind(errors.of_own(error), share=pace.share) from error
    finally:
        pace.lock.release()
    return reached


class _Pace:
    """Measures how far a source is read, and how fast lately: by the clock, including pauses and other processes."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.told = -math.inf
        self._seq = self._total = self._began_seq = 0
        self._moved = self._began = -math.inf

    def moved(self, seq: Seq, total: int) -> None:
        now = time.monotonic()
        if now - self._moved > _PACE_SECONDS or seq < self._began_seq:
            self._began, self._began_seq = now, seq
        self._moved, self._seq, self._total = now, seq, total

    @property
    def share(self) -> float:
        """How much of the source is read, from 0 to 1."""
        return self._seq / max(1, self._total)

    def behind(self) -> Behind:
        """Returns the error for whoever waits."""
        self.told = time.monotonic()
        if self._seq <= self._began_seq:
            return Behind(share=self.share)
        left = (self._total - self._seq) * (self._moved - self._began) / (self._seq - self._began_seq)
        words = time_left(left)
        return Behind(
            _("The events of this source are still being read: %(left)s.") % {"left": words},
            share=self.share,
            left=words,
        )


def time_left(seconds: float) -> str:
    """Returns how long something will take, in words: “about 20 s left”."""
    if seconds < _MINUTES:
        step = 1 if seconds < 10 else 5
        return _("about %(number)s s left") % {"number": max(1, math.ceil(seconds / step) * step)}
    return _("about %(number)s min left") % {"number": round(seconds / 60)}


paces: defaultdict[str, _Pace] = defaultdict(_Pace)


def standing(source: str) -> Standing | None:
    """Returns how far a source is read, without reading on; None if that never began."""
    row = Projection.objects.filter(where=registry.identity(source), version=_version(source)).first()
    return Standing(row.pk, row.seq, row.marks) if row else None


def rebuild(source: str, moved: Callable[[int, int], None] = lambda done, total: None) -> int:
    """Forgets all and reads it anew. Returns the number of writes of keys. Calls `moved` with how far it is."""
    forget(source)
    for reached, total in _read(source):
        moved(reached.seq, total)
    owners = StateOwner.objects.filter(projection__where=registry.identity(source), scope__in=STORED)
    return StateChange.objects.filter(owner_id__in=owners.values("pk")).count()


def forget(source: str) -> None:
    """Forgets what was read of a source."""
    _forget(registry.identity(source))


def _forget(where: str) -> None:
    with transaction.atomic():
        for projection in Projection.objects.filter(where=where):
            drop_after(projection.pk, Position(0))
            projection.delete()


def _read(source: str, ref: SessionRef | None = None) -> Iterator[tuple[Standing, int]]:
    """Reads batch by batch. After each, yields how far it is and how far it will be."""
    if not database.is_numbered(database.get(source).alias):
        yield from _read_by_time(source, ref)
        return
    last, size, more, owners = None, FIRST_BATCH, True, Owners(0)
    while more:
        began = time.monotonic()
        at = _projection(source, VERSION)
        with database.using(source):
            seq = _checked(source, at)
            batch = _gathered(source, at, seq, size)
            more = batch.more
            if more and last is None:
                last = read_source.newest(source)
        owners = owners if owners.projection == at.pk else Owners(at.pk)
        if _keep(at, seq, batch, owners):
            yield Standing(at.pk, batch.top, batch.noted["marks"]), max(last or 0, batch.top + 1) if more else batch.top
        else:
            more = True  # another was faster, and may not have read everything
        size = _paused(size, began, more)


def _read_by_time(source: str, ref: SessionRef | None) -> Iterator[tuple[Standing, int]]:
    """Reads as _read does, from a source whose events have no numbers."""
    if not database.has_order(source):
        raise Invalid(
            _("The events of this database have no order: no index of it has their times, and it was never adopted.")
        )
    size, total, more, owners = FIRST_BATCH, 0, True, Owners(0)
    while more:
        began = time.monotonic()
        with database.using(source):
            if database.is_numbered(source):  # it was adopted just now
                yield from _read(source, ref)
                return
            at = _projection(source, _BY_TIME)
            if memories[source].projection != at.pk:
                memories[source] = unadopted.Memory(at.pk)
            reached = unadopted.read(at.marks) or unadopted.begin(source)
            batch = unadopted.gathered(source, reached, memories[source], size, ref)
            total = total or unadopted.total(source) if batch.more else 0
        owners = owners if owners.projection == at.pk else Owners(at.pk)
        checkpoints, read, more = unadopted.write(batch.reached), batch.reached.read, batch.more
        if _keep_by_time(at, batch, checkpoints, owners):
            memories[source].note(batch)
            yield Standing(at.pk, Seq(read), checkpoints), max(total, read + 1) if more else read
        else:
            more = True
        size = _paused(size, began, more)


def _keep_by_time(at: Projection, batch: unadopted.Batch, checkpoints: str, owners: Owners) -> bool:
    """Keeps what was read, and how far that is. Returns False, and keeps nothing, if another was faster."""
    if not batch.rows and checkpoints == at.marks:
        return True
    with transaction.atomic():
        locked = Projection.objects.select_for_update().filter(pk=at.pk).first()
        if locked is None or locked.marks != at.marks:
            return False
        insert(owners, batch.rows, at.where)
        Projection.objects.filter(pk=at.pk).update(marks=checkpoints, seq=batch.reached.read)
    return True


memories: defaultdict[str, unadopted.Memory] = defaultdict(lambda: unadopted.Memory(0))


def _paused(size: int, began: float, more: bool) -> int:
    """Rests after a batch if others follow, and returns the size of the next one."""
    took = max(0.001, time.monotonic() - began)
    if more:
        time.sleep(took * _PAUSE)
    return max(SMALLEST_BATCH, min(BATCH, int(size * _BATCH_SECONDS / took)))


def _version(source: str) -> int:
    return VERSION if database.is_numbered(source) else _BY_TIME


def _projection(source: str, version: int) -> Projection:
    """Returns the row that says how far a source is read.

    Forgets what was kept by other rules, or in another order. Raises Behind if another process has seen that
    the source was adopted, and this one not yet.
    """
    where = registry.identity(source)
    projection = Projection.objects.filter(where=where).first()
    if projection and projection.version != version:
        if version == _BY_TIME and adoption.inspect(source).adopted:
            raise Behind(share=0.0)
        _forget(where)
        projection = None
    return projection or Projection.objects.get_or_create(where=where, defaults={"version": version})[0]


class _Batch(NamedTuple):
    """Holds what was read at once, up to which seq, what to note of it, and whether there may be more."""

    rows: list[Row]
    top: Seq
    noted: dict[str, Any]
    more: bool


def _gathered(source: str, at: Projection, seq: Seq, size: int) -> _Batch:
    """Returns the next batch, after a seq."""
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
    return _Batch(rows, top, noted, more)


def _checked(source: str, at: Projection) -> Seq:
    """Returns how far the source is read, after a check that the events of the checkpoints are still there.

    If one is gone, its seq may be another event's by now (SQLite gives it again; a file was made anew): reading goes on
    from the checkpoint before it.
    """
    checkpoints = json.loads(at.marks)
    while checkpoints and not read_source.is_there(source, checkpoints[-1][0], checkpoints[-1][1:]):
        checkpoints.pop()
    return Seq(checkpoints[-1][0] if checkpoints else 0)


def _keep(at: Projection, seq: Seq, batch: _Batch, owners: Owners) -> bool:
    """Keeps what was read after `seq`, and how far that is. Returns False, and keeps nothing, if another was faster."""
    rows, noted = batch.rows, batch.noted
    checkpoints = [each for each in json.loads(at.marks) if each[0] <= seq]
    if noted["seq"] > seq:
        newest = max((row for row in rows if row.event_id), key=lambda row: row.position)
        checkpoints = _thinned([*checkpoints, [noted["seq"], *newest.ref[1:], newest.event_id]])
    noted["marks"] = json.dumps(checkpoints)
    if not any(row.keys or row.kinds for row in rows) and all(getattr(at, name) == noted[name] for name in noted):
        return True
    with transaction.atomic():
        locked = Projection.objects.select_for_update().filter(pk=at.pk).first()
        if locked is None or (locked.seq, locked.marks) != (at.seq, at.marks):
            return False
        if seq < at.seq:
            drop_after(at.pk, first_position(seq + 1))
        insert(owners, rows, at.where)
        Projection.objects.filter(pk=at.pk).update(**noted)
    return True


def _thinned(checkpoints: list[Any]) -> list[Any]:
    """Returns a few of many checkpoints: the further back, the fewer."""
    top = checkpoints[-1][0]
    kept = [checkpoints[-1]]
    for each in reversed(checkpoints[:-1]):
        if top - each[0] >= 2 * (top - kept[-1][0]):
            kept.append(each)
    return kept[::-1]
