"""The sources, apps and users."""

from contextlib import suppress
from dataclasses import asdict
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router

from ..access.handles import shown_user
from ..domain.errors import SourceError
from ..reads import lists
from ..reads.paging import read_cursor, write_cursor
from ..sources import identity, registry
from ..sources.errors import shown
from . import schemas
from .authorize import actor_of, may_know, runs_everything, source_of
from .bodies import answer

router = Router()
APPS = 200  # of a page


@router.get("/sources", response=list[schemas.Source], summary="Sources: the databases that adkweb shows")
def list_sources(request: HttpRequest) -> HttpResponse:
    """Returns the databases that have an app that the token may see, by alias. Only a token with every permission for every
    app learns `where` they are."""
    sources = []
    for source in registry.listed():
        with suppress(SourceError):  # no one can say which apps an unreachable source has
            if may_know(request, source.alias):
                where = source.where if runs_everything(request) else None
                copy_of = identity.copies.get(source.alias) if where else None
                sources.append({"source": source.alias, "where": where, "vendor": source.vendor, "copy_of": copy_of})
    return answer(sources)


@router.get("/apps", response=schemas.Apps, summary="Apps, in every source")
def list_apps(request: HttpRequest, after: str | None = None) -> HttpResponse:
    """Returns a page of the apps that the token may see, source by source."""
    start, within = read_cursor(after, str, str) if after else ("", "")
    apps: list[Any] = []
    problems: list[str] = []
    following = None
    for source in registry.listed():
        if source.alias < start:
            continue
        if len(apps) == APPS:  # the page ends with the last app of the source before
            following = write_cursor(source.alias, "")
            break
        own = write_cursor(within) if source.alias == start and within else None
        try:
            page = lists.apps(source.alias, own, APPS - len(apps), actor=actor_of(request))
        except SourceError as error:
            problems.append(shown(error, actor_of(request)))
            continue
        apps += [asdict(row) for row in page.rows]
        if page.next:
            following = write_cursor(source.alias, page.rows[-1].app_name)
            break
    return answer({"items": apps, "next": following, "problems": problems})


@router.get("/apps/{plain:app_name}/users", response=schemas.Users, summary="Users of an app")
def list_users(
    request: HttpRequest, app_name: str, after: str | None = None, source: str | None = None
) -> HttpResponse:
    """Returns a page of the users of an app, by id."""
    alias, who = source_of(request, app_name, source), actor_of(request)
    page = lists.users(alias, app_name, after, actor=who)
    items = [asdict(row) | {"user_id": shown_user(alias, app_name, row.user_id, who)} for row in page.rows]
    return answer(_page(items, page.next))


def _page(items: list[Any], following: str | None) -> dict[str, Any]:
    return {"items": items, "next": following}
