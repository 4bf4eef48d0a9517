"""Reads when some events of a session were, and who wrote them, without the rest of them."""

from collections.abc import Collection
from typing import Final, NamedTuple

from django.db import connections
from django.db.models import TextField
from django.db.models.expressions import RawSQL

from ..access.actor import Actor
from ..access.shown import shown
from ..domain.positions import Seq
from ..domain.session_ref import SessionRef
from ..sources.dialect import if_json
from .event_views import events_of
from .weights import SIZE_OF

_LONGEST: Final = 50_000  # bytes of an event in which its author is looked for
_NAME: Final = 300  # characters of an author that are read
_SHORT: Final = {vendor: f"{size} <= {_LONGEST}" for vendor, size in SIZE_OF.items()}
_AUTHOR: Final = {
    "postgresql": f"CASE WHEN {_SHORT['postgresql']} THEN left(event_data ->> 'author', {_NAME}) END",
    "sqlite": f"""CASE WHEN {_SHORT["sqlite"]}
        THEN {if_json("event_data", f"substr(json_extract(event_data, '$.author'), 1, {_NAME})")} END""",
}


class Glimpse(NamedTuple):
    """When an event was, in seconds, and its author; empty if the event is long."""

    at: float
    author: str


def glimpses(ref: SessionRef, seqs: Collection[Seq], actor: Actor) -> dict[Seq, Glimpse]:
    """Returns glimpses of the events with these seqs, by seq. Expects the source to be open."""
    author = RawSQL(_AUTHOR[connections[ref.source].vendor], [], TextField())
    rows = events_of(ref).filter(seq__in=seqs).annotate(author=author).values_list("seq", "timestamp", "author")
    return {
        seq: Glimpse(at, str(shown({"author": name or ""}, actor, ref.app_name, "event")["author"]))
        for seq, at, name in rows
    }
