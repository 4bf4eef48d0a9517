"""What events wrote, and what sessions began with, at places that changes.py knows."""

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from django.db import connections
from django.utils.translation import gettext as _

from . import merging, sources
from .errors import Invalid
from .event_rows import Writer, as_object
from .events import delta_of, edit_of, removed_by
from .keeping import is_creation, place_of, seq_of
from .keys import SessionKey
from .models import read_instant
from .state import ABSENT, UNKNOWN, Scope, State
from .weights import LARGE, large, measured_sql, weight

CHUNK: Final = 500  # events fetched by one statement
_HEAVIEST: Final = 2 * LARGE  # what may be read to tell a moment


class Written(NamedTuple):
    """What stands at a place: the keys that an event wrote, or those that a session began with."""

    writer: Writer | None  # None for a session that was created
    key: SessionKey
    timestamp: float
    delta: State
    removed: Collection[str] = ()
    edit: Mapping[str, Any] = {}
    imported: bool = False  # written elsewhere, in no order with what other sessions wrote

    def value(self, name: str) -> Any:
        """The full key's value after this."""
        return ABSENT if name in self.removed and self.delta.get(name) is None else self.delta.get(name, UNKNOWN)

    def settles(self, name: str) -> bool:
        """Whether the full key's value after this is the same however deltas are applied."""
        return bool(self.edit) or self.writer is None or not merging.is_doubtful(self.value(name))

    def write(self, place: int, name: str) -> merging.Write:
        """The write of the full key at its place."""
        return merging.Write(place, self.value(name), self.settles(name), self.before(name))

    def of(self, key: SessionKey, scope: Scope) -> bool:
        """Whether it may have written to this session's scope: its place may be another's by now."""
        mine = {"app": 2, "user": 3}.get(scope, 4)
        return self.key[:mine] == key[:mine]

    def before(self, name: str) -> Any:
        """The full key's value before this, where it is an edit, which notes it."""
        replaced = self.edit.get("replaced")
        return replaced.get(name, ABSENT) if isinstance(replaced, dict) else UNKNOWN


def _if_valid(value: str) -> str:
    return measured_sql(f"CASE WHEN json_valid(event_data) THEN {value} END", "sqlite")


_SEQ: Final = {"postgresql": "seq + 0", "sqlite": "rowid"}  # as the index of adopt.py has it
# Of a session that was imported: up to which of its events (writes.import_session).
_IMPORTED: Final = """(SELECT initial_place FROM sessions WHERE sessions.app_name = events.app_name
    AND sessions.user_id = events.user_id AND sessions.id = events.session_id AND initial_place < 0)"""
_LOOKED_AT: Final = {
    "postgresql": f"""{measured_sql("event_data #> '{actions,state_delta}'", "postgresql")}, event_data ->> 'author',
        {measured_sql("event_data #> '{custom_metadata,adkweb}'", "postgresql")}, NULL""",
    "sqlite": f"""{_if_valid("json_extract(event_data, '$.actions.state_delta')")},
        CASE WHEN json_valid(event_data) THEN json_extract(event_data, '$.author') END,
        {_if_valid("json_extract(event_data, '$.custom_metadata.adkweb')")},
        {measured_sql("CASE WHEN NOT json_valid(event_data) THEN event_data END", "sqlite")}""",
}


def written_at(source: str, asked: Iterable[int]) -> dict[int, Written]:
    """What was written at these places; nothing for an event or a session that is gone. Raises Invalid where that weighs too
    much to be read.
    """
    wanted = sorted(asked)
    found: dict[int, Written] = {}
    left = _HEAVIEST
    with sources.using(source):
        for start in range(0, len(wanted), CHUNK):
            some = wanted[start : start + CHUNK]
            written, left = _events_at(source, [seq_of(place) for place in some if not is_creation(place)], left)
            found |= written
            begun, left = _creations_at(source, [place for place in some if is_creation(place)], left)
            found |= begun
    return found


def _events_at(source: str, seqs: list[int], left: int) -> tuple[dict[int, Written], int]:
    """What events wrote, and what is left of what all may weigh."""
    if not seqs:
        return {}, left
    vendor = connections[source].vendor
    imported = _IMPORTED if sources.keeps_creations(source) else "NULL"
    found = {}
    with connections[source].cursor() as cursor:
        cursor.execute(
            f"""SELECT {_SEQ[vendor]}, app_name, user_id, session_id, id, timestamp, {imported}, {_LOOKED_AT[vendor]}
            FROM events WHERE {_SEQ[vendor]} IN ({", ".join(["%s"] * len(seqs))})""",
            seqs,
        )
        for seq, app, user, session, event_id, at, last, delta, author, edit, damaged in cursor:
            left = _less(left, delta, edit, damaged)
            event = {"author": author, "actions": {"state_delta": _loads(delta)}}
            event["custom_metadata"] = {"adkweb": _loads(edit)}
            event = event if damaged is None else as_object(_loads(damaged))
            noted, key, moment = edit_of(event), SessionKey(source, app, user, session), read_instant(at)
            who = Writer(event_id, seq, str(event.get("author") or ""), str(noted.get("actor") or ""), moment, key)
            found[place_of(seq)] = Written(
                who,
                key,
                moment,
                delta_of(event),
                frozenset(removed_by(event)),
                noted,
                imported=last is not None and seq < -last,
            )
    return found, left


def _creations_at(source: str, wanted: list[int], left: int) -> tuple[dict[int, Written], int]:
    """What sessions began with, and what is left of what all may weigh."""
    if not wanted:
        return {}, left
    found = {}
    with connections[source].cursor() as cursor:
        state = measured_sql("initial_state", connections[source].vendor)
        cursor.execute(
            f"""SELECT initial_place, app_name, user_id, id, create_time, {state} FROM sessions
            WHERE initial_place IN ({", ".join(["%s"] * len(wanted))})""",
            wanted,
        )
        for place, *names, at, text in cursor:
            left = _less(left, text)
            found[place] = Written(None, SessionKey(source, *names), read_instant(at), as_object(_loads(text)))
    return found, left


def _less(left: int, *texts: str | None) -> int:
    left -= sum(map(weight, texts))
    if left < 0 or any(map(large, texts)):
        raise Invalid(_("What was written here is too large to be read."))
    return left


def _loads(text: str | None) -> Any:
    try:
        return json.loads(text or "null")
    except (ValueError, RecursionError):
        return None
