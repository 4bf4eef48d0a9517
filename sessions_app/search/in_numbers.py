"""Tells of one session what the index knows of it in numbers, if it was read far enough."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ..access.actor import Actor
from ..domain.clock import Took
from ..domain.json_values import as_object
from ..domain.positions import NO_SEQ, Seq
from ..domain.session_ref import SessionRef, digest_of
from ..models import SearchSession
from ..reads.event_views import EventView
from ..sources import registry
from .folding import Summary, fold


@dataclass(frozen=True, slots=True)
class Numbers:
    """A session in numbers: its turns, how long they took together, and their tokens."""

    turns: int
    took: Took
    tokens: int


def numbers_of(
    ref: SessionRef, upto: Seq, *, actor: Actor, events: Sequence[EventView] | None = None
) -> Numbers | None:
    """Returns a session in numbers: counted from its `events`, if somebody has read all of them, otherwise from the index;
    None unless that has read it up to this seq."""
    if events is not None:
        actor.check_sees(ref)
        counted = Summary()
        for event in events:
            fold(counted, event.data, event.description, event.seq or NO_SEQ)
        return Numbers(counted.turns, Took(counted.took, counted.sign), counted.tokens)
    row = _row(ref, upto, actor)
    return Numbers(row.turns, Took(row.took, row.sign), row.tokens) if row else None


def _row(ref: SessionRef, upto: Seq, actor: Actor) -> SearchSession | None:
    actor.check_sees(ref)
    where = registry.identity(ref.source)
    row = SearchSession.objects.filter(source__where=where, digest=digest_of(*ref[1:])).first()
    return row if row and as_object(json.loads(row.summary)).get("read", 0) >= upto else None
