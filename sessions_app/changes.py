"""Where each key was written: for every owner of state and every key, the places of the events that wrote it.

Derived data, in adkweb's own database: `catch_up` reads what is new in a source, whoever wrote it, and may be interrupted
and repeated; `rebuild` reads everything anew. It holds places, never values: those stand in the events. No write needs it.

A place is one number, in the order in which state was written: an event's is the last of those that belong to its seq, a
session that adkweb created has one of those before it, as `sessions.initial_place` says.
"""

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

from django.db import connection, connections, transaction
from django.utils.translation import gettext as _

from . import sources
from .errors import Behind, Invalid
from .events import delta_of, describe
from .filters import FILTERS
from .keys import SessionKey
from .models import BETWEEN, Projection, StateChange, StateOwner
from .state import STORED, TEMP, Scope, scope_of

SECONDS: Final = 2.0  # that a page waits for what is not read yet
KINDS_OF_MARK: Final = ("state", "edit", "error", "rewind", "compaction")
_MARKS: Final = "marks"  # in the place of a scope
_BATCH: Final = 5_000  # events read at once
_SOME: Final = 200  # owners asked for at once
_LOOK_BACK: Final = 1_000  # places before the newest that may still be committing
_PATIENCE_SECONDS: Final = 60.0  # for a place that was passed over; after that its transaction was surely rolled back
_KEY_LENGTH: Final = 500  # characters of a key that an index can hold
_behind: dict[str, float] = {}  # when somebody was last told so


class Mark(NamedTuple):
    """An event that a timeline marks; `since` is of a rewind: the seq of the first event that it takes back, if known."""

    kind: str
    seq: int
    since: int | None


class Places(NamedTuple):
    """Where a key was written: last up to a moment, first after it, and last of all; None for nowhere."""

    last: int | None
    next: int | None
    newest: int


class _Row(NamedTuple):
    """What the projection keeps of an event, or of a session that was created."""

    place: int
    key: SessionKey
    event_id: str
    keys: list[str]
    kinds: list[str]
    since: int | None = None


_Names = tuple[str, str, str, str]  # of an owner: app, user, session, scope
_Owners = dict[tuple[int, _Names], int]  # their numbers, by projection


def place_of(seq: int) -> int:
    """The place of the event with this seq."""
    return seq * BETWEEN + BETWEEN - 1


def seq_of(place: int) -> int:
    """The seq that a place belongs to."""
    return place // BETWEEN


def is_creation(place: int) -> bool:
    """Whether a session's initial state stands there, and no event."""
    return place != place_of(seq_of(place))


def stored_key(key: str) -> str:
    """A key as the projection keeps it: as it is, but for one that an index or a database cannot hold."""
    plain = key.isprintable() or not any(c == "\0" or "\ud800" <= c <= "\udfff" for c in key)
    if plain and len(key) <= _KEY_LENGTH and not key.startswith("\1"):
        return key
    return f"\1{json.dumps(key)[:_KEY_LENGTH]}{sha256(key.encode(errors='surrogatepass')).hexdigest()}"


def is_shortened(kept: str) -> bool:
    """Whether a key as the projection keeps it is not the key itself."""
    return kept.startswith("\1")


# --- Reading what is new ----------------------------------------------------------------------------------------------


def catch_up(source: str, seconds: float = SECONDS) -> None:
    """Reads the events that are not read yet; raises Behind, with `share` of it done, where that takes longer.

    Raises Invalid where a source is read only and was never adopted, NotFound, SourceError.
    """
    if seconds <= SECONDS and time.monotonic() - _behind.get(source, -1.0) < 1:  # a page that asks twice waits once
        seconds = 0.0
    until = time.monotonic() + seconds
    for done, total in _read(source):
        if time.monotonic() > until and done < total:
            _behind[source] = time.monotonic()
            raise Behind(share=done / max(1, total))


def rebuild(source: str, moved: Callable[[int, int], None] = lambda done, total: None) -> int:
    """Forgets everything and reads it anew; how many writes there are. `moved` hears how far it is, in places of both."""
    forget(source)
    for done, total in _read(source):
        moved(done, total)
    owners = StateOwner.objects.filter(projection__where=sources.identity(source), scope__in=STORED)
    return StateChange.objects.filter(owner_id__in=owners.values("pk")).count()


def forget(source: str) -> None:
    """Forgets what was read of a source."""
    with transaction.atomic():
        for found in Projection.objects.filter(where=sources.identity(source)):
            _drop_after(found.pk, 0)
            found.delete()


def _read(source: str) -> Iterator[tuple[int, int]]:
    """Reads batch by batch; after each, how far it is and how far it will be."""
    vendor = sources.get(source).vendor
    if not sources.is_adopted(source):
        raise Invalid(_("The events of this database have no order: adkweb reads it only, and it was never adopted."))
    where = sources.identity(source)
    last = None
    owners: _Owners = {}
    while True:
        at = Projection.objects.filter(where=where).first() or Projection.objects.get_or_create(where=where)[0]
        with sources.using(source):
            seq = _checked(source, at)
            holes = {int(hole): until for hole, until in json.loads(at.holes) if until > time.time()}
            rows = list(_events(source, seq, holes))
            read = [row for row in rows if seq_of(row.place) > seq]
            more = len(read) >= _BATCH
            top = seq_of(max((row.place for row in read), default=0)) if read else seq
            rows += _creations(source, seq, top if more else None)
            if more and last is None:
                last = _newest(source)
        _store(at, seq, top, rows, holes, owners, sequence=vendor == "postgresql")
        yield top, max(last or 0, top) if more else top
        if not more:
            return


def _checked(source: str, at: Projection) -> int:
    """How far the source is read: less than was noted where an event that was read is gone, as its place may be another's
    by now (SQLite gives it again; a file was made anew).
    """
    seq = at.seq
    marks = json.loads(at.marks)
    while marks:
        place, *names = marks[-1]
        with connections[source].cursor() as cursor:
            cursor.execute(
                f"""SELECT app_name, user_id, session_id, id FROM events WHERE {_SEQ[cursor.db.vendor]} = %s
                AND app_name = %s AND user_id = %s AND session_id = %s AND id = %s""",
                [place, *names],
            )
            if cursor.fetchone():
                break
        marks.pop()
    if not at.seq or (marks and marks[-1][0] == seq):
        return seq
    return marks[-1][0] if marks else 0


_SEQ: Final = {"postgresql": "seq + 0", "sqlite": "rowid"}  # as the index of adopt.py has it
_JSON: Final = {"postgresql": "true", "sqlite": "json_valid(event_data)"}
_DELTA: Final = {
    "postgresql": "(event_data #> '{actions,state_delta}')",
    "sqlite": "json_extract(event_data, '$.actions.state_delta')",
}
_KEYS: Final = {
    "postgresql": """CASE WHEN jsonb_typeof(event_data #> '{actions,state_delta}') = 'object'
        THEN to_jsonb(ARRAY(SELECT jsonb_object_keys(event_data #> '{actions,state_delta}')))::text END""",
    "sqlite": """CASE WHEN json_type(event_data, '$.actions.state_delta') = 'object'
        THEN (SELECT json_group_array(key) FROM json_each(event_data, '$.actions.state_delta')) END""",
}
_REWIND: Final = {
    "postgresql": "event_data #>> '{actions,rewind_before_invocation_id}'",
    "sqlite": "json_extract(event_data, '$.actions.rewind_before_invocation_id')",
}
_COMPACTION: Final = {
    "postgresql": "jsonb_typeof(event_data #> '{actions,compaction}') = 'object'",
    "sqlite": "json_type(event_data, '$.actions.compaction') = 'object'",
}


def _events(source: str, seq: int, holes: Collection[int]) -> Iterator[_Row]:
    """What is to be kept of the events after a place, in order, a batch at most, and of those at these places."""
    vendor = connections[source].vendor
    column, valid = _SEQ[vendor], _JSON[vendor]
    looked_at = ", ".join(
        f"CASE WHEN {valid} THEN {sql} END"
        for sql in (
            _KEYS[vendor],
            FILTERS["edits"][vendor],
            FILTERS["errors"][vendor],
            _REWIND[vendor],
            _COMPACTION[vendor],
        )
    )
    select = f"""SELECT {column}, app_name, user_id, session_id, id, {looked_at},
        CASE WHEN NOT {valid} THEN event_data END FROM events WHERE {column}"""
    with connections[source].cursor() as cursor:
        cursor.execute(f"{select} > %s ORDER BY {column} LIMIT {_BATCH}", [seq])
        rows = cursor.fetchall()
        if holes:
            cursor.execute(f"{select} = ANY(%s)", [list(holes)])
            rows += cursor.fetchall()
    for number, app, user, session, event_id, keys, edit, failed, rewind, compaction, damaged in rows:
        key = SessionKey(source, app, user, session)
        names = [name for name in json.loads(keys) if not name.startswith(TEMP)] if keys else []
        kinds = {"edit": edit, "error": failed, "rewind": rewind, "compaction": compaction}
        if damaged is not None:
            names, kinds = _damaged(damaged)
        since = _first_of(key, str(rewind)) if kinds["rewind"] else None
        marks = [*(["state"] if names else []), *(kind for kind, there in kinds.items() if there)]
        yield _Row(place_of(number), key, event_id, names, marks, since)


def _damaged(text: str) -> tuple[list[str], dict[str, Any]]:
    """The same of an event that is no JSON for the database: ADK stored NaN in it."""
    try:
        event = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        event = {}
    event = event if isinstance(event, dict) else {}
    found = describe(event)
    kinds = {"edit": found.edit, "error": found.failed, "rewind": False, "compaction": "compaction" in found.kinds}
    return [name for name in delta_of(event) if not name.startswith(TEMP)], kinds


def _first_of(key: SessionKey, invocation_id: str) -> int | None:
    """The seq of an invocation's first event."""
    with connections[key.source].cursor() as cursor:
        cursor.execute(
            f"""SELECT min({_SEQ[cursor.db.vendor]}) FROM events
            WHERE app_name = %s AND user_id = %s AND session_id = %s AND invocation_id = %s""",
            [*key[1:], invocation_id],
        )
        found: int | None = cursor.fetchone()[0]
        return found


def _creations(source: str, seq: int, upto: int | None) -> list[_Row]:
    """The sessions that adkweb created at these places, with the `user:` and `app:` keys of their initial state."""
    if not sources.keeps_creations(source):
        return []
    below = "" if upto is None else f"AND initial_place < {(upto + 1) * BETWEEN}"
    with connections[source].cursor() as cursor:
        cursor.execute(
            f"""SELECT initial_place, app_name, user_id, id, initial_state FROM sessions
            WHERE initial_place > %s {below}""",
            [max(0, seq - _LOOK_BACK) * BETWEEN],
        )
        rows = cursor.fetchall()
    found = []
    for place, app, user, session, text in rows:
        state = json.loads(text or "{}")
        keys = [key for key in state if scope_of(key)[0] in ("app", "user")]
        found.append(_Row(place, SessionKey(source, app, user, session), "", keys, []))
    return [row for row in found if row.keys]


def _newest(source: str) -> int:
    with connections[source].cursor() as cursor:
        cursor.execute(f"SELECT max({_SEQ[cursor.db.vendor]}) FROM events")
        return int(cursor.fetchone()[0] or 0)


# --- Keeping it -------------------------------------------------------------------------------------------------------


def _store(
    at: Projection,
    seq: int,
    top: int,
    rows: list[_Row],
    holes: dict[int, float],
    owners: _Owners,
    *,
    sequence: bool,
) -> None:
    """Keeps a batch, and that the source is read up to `top`; nothing where another process was faster."""
    marks = [mark for mark in json.loads(at.marks) if mark[0] <= seq]
    read = [row for row in rows if row.event_id]
    if top > seq:
        newest = max(read, key=lambda row: row.place)
        marks = _thinned([*marks, [top, *newest.key[1:], newest.event_id]])
    if sequence:
        there = {seq_of(row.place) for row in read}
        until = time.time() + _PATIENCE_SECONDS
        passed = range(max(seq, top - _LOOK_BACK) + 1, top)
        holes = {hole: when for hole, when in {**dict.fromkeys(passed, until), **holes}.items() if hole not in there}
    noted = {"seq": top, "marks": json.dumps(marks), "holes": json.dumps(list(holes.items()))}
    if not any(row.keys or row.kinds for row in rows) and all(getattr(at, name) == noted[name] for name in noted):
        return
    with transaction.atomic():
        locked = Projection.objects.select_for_update().filter(pk=at.pk).first()
        if locked is None or (locked.seq, locked.marks) != (at.seq, at.marks):
            return
        if seq < at.seq:
            _drop_after(at.pk, (seq + 1) * BETWEEN)
        _insert(at.pk, rows, owners)
        Projection.objects.filter(pk=at.pk).update(**noted)


def _thinned(marks: list[Any]) -> list[Any]:
    """Few of many marks: the further back, the fewer."""
    top = marks[-1][0]
    kept = [marks[-1]]
    for mark in reversed(marks[:-1]):
        if top - mark[0] >= 2 * (top - kept[-1][0]):
            kept.append(mark)
    return kept[::-1]


def _drop_after(projection: int, place: int) -> None:
    owners = StateOwner.objects.filter(projection_id=projection).values("pk")
    StateChange.objects.filter(owner_id__in=owners, place__gte=place).delete()


def _insert(projection: int, rows: Sequence[_Row], owners: _Owners) -> None:
    writes: dict[_Names, list[tuple[str, int, int | None]]] = {}
    for row in rows:
        for name in row.keys:
            scope, bare = scope_of(name)
            writes.setdefault(_names(row.key, scope), []).append((stored_key(bare), row.place, None))
        for kind in row.kinds:
            writes.setdefault(_names(row.key, _MARKS), []).append((kind, row.place, row.since))
    _number(projection, writes, owners)
    with connection.cursor() as cursor:
        cursor.executemany(
            """INSERT INTO sessions_app_statechange (owner_id, key, place, since) VALUES (%s, %s, %s, %s)
            ON CONFLICT DO NOTHING""",
            [(owners[projection, names], *write) for names, found in writes.items() for write in found],
        )


def _names(key: SessionKey, scope: str) -> _Names:
    """Whose a scope is: app, user and session, empty where it is shared by all of them; and the scope."""
    user = "" if scope == "app" else key.user_id
    session = "" if scope in ("app", "user") else key.session_id
    return key.app_name, user, session, scope


def _number(projection: int, names: Iterable[_Names], owners: _Owners) -> None:
    """Adds the numbers of owners that are not among them; those that are new get one."""
    wanted = [each for each in names if (projection, each) not in owners]
    fields = ("app_name", "user_id", "session_id", "scope")
    made = [StateOwner(projection_id=projection, **dict(zip(fields, each, strict=True))) for each in wanted]
    StateOwner.objects.bulk_create(made, ignore_conflicts=True, batch_size=_SOME)
    for start in range(0, len(wanted), _SOME):
        apps, users, sessions, _scopes = (set(each) for each in zip(*wanted[start : start + _SOME], strict=True))
        rows = StateOwner.objects.filter(
            projection_id=projection, app_name__in=apps, user_id__in=users, session_id__in=sessions
        )
        owners.update({(projection, row[:4]): row[4] for row in rows.values_list(*fields, "pk")})


# --- Asking it --------------------------------------------------------------------------------------------------------


def places(key: SessionKey, scope: Scope, upto: int) -> dict[str, Places]:
    """Every key of a scope that was ever written, as the projection keeps keys: where, seen from a place."""
    owner = _owner(key, scope)
    if owner is None:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_PLACES, {"owner": owner, "upto": upto})
        return {row[0]: Places(*row[1:]) for row in cursor.fetchall()}


def writes_of(key: SessionKey, full_key: str, before: int | None, limit: int) -> list[int]:
    """The places at which a key was written, the newest first, or those before a place."""
    scope, bare = scope_of(full_key)
    owner = _owner(key, scope)
    if owner is None:
        return []
    found = StateChange.objects.filter(owner_id=owner, key=stored_key(bare))
    if before is not None:
        found = found.filter(place__lt=before)
    return list(found.order_by("-place").values_list("place", flat=True)[:limit])


def marks(
    key: SessionKey, kinds: Collection[str], after: int = 0, upto: int | None = None, limit: int = 10_000
) -> list[Mark]:
    """A session's events of these KINDS_OF_MARK after a seq, in order."""
    owner = _owner(key, _MARKS)
    if owner is None:
        return []
    found = StateChange.objects.filter(owner_id=owner, key__in=kinds, place__gt=place_of(after))
    if upto is not None:
        found = found.filter(place__lte=place_of(upto))
    rows = found.order_by("place", "key").values_list("key", "place", "since")[:limit]
    return [Mark(kind, seq_of(place), since) for kind, place, since in rows]


def mark_counts(key: SessionKey, kinds: Sequence[str], stretches: Sequence[tuple[int, int]]) -> list[tuple[int, ...]]:
    """How many of a session's events of each of these KINDS_OF_MARK stand from a seq to a seq, stretch by stretch."""
    owner = _owner(key, _MARKS)
    if owner is None or not stretches:
        return [(0,) * len(kinds)] * len(stretches)
    values = ", ".join(f"({n}, {place_of(first)}, {place_of(last)})" for n, (first, last) in enumerate(stretches))
    count = """(SELECT count(*) FROM sessions_app_statechange
        WHERE owner_id = %s AND key = %s AND place BETWEEN stretch_first AND stretch_last)"""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""WITH stretches (number, stretch_first, stretch_last) AS (VALUES {values})
            SELECT {", ".join([count] * len(kinds))} FROM stretches ORDER BY number""",
            [value for kind in kinds for value in (owner, kind)],
        )
        found: list[tuple[int, ...]] = cursor.fetchall()
        return found


def _owner(key: SessionKey, scope: str) -> int | None:
    fields = dict(zip(("app_name", "user_id", "session_id", "scope"), _names(key, scope), strict=True))
    found = StateOwner.objects.filter(projection__where=sources.identity(key.source), **fields)
    return found.values_list("pk", flat=True).first()


# From key to key by the index, however often each was written.
_PLACES: Final = """WITH RECURSIVE keys (key) AS (
        SELECT min(key) FROM sessions_app_statechange WHERE owner_id = %(owner)s
        UNION ALL SELECT (SELECT min(c.key) FROM sessions_app_statechange AS c
            WHERE c.owner_id = %(owner)s AND c.key > keys.key) FROM keys WHERE keys.key IS NOT NULL)
    SELECT key,
        (SELECT max(place) FROM sessions_app_statechange AS c
            WHERE c.owner_id = %(owner)s AND c.key = keys.key AND c.place <= %(upto)s),
        (SELECT min(place) FROM sessions_app_statechange AS c
            WHERE c.owner_id = %(owner)s AND c.key = keys.key AND c.place > %(upto)s),
        (SELECT max(place) FROM sessions_app_statechange AS c WHERE c.owner_id = %(owner)s AND c.key = keys.key)
    FROM keys WHERE key IS NOT NULL"""
