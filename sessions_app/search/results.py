"""Finds sessions: a page of them, each with the line that matched."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final

from django.conf import settings
from django.db import connections
from django.utils.translation import gettext as _

from ..access import masking
from ..access.actor import Actor
from ..access.handles import shown_user
from ..access.shown import shown, shown_object
from ..domain.clock import Took
from ..domain.description import Description
from ..domain.errors import Invalid, SourceError
from ..domain.json_values import as_object, read_stored_or_none
from ..domain.kinds import describe
from ..domain.positions import Seq
from ..domain.session_ref import SessionRef, digest_of
from ..domain.state import UNKNOWN, State, scope_of
from ..domain.units import event_in_seconds
from ..reads.labels import Labels, labels_of, said
from ..reads.large_events import beginning_of
from ..reads.lists import title_of
from ..reads.paging import read_cursor, write_cursor
from ..reads.size_limits import large, measured_sql
from ..sources import database, dialect, registry
from . import tree
from .at_work import Numbers
from .index import feed
from .index.read import Names, Owner, rows_of, shared_states
from .index.tables import ref_of
from .lines import flat, lines_of
from .matching import newest_pieces
from .selecting import Selection, newest_writes, path_of, seen_apps, select, sessions_in_seen_apps
from .sql import is_one_of, rows
from .words import asked, spans, where_in

# --- The line in which words stand, for a row -------------------------------------------------------------------------

_BEFORE: Final = 48  # characters of a line before what matched
_AFTER: Final = 160
_MOST: Final = 300  # events of a piece
_WRITES: Final = 3  # events for each condition on a key
MATCHED: Final = 5  # of a session


@dataclass(frozen=True, slots=True)
class Match:
    """A line that matched: the event's seq and kind, and the line in three parts. `text` is what matched; of a state, the
    value that an event gave to a key."""

    seq: Seq
    kind: str
    before: str
    text: str
    after: str


def match_of(ref: SessionRef, piece: tuple[int, int], text: str, actor: Actor) -> Match | None:
    """Returns the newest line in a range of a session's events in which a text stands, as far as the actor may see it.

    The source must be open.
    """
    term = asked(text)
    for seq, told, event in _events(ref, piece, actor):
        for line in lines_of(event, told):
            if parts := _cut(line, term):
                return Match(seq, told.kind, *parts)
    return None


def write_of(ref: SessionRef, seq: Seq, path: str, actor: Actor) -> Match | None:
    """Returns what an event gave to a key, or to what is at a path in it, as far as the actor may see it; of one that it
    removed, the key alone. The source must be open."""
    for _seq, told, _event in _events(ref, (seq, seq), actor):
        keys = [key for key in told.delta if path == key or path.startswith(f"{key}.")]
        for key in sorted(keys, key=len, reverse=True):
            value: Any = told.delta[key]
            for part in path[len(key) + 1 :].split(".") if path != key else ():
                value = as_object(value).get(part)
            text = "" if key in told.removed else _one_line(flat(value)[:_AFTER])
            return (
                Match(seq, told.kind, _one_line(f"{path} "), text, "") if text else Match(seq, told.kind, "", path, "")
            )
    return None


def _events(
    ref: SessionRef, piece: tuple[int, int], actor: Actor
) -> Iterator[tuple[Seq, Description, Mapping[str, Any]]]:
    """Yields the events of a range, the newest first, at most _MOST."""
    db = connections[ref.source]
    seq = dialect.of(db).seq_in_session
    with db.cursor() as cursor:
        cursor.execute(
            f"""SELECT {seq}, id, {measured_sql("event_data", db)} FROM events
            WHERE app_name = %s AND user_id = %s AND session_id = %s AND {seq} BETWEEN %s AND %s
            ORDER BY {seq} DESC LIMIT {_MOST}""",
            [*ref[1:], *piece],
        )
        rows = cursor.fetchall()
    for number_of, event_id, stored in rows:
        if large(stored):
            beginning = beginning_of(ref, event_id, actor)
            event = event_in_seconds(beginning.event) if beginning else {}
        else:
            event = as_object(shown(event_in_seconds(read_stored_or_none(stored)), actor, ref.app_name, "event"))
        yield Seq(number_of), describe(event), event


def _cut(line: str, term: list[str]) -> tuple[str, str, str] | None:
    """Returns a line before, where and after a term stands in it, on one line and cut."""
    words = spans(line)
    first = where_in(term, [word for word, _start, _end in words])
    if first is None:
        return None
    start, end = words[first][1], words[first + len(term) - 1][2]
    before = " ".join(line[max(0, start - 2 * _BEFORE) : start].split(" "))
    cut = ("…" + before[-_BEFORE:]) if len(before) > _BEFORE or start > 2 * _BEFORE else before
    return _one_line(cut), _one_line(line[start:end]), _one_line(line[end : end + _AFTER])


def _one_line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ").replace("\t", " ")


# --- The table --------------------------------------------------------------------------------------------------------

PAGE: Final = 50
COUNT_LIMIT: Final = 10_000
COUNTED: Final = 5_000  # sessions of which those of each status are counted
MOST_COLUMNS: Final = 12
_MANY: Final = 2_000  # sessions that are read at once where all are wanted


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts of a session. Each is a column of the index, by which the table can be sorted. Times are seconds."""

    created: float
    last: float
    took: Took  # by its turns together
    turns: int
    events: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Row(Facts):
    """A session in a table of results.

    `title` is never empty. `columns` are the values of state that were asked for. `match` is the newest line that the words
    stand in, or the newest value that an event gave to a key as it was asked for. `matched` are the events, in order.
    """

    ref: SessionRef
    title: str
    status: str
    error: str
    error_seq: Seq | None
    is_paused: bool = False  # at a breakpoint, while it is running
    tags: tuple[str, ...] = ()
    columns: dict[str, Any] = field(default_factory=dict)
    match: Match | None = None
    matched: tuple[Seq, ...] = ()


_FACTS: Final = {each.name: each.type for each in fields(Facts)}
SORTS: Final = {  # by the name of a column of the table, that of the index
    "title": "folded_title",
    "user": "folded_user",
    "app": "app_name",
    "started": "created",
    **{name: name for name in _FACTS if name != "created"},
}
_TYPES: Final = {
    **dict.fromkeys(("folded_title", "folded_user", "folded_id", "app_name"), str),
    **dict.fromkeys(("id", "source_id", *(name for name, kind in _FACTS.items() if kind is int)), int),
}
_COLUMNS: Final = f"""s.id, w."where", s.names, s.title, s.phase, s.failed, s.sign, s.error, s.error_seq,
    {", ".join(f"s.{name}" for name in _FACTS)}"""
_FROM: Final = """FROM sessions_app_searchsession AS s JOIN sessions_app_searchsource AS w ON w.id = s.source_id"""


@dataclass(frozen=True, slots=True)
class Results:
    """A page of sessions. `more` says that `count` is only the least number; `behind` tells which sources are not read yet.

    `broad` are parts of words that too many words have in common: only words that begin with them were looked for. `total`
    is the number of all sessions that the actor may see.
    """

    rows: list[Row]
    next: str | None
    count: int
    more: bool
    milliseconds: float
    behind: list[tuple[str, float]]
    broad: list[str]
    total: int = 0


def search(
    query: tree.Query,
    *,
    actor: Actor,
    sort: str = "-last",
    columns: Sequence[str] = (),
    cursor: str | None = None,
    limit: int = PAGE,
) -> Results:
    """Returns a page of the sessions that a query selects. `sort` is one of SORTS, with “-” for the greatest first.

    Raises Invalid for another sort, a cursor that is none, or too many columns.
    """
    began = time.perf_counter()
    order, descending = _order(sort)
    if len(columns) > MOST_COLUMNS:
        raise Invalid(_("A table can have up to %(n)s state columns.") % {"n": MOST_COLUMNS})
    selection = select(query, actor)
    keys = [order, *_within()]
    page, count = _page(selection, keys, descending, cursor, limit + 1)
    following = write_cursor(*page[limit - 1][-len(keys) :]) if len(page) > limit else None
    told = _rows([row[: 1 - len(keys)] for row in page[:limit]], selection, columns, actor)
    return Results(
        told,
        following,
        min(count, COUNT_LIMIT),
        count > COUNT_LIMIT,
        (time.perf_counter() - began) * 1000,
        behind(),
        selection.broad,
        total(actor),
    )


def count(query: tree.Query, *, actor: Actor, most: int = COUNT_LIMIT) -> int:
    """Returns how many sessions a query selects; at most `most` + 1."""
    return _count(select(query, actor), most)


def total(actor: Actor) -> int:
    """Returns the number of all sessions that an actor may see, as far as they are indexed."""
    return sum(app.sessions for app in seen_apps(actor))


def by_status(query: tree.Query, *, actor: Actor) -> Counter[str]:
    """Counts the sessions that a query selects by their status. It looks at each of them, so ask it of few: COUNTED."""
    selection, now, known = select(query, actor), time.time(), Numbers.now()
    groups = rows(
        f"""SELECT s.phase, max(s.last), s.failed, {known.apart}, count(*) FROM sessions_app_searchsession AS s
        WHERE {selection.sql} GROUP BY s.phase, s.failed, s.last >= %s, 4""",
        [*selection.values, now - settings.SILENCE_SECONDS],
    )
    counted: Counter[str] = Counter()
    for phase, last, failed, number, sessions in groups:
        counted[known.status(number, status_of(phase, last, failed=failed))] += sessions
    return counted


def every(query: tree.Query, actor: Actor) -> Iterator[SessionRef]:
    """Yields all sessions that a query selects and whose source is open, the oldest of the index first; where ids of users
    are hidden, by what is seen."""
    aliases, keys = registry.aliases(), _within()
    ordered = ", ".join(f"s.{key}" for key in keys)
    last: list[Any] = []
    while True:
        selection = select(query, actor)
        beyond = f"AND ({ordered}) > ({', '.join(['%s'] * len(keys))})" if last else ""
        page = rows(
            f"""SELECT w."where", s.names, {ordered} {_FROM} WHERE {selection.sql} {beyond}
            ORDER BY {ordered} LIMIT {_MANY}""",
            [*selection.values, *last],
        )
        for where, names, *_keys in page:
            if where in aliases:
                yield ref_of(aliases[where], names)
        if len(page) < _MANY:
            return
        last = list(page[-1][2:])


def _within() -> list[str]:
    """Returns what sessions are ordered by that are equal in what they are sorted by.

    The numbers of the index follow the order in which it read the sessions, by the ids of users."""
    return ["folded_user", "folded_id", "app_name", "source_id"] if masking.mask_of_all().hides_ids else ["id"]


def behind() -> list[tuple[str, float]]:
    """Returns the open sources that are not read yet, each with how much of it is."""
    shares = ((source.alias, feed.share(source.alias)) for source in database.opened())
    return [(alias, share) for alias, share in shares if share < 1]


def _order(sort: str) -> tuple[str, bool]:
    name = sort.removeprefix("-")
    if name not in SORTS:
        raise Invalid(
            _("Sessions can't be sorted by “%(name)s”. Choose one of: %(names)s.")
            % {"name": name, "names": ", ".join(SORTS)}
        )
    return SORTS[name], sort.startswith("-")


def _page(
    selection: Selection, keys: list[str], descending: bool, cursor: str | None, limit: int
) -> tuple[list[tuple[Any, ...]], int]:
    """Returns some rows of the index in order, each with the values that it is ordered by as its last; and how many there
    are on all pages, at most COUNT_LIMIT + 1.

    One query answers both for the first page, because the condition may go through very many words.
    """
    condition, values, way = selection.sql, list(selection.values), "DESC" if descending else "ASC"
    told = ", ".join(f"s.{key}" for key in keys)
    if cursor:
        values += read_cursor(cursor, *(_TYPES.get(key, float) for key in keys))
        condition += f" AND ({told}) {'<' if descending else '>'} ({', '.join(['%s'] * len(keys))})"
    ordered = "ORDER BY " + ", ".join(f"s.{key} {way}" for key in keys)
    numbers = rows(
        f"SELECT s.id FROM sessions_app_searchsession AS s WHERE {condition} {ordered} LIMIT %s",
        [*values, limit if cursor else COUNT_LIMIT + 1],
    )
    page: list[Any] = []
    is_on_page = is_one_of("s.id", [number for (number,) in numbers[:limit]], page)
    return rows(f"SELECT {_COLUMNS}, {told} {_FROM} WHERE {is_on_page} {ordered}", page), (
        _count(selection) if cursor else len(numbers)
    )


def _count(selection: Selection, most: int = COUNT_LIMIT) -> int:
    counted = f"SELECT 1 FROM sessions_app_searchsession AS s WHERE {selection.sql} LIMIT %s"
    return int(rows(f"SELECT count(*) FROM ({counted}) AS counted", [*selection.values, most + 1])[0][0])


def indexed(refs: Sequence[SessionRef], actor: Actor) -> dict[SessionRef, Row]:
    """Returns what the index has of a few sessions, as far as the actor may see them. A new one may be missing."""
    values: list[Any] = []
    sees = sessions_in_seen_apps(actor, values)
    some = is_one_of("s.digest", [digest_of(*ref[1:]) for ref in refs], values)
    aliases = registry.aliases()
    known = Numbers.now()
    stored = [
        _row(aliases[row[1]], row, known) for row in rows(f"SELECT {_COLUMNS} {_FROM} WHERE {sees} AND {some}", values)
    ]
    return {row.ref: replace(row, error=said(row.error, row.ref, actor)) for row in stored if row.ref in refs}


# --- Rows -------------------------------------------------------------------------------------------------------------


def _rows(page: list[tuple[Any, ...]], selection: Selection, columns: Sequence[str], actor: Actor) -> list[Row]:
    """Returns rows of the index as they are shown, in order. Those whose session is gone are left out."""
    lines = _Lines(selection, [each[0] for each in page], actor)
    aliases, known = registry.aliases(), Numbers.now()
    of_source: dict[str, list[tuple[int, Row]]] = {}
    for each in page:
        if alias := aliases.get(each[1]):
            of_source.setdefault(alias, []).append((each[0], _row(alias, each, known)))
    shown_rows: dict[int, Row] = {}
    for alias, some in of_source.items():
        shown_rows |= dict(some)
        with suppress(SourceError), database.using(alias) as db:
            there = rows_of(db, [_names(row.ref) for _number, row in some])
            labels = labels_of([row.ref for _number, row in some], actor=actor)
            users = {row.ref[1:3] for _number, row in some} if columns else set()
            shared = shared_states(db, users)
            for number, row in some:
                stored = there.get(_names(row.ref))
                if stored is None:
                    del shown_rows[number]
                    continue
                state = shown_object(stored.state, actor, row.ref.app_name, read=read_stored_or_none)
                label = labels.get(row.ref, Labels())
                shown_rows[number] = replace(
                    row,
                    title=label.title or title_of(state) or said(row.title, row.ref, actor) or row.ref.session_id,
                    error=said(row.error, row.ref, actor),
                    tags=label.tags,
                    columns={path: _at(path, row.ref, state, shared, actor) for path in columns},
                    **lines.of(row.ref, number),
                )
    return [shown_rows[each[0]] for each in page if each[0] in shown_rows]


def status_of(phase: str, last: float, *, failed: bool) -> str:
    """Returns the status of a session now, from its row of the index, if nothing more is known of it."""
    if phase == "open":
        return "running" if last >= time.time() - settings.SILENCE_SECONDS else "stuck"
    if phase != "idle":
        return phase
    return "failed" if failed else "idle"


def _row(alias: str, stored: tuple[Any, ...], known: Numbers) -> Row:
    number, _where, names, title, phase, failed, sign, error, error_seq, *values = stored
    facts = dict(zip(_FACTS, values, strict=False))  # what it is ordered by follows
    ref, status = ref_of(alias, names), known.status(number, status_of(phase, facts["last"], failed=failed))
    facts["took"] = Took(facts["took"], sign)
    return Row(
        **facts,
        ref=ref,
        title=title or ref.session_id,
        status=status,
        is_paused=number in known.paused,
        error=error,
        error_seq=Seq(error_seq) if error else None,
    )


def _names(ref: SessionRef) -> Names:
    return ref.app_name, ref.user_id, ref.session_id


class _Lines:
    """Finds the lines and the events that matched. What the index is asked for one session, it is asked for all of the
    page."""

    def __init__(self, selection: Selection, numbers: Sequence[int], actor: Actor) -> None:
        self._questions = sorted(selection.questions, key=lambda each: -len(each[0].text))
        self._numbers, self._actor = numbers, actor
        self._pieces: dict[int, dict[int, tuple[int, int]]] = {}
        self._written = [(path_of(node), newest_writes(numbers, node, _WRITES)) for node in selection.written]

    def of(self, ref: SessionRef, number: int) -> dict[str, Any]:
        """Returns the fields of a row about what matched."""
        writes = [(path, seqs[number]) for path, seqs in self._written if number in seqs]
        match = self._line(ref, number)
        if match is None and writes:
            path, (newest, *_older) = max(writes, key=lambda each: each[1][0])
            match = write_of(ref, newest, path, self._actor)
        seqs = {seq for _path, some in writes for seq in some} | ({match.seq} if match else set())
        return {"match": match, "matched": tuple(sorted(seqs)[-MATCHED:])}

    def _line(self, ref: SessionRef, number: int) -> Match | None:
        """Returns the newest line in which the longest of the texts that has one stands: it tells the most."""
        for turn, (text, question) in enumerate(self._questions):
            if turn not in self._pieces:
                self._pieces[turn] = newest_pieces(self._numbers, question)
            piece = self._pieces[turn].get(number)
            if piece and (match := match_of(ref, piece, text.text, self._actor)):
                return match
        return None


def _at(path: str, ref: SessionRef, state: State, shared: dict[Owner, State], actor: Actor) -> Any:
    """Returns the value at a path of the merged state, “cart.total” or “user:tier”; UNKNOWN if there is none.

    A key may have dots itself.
    """
    scope, _bare = scope_of(path.partition(".")[0])
    if scope in ("user", "app"):
        owner = (ref.app_name, ref.user_id if scope == "user" else "")
        state, path = shown(shared.get(owner, {}), actor, ref.app_name, scope), path.partition(":")[2]
    if path in state:
        return state[path]
    value: Any = state
    for part in path.split("."):
        if not isinstance(value, dict) or part not in value:
            return UNKNOWN
        value = value[part]
    return value


# --- As JSON, for programs: the API and `adkweb find --json` ----------------------------------------------------------


def as_json(row: Row, actor: Actor) -> dict[str, Any]:
    """Returns a row with names as in the rest of the API. Columns that have no value are left out."""
    ref = row.ref
    numbered = not database.is_open(ref.source) or database.is_numbered(ref.source)
    match = asdict(row.match) if row.match else None
    if match and not numbered:  # as for events: their order follows from times there
        match["seq"] = None
    return {
        "source": ref.source,
        "app_name": ref.app_name,
        "user_id": shown_user(*ref[:3], actor),
        "id": ref.session_id,
        "title": row.title,
        "status": row.status,
        **{name: getattr(row, name) for name in _FACTS},
        "took": row.took.seconds,
        "took_sign": row.took.sign,
        "error": row.error,
        "error_seq": row.error_seq if numbered else None,
        "tags": list(row.tags),
        "columns": {path: value for path, value in row.columns.items() if value is not UNKNOWN},
        "match": match,
    }
