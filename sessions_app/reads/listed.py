"""Decides which sessions lists show, and how the newest events are ordered."""

from collections.abc import Iterator
from typing import Any, Final

from django.db import connections
from django.db.models import BooleanField, Q, QuerySet
from django.db.models.expressions import RawSQL

from ..access.actor import Actor
from ..domain.edit_note import EDIT_PREFIX
from ..domain.session_ref import OWN_NAME, SessionRef
from ..models import App, Session, User
from ..sources import dialect
from .filters import FILTERS
from .size_limits import glanced_at

SPOKEN: Final = 100  # events that are searched for one that is not an edit
# Selects the events of a row of `sessions`, as SQL.
OF_SESSION: Final = """events.app_name = sessions.app_name AND events.user_id = sessions.user_id
    AND events.session_id = sessions.id"""
# Looks each name up in the index, where DISTINCT would go through every session.
_NAMES_OF_APPS: Final = """WITH RECURSIVE names (name) AS (SELECT min(app_name) FROM sessions UNION ALL
    SELECT (SELECT min(app_name) FROM sessions WHERE app_name > names.name) FROM names WHERE names.name IS NOT NULL)
    SELECT name FROM names WHERE name IS NOT NULL"""


def sessions_since(ref: SessionRef, scope: str) -> Iterator[SessionRef]:
    """Yields the sessions that may have written a scope last: those at least as new as its row."""
    stored: QuerySet[Any] = App.objects.using(ref.source).filter(app_name=ref.app_name)
    sessions = Session.objects.using(ref.source).filter(app_name=ref.app_name)
    if scope == "user":
        stored = User.objects.using(ref.source).filter(app_name=ref.app_name, user_id=ref.user_id)
        sessions = sessions.filter(user_id=ref.user_id)
    written = stored.values_list("update_time", flat=True).first()
    if written is None:
        return
    for user_id, name in (
        sessions.filter(update_time__gte=written).order_by("update_time").values_list("user_id", "id")[:20]
    ):
        yield SessionRef(ref.source, ref.app_name, user_id, name)


# --- Sessions ---------------------------------------------------------------------------------------------------------


def listed(source: str) -> str:
    """Returns SQL about a row of `sessions`: true for those that lists and counts show.

    The sessions in which adkweb edits `user:` and `app:` state are left out: they have its name, and no conversation.
    If an agent has a session of that name, its newest events are not all edits, and it is shown."""
    return f"""(sessions.id <> '{OWN_NAME}' OR EXISTS (SELECT 1 FROM (SELECT invocation_id FROM events
        WHERE {OF_SESSION} ORDER BY {dialect.of(source).newest_first} LIMIT {SPOKEN}) AS newest
        WHERE substr(invocation_id, 1, {len(EDIT_PREFIX)}) <> '{EDIT_PREFIX}'))"""


def sessions_of(source: str, app_name: str) -> QuerySet[Session]:
    """Returns every session of an app, in no order."""
    return Session.objects.using(source).filter(app_name=app_name)


def in_seen_apps(source: str, actor: Actor) -> QuerySet[Session]:
    """Returns the sessions of apps that an actor may see. There is a condition only if the actor may not see every
    app."""
    sessions = Session.objects.using(source)
    return sessions.all() if actor.sees_all_of(source) else sessions.filter(app_name__in=names_of_apps(source, actor))


def names_of_apps(source: str, actor: Actor) -> list[str]:
    """Returns the names of the apps that an actor may see, in order, including apps that have only state."""
    with connections[source].cursor() as cursor:
        cursor.execute(_NAMES_OF_APPS)
        names = {name for (name,) in cursor.fetchall()}
    names |= set(App.objects.using(source).values_list("app_name", flat=True))
    return sorted(actor.seen(source, names))


def is_listed(source: str) -> RawSQL:
    """Returns `listed` as a condition."""
    return RawSQL(listed(source), [], BooleanField())


def in_lists(sessions: QuerySet[Session], source: str) -> QuerySet[Session]:
    """Returns the sessions that lists show."""
    return sessions.filter(is_listed(source))


def of_known_users(sessions: QuerySet[Session], source: str) -> QuerySet[Session]:
    """Returns the sessions, without those of the user who only exists for adkweb's edits of app state."""
    return sessions.filter(~Q(user_id=OWN_NAME) | Q(is_listed(source)))


def count_events(source: str) -> str:
    """Returns SQL for the number of a session's events, up to a limit."""
    # The order does not matter for counting, but only with it does PostgreSQL read the index instead of the whole
    # table.
    return f"""SELECT count(*) FROM (SELECT 1 FROM events WHERE {OF_SESSION}
        ORDER BY {dialect.of(source).newest_first} LIMIT %s) AS counted"""


def count_errors(source: str) -> str:
    """Returns SQL for how many of a session's newest 100 events are errors."""
    return f"""SELECT count(*) FROM (SELECT {glanced_at(source)} FROM events WHERE {OF_SESSION}
        ORDER BY {dialect.of(source).newest_first} LIMIT 100) AS newest WHERE {FILTERS["errors"].on(source)}"""
