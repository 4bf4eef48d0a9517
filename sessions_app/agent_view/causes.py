"""Finds the rewinds and summaries that keep events from an agent, wherever they are, in the index of history/."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db.models.fields.json import KeyTextTransform, KeyTransform

from ..domain.invocations import taken_back
from ..domain.positions import NO_SEQ, Seq
from ..domain.session_ref import SessionRef
from ..history.index import query
from ..reads.event_views import events_of
from ..reads.size_limits import Valid
from ..sources import database
from .exclusion import is_for_branch
from .summaries import Range, range_of

CHUNK: Final = 500  # events fetched by one statement


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary that no rewind undid: the times that it covers, and for whom."""

    range: Range  # by seq
    branch: str
    isolation_scope: str | None

    def is_for(self, event: Any) -> bool:
        """Returns whether the agent that made an event gets this summary."""
        return event.get("isolation_scope") == self.isolation_scope and is_for_branch(event.get("branch"), self.branch)


def rewinds(ref: SessionRef, after: Seq, upto: Seq | None = None) -> list[tuple[Seq, Seq]]:
    """Returns what rewinds undid from a seq on: the first seq, and that of the rewind."""
    return taken_back((rewind.seq, rewind.since) for rewind in _highlights(ref, "rewind", Seq(after - 1), upto))


def taken_by(stretches: Iterable[tuple[Seq, Seq]], seq: Seq) -> Seq | None:
    """Returns the seq of the rewind that undid an event; None if none did."""
    return next((last for first, last in stretches if first <= seq <= last), None)


def _highlights(ref: SessionRef, kind: str, after: Seq, upto: Seq | None) -> list[query.Highlight]:
    highlights: list[query.Highlight] = []
    while more := query.highlights(ref, [kind], after, upto):
        highlights += more
        after = more[-1].seq
    return highlights


def summaries(
    ref: SessionRef, stretches: list[tuple[Seq, Seq]], moments: Sequence[float], upto: Seq | None = None
) -> list[Summary]:
    """Returns the summaries that no rewind undid and that cover any time between the first and the last of these
    moments."""
    seqs = [each.seq for each in _highlights(ref, "compaction", NO_SEQ, upto) if taken_by(stretches, each.seq) is None]
    summaries = []
    with database.using(ref.source):
        for start in range(0, len(seqs), CHUNK):
            event = Valid("event_data")
            rows = events_of(ref).filter(seq__in=seqs[start : start + CHUNK])
            for seq, compaction, branch, isolation_scope in rows.annotate(
                compaction=KeyTransform("compaction", KeyTransform("actions", event)),
                of_branch=KeyTextTransform("branch", event),
                of_scope=KeyTextTransform("isolation_scope", event),
            ).values_list("seq", "compaction", "of_branch", "of_scope"):
                span = range_of({"actions": {"compaction": compaction}})
                if span and span[0] <= max(moments) and min(moments) <= span[1]:
                    summaries.append(Summary((seq, *span), branch or "", isolation_scope))
    return summaries


def ids_of(ref: SessionRef, seqs: Collection[Seq]) -> dict[Seq, str]:
    """Returns the ids of events by seq."""
    wanted = sorted(seqs)
    with database.using(ref.source):
        return {
            seq: name
            for start in range(0, len(wanted), CHUNK)
            for seq, name in events_of(ref).filter(seq__in=wanted[start : start + CHUNK]).values_list("seq", "id")
        }
