"""Loads the sessions of an app or of a user, with their merged states but without events."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from ..access.actor import Actor
from ..access.handles import are_hidden, shown_user
from ..domain.session_ref import SessionRef
from ..domain.state import Scoped
from ..models import read_instant, stored_instant
from ..sources import database, dialect
from ..sources.dialect import each_row
from .listed import listed
from .paging import Page, read_cursor, write_cursor
from .size_limits import LARGE, weight
from .users import in_cursor, order_of_users, rank_of
from .whole_session import PAGE, StoredSession, read_state


@dataclass(frozen=True, slots=True)
class Selection:
    """Selects the sessions of an app, or of one of its users. With `hidden`, also those of `own_session`."""

    source: str
    app_name: str
    user_id: str | None = None
    hidden: bool = False


def load_all(selection: Selection, *, actor: Actor) -> list[StoredSession]:
    """Returns every selected session, the one updated longest ago first, which is ADK's order."""
    return list(each_session(selection, actor=actor))


def each_session(selection: Selection, *, actor: Actor, most: int | None = None) -> Iterator[StoredSession]:
    """Yields what `load_all` returns, with only one page in memory. Raises Invalid for a state that weighs more than
    `most`."""
    seen: set[tuple[str, str]] = set()  # a session that is updated between two pages comes again
    after: str | None = ""
    while after is not None:
        page = load_page(selection, after or None, actor=actor, most=most)
        for session in page.rows:
            if (names := (session.ref.user_id, session.ref.session_id)) not in seen:
                seen.add(names)
                yield session
        after = page.next


def load_page(
    selection: Selection,
    after: str | None = None,
    limit: int = PAGE,
    *,
    actor: Actor,
    most: int | None = None,
) -> Page[StoredSession]:
    """Returns a page of what `load_all` returns: at most `limit` sessions, fewer if their states weigh much.

    A session that is updated in the meantime comes again at the end, so none is left out."""
    source, app_name = selection.source, selection.app_name
    if not actor.may_see(source, app_name):
        return Page([])
    with database.using(source) as db:
        rows, more = _session_rows(db, selection, after, limit, actor)
        users, whole = _user_states(source, app_name, list(dict.fromkeys(row[0] for row in rows)))
        if not whole:
            rows, more = list(takewhile(lambda row: row[0] in users, rows)), True
        with db.cursor() as cursor:
            cursor.execute(f"SELECT {dialect.of(db).text('state')} FROM app_states WHERE app_name = %s", [app_name])
            row = cursor.fetchone()
        app = read_state(row[0] if row else None, most, "app", actor, app_name)
    states = {user: read_state(state, most, "user", actor, app_name) for user, state in users.items()}
    sessions = [
        StoredSession(
            SessionRef(source, app_name, user, name),
            Scoped(session=read_state(state, most, "session", actor, app_name), app=app, user=states.get(user, {})),
            read_instant(created),
            read_instant(updated),
            None,
        )
        for user, name, state, created, updated in rows
    ]
    last = sessions[-1] if more else None
    return Page(
        sessions,
        write_cursor(last.revision, shown_user(*last.ref[:3], actor), last.ref.session_id) if last else None,
    )


def _session_rows(
    db: BaseDatabaseWrapper, selection: Selection, after: str | None, limit: int, actor: Actor
) -> tuple[list[tuple[Any, ...]], bool]:
    """Returns the rows of sessions after a cursor, and whether there are others: at least one, and as many as LARGE
    allows."""
    source, user_id = selection.source, selection.user_id
    names: dict[str, Any] = {"app": selection.app_name} | ({} if user_id is None else {"user": user_id})
    of_user = "" if user_id is None else "AND user_id = %(user)s"
    shown = "" if selection.hidden else f"AND {listed(source)}"
    beyond, by, is_hidden = "", "user_id", are_hidden(source, selection.app_name, actor)
    if is_hidden:
        by, names["key"] = order_of_users(source)
        by = by.replace("%s", "%(key)s")
    if after is not None:
        moment, seen, name = read_cursor(after, float, str, str)
        names |= {"moment": stored_instant(moment, db), "after_id": name}
        at = "SELECT DISTINCT user_id FROM sessions WHERE app_name = %(app)s AND update_time = %(moment)s"
        user = in_cursor(
            source, selection.app_name, seen, lambda: [row[0] for row in each_row(source, at, names)], actor=actor
        )
        beyond = f"AND (update_time, {by}, id) > (%(moment)s, %(after_user)s, %(after_id)s)"
        if user is None:  # some of that moment may come again
            beyond = "AND update_time >= %(moment)s"
        names["after_user"] = rank_of(user) if user is not None and is_hidden else user
    statement = f"""SELECT user_id, id, {dialect.of(db).text("state")}, create_time, update_time FROM sessions
        WHERE app_name = %(app)s {of_user} {shown} {beyond} ORDER BY update_time, {by}, id LIMIT {limit + 1:d}"""
    rows: list[tuple[Any, ...]] = []
    left = LARGE
    with closing(each_row(source, statement, names)) as stored_rows:
        for row in stored_rows:
            left -= weight(row[2])
            if rows and (left < 0 or len(rows) == limit):
                return rows, True
            rows.append(row)
    return rows, False


def _user_states(source: str, app_name: str, users: list[str]) -> tuple[dict[str, str | None], bool]:
    """Returns the states of users, and whether these are all: that of the first user, and of the others as many as
    LARGE allows."""
    states: dict[str, str | None] = dict.fromkeys(users[:1])
    left = LARGE
    for some in filter(None, (users[:1], users[1:])):
        statement = f"""SELECT user_id, {dialect.of(source).text("state")} FROM user_states
            WHERE app_name = %s AND user_id IN ({", ".join(["%s"] * len(some))})"""
        with closing(each_row(source, statement, [app_name, *some])) as rows:
            for user, state in rows:
                states[user] = state
                left -= weight(state)
                if left < 0:
                    return states, len(states) == len(users)
    return states, True
