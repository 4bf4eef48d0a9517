"""Tells which indexed apps somebody may see, in which of the sources that are open."""

from typing import Any

from ..access.actor import Actor
from ..models import SearchOwner, SearchSource
from ..sources import registry
from .sql import is_one_of


def in_seen_apps(actor: Actor, table: str, values: list[Any]) -> str:
    """Returns the condition for a table's rows in apps that the actor may see, of sources that are listed."""
    sources = listed_sources()
    whole = [number for number, alias in sources.items() if actor.sees_all_of(alias)]
    conditions = [is_one_of(f"+{table}.source_id", whole, values)] if whole else []
    for number, names in seen_apps(actor).items():
        if number not in whole and names:
            values.append(number)
            conditions.append(f"({table}.source_id = %s AND {is_one_of(f'{table}.app_name', names, values)})")
    return f"({' OR '.join(conditions)})" if conditions else "FALSE"


def seen_apps(actor: Actor) -> dict[int, list[str]]:
    """Returns the indexed apps that an actor may see, by the numbers of the listed sources."""
    sources = listed_sources()
    apps: dict[int, list[str]] = {}
    rows = SearchOwner.objects.filter(source__in=sources, user_id="").values_list("source_id", "app_name")
    for number, name in rows.distinct():
        if actor.may_see(sources[number], name):
            apps.setdefault(number, []).append(name)
    return apps


def seen_everywhere(actor: Actor) -> list[str]:
    """Returns the indexed apps that an actor may see in every listed source that has one of that name."""
    sources = listed_sources()
    rows = SearchOwner.objects.filter(source__in=sources, user_id="").values_list("source_id", "app_name").distinct()
    apps = {name for _number, name in rows}
    unseen = {name for number, name in rows if not actor.may_see(sources[number], name)}
    return sorted(apps - unseen)


def listed_sources() -> dict[int, str]:
    """Returns the sources that are listed: by the numbers that the index has for them, their aliases."""
    listed = {registry.identity(source.alias): source.alias for source in registry.listed()}
    return {pk: listed[where] for pk, where in SearchSource.objects.values_list("pk", "where") if where in listed}


def numbers_of_sources() -> list[int]:
    """Returns the numbers that the index has for the sources that are listed."""
    return list(listed_sources())
