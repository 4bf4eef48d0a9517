"""Tells which indexed apps somebody may see, in which of the sources that are open."""

from typing import Any, NamedTuple

from ..access.actor import Actor
from ..models import SearchSource
from ..sources import registry
from . import masked
from .sql import is_one_of, rows


class App(NamedTuple):
    """An indexed app of a listed source: the numbers that the index has for it and for the source, the digest that stands
    for its name, which may be cut, and how many of its sessions are listed."""

    number: int
    source_number: int
    source: str
    digest: str
    name: str
    sessions: int


def apps() -> list[App]:
    """Returns all indexed apps of listed sources, but for sources that were read by other rules of masking."""
    aliases = registry.aliases()
    # Without these very words in the condition, SQLite would look at every user.
    every = rows(
        """SELECT o.id, o.source_id, w."where", o.digest, o.app_name, o.sessions FROM sessions_app_searchowner AS o
        JOIN sessions_app_searchsource AS w ON w.id = o.source_id WHERE o.user_id = '' AND w.version = %s""",
        [masked.version()],
    )
    return [App(number, source, aliases[where], *rest) for number, source, where, *rest in every if where in aliases]


def seen_apps(actor: Actor) -> list[App]:
    """Returns the indexed apps that an actor may see."""
    return _seen(apps(), actor)


def _seen(every: list[App], actor: Actor) -> list[App]:
    whole = {alias for alias in registry.aliases().values() if actor.sees_all_of(alias)}
    return [app for app in every if app.source in whole or actor.may_see(app.source, app.name)]


def seen_everywhere(actor: Actor) -> list[str]:
    """Returns the indexed apps that an actor may see in every listed source that has one of that name."""
    every = apps()
    return sorted({app.name for app in every} - {app.name for app in set(every).difference(_seen(every, actor))})


def sessions_in_seen_apps(actor: Actor, values: list[Any]) -> str:
    """Returns the condition for sessions `s` of listed sources, in apps that the actor may see."""
    if actor.sees_all:
        return is_one_of("+s.source_id", list(listed_sources()), values)
    every = apps()
    seen = _seen(every, actor)
    # Of most sessions, the others are left out in passing. To look up so many, and to sort them, would take longer.
    most = sum(app.sessions for app in seen) * 2 >= sum(app.sessions for app in every)
    return is_one_of("+s.app_owner_id" if most else "s.app_owner_id", [app.number for app in seen], values)


def owners_in_seen_apps(actor: Actor, values: list[Any]) -> str:
    """Returns the condition for users and apps `o` of listed sources, in apps that the actor may see."""
    names: dict[int, list[str]] = {}
    for app in seen_apps(actor):
        names.setdefault(app.source_number, []).append(app.name)
    conditions = []
    for number, some in names.items():
        values.append(number)
        conditions.append(f"(o.source_id = %s AND {is_one_of('o.app_name', some, values)})")
    return f"({' OR '.join(conditions)})" if conditions else "FALSE"


def listed_sources() -> dict[int, str]:
    """Returns the sources that are listed: by the numbers that the index has for them, their aliases.

    One that was read by other rules of masking is left out until it is read anew: it may hold what they hide."""
    aliases = registry.aliases()
    sources = SearchSource.objects.filter(version=masked.version()).values_list("pk", "where")
    return {number: aliases[where] for number, where in sources if where in aliases}


def all_read() -> bool:
    """Tells whether no listed source is in the index as other rules of masking read it."""
    return len(listed_sources()) == SearchSource.objects.filter(where__in=registry.aliases()).count()
