"""Lists apps, users and sessions, by page."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db import connections
from django.db.models import CharField, IntegerField, Max, Q, QuerySet
from django.db.models.expressions import RawSQL
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Substr

from ..access.actor import Actor
from ..access.handles import are_hidden, shown_user
from ..access.shown import shown
from ..domain.json_values import as_object, holds_values
from ..domain.session_ref import OWN_NAME, SessionRef
from ..domain.state import State
from ..models import App, SearchOwner, Session, read_instant
from ..sources import database, registry
from ..sources.dialect import wanted
from .labels import called
from .listed import (
    count_errors,
    count_events,
    in_lists,
    in_seen_apps,
    is_listed,
    listed,
    names_of_apps,
    of_known_users,
    sessions_of,
)
from .paging import Page, read_cursor, write_cursor
from .size_limits import Small
from .users import in_cursor, order_of_users, rank_of

PAGE: Final = 50  # rows of a table
COUNT_LIMIT: Final = 10_000
GLANCE: Final = 2_000_000  # the total weight of events that are only searched
ROW_COUNT_LIMIT: Final = 1_000  # events that are counted for one row of a table of sessions


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
    """A session in a table. `events` stops above ROW_COUNT_LIMIT; `errors` counts within the newest 100 events."""

    ref: SessionRef
    title: str
    create_time: float
    update_time: float
    events: int
    errors: int


# --- Apps and users ---------------------------------------------------------------------------------------------------


def apps(source: str, after: str | None = None, limit: int = PAGE, *, actor: Actor) -> Page[AppRow]:
    """Returns a page of the apps of a source that the actor may see, by name, including apps that have only state."""
    start = read_cursor(after, str)[0] if after else ""
    with database.using(source):
        names = [name for name in names_of_apps(source, actor) if name > start or not after]
        following = write_cursor(names[limit - 1]) if len(names) > limit else None
        return Page(app_rows(source, names[:limit]), following)


def app_names(source: str, *, actor: Actor) -> list[str]:
    """Returns the names of the apps of a source that the actor may see, in order."""
    with database.using(source):
        return names_of_apps(source, actor)


def has_sessions(source: str, *, actor: Actor) -> bool:
    """Returns whether a source has any session that the actor may see."""
    with database.using(source):
        return in_seen_apps(source, actor).exists()


def has_app(source: str, app_name: str, *, actor: Actor) -> bool:
    """Returns whether a source has sessions or state of an app."""
    if not actor.may_see(source, app_name):
        return False
    with database.using(source):
        any_session = Session.objects.using(source).filter(app_name=app_name).exists()
        return any_session or App.objects.using(source).filter(app_name=app_name).exists()


def users(source: str, app_name: str, after: str | None = None, limit: int = PAGE, *, actor: Actor) -> Page[UserRow]:
    """Returns a page of the users of an app, by what the actor sees of their ids, including users who have no session
    but whose state was edited. If ids are hidden, these are the users in the search index."""
    if not actor.may_see(source, app_name):
        return Page([])
    if are_hidden(source, app_name, actor):
        return _users_by_handle(source, app_name, after, limit, actor)
    with database.using(source):
        sessions = sessions_of(source, app_name)
        known = of_known_users(sessions, source)
        if after:
            known = known.filter(user_id__gt=read_cursor(after, str)[0])
        names = list(known.order_by("user_id").values_list("user_id", flat=True).distinct()[: limit + 1])
        rows = [_user_row(source, sessions, name) for name in names[:limit]]
        return Page(rows, write_cursor(names[limit - 1]) if len(names) > limit else None)


def _user_row(source: str, sessions: QuerySet[Session], user_id: str) -> UserRow:
    own = sessions.filter(user_id=user_id)
    return UserRow(user_id, _count(in_lists(own, source)), own.aggregate(t=Max("update_time"))["t"])


def _users_by_handle(source: str, app_name: str, after: str | None, limit: int, actor: Actor) -> Page[UserRow]:
    """Their order would reveal between which ids an id is, and so would the database's own."""
    owners = SearchOwner.objects.filter(source__where=registry.identity(source), app_name=app_name).exclude(user_id="")
    if after:
        owners = owners.filter(shown__gt=read_cursor(after, str)[0])
    page = list(owners.order_by("shown").values_list("user_id", "shown")[: limit + 1])
    # What was indexed with other masking rules is being read again.
    names = [name for name, seen in page[:limit] if shown_user(source, app_name, name, actor) == seen]
    with database.using(source):
        known = of_known_users(sessions_of(source, app_name), source)
        there = set(known.filter(user_id__in=names).values_list("user_id", flat=True).distinct())
        rows = [_user_row(source, sessions_of(source, app_name), name) for name in names if name in there]
    following = shown_user(source, app_name, page[limit - 1][0], actor) if len(page) > limit else None
    return Page(rows, following and write_cursor(following))


def user_ids(source: str, app_name: str, limit: int, *, actor: Actor) -> list[str]:
    """Returns the ids of an app's first users."""
    if not actor.may_see(source, app_name):
        return []
    with database.using(source):
        listed = of_known_users(sessions_of(source, app_name), source)
        return list(listed.order_by("user_id").values_list("user_id", flat=True).distinct()[:limit])


# --- Sessions ---------------------------------------------------------------------------------------------------------


def sessions(
    source: str,
    app_name: str,
    user_id: str | None = None,
    before: str | None = None,
    limit: int = PAGE,
    *,
    actor: Actor,
    hidden: bool = False,
) -> Page[SessionRow]:
    """Returns a page of the sessions of an app or of one user, the last active first. With `hidden`, also those of
    `own_session`."""
    if not actor.may_see(source, app_name):
        return Page([])
    with database.using(source):
        query = sessions_of(source, app_name)
        if user_id is not None:
            query = query.filter(user_id=user_id)
        if not hidden:
            query = in_lists(query, source)
        by = "user_id"
        if are_hidden(source, app_name, actor):
            sql, key = order_of_users(source)
            query, by = query.annotate(rank=RawSQL(sql, [key], CharField())), "rank"
        if before:
            query = query.filter(_before(before, query, by, source, app_name, actor))
        rows = _session_rows(query.order_by("-update_time", f"-{by}", "-id"), source, limit + 1, actor)
        last = rows[limit - 1] if len(rows) > limit else None
        return Page(rows[:limit], _cursor(last, actor) if last else None)


def _cursor(last: SessionRow, actor: Actor) -> str:
    return write_cursor(last.update_time, shown_user(*last.ref[:3], actor), last.ref.session_id)


def _before(cursor: str, sessions: QuerySet[Session], by: str, source: str, app_name: str, actor: Actor) -> Q:
    moment, shown_id, name = read_cursor(cursor, float, str, str)
    same = Q(update_time=moment)
    user = in_cursor(
        source, app_name, shown_id, lambda: sessions.filter(same).values_list("user_id", flat=True), actor=actor
    )
    if user is None:  # some of that moment may come again
        return Q(update_time__lte=moment)
    below = Q(user_id__lt=user) if by == "user_id" else Q(rank__lt=rank_of(user))
    earlier = Q(update_time__lt=moment) | same & below | same & Q(user_id=user, id__lt=name)
    return earlier & Q(update_time__lte=moment)


def left_out(ref: SessionRef, *, actor: Actor) -> SessionRow | None:
    """Returns a session of `own_session` that lists leave out; None if there is none."""
    if not actor.may_see(ref.source, ref.app_name):
        return None
    with database.using(ref.source):
        query = sessions_of(ref.source, ref.app_name).filter(user_id=ref.user_id, id=ref.session_id)
        rows = _session_rows(query.exclude(is_listed(ref.source)), ref.source, 1, actor)
        return rows[0] if rows else None


def title(ref: SessionRef, *, actor: Actor) -> str:
    """Returns a session's title; empty if it has none."""
    if not actor.may_see(ref.source, ref.app_name):
        return ""
    with database.using(ref.source):
        return titles_of(ref.source, [ref], actor).get(ref, "")


def titles(refs: Collection[SessionRef], *, actor: Actor) -> dict[SessionRef, str]:
    """Returns the titles of sessions, or their ids, by session. Raises SourceError."""
    return {ref: ref.session_id for ref in refs} | existing(refs, actor=actor)


def existing(refs: Collection[SessionRef], *, actor: Actor) -> dict[SessionRef, str]:
    """Returns the same of those sessions that exist and that the actor may see. Raises SourceError."""
    named: dict[SessionRef, str] = {}
    for source in {ref.source for ref in refs}:
        seen = [ref for ref in refs if ref.source == source and actor.may_see(ref.source, ref.app_name)]
        with database.using(source):
            titles = titles_of(source, seen, actor)
        named |= {ref: title or ref.session_id for ref, title in titles.items()}
    return named


def titles_of(source: str, keys: Collection[SessionRef], actor: Actor) -> dict[SessionRef, str]:
    """Returns the titles of sessions; empty for a session without one."""
    if not keys:
        return {}
    any_of = Q(*(Q(app_name=ref.app_name, user_id=ref.user_id, id=ref.session_id) for ref in keys), _connector=Q.OR)
    rows = Session.objects.using(source).filter(any_of).annotate(title=_TITLE)
    frameworks = {
        SessionRef(source, *names): _shown_title(title, actor, names[0])
        for *names, title in rows.values_list("app_name", "user_id", "id", "title")
    }
    return called(frameworks, actor)


def title_of(state: State) -> str:
    """Returns the title that a framework keeps in a session's state; empty if there is none."""
    title = as_object(state.get(_METADATA)).get(_NAME)
    return title[:_TITLE_LENGTH] if isinstance(title, str) and not _is_json(title) else ""


def titled(title: str | None) -> State:
    """Returns a state with this title, as a framework keeps it."""
    return {_METADATA: {_NAME: title}}


def _is_json(title: str) -> bool:
    """Returns whether a title is JSON, in which rules by key would hide nothing. A long one may have been cut."""
    if not title.lstrip().startswith(("{", "[")):
        return False
    return len(title) >= _TITLE_READ or holds_values(title)


# --- Queries ----------------------------------------------------------------------------------------------------------


_METADATA: Final = "__session_metadata__"
_NAME: Final = "displayName"
_TITLE_LENGTH: Final = 200
_TITLE_READ: Final = 600  # a cut value no longer looks like a card number or an address, so no rule would hide it
_TITLE: Final = Substr(KeyTextTransform(_NAME, KeyTransform(_METADATA, Small("state"))), 1, _TITLE_READ)


def _shown_title(title: str | None, actor: Actor, app_name: str) -> str:
    return title_of(shown(titled(title), actor, app_name))


def _session_rows(sessions: QuerySet[Session], source: str, limit: int, actor: Actor) -> list[SessionRow]:
    sessions = sessions.annotate(
        title=_TITLE,
        event_count=RawSQL(count_events(source), [ROW_COUNT_LIMIT + 1], IntegerField()),
        error_count=RawSQL(count_errors(source), [], IntegerField()),
    )
    names = ("app_name", "user_id", "id", "title", "create_time", "update_time", "event_count", "error_count")
    rows = {SessionRef(source, *row[:3]): row for row in sessions.values_list(*names)[:limit]}
    titles = called({ref: _shown_title(row[3], actor, row[0]) for ref, row in rows.items()}, actor)
    return [SessionRow(ref, titles[ref], *row[4:]) for ref, row in rows.items()]


def app_rows(source: str, app_names: Sequence[str]) -> list[AppRow]:
    """Returns apps as lists show them: how many sessions and users each has, and when it last changed. One query for
    all."""
    if not app_names:
        return []
    of_app, is_known = "sessions.app_name = wanted.app_name", f"(user_id <> '{OWN_NAME}' OR {listed(source)})"
    with connections[source].cursor() as cursor:
        cursor.execute(
            f"""{wanted(["app_name"], len(app_names))} SELECT app_name,
            (SELECT count(*) FROM (SELECT 1 FROM sessions WHERE {of_app} AND {listed(source)} LIMIT %s) AS counted),
            (SELECT count(DISTINCT user_id) FROM
                (SELECT user_id FROM sessions WHERE {of_app} AND {is_known} LIMIT %s) AS counted),
            (SELECT max(update_time) FROM sessions WHERE {of_app}) FROM wanted""",
            [*app_names, COUNT_LIMIT + 1, COUNT_LIMIT + 1],
        )
        rows = {row[0]: row[1:] for row in cursor.fetchall()}
    return [
        AppRow(source, name, sessions, users, None if last is None else read_instant(last))
        for name in app_names
        for sessions, users, last in [rows[name]]
    ]


def _count(rows: QuerySet[Any]) -> int:
    return rows.order_by().values("app_name")[: COUNT_LIMIT + 1].count()
