"""What events wrote, and what sessions began with, at places that changes.py knows."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from django.db import connections

from . import merging, sources
from .event_rows import Writer, as_object
from .events import delta_of, edit_of, removed_by
from .keeping import is_creation, place_of, seq_of, sessions_at
from .keys import SessionKey
from .models import MOMENT, read_instant, stored_instant
from .state import ABSENT, UNKNOWN, Scope, State
from .units import seconds_of

CHUNK: Final = 500  # events fetched by one statement


class Written(NamedTuple):
    """What stands at a place: the keys that an event wrote, or those that a session began with."""

    writer: Writer | None  # None for a session that was created
    key: SessionKey
    timestamp: float
    delta: State
    removed: Collection[str] = ()
    edit: Mapping[str, Any] = {}
    imported: bool = False  # written elsewhere, in no order with what other sessions wrote
    beside: tuple[
        "Written", ...
    ] = ()  # others at the same place, which stands for their time: nobody knows their order

    def value(self, name: str) -> Any:
        """The full key's value after this."""
        return ABSENT if name in self.removed and self.delta.get(name) is None else self.delta.get(name, UNKNOWN)

    def settles(self, name: str) -> bool:
        """Whether the full key's value after this is the same however deltas are applied."""
        return bool(self.edit) or self.writer is None or not merging.is_doubtful(self.value(name))

    def write(self, place: int, name: str) -> merging.Write:
        """The write of the full key at its place."""
        return merging.Write(place, self.value(name), self.settles(name), self.before(name))

    def within(self, key: SessionKey, scope: Scope) -> "Written | None":
        """What of this may have been written to this session's scope: its place may be another's by now."""
        mine = {"app": 2, "user": 3}.get(scope, 4)
        return self._of([each for each in (self, *self.beside) if each.key[:mine] == key[:mine]])

    def by(self, name: str) -> "Written":
        """What of this wrote the full key, without any value where that are several."""
        if not self.beside:
            return self
        those = [each for each in (self, *self.beside) if name in each.delta]
        return those[0]._replace(beside=()) if len(those) == 1 else self._replace(delta={}, edit={}, beside=())

    def _of(self, those: Sequence["Written"]) -> "Written | None":
        return those[0]._replace(beside=tuple(each._replace(beside=()) for each in those[1:])) if those else None

    def before(self, name: str) -> Any:
        """The full key's value before this, where it is an edit, which notes it."""
        replaced = self.edit.get("replaced")
        return replaced.get(name, ABSENT) if isinstance(replaced, dict) else UNKNOWN


_SEQ: Final = {"postgresql": "seq + 0", "sqlite": "rowid"}  # as the index of adopt.py has it
# Of a session that was imported: up to which of its events (writes.import_session).
_IMPORTED: Final = """(SELECT initial_place FROM sessions WHERE sessions.app_name = events.app_name
    AND sessions.user_id = events.user_id AND sessions.id = events.session_id AND initial_place < 0)"""
_LOOKED_AT: Final = {
    "postgresql": """(event_data #> '{actions,state_delta}')::text, event_data ->> 'author',
        (event_data #> '{custom_metadata,adkweb}')::text, NULL""",
    "sqlite": """CASE WHEN json_valid(event_data) THEN json_extract(event_data, '$.actions.state_delta') END,
        CASE WHEN json_valid(event_data) THEN json_extract(event_data, '$.author') END,
        CASE WHEN json_valid(event_data) THEN json_extract(event_data, '$.custom_metadata.adkweb') END,
        CASE WHEN NOT json_valid(event_data) THEN event_data END""",
}


def written_at(source: str, asked: Iterable[int]) -> dict[int, Written]:
    """What was written at these places; nothing for an event or a session that is gone."""
    wanted = sorted(asked)
    found: dict[int, Written] = {}
    with sources.using(source):
        for start in range(0, len(wanted), CHUNK):
            some = wanted[start : start + CHUNK]
            found |= _events_at(source, [seq_of(place) for place in some if not is_creation(place)])
            found |= _creations_at(source, [place for place in some if is_creation(place)])
    return found


def _events_at(source: str, seqs: list[int]) -> dict[int, Written]:
    if not seqs:
        return {}
    vendor = connections[source].vendor
    column, asked = _SEQ[vendor], list[Any](seqs)
    rows = f"events WHERE {column} IN ({', '.join(['%s'] * len(seqs))})"
    if not sources.is_numbered(source):
        column, (rows, asked) = MOMENT, _by_time(source, seqs)
    imported = _IMPORTED if sources.keeps_creations(source) else "NULL"
    found: dict[int, Written] = {}
    with connections[source].cursor() as cursor:
        cursor.execute(
            f"""SELECT {column}, app_name, user_id, session_id, id, timestamp, {imported}, {_LOOKED_AT[vendor]}
            FROM {rows}""",
            asked,
        )
        for seq, app, user, session, event_id, at, last, delta, author, edit, damaged in cursor.fetchall():
            event = {"author": author, "actions": {"state_delta": _loads(delta)}}
            event["custom_metadata"] = {"adkweb": _loads(edit)}
            event = event if damaged is None else as_object(_loads(damaged))
            noted, key, moment = edit_of(event), SessionKey(source, app, user, session), read_instant(at)
            who = Writer(event_id, seq, str(event.get("author") or ""), str(noted.get("actor") or ""), moment, key)
            this = Written(
                who,
                key,
                moment,
                delta_of(event),
                frozenset(removed_by(event)),
                noted,
                imported=last is not None and seq < -last,
            )
            other = found.get(place_of(seq))
            found[place_of(seq)] = other._replace(beside=(*other.beside, this)) if other else this
    return found


def _by_time(source: str, seqs: Sequence[int]) -> tuple[str, list[Any]]:
    """The events at these places, where these stand for times: a table, and its values."""
    at = [
        (*names, stored_instant(seconds_of(seq), connections[source]))
        for names, some in sessions_at(sources.identity(source), seqs).items()
        for seq in some
    ]
    # OFFSET: one after the other by the index, however many there are.
    table = """unnest(%s::text[], %s::text[], %s::text[], %s::timestamp[]) AS at (app, of_user, session, moment)
        CROSS JOIN LATERAL (SELECT * FROM events WHERE app_name = app AND user_id = of_user AND session_id = session
            AND timestamp = moment OFFSET 0) AS events"""
    return table, [list(column) for column in zip(*at, strict=True)] if at else [[]] * 4


def _creations_at(source: str, wanted: list[int]) -> dict[int, Written]:
    if not wanted or not sources.keeps_creations(source):  # released, after these were read
        return {}
    with connections[source].cursor() as cursor:
        cursor.execute(
            f"""SELECT initial_place, app_name, user_id, id, create_time, initial_state FROM sessions
            WHERE initial_place IN ({", ".join(["%s"] * len(wanted))})""",
            wanted,
        )
        return {
            place: Written(None, SessionKey(source, *names), read_instant(at), as_object(_loads(state)))
            for place, *names, at, state in cursor.fetchall()
        }


def _loads(text: str | None) -> Any:
    try:
        return json.loads(text or "null")
    except (ValueError, RecursionError):
        return None
