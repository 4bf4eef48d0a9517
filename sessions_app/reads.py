"""Every query: apps, users, sessions, the timeline by page, merged state, edits.

Lists page by key and never count everything to show ten; a number that may be large is counted up to COUNT_LIMIT. Where a
source was not adopted (read-only), events have no seq and are ordered by timestamp and id, which is ADK's own order.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, Func, IntegerField, JSONField, Max, Q, QuerySet
from django.db.models.expressions import RawSQL
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.utils.translation import gettext as _

from . import sources
from .errors import Invalid, NotFound, SourceError
from .events import Description, describe, edit_of, removed_by
from .filters import BY_AUTHOR, FILTERS, TOKENS
from .keys import SessionKey
from .models import App, Event, Session, User
from .paging import Page, read_cursor, write_cursor
from .state import ABSENT, UNKNOWN, Change, Scoped, State, scope_of

PAGE: Final = 50  # rows of a table
EVENTS: Final = 100  # events of a timeline page
COUNT_LIMIT: Final = 10_000
ROW_COUNT_LIMIT: Final = 1_000  # events counted for one row of a table of sessions
RECENT: Final = 500  # events looked through for the last writer or the previous value of a key


@dataclass(frozen=True, slots=True)
class AppRow:
    """An app of a source. Counts stop above COUNT_LIMIT."""

    source: str
    app_name: str
    sessions: int
    users: int
    last_activity: float | None


@dataclass(frozen=True, slots=True)
class UserRow:
    """A user of an app."""

    user_id: str
    sessions: int
    last_activity: float


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session in a table; `events` stops above ROW_COUNT_LIMIT, `errors` looks at the newest 100 events."""

    key: SessionKey
    title: str
    create_time: float
    update_time: float
    events: int
    errors: int


@dataclass(frozen=True, slots=True)
class SessionView:
    """One session with the state that its agent sees; `initial_state` is None where it was never recorded."""

    key: SessionKey
    title: str
    create_time: float
    revision: float
    state: Scoped
    initial_state: State | None


@dataclass(slots=True)
class EventView:
    """One stored event, described; `changes` are its state changes with the values before, where they are known."""

    key: SessionKey
    id: str
    seq: int | None
    invocation_id: str
    timestamp: float
    data: dict[str, Any]
    description: Description
    changes: list[Change] = field(default_factory=list)
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class Writer:
    """The event that last wrote a key."""

    event_id: str
    seq: int | None
    author: str
    actor: str  # of an edit, else empty
    timestamp: float


@dataclass(frozen=True, slots=True)
class Stats:
    """A session at a glance, over its newest COUNT_LIMIT events; `more` where there are others."""

    events: int
    invocations: int
    tokens: int
    kinds: dict[str, int]
    more: bool


# --- Apps and users ---------------------------------------------------------------------------------------------------


def apps(source: str) -> list[AppRow]:
    """Every app of a source, by name: those with sessions, and those with state only."""
    with sources.using(source):
        names = set(Session.objects.using(source).values_list("app_name", flat=True).distinct())
        names |= set(App.objects.using(source).values_list("app_name", flat=True))
        return [_app_row(source, name) for name in sorted(names)]


def app(source: str, app_name: str) -> tuple[AppRow, State]:
    """One app and its state; raises NotFound."""
    with sources.using(source):
        row = _app_row(source, app_name)
        stored = App.objects.using(source).filter(app_name=app_name).values_list("state", flat=True).first()
        if not row.sessions and stored is None:
            raise NotFound(_("There is no app “%(name)s” in this source.") % {"name": app_name})
        return row, _object(stored)


def users(source: str, app_name: str, after: str | None = None) -> Page[UserRow]:
    """The users of an app, by id."""
    with sources.using(source):
        found = Session.objects.using(source).filter(app_name=app_name)
        if after:
            found = found.filter(user_id__gt=read_cursor(after, str)[0])
        names = list(found.order_by("user_id").values_list("user_id", flat=True).distinct()[: PAGE + 1])
        rows = [
            UserRow(name, _count(mine := found.filter(user_id=name)), mine.aggregate(t=Max("update_time"))["t"])
            for name in names[:PAGE]
        ]
        return Page(rows, write_cursor(names[PAGE - 1]) if len(names) > PAGE else None)


def user_state(source: str, app_name: str, user_id: str) -> State:
    """A user's state, keys without prefix; raises NotFound for a user without session and state."""
    with sources.using(source):
        stored = User.objects.using(source).filter(app_name=app_name, user_id=user_id)
        state = stored.values_list("state", flat=True).first()
        if state is None and not Session.objects.using(source).filter(app_name=app_name, user_id=user_id).exists():
            raise NotFound(_("There is no user “%(name)s” in this app.") % {"name": user_id})
        return _object(state)


# --- Sessions ---------------------------------------------------------------------------------------------------------


def sessions(
    source: str, app_name: str, user_id: str | None = None, before: str | None = None, limit: int = PAGE
) -> Page[SessionRow]:
    """Sessions of an app or of one user, the most recently active first."""
    with sources.using(source):
        found = Session.objects.using(source).filter(app_name=app_name)
        if user_id is not None:
            found = found.filter(user_id=user_id)
        if before:
            moment, user, name = read_cursor(before, float, str, str)
            same = Q(update_time=moment)
            found = found.filter(
                Q(update_time__lt=moment) | same & Q(user_id__lt=user) | same & Q(user_id=user, id__lt=name),
                update_time__lte=moment,
            )
        found = found.order_by("-update_time", "-user_id", "-id").annotate(
            title=_TITLE,
            event_count=RawSQL(_count_events(source), [ROW_COUNT_LIMIT + 1], IntegerField()),
            error_count=RawSQL(_count_errors(source), [], IntegerField()),
        )
        rows = [
            SessionRow(
                SessionKey(source, row["app_name"], row["user_id"], row["id"]),
                row["title"] or "",
                row["create_time"],
                row["update_time"],
                row["event_count"],
                row["error_count"],
            )
            for row in found.values(
                "app_name", "user_id", "id", "title", "create_time", "update_time", "event_count", "error_count"
            )[: limit + 1]
        ]
        last = rows[limit - 1] if len(rows) > limit else None
        return Page(
            rows[:limit], write_cursor(last.update_time, last.key.user_id, last.key.session_id) if last else None
        )


def session(key: SessionKey) -> SessionView:
    """One session with its state by scope; raises NotFound."""
    with sources.using(key.source) as db:
        found = Session.objects.using(key.source).filter(app_name=key.app_name, user_id=key.user_id, id=key.session_id)
        row = found.annotate(title=_TITLE).first()
        if row is None:
            raise NotFound(_("Session %(id)s not found.") % {"id": key.session_id})
        app_state = App.objects.using(key.source).filter(app_name=key.app_name).values_list("state", flat=True)
        user = User.objects.using(key.source).filter(app_name=key.app_name, user_id=key.user_id)
        return SessionView(
            key,
            row.title or "",
            row.create_time,
            row.update_time,
            Scoped(
                app=_object(app_state.first()),
                user=_object(user.values_list("state", flat=True).first()),
                session=_object(row.state),
            ),
            _initial_state(db, key),
        )


def stats(key: SessionKey) -> Stats:
    """Numbers of a session: events, invocations, tokens, and events by filter."""
    with sources.using(key.source) as db:
        columns = ", ".join(f"sum(CASE WHEN {FILTERS[name][db.vendor]} THEN 1 ELSE 0 END)" for name in FILTERS)
        with db.cursor() as cursor:
            cursor.execute(
                f"""SELECT count(*), count(DISTINCT invocation_id), sum({TOKENS[db.vendor]}), {columns}
                FROM (SELECT * FROM events WHERE app_name = %s AND user_id = %s AND session_id = %s
                ORDER BY {_newest_first(key.source)} LIMIT {COUNT_LIMIT + 1}) AS events""",
                key[1:],
            )
            count, invocations, tokens, *kinds = cursor.fetchone()
    numbers = {name: min(number or 0, COUNT_LIMIT) for name, number in zip(FILTERS, kinds, strict=True)}
    whole = int(min(tokens or 0, 2**63))  # SQLite makes infinity of a number that is too large
    return Stats(min(count, COUNT_LIMIT), invocations, whole, numbers, more=count > COUNT_LIMIT)


# --- Events -----------------------------------------------------------------------------------------------------------


def events(key: SessionKey, *, before: str | None = None, kind: str = "", author: str = "") -> Page[EventView]:
    """A page of the timeline in append order, the newest or those before a cursor; `next` leads to earlier ones.

    `kind` is one of FILTERS.
    """
    with sources.using(key.source) as db:
        found = _events(key)
        if before:
            found = found.filter(_before(key.source, before))
        if kind:
            if kind not in FILTERS:
                raise Invalid(_("There is no filter “%(name)s”.") % {"name": kind})
            found = found.filter(RawSQL(FILTERS[kind][db.vendor], [], BooleanField()))
        if author:
            found = found.filter(RawSQL(BY_AUTHOR[db.vendor], [author], BooleanField()))
        rows = [_view(key, row) for row in _ordered(found, key.source)[: EVENTS + 1]]
        page = rows[:EVENTS][::-1]
        _add_changes(key, page)
        return Page(page, page[0].cursor if len(rows) > EVENTS else None)


def event(key: SessionKey, event_id: str) -> EventView:
    """One event; raises NotFound."""
    with sources.using(key.source):
        row = _events(key).filter(id=event_id).first()
        if row is None:
            raise NotFound(_("There is no event %(id)s in this session; it may have been deleted.") % {"id": event_id})
        view = _view(key, row)
        _add_changes(key, [view])
        return view


def around(view: EventView, reach: int = 200) -> tuple[list[EventView], list[EventView]]:
    """The events before and after one, nearest first, at most `reach` each: for its neighbours and its paired calls."""
    with sources.using(view.key.source):
        found = _events(view.key)
        earlier = _ordered(found.filter(_before(view.key.source, view.cursor)), view.key.source)[:reach]
        later = _ordered(found.filter(_after(view.key.source, view.cursor)), view.key.source, newest=False)[:reach]
        return [_view(view.key, row) for row in earlier], [_view(view.key, row) for row in later]


def edits(before: str | None = None, limit: int = PAGE) -> tuple[Page[EventView], list[str]]:
    """Every edit in every session of every source, the newest first; and what is wrong with sources left out."""
    found: list[EventView] = []
    problems: list[str] = []
    moment, name, alias = read_cursor(before, float, str, str) if before else (None, "", "")
    for source in sources.listed():
        try:
            with sources.using(source.alias) as db:
                rows = Event.objects.using(source.alias).filter(RawSQL(FILTERS["edits"][db.vendor], [], BooleanField()))
                if moment is not None:
                    same = Q(timestamp=moment)
                    tie = Q(id__lte=name) if source.alias < alias else Q(id__lt=name)
                    rows = rows.filter(Q(timestamp__lt=moment) | same & tie, timestamp__lte=moment)
                for row in rows.order_by("-timestamp", "-id").defer(*_no_seq(source.alias))[: limit + 1]:
                    key = SessionKey(source.alias, row.app_name, row.user_id, row.session_id)
                    view = _view(key, row)
                    view.changes = _edit_changes(view)
                    view.cursor = write_cursor(row.timestamp, row.id, source.alias)
                    found.append(view)
        except SourceError as error:  # one that is away must not take the others' edits with it
            problems.append(error.message)
    found.sort(key=lambda view: (view.timestamp, view.id, view.key.source), reverse=True)
    return Page(found[:limit], found[limit - 1].cursor if len(found) > limit else None), problems


# --- Who wrote a key --------------------------------------------------------------------------------------------------


def writers(key: SessionKey) -> dict[str, Writer]:
    """The last writer of every full key that the newest RECENT events of this session wrote."""
    with sources.using(key.source):
        found: dict[str, Writer] = {}
        for row in _state_rows(key):
            for name in _object(row["delta"]):
                found.setdefault(name, _writer(row))
        return found


def last_writer(key: SessionKey, full_key: str) -> Writer | None:
    """Who last wrote a key of any scope, looked for in the sessions that were active since the scope changed."""
    scope, _bare = scope_of(full_key)
    with sources.using(key.source):
        keys = [key] if scope == "session" else list(_sessions_since(key, scope))
        found = [
            _writer(row)
            for candidate in keys
            for row in _state_rows(candidate, limit=100)
            if full_key in _object(row["delta"])
        ]
        return max(found, key=lambda writer: writer.timestamp, default=None)


def _sessions_since(key: SessionKey, scope: str) -> Iterator[SessionKey]:
    """The sessions that may have written a scope last: those at least as new as its row."""
    stored: QuerySet[Any] = App.objects.using(key.source).filter(app_name=key.app_name)
    found = Session.objects.using(key.source).filter(app_name=key.app_name)
    if scope == "user":
        stored = User.objects.using(key.source).filter(app_name=key.app_name, user_id=key.user_id)
        found = found.filter(user_id=key.user_id)
    written = stored.values_list("update_time", flat=True).first()
    if written is None:
        return
    for user_id, name in (
        found.filter(update_time__gte=written).order_by("update_time").values_list("user_id", "id")[:20]
    ):
        yield SessionKey(key.source, key.app_name, user_id, name)


def _writer(row: dict[str, Any]) -> Writer:
    return Writer(row["id"], row.get("seq"), str(row["by"] or ""), str(row["actor"] or ""), row["timestamp"])


def _state_rows(key: SessionKey, before: str | None = None, limit: int = RECENT) -> Iterable[dict[str, Any]]:
    """The newest of a session's events (before a cursor), reduced to what they say of state; newest first."""
    found = _events(key)
    if before:
        found = found.filter(_before(key.source, before))
    event = _Valid("event_data")
    adkweb = KeyTransform("adkweb", KeyTransform("custom_metadata", event))
    fields = [
        "id",
        "timestamp",
        "delta",
        "by",
        "actor",
        "removed",
        *(["seq"] if sources.is_adopted(key.source) else []),
    ]
    rows: Iterable[dict[str, Any]] = (
        _ordered(found, key.source)
        .annotate(
            delta=KeyTransform("state_delta", KeyTransform("actions", event)),
            by=KeyTextTransform("author", event),
            actor=KeyTextTransform("actor", adkweb),
            removed=KeyTransform("removed", adkweb),
        )
        .values(*fields)[:limit]
    )
    return rows


# --- The values before ------------------------------------------------------------------------------------------------


def _add_changes(key: SessionKey, page: Sequence[EventView]) -> None:
    """Gives each event its changes with the values before.

    A session key's previous value is exact: only this session writes it. An `app:` or `user:` key may have been written
    from other sessions meanwhile, so its previous value is shown only where the edit itself recorded it.
    """
    wanted = {k for view in page for k in view.description.delta if scope_of(k)[0] == "session"}
    before = _values_before(key, page, wanted) if wanted else {}
    for view in page:
        known = before.get(view.id, {})
        recorded = _object(view.description.edit.get("replaced"))
        removed = set(view.description.removed)
        for name, value in view.description.delta.items():
            old = recorded.get(name, ABSENT) if view.description.edit else known.get(name, UNKNOWN)
            view.changes.append(Change(name, old, ABSENT if name in removed else value))


def _values_before(key: SessionKey, page: Sequence[EventView], names: set[str]) -> dict[str, State]:
    """By event id, the values of session keys just before it; names that cannot be known are left out.

    Looks at the events between, too, which a filter may hide.
    """
    db = connections[key.source]
    rows = list(_state_rows(key, before=page[-1].cursor, limit=RECENT + len(page)))
    known: State = {}
    if len(rows) < RECENT + len(page) and (initial := _initial_state(db, key)) is not None:
        known = {name: initial.get(name, ABSENT) for name in names}
    shown = {view.id for view in page}
    found: dict[str, State] = {}
    for row in reversed(rows):
        if row["id"] in shown:
            found[row["id"]] = dict(known)
        delta = _object(row["delta"])
        removed = row["removed"] if isinstance(row["removed"], list) else []
        for name in names & delta.keys():
            known[name] = ABSENT if delta[name] is None and name in removed else delta[name]
    found[page[-1].id] = known
    return found


def _edit_changes(view: EventView) -> list[Change]:
    replaced, removed = _object(edit_of(view.data).get("replaced")), set(removed_by(view.data))
    return [
        Change(name, replaced.get(name, ABSENT), ABSENT if name in removed else value)
        for name, value in view.description.delta.items()
    ]


# --- Queries ----------------------------------------------------------------------------------------------------------


class _Valid(Func):
    """A JSON column, null where ADK stored NaN in it, which SQLite's JSON functions refuse."""

    template, output_field = "%(expressions)s", JSONField()

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """SQLite keeps JSON as text; PostgreSQL never has any that is not valid."""
        valid = "CASE WHEN json_valid(%(expressions)s) THEN %(expressions)s END"
        return self.as_sql(compiler, connection, template=valid, **extra)


_TITLE: Final = KeyTextTransform("displayName", KeyTransform("__session_metadata__", _Valid("state")))

_OF_SESSION: Final = """events.app_name = sessions.app_name AND events.user_id = sessions.user_id
    AND events.session_id = sessions.id"""


def _count_events(source: str) -> str:
    # In an order, although any would do: only so does PostgreSQL read the index and not the whole table.
    return f"""SELECT count(*) FROM (SELECT 1 FROM events WHERE {_OF_SESSION}
        ORDER BY {_newest_first(source)} LIMIT %s) AS counted"""


def _count_errors(source: str) -> str:
    vendor = next(s.vendor for s in sources.listed() if s.alias == source)
    return f"""SELECT count(*) FROM (SELECT event_data FROM events WHERE {_OF_SESSION}
        ORDER BY {_newest_first(source)} LIMIT 100) AS newest WHERE {FILTERS["errors"][vendor]}"""


def _newest_first(source: str) -> str:
    if not sources.is_adopted(source):
        return "timestamp DESC, id DESC"
    return "seq DESC" if sources.get(source).vendor == "postgresql" else "rowid DESC"


def _events(key: SessionKey) -> QuerySet[Event]:
    found = Event.objects.using(key.source).filter(
        app_name=key.app_name, user_id=key.user_id, session_id=key.session_id
    )
    return found.defer(*_no_seq(key.source))


def _no_seq(source: str) -> list[str]:
    return [] if sources.is_adopted(source) else ["seq"]


def _initial_state(db: BaseDatabaseWrapper, key: SessionKey) -> State | None:
    if not sources.is_adopted(key.source):
        return None
    with db.cursor() as cursor:
        cursor.execute("SELECT initial_state FROM sessions WHERE app_name = %s AND user_id = %s AND id = %s", key[1:])
        stored = cursor.fetchone()
    return json.loads(stored[0]) if stored and stored[0] is not None else None


def _ordered(found: QuerySet[Event], source: str, *, newest: bool = True) -> QuerySet[Event]:
    names = ["seq"] if sources.is_adopted(source) else ["timestamp", "id"]
    return found.order_by(*(f"-{name}" if newest else name for name in names))


def _before(source: str, cursor: str) -> Q:
    return _beside(source, cursor, "lt")


def _after(source: str, cursor: str) -> Q:
    return _beside(source, cursor, "gt")


def _beside(source: str, cursor: str, side: str) -> Q:
    if sources.is_adopted(source):
        (seq,) = read_cursor(cursor, int)
        return Q(**{f"seq__{side}": seq})
    moment, name = read_cursor(cursor, float, str)
    return Q(**{f"timestamp__{side}": moment}) | Q(timestamp=moment, **{f"id__{side}": name})


def _view(key: SessionKey, row: Event) -> EventView:
    adopted = sources.is_adopted(key.source)
    stored = _object(row.event_data)
    # The columns are what ADK itself believes; the exact time stands in the event.
    data = {**stored, "id": row.id, "invocation_id": row.invocation_id}
    timestamp = stored.get("timestamp")
    exact = isinstance(timestamp, int | float) and not isinstance(timestamp, bool) and abs(timestamp) < 2**53
    return EventView(
        key,
        row.id,
        row.seq if adopted else None,
        row.invocation_id,
        float(timestamp) if exact else row.timestamp,  # type: ignore[arg-type]
        data,
        describe(data),
        cursor=write_cursor(row.seq) if adopted else write_cursor(row.timestamp, row.id),
    )


def _app_row(source: str, app_name: str) -> AppRow:
    found = Session.objects.using(source).filter(app_name=app_name)
    some = found.order_by().values("user_id")[: COUNT_LIMIT + 1]
    return AppRow(
        source,
        app_name,
        _count(found),
        len({row["user_id"] for row in some}),
        found.aggregate(t=Max("update_time"))["t"],
    )


def _count(found: QuerySet[Any]) -> int:
    return found.order_by().values("app_name")[: COUNT_LIMIT + 1].count()


def _object(stored: Any) -> dict[str, Any]:
    return stored if isinstance(stored, dict) else {}
