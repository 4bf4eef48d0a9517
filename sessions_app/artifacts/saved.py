"""Lists the artifacts of a session: their names and versions, and the events that saved them.

The index knows these events, so that no session is searched for them. The newest events, which the index may not have
yet, are read in addition.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from django.db.models.fields.json import KeyTextTransform, KeyTransform

from ..access.actor import Actor
from ..access.shown import shown
from ..domain.json_values import as_object
from ..domain.positions import Seq
from ..domain.session_ref import SessionRef, digest_of
from ..models import Event, SearchName, SearchSession, SearchSpan
from ..reads.event_views import EventView
from ..reads.size_limits import Small
from ..search import masked
from ..search.folding import MOST_ARTIFACTS, artifact_name
from ..search.index.tables import NAME_LENGTH
from ..search.lines import clean
from ..search.outline import so_far_of
from ..sources import database, registry

LOOKED_AT: Final = 2_000  # saves of a session that are looked at together
NAMES: Final = 100  # artifacts of a page
VERSIONS: Final = 100  # of an artifact


@dataclass(frozen=True, slots=True)
class Save:
    """A version of an artifact, and the event that saved it. `version` is None if the event names no number."""

    name: str
    version: int | None
    event_id: str
    seq: Seq | None
    author: str
    timestamp: float


@dataclass(frozen=True, slots=True)
class Artifact:
    """An artifact: how often it was saved, as far as that was looked at, and the last time."""

    saves: int
    last: Save

    @property
    def name(self) -> str:
        """Returns its name."""
        return self.last.name


@dataclass(frozen=True, slots=True)
class Listing:
    """Artifacts, those that were saved last first. `older` leads to the next ones; 0 if there are none.

    With `behind`, the index has not read the newest events yet, so some may be missing."""

    rows: list[Artifact] = field(default_factory=list)
    older: int = 0
    behind: bool = False


class _Row(NamedTuple):
    """A save in the index: its number in the session, the digest of its name, and its event."""

    number: int
    key: str
    seq: int


def count(ref: SessionRef, *, newest: bool = False, actor: Actor) -> int:
    """Returns how many artifacts a session has, of those that were saved last, as far as the index knows.

    With `newest`, reads the newest events, too."""
    actor.check_sees(ref)
    if newest:
        with database.using(ref.source):
            pk, newer = _known(ref, actor)
    else:
        sessions = SearchSession.objects.filter(source__where=registry.identity(ref.source), digest=digest_of(*ref[1:]))
        pk, newer = sessions.values_list("pk", flat=True).first() or 0, ()
    spans = SearchSpan.objects.filter(session_id=pk, kind="a").order_by("-number").values_list("name_id", flat=True)
    known = set(spans[:LOOKED_AT]) if pk else set()
    names = {artifact_name(save.name) for save in _saves_of(newer or ())}
    stored = SearchName.objects.filter(pk__in=known, value__in=names).count() if known and names else 0
    return len(known) + len(names) - stored


def listing(ref: SessionRef, before: int = 0, *, actor: Actor) -> Listing:
    """Returns the artifacts that were saved last, or those before a number that a listing had as `older`."""
    actor.check_sees(ref)
    with database.using(ref.source):
        session, newer = _known(ref, actor)
        rows = _rows(session, ref.app_name, before)
        groups: dict[str, list[Save | _Row]] = {}
        for save in reversed(() if before else _saves_of(newer or ())):
            groups.setdefault(artifact_name(save.name), []).append(save)
        for row in rows[:LOOKED_AT]:
            groups.setdefault(row.key, []).append(row)
        chosen = dict(list(groups.items())[:NAMES])
        stored = _stored(ref, [saves[0].seq for saves in chosen.values() if isinstance(saves[0], _Row)], actor)
        listed = []
        for key, saves in chosen.items():
            last = saves[0] if isinstance(saves[0], Save) else stored.get((saves[0].seq, key))
            if last:
                listed.append(Artifact(len(saves), last))
        return Listing(listed, _older(rows, groups), newer is None)


def versions(ref: SessionRef, name: str, *, actor: Actor) -> list[Save]:
    """Returns the events that saved an artifact, the newest first, VERSIONS at most."""
    actor.check_sees(ref)
    with database.using(ref.source):
        session, newer = _known(ref, actor)
        key = artifact_name(name)
        saves = [save for save in reversed(_saves_of(newer or ())) if save.name == name][:VERSIONS]
        seqs = [row.seq for row in _rows(session, ref.app_name, 0, key)[: VERSIONS - len(saves)]]
        stored = _stored(ref, seqs, actor)
        return [*saves, *(save for seq in seqs if (save := stored.get((seq, key))) and save.name == name)]


def saved_by(event: EventView) -> list[Save]:
    """Returns the artifacts that an event saved."""
    delta = as_object(event.description.actions.get("artifact_delta"))
    author = event.description.author
    return [
        Save(name, _number(version), event.id, event.seq, author, event.timestamp)
        for name, version in list(delta.items())[:MOST_ARTIFACTS]
    ]


def _known(ref: SessionRef, actor: Actor) -> tuple[int, Sequence[EventView] | None]:
    """Returns the number of a session's row in the index, 0 if it has none, and the events that are newer; None if they
    are too many."""
    pk, _summary, newer = so_far_of(ref, actor)
    if pk and not SearchSession.objects.filter(pk=pk, source__version=masked.version()).exists():
        return 0, None  # it was made by other rules
    return pk, newer


def _saves_of(events: Sequence[EventView]) -> list[Save]:
    return [save for event in events for save in saved_by(event)]


def _rows(session: int, app_name: str, before: int, key: str | None = None) -> list[_Row]:
    """Returns saves in the index, the newest first: one more than LOOKED_AT at most. With a key, those of this
    artifact."""
    if not session:
        return []
    spans = SearchSpan.objects.filter(session_id=session, kind="a").order_by("-number")
    spans = spans.filter(number__lt=before) if before else spans
    rows = list(spans.values_list("number", "name_id", "seq")[: LOOKED_AT + 1])
    if key is not None:
        named = SearchName.objects.filter(kind="artifact", value=key, app_name=clean(app_name, NAME_LENGTH))
        keys = dict.fromkeys(named.values_list("pk", flat=True), key)
    else:
        names = SearchName.objects.filter(pk__in={name for _number, name, _seq in rows})
        keys = dict(names.values_list("pk", "value"))
    return [_Row(number, keys[name], seq) for number, name, seq in rows if name in keys]


def _older(rows: Sequence[_Row], groups: dict[str, Any]) -> int:
    """Returns where the next page of artifacts starts; 0 if all were listed."""
    if len(groups) > NAMES:
        first_left = list(groups)[NAMES]
        return next((row.number + 1 for row in rows if row.key == first_left), 0)
    return rows[LOOKED_AT - 1].number if len(rows) > LOOKED_AT else 0


def _stored(ref: SessionRef, seqs: Collection[int], actor: Actor) -> dict[tuple[int, str], Save]:
    """Returns what the events with these seqs saved, by seq and the digest of the name."""
    event = Small("event_data")
    rows = Event.objects.using(ref.source).filter(
        app_name=ref.app_name, user_id=ref.user_id, session_id=ref.session_id, seq__in=seqs
    )
    told = rows.annotate(
        delta=KeyTransform("artifact_delta", KeyTransform("actions", event)), by=KeyTextTransform("author", event)
    )
    return {
        (save.seq or 0, artifact_name(save.name)): save
        for row in told.values("id", "timestamp", "delta", "by", "seq")
        for save in _told(ref, row, actor)
    }


def _told(ref: SessionRef, row: Mapping[str, Any], actor: Actor) -> Iterator[Save]:
    event = {"author": str(row["by"] or ""), "actions": {"artifact_delta": as_object(row["delta"])}}
    seen = shown(event, actor, ref.app_name, "event")
    for name, version in as_object(as_object(seen.get("actions")).get("artifact_delta")).items():
        yield Save(name, _number(version), row["id"], row["seq"], str(seen.get("author") or ""), row["timestamp"])


def _number(version: Any) -> int | None:
    return version if isinstance(version, int) and not isinstance(version, bool) and 0 <= version < 2**31 else None
