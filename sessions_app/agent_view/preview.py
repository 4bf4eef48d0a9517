"""Fills in an agent's instruction from state, as the agent would."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final, Literal

from django.db.models.fields.json import KeyTextTransform, KeyTransform

from ..domain.json_values import as_object
from ..domain.state import ABSENT, TEMP, UNKNOWN
from ..history.moments import Moment
from ..reads.deltas import Writer
from ..reads.event_views import ordered
from ..reads.weights import Small
from ..sources import database
from .conversation import events_upto
from .instructions import Piece, pieces

_SAVED: Final = 5_000  # events looked through for artifacts
Fault = Literal["", "missing", "unrecorded", "temp", "unsaved", "unread"]


@dataclass(frozen=True, slots=True)
class Shown:
    """A piece of a template as the model gets it, or what keeps it from that.

    `fault`: the key is `missing`, its value was `unrecorded` then, it is a `temp` key, which is never stored; the artifact
    was `unsaved` by any event, or is there in `version`, but `unread`, as its text is not in the session.
    """

    piece: Piece
    fault: Fault = ""
    writer: Writer | None = None
    initial: bool = False
    version: int | None = None


# --- The instruction --------------------------------------------------------------------------------------------------


def preview(moment: Moment, template: str) -> list[Shown]:
    """A template's pieces as they were, or are, filled in at a moment; raises Invalid for one that is too long, or becomes
    it.
    """
    state = moment.state.merged()
    found = pieces(template, state)
    names = {piece.name for piece in found if piece.kind == "artifact"}
    saved = _saved(moment, names) if names else {}
    return [_shown(moment, piece, saved) for piece in found]


def _shown(moment: Moment, piece: Piece, saved: dict[str, tuple[Writer, int | None]]) -> Shown:
    if piece.kind == "text":
        return Shown(piece)
    if piece.kind == "artifact":
        if piece.name not in saved:
            return Shown(piece, "unsaved")
        by, version = saved[piece.name]
        return Shown(replace(piece, shown=None), "unread", by, version=version)
    if piece.value is UNKNOWN:
        return Shown(replace(piece, shown=None), "unrecorded")
    if piece.value is ABSENT:
        return Shown(piece, "temp" if piece.name.startswith(TEMP) else "missing")
    return Shown(piece, "", moment.writers.get(piece.name), piece.name in moment.initial)


def _saved(moment: Moment, names: Collection[str]) -> dict[str, tuple[Writer, int | None]]:
    """For each of these artifacts the event that saved it last, as far as the session's newest events tell, and the
    version.
    """
    ref, found = moment.ref, dict[str, tuple[Writer, int | None]]()
    with database.using(ref.source):
        event = Small("event_data")
        rows = ordered(events_upto(ref, moment.event), ref.source).annotate(
            saved=KeyTransform("artifact_delta", KeyTransform("actions", event)),
            by=KeyTextTransform("author", event),
        )
        for row in rows.values("id", "timestamp", "saved", "by", "seq")[:_SAVED]:
            for name, version in as_object(row["saved"]).items():
                if name in names:
                    by = Writer(row["id"], row.get("seq"), str(row["by"] or ""), "", row["timestamp"], ref)
                    found.setdefault(name, (by, version if isinstance(version, int) else None))
    return found
