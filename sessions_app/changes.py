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
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeVar

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
MOST_KEYS: Final = 20_000  # keys of a scope that are looked at together
_MARKS: Final = "marks"  # in the place of a scope
_BATCH: Final = 5_000  # events read at once, at most
_FIRST_BATCH: Final = 500
_SMALLEST_BATCH: Final = 20
_BATCH_SECONDS: Final = 0.3  # that a batch aims at, however much its events wrote
_TRIES: Final = 5
_RECENT: Final = 500  # sessions whose creation is remembered to be read
_HOLES: Final = 500  # stretches of places that were passed over
_SOME: Final = 200  # owners asked for at once
_LOOK_BACK: Final = 1_000  # places before the newest that may still be committing
_PATIENCE_SECONDS: Final = 600.0  # for a place that was passed over; after that its transaction was surely rolled back
_NOWHERE: Final = 2**63 - 1  # a place that nothing has
_KEY_LENGTH: Final = 500  # bytes of a key or a name that an index can hold
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


class Standing(NamedTuple):
    """How far a source is read."""

    projection: int
    seq: int


class _Row(NamedTuple):
    """What the projection keeps of an event, or of a session that was created."""

    place: int
    key: SessionKey
    event_id: str
    keys: list[str]
    kinds: list[str]
    since: int | None = None


T = TypeVar("T")
Hole = tuple[int, int, float]  # first and last place of a stretch, and until when it is looked at
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
    if plain and not is_shortened(key) and len(key.encode()) <= _KEY_LENGTH:
        return key
    return f"\1{json.dumps(key)[:_KEY_LENGTH]}{sha256(key.encode(errors='surrogatepass')).hexdigest()}"


def is_shortened(kept: str) -> bool:
    """Whether a key as the projection keeps it is not the key itself."""
    return kept.startswith("\1")


# --- Reading what is new ----------------------------------------------------------------------------------------------


def catch_up(source: str, seconds: float | None = None) -> Standing:
    """Reads the events that are not read yet; raises Behind, with `share` of it done, where that takes longer than these
    seconds, or SECONDS.

    Raises Invalid where a source is read only and was never adopted, NotFound, SourceError.
    """
    seconds = SECONDS if seconds is None else seconds
    waited = seconds <= SECONDS and time.monotonic() - _behind.get(source, -1.0) < 1  # a page that asks twice
    until = time.monotonic() + (0.0 if waited else seconds)
    for standing, total in _read(source):
        if time.monotonic() > until and standing.seq < total:
            if not waited:
                _behind[source] = time.monotonic()
            raise Behind(share=standing.seq / max(1, total))
    return standing


def consult(source: str, ask: Callable[[], T]) -> T:
    """What `ask` finds here once everything is read; asked again where somebody made the projection anew meanwhile.

    Raises what catch_up does.
    """
    for _try in range(_TRIES):
        before = catch_up(source)
        found = ask()
        after = Projection.objects.filter(pk=before.projection, seq__gte=before.seq)
        if after.exists():
            return found
    raise Behind(share=0.0)


def rebuild(source: str, moved: Callable[[int, int], None] = lambda done, total: None) -> int:
    """Forgets everything and reads it anew; how many writes there are. `moved` hears how far it is, in places of both."""
    forget(source)
    for standing, total in _read(source):
        moved(standing.seq, total)
    owners = StateOwner.objects.filter(projection__where=sources.identity(source), scope__in=STORED)
    return StateChange.objects.filter(owner_id__in=owners.values("pk")).count()


def forget(source: str) -> None:
    """Forgets what was read of a source."""
    with transaction.atomic():
        for found in Projection.objects.filter(where=sources.identity(source)):
            _drop_after(found.pk, 0)
            found.delete()


def _read(source: str) -> Iterator[tuple[Standing, int]]:
    """Reads batch by batch; after each, how far it is and how far it will be."""
    vendor = sources.get(source).vendor
    if not sources.is_adopted(source):
        raise Invalid(_("The events of this database have no order: adkweb reads it only, and it was never adopted."))
    where = sources.identity(source)
    last, size, more = None, _FIRST_BATCH, True
    owners: _Owners = {}
    while more:
        began = time.monotonic()
        at = Projection.objects.filter(where=where).first() or Projection.objects.get_or_create(where=where)[0]
        with sources.using(source):
            seq = _checked(source, at)
            holes: list[Hole] = [tuple(hole) for hole in json.loads(at.holes) if hole[2] > time.time()]
            late = _late(source, holes, size) if holes else []
            read = _events(source, seq, size)
            more = size in (len(read), len(late))
            top = seq_of(read[-1].place) if read else seq
            known = json.loads(at.created)
            if seq < at.seq:  # what follows is dropped, and read again
                known = [place for place in known if place < (seq + 1) * BETWEEN]
            made, created = _creations(source, seq, top if more else None, known)
            gone, deleted = _deleted(source, at.deleted, seq if seq < at.seq else None)
            if more and last is None:
                last = _newest(source)
        if vendor == "postgresql":
            holes = _holes(holes, seq, [*late, *read])
        noted = {"seq": top, "holes": json.dumps(holes), "created": json.dumps(created), "deleted": deleted}
        if _store(at, seq, [*late, *read, *made, *gone], noted, owners):
            yield Standing(at.pk, top), max(last or 0, top + 1) if more else top
        else:
            more = True  # another was faster: what it has not read yet is still to be read
        size = max(_SMALLEST_BATCH, min(_BATCH, int(size * _BATCH_SECONDS / max(0.001, time.monotonic() - began))))


def _holes(holes: list[Hole], seq: int, rows: Sequence[_Row]) -> list[Hole]:
    """The places up to the newest row at which an event may still become visible, the newest of them."""
    until = time.time() + _PATIENCE_SECONDS
    places = [seq, *(found for row in rows if (found := seq_of(row.place)) > seq)]
    passed = [(a + 1, b - 1, until) for a, b in pairwise(places) if b > a + 1]
    there = {seq_of(row.place) for row in rows}
    left: list[Hole] = []
    for first, last, moment in holes:
        ends = [first - 1, *sorted(found for found in there if first <= found <= last), last + 1]
        left += [(a + 1, b - 1, moment) for a, b in pairwise(ends) if b > a + 1]
    return [*left, *passed][-_HOLES:]


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
_JSON: Final = {
    "postgresql": "true",
    # Its JSON functions end a key at U+0000 and write half a surrogate pair as something else.
    "sqlite": r"""json_valid(event_data) AND instr(event_data, '\u0000') = 0
        AND NOT event_data GLOB '*\u[dD][89abcdefABCDEF]*'""",
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


def _events(source: str, seq: int, limit: int) -> list[_Row]:
    """What is to be kept of the events after a seq, in order."""
    with connections[source].cursor() as cursor:
        column = _SEQ[cursor.db.vendor]
        cursor.execute(f"{_select(cursor.db.vendor)} WHERE {column} > %s ORDER BY {column} LIMIT %s", [seq, limit])
        return _rows(source, cursor.fetchall())


def _late(source: str, holes: Sequence[Hole], limit: int) -> list[_Row]:
    """The same of events that have become visible where none was (PostgreSQL), in order."""
    with connections[source].cursor() as cursor:
        cursor.execute(
            f"""{_select("postgresql")} JOIN unnest(%s::bigint[], %s::bigint[]) AS holes (first, last)
            ON seq + 0 BETWEEN first AND last ORDER BY seq + 0 LIMIT %s""",
            [[hole[0] for hole in holes], [hole[1] for hole in holes], limit],
        )
        return _rows(source, cursor.fetchall())


def _select(vendor: str) -> str:
    valid = _JSON[vendor]
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
    return f"""SELECT {_SEQ[vendor]}, app_name, user_id, session_id, id, {looked_at},
        CASE WHEN NOT ({valid}) THEN event_data END FROM events"""


def _rows(source: str, found: Sequence[tuple[Any, ...]]) -> list[_Row]:
    rows, rewinds = [], {}
    for number, app, user, session, event_id, keys, edit, failed, rewind, compaction, damaged in found:
        key = SessionKey(source, app, user, session)
        names = json.loads(keys) if keys else []
        kinds = {"edit": edit, "error": failed, "rewind": rewind, "compaction": compaction}
        if damaged is not None:
            names, kinds = _damaged(damaged)
        if kinds["rewind"]:
            rewinds[number] = key, str(kinds["rewind"])
        names = [name for name in names if not name.startswith(TEMP)]
        marks = [*(["state"] if names else []), *(kind for kind, there in kinds.items() if there)]
        rows.append(_Row(place_of(number), key, event_id, names, marks))
    if not rewinds:
        return rows
    since = _first_of(rewinds.values())
    return [row._replace(since=since.get(rewinds.get(seq_of(row.place)))) for row in rows]


def _damaged(text: str) -> tuple[list[str], dict[str, Any]]:
    """The same of an event that is no JSON for the database: ADK stored NaN in it."""
    try:
        event = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        event = {}
    event = event if isinstance(event, dict) else {}
    found = describe(event)
    rewind = found.actions.get("rewind_before_invocation_id")
    kinds = {"edit": found.edit, "error": found.failed, "rewind": rewind, "compaction": "compaction" in found.kinds}
    return list(delta_of(event)), kinds


def _first_of(rewinds: Iterable[tuple[SessionKey, str]]) -> dict[Any, int]:
    """The seq of the first event of each of these invocations."""
    asked: dict[SessionKey, set[str]] = {}
    for key, invocation_id in rewinds:
        asked.setdefault(key, set()).add(invocation_id)
    found = {}
    for key, names in asked.items():
        with connections[key.source].cursor() as cursor:
            cursor.execute(
                f"""SELECT invocation_id, min({_SEQ[cursor.db.vendor]}) FROM events
                WHERE app_name = %s AND user_id = %s AND session_id = %s
                AND invocation_id IN ({", ".join(["%s"] * len(names))}) GROUP BY invocation_id""",
                [*key[1:], *names],
            )
            found.update({(key, name): seq for name, seq in cursor.fetchall()})
    return found


def _creations(source: str, seq: int, upto: int | None, known: list[int]) -> tuple[list[_Row], list[int]]:
    """The sessions that adkweb created since, with the `user:` and `app:` keys that they began with; and the newest places
    of such sessions, among which one may still be missing (PostgreSQL).
    """
    if not sources.keeps_creations(source):
        return [], []
    known = [place for place in known if place < (seq + 2) * BETWEEN]
    after = known[0] if len(known) >= _RECENT else max(0, seq - _LOOK_BACK) * BETWEEN
    below = "" if upto is None else f"AND initial_place < {(upto + 1) * BETWEEN}"
    with connections[source].cursor() as cursor:
        cursor.execute(f"SELECT initial_place FROM sessions WHERE initial_place > %s {below}", [after])
        places = sorted({*known, *(row[0] for row in cursor.fetchall())})
        rows: list[tuple[Any, ...]] = []
        for start in range(0, len(new := sorted({*places} - {*known})), _RECENT):
            some = new[start : start + _RECENT]
            cursor.execute(
                f"""SELECT initial_place, app_name, user_id, id, initial_state FROM sessions
                WHERE initial_place IN ({", ".join(["%s"] * len(some))})""",
                some,
            )
            rows += cursor.fetchall()
    found = []
    for place, app, user, session, text in rows:
        keys = [key for key in _object(text) if scope_of(key)[0] in ("app", "user")]
        found.append(_Row(place, SessionKey(source, app, user, session), "", keys, []))
    return [row for row in found if row.keys], places[-_RECENT:]


_VISIBLE: Final = {  # the number from which on rows may still become visible
    "postgresql": "pg_snapshot_xmin(pg_current_snapshot())::text::bigint",
    "sqlite": "(SELECT coalesce(max(number), 0) + 1 FROM adkweb_deleted_writes)",
}
_LEAST: Final = {"postgresql": "least", "sqlite": "min"}


def _deleted(source: str, number: int, after: int | None) -> tuple[list[_Row], int]:
    """Where sessions that are gone had written `user:` and `app:` keys, as far as that was noted from a number on, or of
    places after a seq; and the number to go on from.
    """
    if not sources.keeps_creations(source):
        return [], number
    with connections[source].cursor() as cursor:
        vendor = cursor.db.vendor
        cursor.execute(
            f"""SELECT DISTINCT following, place, app_name, user_id, key
            FROM (SELECT {_VISIBLE[vendor]} AS following) AS seen LEFT JOIN adkweb_deleted_writes
                ON number >= {_LEAST[vendor]}(%s, following) OR place >= %s""",
            [number, _NOWHERE if after is None else (after + 1) * BETWEEN],
        )
        found = cursor.fetchall()
    rows = [
        _Row(row[1], SessionKey(source, row[2], row[3], ""), "", [row[4]], []) for row in found if row[4] is not None
    ]
    return rows, found[0][0] if rows else number  # where nothing is new, nothing need be noted


def _object(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _newest(source: str) -> int:
    with connections[source].cursor() as cursor:
        cursor.execute(f"SELECT max({_SEQ[cursor.db.vendor]}) FROM events")
        return int(cursor.fetchone()[0] or 0)


# --- Keeping it -------------------------------------------------------------------------------------------------------


def _store(at: Projection, seq: int, rows: list[_Row], noted: dict[str, Any], owners: _Owners) -> bool:
    """Keeps what was read after `seq`, and how far that is; False, and nothing, where another was faster."""
    marks = [mark for mark in json.loads(at.marks) if mark[0] <= seq]
    if noted["seq"] > seq:
        newest = max((row for row in rows if row.event_id), key=lambda row: row.place)
        marks = _thinned([*marks, [noted["seq"], *newest.key[1:], newest.event_id]])
    noted["marks"] = json.dumps(marks)
    if not any(row.keys or row.kinds for row in rows) and all(getattr(at, name) == noted[name] for name in noted):
        return True
    with transaction.atomic():
        locked = Projection.objects.select_for_update().filter(pk=at.pk).first()
        if locked is None or (locked.seq, locked.marks) != (at.seq, at.marks):
            return False
        if seq < at.seq:
            _drop_after(at.pk, (seq + 1) * BETWEEN)
        _insert(at.pk, rows, owners)
        Projection.objects.filter(pk=at.pk).update(**noted)
    return True


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
    return stored_key(key.app_name), stored_key(user), stored_key(session), scope


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
    """Every key of a scope that was ever written, as the projection keeps keys: where, seen from a place. Raises Invalid
    where these are more than MOST_KEYS.
    """
    owner = _owner(key, scope)
    if owner is None:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_PLACES, {"owner": owner, "upto": upto})
        found = {row[0]: Places(*row[1:]) for row in cursor.fetchall()}
    if len(found) > MOST_KEYS:
        raise Invalid(_("This state has had more than %(n)s keys: its past cannot be told here.") % {"n": MOST_KEYS})
    return found


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
_PLACES: Final = f"""WITH RECURSIVE keys (key) AS (
        SELECT min(key) FROM sessions_app_statechange WHERE owner_id = %(owner)s
        UNION ALL SELECT (SELECT min(c.key) FROM sessions_app_statechange AS c
            WHERE c.owner_id = %(owner)s AND c.key > keys.key) FROM keys WHERE keys.key IS NOT NULL)
    SELECT key,
        (SELECT max(place) FROM sessions_app_statechange AS c
            WHERE c.owner_id = %(owner)s AND c.key = keys.key AND c.place <= %(upto)s),
        (SELECT min(place) FROM sessions_app_statechange AS c
            WHERE c.owner_id = %(owner)s AND c.key = keys.key AND c.place > %(upto)s),
        (SELECT max(place) FROM sessions_app_statechange AS c WHERE c.owner_id = %(owner)s AND c.key = keys.key)
    FROM keys WHERE key IS NOT NULL LIMIT {MOST_KEYS + 1}"""
