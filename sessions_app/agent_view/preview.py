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
from ..reads.size_limits import Small
from ..sources import database
from .conversation import events_upto
from .instructions import Piece, pieces

_SAVED: Final = 5_000  # events that are searched for artifacts
Fault = Literal["", "missing", "unrecorded", "temp", "unsaved", "unread"]


@dataclass(frozen=True, slots=True)
class Shown:
    """A piece of a template as the model gets it, or the fault that keeps it from the model.

    A key is `missing`, or its value was `unrecorded` at that time, or it is a `temp` key, which is never stored. An
    artifact is `unsaved` if no event saved it, and `unread` if one did: its text is not in the session.
    """

    piece: Piece
    fault: Fault = ""
    writer: Writer | None = None
    initial: bool = False
    version: int | None = None


# --- The instruction --------------------------------------------------------------------------------------------------


def preview(moment: Moment, template: str, *, given: bool = False) -> list[Shown]:
    """Fills in a template from the state at a moment, which is just before its event if `given`.

    Raises Invalid if the template, or the result, is too long."""
    state = moment.state.merged()
    filled = pieces(template, state)
    names = {piece.name for piece in filled if piece.kind == "artifact"}
    saved = _saved(moment, names, given) if names else {}
    return [_shown(moment, piece, saved) for piece in filled]


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


def _saved(moment: Moment, names: Collection[str], given: bool) -> dict[str, tuple[Writer, int | None]]:
    """Returns, by artifact, the event that saved it last, and the version, as far as the session's newest events
    show."""
    ref, saved = moment.ref, dict[str, tuple[Writer, int | None]]()
    with database.using(ref.source):
        event = Small("event_data")
        rows = ordered(events_upto(ref, moment.event, without=given), ref.source).annotate(
            artifacts=KeyTransform("artifact_delta", KeyTransform("actions", event)),
            by=KeyTextTransform("author", event),
        )
        for row in rows.values("id", "timestamp", "artifacts", "by", "seq")[:_SAVED]:
            for name, version in as_object(row["artifacts"]).items():
                if name in names:
                    by = Writer(row["id"], row.get("seq"), str(row["by"] or ""), "", row["timestamp"], ref)
                    saved.setdefault(name, (by, version if isinstance(version, int) else None))
    return saved
