"""Reads a source piece by piece, and finds what the index should store of each event.

The database only hands over rows, which takes milliseconds, because on SQLite a reader holds up commits. Every function
expects the source to be open.
"""

import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any, Final, NamedTuple

from django.db import connections

from ...domain.edit_note import edit_of, is_edit, is_listed
from ...domain.json_values import as_object, read_stored_or_none
from ...domain.kinds import describe
from ...domain.positions import Position, Seq, first_position, position_of, seq_of
from ...domain.session_ref import SessionRef
from ...domain.state import TEMP, scope_of
from ...models import read_instant
from ...reads.changes import Hole
from ...sources import dialect
from ...sources.dialect import MOMENT, POSTGRESQL, Either, each_row
from .tables import Row

BYTES: Final = 4 * 2**20  # of events that are read at once; one that is larger is read alone
RECENT: Final = 500  # sessions that are known to be read
READ_SECONDS: Final = 0.03  # a read of SQLite takes about this long
_LOOK_BACK: Final = 1_000  # within this distance of the newest seq, transactions may still commit
_NOWHERE: Final = Position(2**63 - 1)  # no write has it
_LAST_MOMENT: Final = 2**33  # the greatest that paging.read_cursor accepts
_COLUMNS: Final = "app_name, user_id, session_id, id, timestamp, event_data FROM events"
# LATERAL: with a plain join, PostgreSQL reads every event and asks whether it is in a hole.
LATE: Final = f"""SELECT late.* FROM unnest(%s::bigint[], %s::bigint[]) AS holes (first, last), LATERAL (
    SELECT {POSTGRESQL.seq}, {_COLUMNS} WHERE {POSTGRESQL.seq} BETWEEN first AND last ORDER BY {POSTGRESQL.seq} LIMIT %s)
    AS late ORDER BY 1 LIMIT %s"""


class Batch(NamedTuple):
    """What was read at once, what to note of it in the projection, how far the source goes, and whether there may be
    more. Entries from the position `dropped` on are dropped first, and read again."""

    rows: list[Row]
    noted: dict[str, Any]
    total: int
    more: bool
    dropped: Position | None = None


def events(source: str, seq: Seq, limit: int) -> tuple[list[Row], bool]:
    """Returns what to keep of the events after a seq, in order; and whether there may be more of them."""
    column = dialect.of(source).seq
    return _read(source, f"SELECT {column}, {_COLUMNS} WHERE {column} > %s ORDER BY {column} LIMIT %s", [seq], limit)


def late(source: str, holes: Sequence[Hole], limit: int) -> tuple[list[Row], bool]:
    """Returns what to keep of events that became visible in these holes (PostgreSQL); and whether there may be more."""
    return _read(source, LATE, [[hole.first for hole in holes], [hole.last for hole in holes], limit], limit)


def without_numbers(
    source: str, rest: str, parameters: Sequence[Any], limit: int
) -> tuple[list[Row], bool, tuple[Any, ...]]:
    """Returns what to keep of some events that have no numbers, whether there may be more, and which one was the last.

    `rest` is the end of the statement, with `LIMIT %s`. The last event is identified by its names, time and id.
    """
    rows, more = _some(source, f"SELECT {MOMENT}, {_COLUMNS} {rest}", parameters, limit)
    return _kept(source, rows), more, (*rows[-1][1:4], rows[-1][5].isoformat(), rows[-1][4]) if rows else ()


def newest(source: str) -> Seq:
    """Returns the greatest seq."""
    with connections[source].cursor() as cursor:
        cursor.execute(f"SELECT max({dialect.of(source).seq}) FROM events")
        return Seq(cursor.fetchone()[0] or 0)


def is_there(source: str, seq: Seq, names: Sequence[str]) -> bool:
    """Returns whether the event with this seq has these names: app, user, session, id."""
    with connections[source].cursor() as cursor:
        cursor.execute(
            f"""SELECT 1 FROM events WHERE {dialect.of(source).seq} = %s
            AND app_name = %s AND user_id = %s AND session_id = %s AND id = %s""",
            [seq, *names],
        )
        return cursor.fetchone() is not None


# --- Events -----------------------------------------------------------------------------------------------------------


def _read(source: str, statement: str, parameters: Sequence[Any], limit: int) -> tuple[list[Row], bool]:
    rows, more = _some(source, statement, parameters, limit)
    return _kept(source, rows), more


def _some(source: str, statement: str, parameters: Sequence[Any], limit: int) -> tuple[list[tuple[Any, ...]], bool]:
    """Returns at most `limit` rows, and whether there may be more. Stops early: after BYTES, on SQLite after a
    while."""
    some, weight = [], 0
    until = time.monotonic() + READ_SECONDS if dialect.of(source).reading_delays_commits else None
    with closing(each_row(source, statement, [*parameters, limit])) as rows:
        for row in rows:
            some.append(row)
            weight += len(row[-1] or "")
            if weight > BYTES or (until and not len(some) % 50 and time.monotonic() > until):
                break
    return some, len(some) == limit or weight > BYTES or bool(until and some and time.monotonic() > until)


def _kept(source: str, rows: Iterable[tuple[Any, ...]]) -> list[Row]:
    kept, rewinds = [], {}
    for number, app, user, session, event_id, moment, text in rows:
        event = as_object(read_stored_or_none(text))
        row, before = _row(position_of(number), SessionRef(source, app, user, session), event_id, moment, event)
        kept.append(row)
        if before:
            rewinds[number] = row.ref, before
    if not rewinds:
        return kept
    since = _first_of(rewinds.values())
    return [row._replace(since=since.get(rewinds.get(seq_of(row.position)))) for row in kept]


def _row(position: Position, ref: SessionRef, event_id: str, moment: Any, event: dict[str, Any]) -> tuple[Row, str]:
    """Returns what to keep of an event; and the invocation before which it rewinds, if it does."""
    actions = as_object(event.get("actions"))
    delta = actions.get("state_delta")
    keys = [name for name in delta if not name.startswith(TEMP)] if isinstance(delta, dict) else []
    kinds = ["state"] if keys else []
    at = origin = None
    if is_edit(event):
        kinds.append("edit")
        note = edit_of(event)
        at = _microseconds(moment) if is_listed(note) else None
        origin = _origin(ref, note.get("forked"))
    if _maybe_failed(event) and _failed(event):
        kinds.append("error")
    before = actions.get("rewind_before_invocation_id")
    if before:
        kinds.append("rewind")
    if isinstance(actions.get("compaction"), dict):
        kinds.append("compaction")
    return Row(position, ref, event_id, keys, kinds, None, at, origin), str(before or "")


def _maybe_failed(event: dict[str, Any]) -> bool:
    """Returns whether an event needs to be described to see if it failed. Most don't."""
    if event.get("error_code") or event.get("error_message"):
        return True
    parts = as_object(event.get("content")).get("parts")
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict) and ("function_response" in part or "code_execution_result" in part):
            return True
    return False


def _failed(event: dict[str, Any]) -> bool:
    told = describe(event)
    return told.failed or "error" in told.kinds


def _microseconds(moment: Any) -> int:
    try:
        return round(min(max(read_instant(moment), 0.0), _LAST_MOMENT) * 1_000_000)
    except (ValueError, TypeError, OverflowError):
        return 0


def _origin(ref: SessionRef, forked: Any) -> SessionRef | None:
    """Returns the session that an event names as the origin of a fork."""
    user, session = (as_object(forked).get(name) for name in ("user", "session"))
    if not (isinstance(user, str) and isinstance(session, str)):
        return None
    return ref._replace(user_id=user, session_id=session)


def _first_of(rewinds: Iterable[tuple[SessionRef, str]]) -> dict[Any, Seq]:
    """Returns the seq of the first event of each of these invocations."""
    asked: dict[SessionRef, set[str]] = {}
    for ref, invocation_id in rewinds:
        asked.setdefault(ref, set()).add(invocation_id)
    firsts = {}
    for ref, names in asked.items():
        with connections[ref.source].cursor() as cursor:
            seq = dialect.of(cursor.db).seq
            cursor.execute(
                f"""SELECT invocation_id, min({seq}) FROM events
                WHERE app_name = %s AND user_id = %s AND session_id = %s
                AND invocation_id IN ({", ".join(["%s"] * len(names))}) GROUP BY invocation_id""",
                [*ref[1:], *names],
            )
            firsts.update({(ref, name): seq for name, seq in cursor.fetchall()})
    return firsts


# --- Sessions that were created, or deleted ---------------------------------------------------------------------------


def creations(source: str, seq: Seq, upto: Seq | None, known: list[Position]) -> tuple[list[Row], list[Position]]:
    """Returns the sessions that adkweb created since, each with the shared keys that it started with; and their
    positions.

    Only the newest positions are returned. On PostgreSQL, another session may still become visible among them: the next
    call gets them as `known`.
    """
    known = [position for position in known if position < first_position(seq + 2)]
    after = known[0] if len(known) >= RECENT else first_position(max(0, seq - _LOOK_BACK))
    below = "" if upto is None else f"AND initial_place < {first_position(upto + 1)}"
    with connections[source].cursor() as cursor:
        cursor.execute(f"SELECT initial_place FROM sessions WHERE initial_place > %s {below}", [after])
        positions = sorted({*known, *(row[0] for row in cursor.fetchall())})
        rows: list[tuple[Any, ...]] = []
        for start in range(0, len(new := sorted({*positions} - {*known})), RECENT):
            some = new[start : start + RECENT]
            cursor.execute(
                f"""SELECT initial_place, app_name, user_id, id, initial_state FROM sessions
                WHERE initial_place IN ({", ".join(["%s"] * len(some))})""",
                some,
            )
            rows += cursor.fetchall()
    created = []
    for position, app, user, session, text in rows:
        keys = [key for key in as_object(read_stored_or_none(text)) if scope_of(key)[0] in ("app", "user")]
        created.append(Row(position, SessionRef(source, app, user, session), "", keys, []))
    return created, positions[-RECENT:]


_VISIBLE: Final = Either(  # rows with this number or a greater one may still become visible
    postgresql="pg_snapshot_xmin(pg_current_snapshot())::text::bigint",
    sqlite="(SELECT coalesce(max(number), 0) + 1 FROM adkweb_deleted_writes)",
)


def deleted(source: str, number: int, after: Seq | None) -> tuple[list[Row], int]:
    """Returns where deleted sessions had written `user:` and `app:` keys; and the number from which to continue.

    It reads the notes from `number` on, and those of writes after the seq `after`.
    """
    with connections[source].cursor() as cursor:
        cursor.execute(
            f"""SELECT DISTINCT following, place, app_name, user_id, key
            FROM (SELECT {_VISIBLE.on(source)} AS following) AS seen LEFT JOIN adkweb_deleted_writes
                ON number >= {dialect.of(source).least}(%s, following) OR place >= %s""",
            [number, _NOWHERE if after is None else first_position(after + 1)],
        )
        noted = cursor.fetchall()
    rows = [
        Row(row[1], SessionRef(source, row[2], row[3], ""), "", [row[4]], []) for row in noted if row[4] is not None
    ]
    return rows, noted[0][0] if rows else number  # if nothing is new, nothing has to be noted
