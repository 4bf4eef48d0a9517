"""Searches for mentions of a user outside of their own data: in the state of the app, and in other people's sessions.

Both searches are bounded, and report if they did not finish."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from django.utils.timezone import get_default_timezone

from ..access.actor import SYSTEM, Actor
from ..access.handles import shown_user
from ..artifacts import contents
from ..domain.errors import Error
from ..reads import views
from ..search import results
from ..search.index import feed
from ..search.language import parse
from ..search.tree import quoted

SHOWN: Final = 20
_MOST_SESSIONS: Final = 2_000
_SECONDS: Final = 5.0


@dataclass(slots=True)
class Remains:
    """Places elsewhere that name the user: keys of app state, and sessions of others as lists of three names.

    `sessions_complete` and `state_complete` say whether everything was searched. `storages` are the places of artifacts
    from which adkweb deletes nothing; empty if there is none, None if adkweb knows no place."""

    keys: list[str] = field(default_factory=list)
    state_complete: bool = True
    sessions: int = 0
    some: list[list[str]] = field(default_factory=list)
    sessions_complete: bool = True
    storages: list[str] | None = None


def look(source: str, app_name: str, user_id: str, *, actor: Actor) -> Remains:
    """Searches for mentions of a user. It takes a few seconds at most, and raises nothing."""
    remains = Remains()
    _look_at_state(remains, source, app_name, user_id)
    _look_at_sessions(remains, source, app_name, user_id, actor)
    try:
        seen = shown_user(source, app_name, user_id, actor)
        storages = contents.storages_of(source)
        remains.storages = [f"{each.address}/{app_name}/{seen}/" for each in storages if each.far] if storages else None
    except Error:
        pass
    return remains


def _look_at_state(remains: Remains, source: str, app_name: str, user_id: str) -> None:
    try:
        _row, state = views.app(source, app_name, actor=SYSTEM)
    except Error:  # there is none, or it is too large, or its database is away
        remains.state_complete = False
        return
    remains.keys = [f"app:{key}" for key, value in sorted(state.items()) if user_id in key or _names(value, user_id)]


def _names(value: Any, user_id: str) -> bool:
    return any(user_id in text for text in _texts(value))


def _texts(value: Any) -> Iterator[str]:
    """Yields the texts in a value, the names of its keys too."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            left += [*each.keys(), *each.values()]
        elif isinstance(each, list):
            left += each
        elif each is not None:
            yield json.dumps(each)


def _look_at_sessions(remains: Remains, source: str, app_name: str, user_id: str, actor: Actor) -> None:
    text = f"source:{quoted(source)} app:{quoted(app_name)} {quoted(user_id)}"
    query = parse(text, now=time.time(), zone=get_default_timezone())
    if query.problems or feed.share(source) < 1:
        remains.sessions_complete = False
    if query.problems:  # an id without any word can't be searched
        return
    until = time.monotonic() + _SECONDS
    looked = 0
    try:
        for ref in results.every(query, actor):
            looked += 1
            if ref.app_name == app_name and ref.user_id != user_id:
                remains.sessions += 1
                if len(remains.some) < SHOWN:
                    remains.some.append(list(ref[1:]))
            if looked >= _MOST_SESSIONS or time.monotonic() >= until:
                remains.sessions_complete = False
                return
    except Error:
        remains.sessions_complete = False
