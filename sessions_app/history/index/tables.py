"""Stores the index in adkweb's own database: which owner has which key, highlight or edit at which position.

A position orders everything that writes state. The position of an event is the last one that belongs to its seq; a
session that adkweb created has an earlier one, from `sessions.initial_place`.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from hashlib import sha256
from operator import itemgetter
from typing import Any, Final, NamedTuple

from django.db import connection

from ...domain.positions import POSITIONS_OF_TIMES, Position, Seq, position_of
from ...domain.session_ref import SessionRef
from ...domain.state import Scope, scope_of
from ...models import SearchSource, StateChange, StateOwner, Waiting
from ...sources import dialect
from ...sources.dialect import Either

HIGHLIGHTED: Final = "marks"  # as a scope: the owner of a session's highlights
EDITS: Final = "edits"  # as a scope: of an app's edits
ALL_EDITS: Final = "all edits"
_SESSIONS: Final = "sessions"  # as a scope: the sessions at each position, if events have no numbers
_KEY_LENGTH: Final = 500  # bytes of a key or a name that a database's index can hold
_REMEMBERED: Final = 25_000  # owners whose numbers are remembered, and as many older ones
_SOME: Final = 500  # owners asked for at once
_DIGITS: Final = 16  # of a moment
LAST_MOMENT: Final = 10**_DIGITS - 1
# Names that an owner has; a session's has all three.
_LEVELS: Final = {"user": 2, "app": 1, EDITS: 1, ALL_EDITS: 0, _SESSIONS: 0}
_OWNER: Final = """SELECT id FROM sessions_app_stateowner
    WHERE projection_id = (SELECT id FROM sessions_app_projection WHERE "where" = %s)
        AND app_name = %s AND user_id = %s AND session_id = %s AND scope = %s"""
Names = tuple[str, str, str, str]  # an owner: app, user, session, scope
Owner = tuple[SessionRef, str]  # an owner by a session, of which a shared scope needs only app and user


class Row(NamedTuple):
    """What to store of an event, or of a session that was created.

    `since` is set for a rewind: the seq of the first event that it undoes. `moment` is set for an edit, in
    microseconds. `origin` is the session that this one was forked from, if the event says so.
    """

    position: Position
    ref: SessionRef
    event_id: str
    keys: Sequence[str]
    kinds: Sequence[str]
    since: Seq | None = None
    moment: int | None = None
    origin: SessionRef | None = None


class Reach(NamedTuple):
    """How far a source is read, with the checkpoints as they are stored."""

    projection: int
    seq: Seq
    checkpoints: str


class EditPosition(NamedTuple):
    """When an edit was made, in microseconds, and its position."""

    moment: int
    position: Position


def stored_key(key: str) -> str:
    """Returns a key as the index keeps it. It is shortened only if a database or its index cannot hold it."""
    if len(key) <= _KEY_LENGTH and key.isascii() and key.isprintable():
        return key
    plain = key.isprintable() or not any(c == "\0" or "\ud800" <= c <= "\udfff" for c in key)
    if plain and not is_shortened(key) and len(key.encode()) <= _KEY_LENGTH:
        return key
    return f"\1{json.dumps(key)[:_KEY_LENGTH]}{sha256(key.encode(errors='surrogatepass')).hexdigest()}"


def is_shortened(kept: str) -> bool:
    """Returns whether the index stores something other than the key itself."""
    return kept.startswith("\1")


def names_of(ref: SessionRef, scope: str) -> Names:
    """Returns the owner of a scope: ("booking", "ana", "", "user") for the `user:` keys of ana."""
    names = ref[1 : 1 + _LEVELS.get(scope, 3)]
    return (*map(stored_key, names), *[""] * (3 - len(names)), scope)  # type: ignore[return-value]


class Owners:
    """Returns the numbers of a projection's owners, and caches a bounded number of recent ones."""

    def __init__(self, projection: int) -> None:
        self.projection = projection
        self._lately: dict[Owner, int] = {}
        self._before: dict[Owner, int] = {}

    def numbers(self, wanted: Collection[Owner]) -> dict[Owner, int]:
        """Returns the number of each owner. New owners get one."""
        numbers: dict[Owner, int] = {}
        unknown: dict[Owner, Names] = {}
        for owner in wanted:
            number = self._lately.get(owner) or self._before.get(owner)
            if number is None:
                unknown[owner] = names_of(*owner)
            else:
                numbers[owner] = number
        if unknown:
            made = self._made(list({*unknown.values()}))
            numbers |= {owner: made[names] for owner, names in unknown.items()}
        self._lately |= numbers
        if len(self._lately) > _REMEMBERED:
            self._lately, self._before = {}, self._lately
        return numbers

    def _made(self, unknown: list[Names]) -> dict[Names, int]:
        of = dialect.of(connection)
        made = dict(_run(_ADD_OWNERS, [self.projection, *of.table(unknown)]))
        there = [names for names in unknown if names not in made]
        for start in range(0, len(there), _SOME):
            some = there[start : start + _SOME]
            projection = Either[Any](postgresql=[self.projection] * len(some), sqlite=self.projection)
            made.update(_run(_FIND_OWNERS, [projection.on(connection), *of.table(some)]))
        return made


_ADD_OWNERS: Final = Either(
    sqlite="""INSERT INTO sessions_app_stateowner (projection_id, app_name, user_id, session_id, scope)
        SELECT %s, json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
            json_extract(value, '$[3]') FROM json_each(%s) WHERE true
        ON CONFLICT DO NOTHING RETURNING app_name, user_id, session_id, scope, id""",
    postgresql="""INSERT INTO sessions_app_stateowner (projection_id, app_name, user_id, session_id, scope)
        SELECT %s, * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[])
        ON CONFLICT DO NOTHING RETURNING app_name, user_id, session_id, scope, id""",
)
_SAME: Final = """o.app_name = w.app_name AND o.user_id = w.user_id AND o.session_id = w.session_id
    AND o.scope = w.scope"""
_FIND_OWNERS: Final = Either(
    sqlite=f"""WITH w AS MATERIALIZED (SELECT %s AS projection, json_extract(value, '$[0]') AS app_name,
            json_extract(value, '$[1]') AS user_id, json_extract(value, '$[2]') AS session_id,
            json_extract(value, '$[3]') AS scope FROM json_each(%s))
        SELECT o.app_name, o.user_id, o.session_id, o.scope, o.id FROM w CROSS JOIN sessions_app_stateowner AS o
        WHERE o.projection_id = w.projection AND {_SAME}""",
    postgresql=f"""SELECT o.app_name, o.user_id, o.session_id, o.scope, o.id FROM sessions_app_stateowner AS o
        JOIN unnest(%s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[])
            AS w (projection, app_name, user_id, session_id, scope)
        ON o.projection_id = w.projection AND {_SAME}""",
)


def _run(statement: Either[str], parameters: Sequence[Any]) -> Iterator[tuple[Names, int]]:
    """Yields the names and numbers of owners that a statement returns."""
    with connection.cursor() as cursor:
        cursor.execute(statement.on(connection), parameters)
        for *owner, number in cursor.fetchall():
            yield tuple(owner), number


_INSERT: Final = Either(
    sqlite="""INSERT INTO sessions_app_statechange (owner_id, key, place, since) VALUES (%s, %s, %s, %s)
        ON CONFLICT DO NOTHING""",
    postgresql="""INSERT INTO sessions_app_statechange (owner_id, key, place, since)
        SELECT * FROM unnest(%s::bigint[], %s::text[], %s::bigint[], %s::bigint[]) ON CONFLICT DO NOTHING""",
)


def insert(owners: Owners, rows: Sequence[Row], where: str) -> None:
    """Stores these rows, in the order of the index. `where` is their source."""
    _note_moved(where, rows)
    writes: list[tuple[Owner, str, Position, Seq | None]] = []
    stored: dict[str, tuple[Scope, str]] = {}  # events write the same keys again and again
    for position, ref, _id, keys, kinds, since, moment, origin in rows:
        for name in keys:
            if name not in stored:
                scope, bare = scope_of(name)
                stored[name] = scope, stored_key(bare)
            scope, kept_key = stored[name]
            writes.append(((ref, scope), kept_key, position, None))
        writes += [((ref, HIGHLIGHTED), kind, position, since) for kind in kinds]
        if moment is not None:
            at = moment_key(moment)
            writes += [((ref, EDITS), at, position, None), ((ref, ALL_EDITS), at, position, None)]
        if origin is not None:
            writes.append(((origin, HIGHLIGHTED), "fork", position, None))
    if not writes:
        return
    here = [(row.position, (row.ref, HIGHLIGHTED)) for row in rows if row.kinds and row.position >= POSITIONS_OF_TIMES]
    all_sessions = (rows[0].ref, _SESSIONS)
    numbers = owners.numbers({*(write[0] for write in writes), *([all_sessions] if here else ())})
    kept: list[tuple[int, str, int, int | None]] = [
        (numbers[owner], key, position, since) for owner, key, position, since in writes
    ]
    kept += [(numbers[all_sessions], str(position), numbers[owner], None) for position, owner in here]
    kept.sort(key=itemgetter(0, 1, 2))
    with connection.cursor() as cursor:
        dialect.of(connection).insert(cursor, _INSERT.on(connection), kept)


def _note_moved(where: str, rows: Sequence[Row]) -> None:
    """Notes for search/ which sessions are new, or have new events. Until its index has started, it needs no notes."""
    begun = SearchSource.objects.filter(where=where).exclude(walks=0, walked="")
    if not begun.exists():
        return
    moved = dict.fromkeys(row.ref[1:] for row in rows if row.ref.session_id)
    Waiting.objects.bulk_create(Waiting(where=where, names=json.dumps(names)) for names in moved)


def drop_after(projection: int, position: Position) -> None:
    """Forgets what is at a position and after it."""
    owners = StateOwner.objects.filter(projection_id=projection).values("pk")
    StateChange.objects.filter(owner_id__in=owners, place__gte=position).delete()


def owner_of(where: str, names: Names) -> int | None:
    """Returns the number of an owner, in the projection that reads this source."""
    # Every question to the index starts with this one. Django's own query takes twenty times as long.
    with connection.cursor() as cursor:
        cursor.execute(_OWNER, [where, *names])
        row = cursor.fetchone()
    return row[0] if row else None


def sessions_at(where: str, seqs: Collection[Seq]) -> dict[tuple[str, str, str], list[Seq]]:
    """Returns the sessions that have an event with one of these seqs, each with its seqs, by (app, user, session).

    The index only knows that if the source's events have no numbers.
    """
    owner = owner_of(where, ("", "", "", _SESSIONS))
    kept = {str(position_of(seq)): seq for seq in seqs}
    sessions: dict[tuple[str, str, str], list[Seq]] = {}
    if owner is None:
        return sessions
    rows = list(StateChange.objects.filter(owner_id=owner, key__in=kept).values_list("key", "place"))
    names = StateOwner.objects.in_bulk({number for _key, number in rows})
    for key, number in rows:
        if of := names.get(number):
            sessions.setdefault((of.app_name, of.user_id, of.session_id), []).append(kept[key])
    return sessions


def moment_key(moment: int) -> str:
    """Returns a moment as a key. All of them have the same length, so that their order is that of time."""
    return f"{moment:0{_DIGITS}}"
