"""Every query: apps, users, sessions, the timeline by page, merged state, edits.

Lists page by key and never count everything to show ten; a number that may be large is counted up to COUNT_LIMIT. Where a
source was not adopted (read-only), events have no seq and are ordered by timestamp and id, which is ADK's own order.
"""

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.db.models import IntegerField, Max, Q, QuerySet
from django.db.models.expressions import RawSQL
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Substr
from django.utils.translation import gettext as _

from . import changes, sources
from .edited import EditAt, edits_of
from .errors import Behind, Error, Invalid, NotFound, SourceError
from .event_rows import (
    EventView,
    Writer,
    add_changes,
    after_cursor,
    as_object,
    before_cursor,
    count_errors,
    count_events,
    events_of,
    filtered,
    in_lists,
    is_listed,
    newest_views,
    of_known_users,
    ordered,
    sessions_of,
    sessions_since,
    state_rows,
    view_of,
    views,
    writer,
)
from .keys import SessionKey
from .models import App, Event, Session, User, read_instant
from .paging import Page, read_cursor, write_cursor
from .running import Running, running
from .state import Scope, Scoped, State, scope_of
from .values import stored
from .weights import Measured, Small, large, measured_sql

PAGE: Final = 50  # rows of a table
EVENTS: Final = 100  # events of a timeline page
IN_FLIGHT: Final = 100  # events looked through for the invocation in flight
RUNNING_REACH: Final = 300  # events of all sessions looked through for those whose agent runs
APPENDED: Final = 5_000  # events of a source listed at once
COUNT_LIMIT: Final = 10_000
_GLANCE: Final = 2_000_000  # what events may weigh together that are only looked through
ROW_COUNT_LIMIT: Final = 1_000  # events counted for one row of a table of sessions


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
    sizes: Mapping[Scope, int] = field(default_factory=dict)  # characters of those scopes that are too large to be read


@dataclass(frozen=True, slots=True)
class RunningSession:
    """A session whose agent runs now."""

    key: SessionKey
    title: str
    flight: Running


_STATE: Final = Measured("state")  # for `_read_state` to read
_SCOPES: Final[tuple[Scope, ...]] = ("session", "user", "app")


class Revision(NamedTuple):
    """When a session was created and written, and its user's and its app's state, as the database has them; and what differs
    as well where a program wrote to these rows itself.
    """

    created: Any
    session: Any
    user: Any
    app: Any
    session_row: Any
    user_row: Any
    app_row: Any


# --- Apps and users ---------------------------------------------------------------------------------------------------


def apps(source: str) -> list[AppRow]:
    """Every app of a source, by name: those with sessions, and those with state only."""
    with sources.using(source):
        return [_app_row(source, name) for name in app_names(source)]


def app_names(source: str) -> list[str]:
    """The names of a source's apps, in order."""
    with sources.using(source):
        names = set(Session.objects.using(source).values_list("app_name", flat=True).distinct())
        return sorted(names | set(App.objects.using(source).values_list("app_name", flat=True)))


def has_sessions(source: str) -> bool:
    """Whether a source has any session."""
    with sources.using(source):
        return Session.objects.using(source).exists()


def has_app(source: str, app_name: str) -> bool:
    """Whether a source has sessions or state of an app."""
    with sources.using(source):
        found = Session.objects.using(source).filter(app_name=app_name).exists()
        return found or App.objects.using(source).filter(app_name=app_name).exists()


def app(source: str, app_name: str, *, partly: bool = False) -> tuple[AppRow, State]:
    """One app and its state; raises NotFound. As `session` does with one that is too large to be read."""
    with sources.using(source):
        text = App.objects.using(source).filter(app_name=app_name).values_list(_STATE, flat=True).first()
        if text is None and not sessions_of(source, app_name).exists():
            raise NotFound(_("There is no app “%(name)s” in this source.") % {"name": app_name})
        return _app_row(source, app_name), {} if partly else _read_state(text)


def users(source: str, app_name: str, after: str | None = None) -> Page[UserRow]:
    """The users of an app, by id; also one who has no session, but whose state was edited."""
    with sources.using(source):
        found = sessions_of(source, app_name)
        known = of_known_users(found, source)
        if after:
            known = known.filter(user_id__gt=read_cursor(after, str)[0])
        names = list(known.order_by("user_id").values_list("user_id", flat=True).distinct()[: PAGE + 1])
        rows = [
            UserRow(name, _count(in_lists(mine, source)), mine.aggregate(t=Max("update_time"))["t"])
            for name in names[:PAGE]
            for mine in [found.filter(user_id=name)]
        ]
        return Page(rows, write_cursor(names[PAGE - 1]) if len(names) > PAGE else None)


def user_state(source: str, app_name: str, user_id: str, *, partly: bool = False) -> State:
    """A user's state, keys without prefix; raises NotFound for a user without session and state. As `session` does with one
    that is too large to be read.
    """
    with sources.using(source):
        found = User.objects.using(source).filter(app_name=app_name, user_id=user_id)
        text = found.values_list(_STATE, flat=True).first()
        if text is None and not Session.objects.using(source).filter(app_name=app_name, user_id=user_id).exists():
            raise NotFound(_("There is no user “%(name)s” in this app.") % {"name": user_id})
        return {} if partly else _read_state(text)


def _read_state(text: str | None) -> State:
    if size := large(text):
        raise Invalid(_too_large(size), size=size)
    return as_object(stored(text or "null"))


def _too_large(size: int) -> str:
    return _("This state is too large to be read here: %(n)s characters.") % {"n": size}


# --- Sessions ---------------------------------------------------------------------------------------------------------


def sessions(
    source: str,
    app_name: str,
    user_id: str | None = None,
    before: str | None = None,
    limit: int = PAGE,
    *,
    hidden: bool = False,
) -> Page[SessionRow]:
    """Sessions of an app or of one user, the most recently active first; `hidden`: also those of `own_session`."""
    with sources.using(source):
        found = sessions_of(source, app_name)
        if user_id is not None:
            found = found.filter(user_id=user_id)
        if not hidden:
            found = in_lists(found, source)
        if before:
            moment, user, name = read_cursor(before, float, str, str)
            same = Q(update_time=moment)
            found = found.filter(
                Q(update_time__lt=moment) | same & Q(user_id__lt=user) | same & Q(user_id=user, id__lt=name),
                update_time__lte=moment,
            )
        rows = _session_rows(found.order_by("-update_time", "-user_id", "-id"), source, limit + 1)
        last = rows[limit - 1] if len(rows) > limit else None
        return Page(
            rows[:limit], write_cursor(last.update_time, last.key.user_id, last.key.session_id) if last else None
        )


def left_out(key: SessionKey) -> SessionRow | None:
    """The session of `own_session` that lists leave out; None where there is none."""
    with sources.using(key.source):
        found = sessions_of(key.source, key.app_name).filter(user_id=key.user_id, id=key.session_id)
        rows = _session_rows(found.exclude(is_listed(key.source)), key.source, 1)
        return rows[0] if rows else None


def session(key: SessionKey, *, partly: bool = False) -> SessionView:
    """One session with its state by scope; raises NotFound, and Invalid for a state that is too large to be read; `partly`:
    then without the scopes that are.
    """
    with sources.using(key.source) as db, db.cursor() as cursor:
        texts = [measured_sql(f"{table}.state", db.vendor) for table in "sua"]
        initial_state = measured_sql("s.initial_state", db.vendor) if sources.is_adopted(key.source) else "NULL"
        cursor.execute(
            f"""SELECT s.create_time, s.update_time, {", ".join(texts)}, {initial_state}
            FROM sessions AS s LEFT JOIN app_states AS a ON a.app_name = s.app_name
            LEFT JOIN user_states AS u ON u.app_name = s.app_name AND u.user_id = s.user_id
            WHERE s.app_name = %s AND s.user_id = %s AND s.id = %s""",
            key[1:],
        )
        row = cursor.fetchone()
    if row is None:
        raise NotFound(_("Session %(id)s not found.") % {"id": key.session_id})
    sizes: dict[Scope, int] = {
        scope: size for scope, text in zip(_SCOPES, row[2:5], strict=True) if (size := large(text))
    }
    if sizes and not partly:
        raise Invalid(_too_large(max(sizes.values())))
    own, user, app, initial = (None if text is None or large(text) else as_object(stored(text)) for text in row[2:])
    title = as_object((own or {}).get("__session_metadata__")).get("displayName")
    return SessionView(
        key,
        title[:200] if isinstance(title, str) else "",
        read_instant(row[0]),
        read_instant(row[1]),
        Scoped(app=app or {}, user=user or {}, session=own or {}),
        initial,
        sizes,
    )


# --- Events -----------------------------------------------------------------------------------------------------------


def events(
    key: SessionKey, *, before: str | None = None, kind: str = "", author: str = "", limit: int = EVENTS
) -> Page[EventView]:
    """A page of the timeline in append order, the newest or those before a cursor; `next` leads to earlier ones.

    `kind` is one of FILTERS.
    """
    with sources.using(key.source):
        found = filtered(events_of(key), key, kind, author)
        if before:
            found = found.filter(before_cursor(key.source, before))
        rows, more = views(ordered(found, key.source), key.source, limit, key=key)
        page = rows[::-1]
        add_changes(key, page)
        return Page(page, page[0].cursor if more else None)


def event(key: SessionKey, event_id: str) -> EventView:
    """One event; raises NotFound."""
    with sources.using(key.source):
        row = events_of(key).filter(id=event_id).first()
        if row is None:
            raise NotFound(_("There is no event %(id)s in this session; it may have been deleted.") % {"id": event_id})
        view = view_of(key, row)
        add_changes(key, [view])
        return view


def events_after(
    key: SessionKey, seq: int | str, *, kind: str = "", author: str = "", limit: int = EVENTS
) -> Page[EventView]:
    """The events after a place, or a cursor, at most `limit`, in append order: what somebody who was there has missed."""
    with sources.using(key.source):
        after = Q(seq__gt=seq) if isinstance(seq, int) else after_cursor(key.source, seq)
        found = filtered(events_of(key).filter(after), key, kind, author)
        page, more = views(ordered(found, key.source, newest=False), key.source, limit, key=key)
        if page:
            add_changes(key, page)
        return Page(page, page[-1].cursor if more else None)


def newest_seq(key: SessionKey) -> int:
    """The place of a session's newest event; 0 where there is none."""
    with sources.using(key.source):
        return events_of(key).order_by("-seq").values_list("seq", flat=True).first() or 0


def misses_more_than(key: SessionKey, seq: int, number: int) -> bool:
    """Whether more than `number` events follow a place."""
    with sources.using(key.source):
        return bool(events_of(key).filter(seq__gt=seq).order_by("seq").values_list("seq")[number : number + 1])


def in_flight(key: SessionKey) -> Running | None:
    """The invocation that has begun and not ended, by the newest events and the silence that the settings define."""
    with sources.using(key.source):
        newest, _more = views(ordered(events_of(key), key.source), key.source, IN_FLIGHT, _GLANCE, key)
        return running([view.data for view in reversed(newest)], time.time(), settings.SILENCE_SECONDS)


def around(view: EventView, reach: int = 200) -> tuple[list[EventView], list[EventView]]:
    """The events before and after one, nearest first, at most `reach` each: for its neighbours and its paired calls."""
    with sources.using(view.key.source):
        found = events_of(view.key)
        earlier = ordered(found.filter(before_cursor(view.key.source, view.cursor)), view.key.source)
        later = ordered(found.filter(after_cursor(view.key.source, view.cursor)), view.key.source, newest=False)
        return (
            views(earlier, view.key.source, reach, _GLANCE, view.key)[0],
            views(later, view.key.source, reach, _GLANCE, view.key)[0],
        )


def edits(
    before: str | None = None,
    limit: int = PAGE,
    sees: Callable[[str], bool] | None = None,
    seconds: float | None = None,
) -> tuple[Page[EventView], list[Error]]:
    """The edits in every session of every source, the newest first, or those in apps that somebody sees; and of sources
    that were left out, or are not read to their end after so many seconds, why: SourceError, Behind.
    """
    found: list[tuple[EditAt, EventView]] = []
    problems: list[Error] = []
    below: EditAt | None = tuple(read_cursor(before, int, str, int)) if before else None
    ends: EditAt | None = None
    until = time.monotonic() + (changes.SECONDS if seconds is None else seconds)
    for source in sources.listed():
        try:
            if not sources.has_order(sources.get(source.alias).alias):
                continue
            try:
                changes.catch_up(source.alias, max(0.0, until - time.monotonic()))
            except Behind as error:  # what is read so far is shown
                problems.append(Behind(f"{source.where}: {error.message}", **error.detail))
            some, end = edits_of(source.alias, below, limit + 1, sees)
        except SourceError as error:  # one that is away must not take the others' edits with it
            problems.append(error)
            continue
        found += some
        ends = max(ends, end) if ends and end else ends or end
    found.sort(key=lambda each: each[0], reverse=True)
    read = [each for each in found if ends is None or each[0] >= ends]  # below, a source has more than was read
    page = read[:limit]
    last = page[-1][0] if page else ends
    more = len(found) > len(page) or ends is not None
    return Page([view for _at, view in page], write_cursor(*last) if last and more else None), problems


def numbers(events: Collection[tuple[SessionKey, str]]) -> dict[tuple[SessionKey, str], int]:
    """The places of events, by session and id, of those that are there and have one; one question to each source."""
    found = {}
    for alias in {key.source for key, _id in events}:
        wanted = [(key, name) for key, name in events if key.source == alias]
        apps, users, sessions = (set(names) for names in zip(*(key[1:] for key, _id in wanted), strict=True))
        with suppress(SourceError), sources.using(alias):
            if not sources.is_numbered(alias):
                continue
            rows = Event.objects.using(alias).filter(
                app_name__in=apps, user_id__in=users, session_id__in=sessions, id__in={name for _key, name in wanted}
            )
            for *names, name, seq in rows.values_list("app_name", "user_id", "session_id", "id", "seq"):
                found[SessionKey(alias, *names), name] = seq
    return found


# --- What moves -------------------------------------------------------------------------------------------------------


# SQLite keeps no trace of an update but the row itself; MD5 is Django's, and gets no text that it could not encode.
_ROW: Final = {"postgresql": "{0}.xmin::text", "sqlite": "md5(hex({0}.state))"}
_PLACE: Final = {"postgresql": "seq + 0", "sqlite": "rowid"}  # as the index of adopt.py has it


def revisions(source: str, keys: Collection[SessionKey]) -> dict[SessionKey, Revision]:
    """For each session that exists, what differs as soon as its state, or its user's or app's, was written."""
    if not keys:
        return {}
    names = [name for key in keys for name in key[1:]]
    with sources.using(source) as db, db.cursor() as cursor:
        cursor.execute(
            f"""SELECT s.app_name, s.user_id, s.id, s.create_time, s.update_time, u.update_time, a.update_time,
            {", ".join(_ROW[db.vendor].format(table) for table in "sua")}
            FROM sessions AS s LEFT JOIN app_states AS a ON a.app_name = s.app_name
            LEFT JOIN user_states AS u ON u.app_name = s.app_name AND u.user_id = s.user_id
            WHERE (s.app_name, s.user_id, s.id) IN (VALUES {", ".join(["(%s, %s, %s)"] * len(keys))})""",
            names,
        )
        return {SessionKey(source, *row[:3]): Revision(*row[3:]) for row in cursor.fetchall()}


def appended(source: str, seq: int, also: Collection[int] = (), limit: int = APPENDED) -> list[tuple[int, SessionKey]]:
    """Which events, of any session, have a greater place or one of those in `also` (PostgreSQL only): their places and
    sessions, in order.

    A source that was not adopted has no places on PostgreSQL: then nothing.
    """
    with sources.using(source) as db:
        if not sources.is_numbered(source):
            return []
        column = _PLACE[db.vendor]
        some = f"OR {column} = ANY(%s)" if also else ""
        with db.cursor() as cursor:
            cursor.execute(
                f"""SELECT {column}, app_name, user_id, session_id FROM events WHERE {column} > %s {some}
                ORDER BY {column} LIMIT %s""",
                [seq, *([list(also)] if also else []), limit],
            )
            return [(row[0], SessionKey(source, *row[1:])) for row in cursor.fetchall()]


def data_version(source: str) -> int:
    """SQLite's mark that differs as soon as another connection has written to the file; as this thread sees it."""
    with sources.using(source) as db, db.cursor() as cursor:
        cursor.execute("PRAGMA data_version")
        return int(cursor.fetchone()[0])


def newest_place(source: str) -> int:
    """The greatest place of an event in any session of a source; 0 where there is none."""
    with sources.using(source) as db:
        if not sources.is_numbered(source):
            return 0
        with db.cursor() as cursor:
            cursor.execute(f"SELECT max({_PLACE[db.vendor]}) FROM events")
            return cursor.fetchone()[0] or 0


def newest_events(source: str, limit: int) -> list[EventView]:
    """The newest events of any session, the newest first."""
    with sources.using(source):
        return newest_views(source, limit, _GLANCE)


def running_now(source: str) -> list[RunningSession]:
    """The sessions whose agent runs now, as far as the source's newest events tell; the one with the newest event first."""
    with sources.using(source):
        by_session: dict[SessionKey, list[dict[str, Any]]] = {}
        for view in newest_views(source, RUNNING_REACH, _GLANCE):
            by_session.setdefault(view.key, []).append(view.data)
        now = time.time()
        flights = {key: running(events[::-1], now, settings.SILENCE_SECONDS) for key, events in by_session.items()}
        found = {key: flight for key, flight in flights.items() if flight and not flight.waiting}
        titles = _titles(source, found.keys())
        return [RunningSession(key, titles.get(key, ""), flight) for key, flight in found.items()]


def title(key: SessionKey) -> str:
    """A session's title; empty where it has none."""
    with sources.using(key.source):
        return _titles(key.source, [key]).get(key, "")


def _titles(source: str, keys: Collection[SessionKey]) -> dict[SessionKey, str]:
    if not keys:
        return {}
    any_of = Q(*(Q(app_name=key.app_name, user_id=key.user_id, id=key.session_id) for key in keys), _connector=Q.OR)
    rows = Session.objects.using(source).filter(any_of).annotate(title=_TITLE)
    return {
        SessionKey(source, *names): title or ""
        for *names, title in rows.values_list("app_name", "user_id", "id", "title")
    }


# --- Who wrote a key --------------------------------------------------------------------------------------------------


def writers(key: SessionKey, after: int = 0) -> dict[str, Writer]:
    """The last writer of every full key that the newest RECENT events of this session wrote, or those after a place."""
    with sources.using(key.source):
        found: dict[str, Writer] = {}
        for row in state_rows(key, after=after)[0]:
            found = dict.fromkeys(row["delta"], writer(key, row)) | found
        return found


def last_writer(key: SessionKey, full_key: str) -> Writer | None:
    """Who last wrote a key of any scope, looked for in the sessions that were active since the scope changed."""
    scope, _bare = scope_of(full_key)
    with sources.using(key.source):
        keys = [key] if scope == "session" else list(sessions_since(key, scope))
        found = [
            writer(candidate, row)
            for candidate in keys
            for row in state_rows(candidate, limit=100)[0]
            if full_key in as_object(row["delta"])
        ]
        return max(found, key=lambda writer: writer.timestamp, default=None)


# --- Queries ----------------------------------------------------------------------------------------------------------


_TITLE: Final = Substr(KeyTextTransform("displayName", KeyTransform("__session_metadata__", Small("state"))), 1, 200)


def _session_rows(found: QuerySet[Session], source: str, limit: int) -> list[SessionRow]:
    found = found.annotate(
        title=_TITLE,
        event_count=RawSQL(count_events(source), [ROW_COUNT_LIMIT + 1], IntegerField()),
        error_count=RawSQL(count_errors(source), [], IntegerField()),
    )
    names = ("app_name", "user_id", "id", "title", "create_time", "update_time", "event_count", "error_count")
    return [
        SessionRow(SessionKey(source, *row[:3]), row[3] or "", *row[4:]) for row in found.values_list(*names)[:limit]
    ]


def _app_row(source: str, app_name: str) -> AppRow:
    found = sessions_of(source, app_name)
    some = of_known_users(found, source).order_by().values("user_id")[: COUNT_LIMIT + 1]
    return AppRow(
        source,
        app_name,
        _count(in_lists(found, source)),
        len({row["user_id"] for row in some}),
        found.aggregate(t=Max("update_time"))["t"],
    )


def _count(found: QuerySet[Any]) -> int:
    return found.order_by().values("app_name")[: COUNT_LIMIT + 1].count()
