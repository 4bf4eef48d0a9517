"""Reads what events wrote, and what sessions started with, at positions that the index knows."""

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final, NamedTuple

from ...access.actor import Actor
from ...access.shown import shown_object
from ...domain.edit_note import edit_of
from ...domain.event import delta_of, removed_by
from ...domain.json_values import read_stored_or_none
from ...domain.positions import Position, Seq, is_creation, position_of, seq_of
from ...domain.session_ref import SessionRef
from ...domain.state import ABSENT, UNKNOWN, Scope, State, scope_of
from ...models import read_instant
from ...reads import views
from ...reads.deltas import Writer, said_of_state, state_sql
from ...reads.event_views import events_of, ordered
from ...reads.size_limits import LARGE, LOOKED_THROUGH, large, measured_sql, size_of_event, weight
from ...sources import database, dialect
from ...sources.dialect import each_row
from .. import adk_merge_bug, order

CHUNK: Final = 500  # events fetched by one statement
HEAVIEST: Final = LARGE  # that may be read for a moment
_REPLAYED: Final = 2 * LARGE  # that may be read to replay a session
_PAGE: Final = LARGE // 8  # is read of that at once


class Written(NamedTuple):
    """What is at a position: the keys that an event wrote, or those that a session started with."""

    writer: Writer | None  # None for a session that was created
    ref: SessionRef
    timestamp: float
    delta: State
    removed: Collection[str] = ()
    edit: Mapping[str, Any] = {}
    imported: bool = False  # written elsewhere: its order among other sessions' writes is not known
    unread: bool = False  # it is too large to be read
    # Others at the same position, if it is a time: their order is unknown.
    beside: tuple["Written", ...] = ()

    @property
    def event_id(self) -> str:
        """Returns the event's id, or an empty string."""
        return self.writer.event_id if self.writer else ""

    def value(self, name: str) -> Any:
        """Returns the full key's value after this."""
        return ABSENT if name in self.removed and self.delta.get(name) is None else self.delta.get(name, UNKNOWN)

    def settles(self, name: str) -> bool:
        """Returns whether the full key's value after this is the same in every reading."""
        return self.unread or bool(self.edit) or self.writer is None or not adk_merge_bug.is_doubtful(self.value(name))

    def write(self, position: Position, name: str) -> adk_merge_bug.Write:
        """Returns the write of the full key at its position."""
        return adk_merge_bug.Write(position, self.value(name), self.settles(name), self.before(name))

    def within(self, ref: SessionRef, scope: Scope) -> "Written | None":
        """Returns the part of this that belongs to a session's scope. The position may belong to another owner by
        now."""
        mine = {"app": 2, "user": 3}.get(scope, 4)
        return self._of([each for each in (self, *self.beside) if each.ref[:mine] == ref[:mine]])

    def by(self, name: str) -> "Written":
        """Returns the part of this that wrote the full key. If there are several, it has no value."""
        if not self.beside:
            return self
        those = [each for each in (self, *self.beside) if name in each.delta or each.unread]
        return those[0]._replace(beside=()) if len(those) == 1 else self._replace(delta={}, edit={}, beside=())

    def _of(self, those: Sequence["Written"]) -> "Written | None":
        return those[0]._replace(beside=tuple(each._replace(beside=()) for each in those[1:])) if those else None

    def before(self, name: str) -> Any:
        """Returns the full key's value before this, from its note if it is an edit; otherwise UNKNOWN."""
        replaced = self.edit.get("replaced")
        return replaced.get(name, ABSENT) if isinstance(replaced, dict) else UNKNOWN


# Negative for an imported session: -314 if its events up to seq 313 were imported.
_IMPORTED: Final = """(SELECT initial_place FROM sessions WHERE sessions.app_name = events.app_name
    AND sessions.user_id = events.user_id AND sessions.id = events.session_id AND initial_place < 0)"""


def written_at(source: str, asked: Iterable[Position], actor: Actor) -> dict[Position, Written]:
    """Returns what was written at these positions. An event or a session that is gone is left out.

    The total size is bounded by HEAVIEST, from the newest on. What is too large, or beyond the bound, is `unread`: it
    exists, but its values are unknown.
    """
    wanted = sorted(asked, reverse=True)
    written: dict[Position, Written] = {}
    budget = _Budget(HEAVIEST)
    with database.using(source):
        for start in range(0, len(wanted), CHUNK):
            some = wanted[start : start + CHUNK]
            seqs = [seq_of(position) for position in some if not is_creation(position)]
            written |= _events_at(source, seqs, budget, actor)
            written |= _creations_at(source, [position for position in some if is_creation(position)], budget, actor)
    return written


def written_by(ref: SessionRef, last: Seq, actor: Actor) -> Iterator[tuple[Seq, Written]]:
    """Yields what a session's events wrote, with the seq of each, in order and up to a seq.

    The total size is bounded as in `written_at`, by _REPLAYED. The source must be open.
    """
    column = dialect.of(ref.source).seq_in_session
    of_session = f"app_name = %s AND user_id = %s AND session_id = %s AND {column} > %s AND {column} <= %s"
    after, budget, more = Seq(-1), _Budget(_REPLAYED), True
    while more:
        some: list[tuple[Seq, Written]] = []
        until = budget.left - _PAGE
        values = [*ref[1:], after, last, CHUNK]
        with closing(
            _read(ref.source, f"events WHERE {of_session} ORDER BY {column} LIMIT %s", values, budget, actor)
        ) as rows:
            for each in rows:  # no cursor stays open while others may want to write
                some.append(each)
                if budget.left < until:
                    break
        yield from some
        more = len(some) == CHUNK or budget.left < until
        after = some[-1][0] if some else after


class _Budget:
    """Tracks how much may still be read."""

    def __init__(self, left: int) -> None:
        self.left = left

    def affords(self, *texts: str | None, size: int = 0) -> bool:
        """Returns whether there is room for these texts, read from one with `size` characters; if so, uses it up."""
        cost = sum(map(weight, texts)) + size // LOOKED_THROUGH
        if any(map(large, texts)):
            return False
        self.left -= cost
        return self.left >= 0


def _events_at(source: str, seqs: list[Seq], budget: _Budget, actor: Actor) -> dict[Position, Written]:
    events: dict[Position, Written] = {}
    while missing := [seq for seq in seqs if position_of(seq) not in events]:
        spent = budget.left < 0
        rows, values = order.of(source).rows_at(source, missing)
        for seq, written in _read(source, rows, values, budget, actor):
            other = events.get(position_of(seq))
            events[position_of(seq)] = other._replace(beside=(*other.beside, written)) if other else written
        if spent or budget.left >= 0:  # those that are still missing are gone
            break
    return events


def _read(
    source: str, rows: str, values: Sequence[Any], budget: _Budget, actor: Actor
) -> Generator[tuple[Seq, Written], None, None]:
    """Yields what events wrote, up to the one that uses up the budget; after that, only that they exist."""
    spent = budget.left < 0
    looked_at = "0, NULL" if spent else f"{size_of_event(source)}, {state_sql(source)}"
    imported = _IMPORTED if database.keeps_creations(source) else "NULL"
    statement = f"""SELECT {dialect.of(source).seq}, app_name, user_id, session_id, id, timestamp, {imported}, {looked_at}
        FROM {rows}"""
    with closing(each_row(source, statement, values)) as events:
        for seq, app, user, session, event_id, at, last, size, text in events:
            ref, moment = SessionRef(source, app, user, session), read_instant(at)
            if text is None or not budget.affords(text, size=size):
                yield seq, Written(Writer(event_id, seq, "", "", moment, ref), ref, moment, {}, unread=True)
                if budget.left < 0 and not spent:
                    return
                continue
            event = said_of_state(text, actor, app)
            noted = edit_of(event)
            author, branch = str(event.get("author") or ""), str(event.get("branch") or "")
            who = Writer(event_id, seq, author, str(noted.get("actor") or ""), moment, ref, branch)
            yield (
                seq,
                Written(
                    who,
                    ref,
                    moment,
                    delta_of(event),
                    frozenset(removed_by(event)),
                    noted,
                    imported=last is not None and seq < -last,
                ),
            )


def _creations_at(source: str, wanted: list[Position], budget: _Budget, actor: Actor) -> dict[Position, Written]:
    if not wanted or not database.keeps_creations(source):  # released since these were indexed
        return {}
    state = "NULL" if budget.left < 0 else measured_sql("initial_state", source)
    statement = f"""SELECT initial_place, app_name, user_id, id, create_time, {state} FROM sessions
        WHERE initial_place IN ({", ".join(["%s"] * len(wanted))})"""
    sessions = {}
    with closing(each_row(source, statement, wanted)) as rows:
        for position, *names, at, text in rows:
            unread = not budget.affords(text)
            ref = SessionRef(source, *names)
            began = {} if unread else shown_object(text, actor, ref.app_name, read=read_stored_or_none)
            sessions[position] = Written(None, ref, read_instant(at), began, unread=unread)
    return sessions


# --- What sessions started with: initial state is stored, but no event has it -------------------------------------------

FOREVER: Final = Position(2**62)  # after every position


def all_recorded(ref: SessionRef, scope: Scope) -> bool:
    """Returns whether the initial state of every session that this user, or this app, ever had is recorded.

    It is not if a session was deleted, or if something other than adkweb created one.
    """
    with database.using(ref.source) as db, db.cursor() as cursor:
        if not database.keeps_creations(ref.source):
            return False
        names, of_user = (ref[1:3], "AND user_id = %s") if scope == "user" else (ref[1:2], "")
        cursor.execute(
            f"""SELECT 1 FROM sessions WHERE app_name = %s {of_user} AND coalesce(initial_place, 0) <= 0
            UNION ALL SELECT 1 FROM adkweb_deleted WHERE app_name = %s {of_user} LIMIT 1""",
            [*names, *names],
        )
        return cursor.fetchone() is None


def start_of(ref: SessionRef) -> Position:
    """Returns the position at which a session was created, or of its first event if that is not recorded."""
    with database.using(ref.source) as db, db.cursor() as cursor:
        if database.keeps_creations(ref.source):
            cursor.execute(
                "SELECT initial_place FROM sessions WHERE app_name = %s AND user_id = %s AND id = %s", ref[1:]
            )
            row = cursor.fetchone()
            if row and row[0] and row[0] > 0:
                return Position(row[0])
        first = ordered(events_of(ref), ref.source, newest=False).values_list("seq", flat=True).first()
    return FOREVER if first is None else position_of(first)


def first_value(ref: SessionRef, name: str, actor: Actor) -> Any:
    """Returns a full key's value before the first write of it; UNKNOWN if that is not recorded."""
    scope = scope_of(name)[0]
    if scope == "session":
        initial = views.session(ref, partly=True, actor=actor).initial_state
        return UNKNOWN if initial is None else initial.get(name, ABSENT)
    return ABSENT if all_recorded(ref, scope) else UNKNOWN


def initial_state(ref: SessionRef, actor: Actor) -> State | None:
    """Returns the state that a session started with; None if that is not recorded, or too large to be read."""
    with database.using(ref.source) as db, db.cursor() as cursor:
        if not database.is_adopted(ref.source):
            return None
        state = measured_sql("initial_state", db)
        cursor.execute(f"SELECT {state} FROM sessions WHERE app_name = %s AND user_id = %s AND id = %s", ref[1:])
        row = cursor.fetchone()
    if row is None or row[0] is None or large(row[0]):
        return None
    return shown_object(row[0], actor, ref.app_name, read=read_stored_or_none)
