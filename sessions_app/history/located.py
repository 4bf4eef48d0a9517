"""Reads events by their seq, in whatever session they stand."""

from collections.abc import Iterator, Sequence
from typing import Any

from django.db import connections
from django.db.models import BigIntegerField, F
from django.db.models.expressions import RawSQL

from ..domain.positions import Seq
from ..models import Event
from ..reads.event_views import any_of, batches, measured, unpacked
from ..reads.weights import LARGE, Size
from ..sources import database, registry
from ..sources.dialect import SEQ
from .keeping import sessions_at


def events_at(source: str, seqs: Sequence[Seq]) -> Iterator[Event]:
    """Yields the events that have these seqs, in this order, from any session. Each has its seq as `at`.

    They are read in several queries if they are large, so that a caller who stops early has not read them all.
    """
    if not seqs:
        return
    events = Event.objects.using(source)
    if database.is_numbered(source):
        column = SEQ[connections[source].vendor]
        events = events.annotate(at=RawSQL(column, [], BigIntegerField())).filter(at__in=seqs)
    else:
        events = events.annotate(at=F("seq")).filter(any_of(sessions_at(registry.identity(source), seqs)))
    sizes: dict[Seq, int] = {}
    for at, size in events.annotate(size=Size("event_data")).values_list("at", "size"):
        sizes[at] = sizes.get(at, 0) + (size or 0)
    there = [seq for seq in seqs if seq in sizes]
    order = {seq: number for number, seq in enumerate(there)}
    for begin, end in batches([unpacked(source, sizes[seq]) for seq in there], LARGE):
        rows: list[Any] = list(measured(events.filter(at__in=there[begin:end])))
        yield from sorted(rows, key=lambda row: order[row.at])
