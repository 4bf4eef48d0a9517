"""Builds the index of where each key was written, and keeps it up to date with a source that grows."""

import logging
import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final

from django.db import OperationalError, transaction
from django.utils.translation import gettext as _

from ...domain.errors import Behind
from ...domain.positions import Position, Seq
from ...domain.session_ref import SessionRef
from ...domain.state import STORED
from ...models import Projection, StateChange, StateOwner
from ...sources import adoption, database, errors, registry
from .. import order
from ..unadopted import Unadopted
from .read_source import Batch
from .tables import Owners, Reach, drop_after, insert

log = logging.getLogger("adkweb.history")

SECONDS: Final = 2.0  # how long a page waits for what is not read yet
BATCH: Final = 5_000  # events read at once, at most
FIRST_BATCH: Final = 500
SMALLEST_BATCH: Final = 20
_BATCH_SECONDS: Final = 0.3  # a batch aims to take this long, however much its events wrote
_PAUSE: Final = 0.05  # share of the time that a batch took; the agent needs the machine, too
_LOCK_SECONDS: Final = 0.2  # a thread that finds another one reading waits at least this long
_PACE_SECONDS: Final = 10.0  # after this long without reading, the pace is measured again
_MINUTES: Final = 90  # from this many seconds on, the time left is shown in minutes


# --- Reading what is new ----------------------------------------------------------------------------------------------


def catch_up(source: str, seconds: float | None = None, ref: SessionRef | None = None) -> Reach:
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
    """Measures how far a source is read, and the recent pace: by the clock, including pauses and other processes."""

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
        """Returns the error for those who wait."""
        self.told = time.monotonic()
        if self._seq <= self._began_seq:
            return Behind(share=self.share)
        left = (self._total - self._seq) * (self._moved - self._began) / (self._seq - self._began_seq)
        words = time_left(left)
        return Behind(
            _("This source is still being indexed: %(left)s.") % {"left": words},
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


def reach(source: str) -> Reach | None:
    """Returns how far a source is read, without reading more; None if reading never started."""
    row = Projection.objects.filter(where=registry.identity(source), version=_version(source)).first()
    return Reach(row.pk, row.seq, row.marks) if row else None


def rebuild(source: str, moved: Callable[[int, int], None] = lambda done, total: None) -> int:
    """Forgets everything and reads it again. Returns the number of key writes. Calls `moved` with the progress."""
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


def _read(source: str, ref: SessionRef | None = None) -> Iterator[tuple[Reach, int]]:
    """Reads batch by batch. After each, yields the progress and the total."""
    reader = order.of(database.get(source).alias)(source)
    size, more, owners = FIRST_BATCH, True, Owners(0)
    while more:
        began = time.monotonic()
        at = _projection(source, reader.version)
        with database.using(source):
            if reader.version != _version(source):  # it was adopted just now
                reader = order.of(source)(source)
                continue
            batch = reader.batch(at, size, ref)
        owners, more = owners if owners.projection == at.pk else Owners(at.pk), batch.more
        if _keep(at, batch, owners):
            reader.kept()
            reached = batch.noted["seq"]
            yield Reach(at.pk, reached, batch.noted["marks"]), max(batch.total, reached + 1) if more else reached
        else:
            more = True  # another was faster, and may not have read everything
        size = _paused(size, began, more)


def _paused(size: int, began: float, more: bool) -> int:
    """Rests after a batch if others follow, and returns the size of the next one."""
    took = max(0.001, time.monotonic() - began)
    if more:
        time.sleep(took * _PAUSE)
    return max(SMALLEST_BATCH, min(BATCH, int(size * _BATCH_SECONDS / took)))


def _version(source: str) -> int:
    return order.of(source).version


def _projection(source: str, version: int) -> Projection:
    """Returns the row that says how far a source is read.

    Forgets what was kept by other rules, or in another order. Raises Behind if another process knows that the source
    was adopted, and this one doesn't yet.
    """
    where = registry.identity(source)
    projection = Projection.objects.filter(where=where).first()
    if projection and projection.version != version:
        if version == Unadopted.version:
            with database.using(source):
                if adoption.inspect(source).adopted:
                    raise Behind(share=0.0)
        _forget(where)
        projection = None
    return projection or Projection.objects.get_or_create(where=where, defaults={"version": version})[0]


def _keep(at: Projection, batch: Batch, owners: Owners) -> bool:
    """Stores what was read, and the progress. Returns False, and stores nothing, if another process was faster."""
    # Creations without keys may be read again each time: the newest events were deleted after them.
    news = any(row.event_id or row.keys for row in batch.rows)
    if not news and all(getattr(at, name) == value for name, value in batch.noted.items()):
        return True
    with transaction.atomic():
        locked = Projection.objects.select_for_update().filter(pk=at.pk).first()
        if locked is None or (locked.seq, locked.marks) != (at.seq, at.marks):
            return False
        if batch.dropped is not None:
            drop_after(at.pk, batch.dropped)
        insert(owners, batch.rows, at.where)
        Projection.objects.filter(pk=at.pk).update(**batch.noted)
    return True
