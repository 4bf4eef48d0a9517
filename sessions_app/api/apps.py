"""The sources, apps and users that there are."""

from contextlib import suppress
from dataclasses import asdict
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router

from ..errors import SourceError
from ..reads import lists
from ..sources import registry
from . import schemas
from .authorize import actor_of, may_know, problems_for, runs_everything, source_of
from .bodies import answer

router = Router()


@router.get("/sources", response=list[schemas.Source], summary="The databases that adkweb shows")
def list_sources(request: HttpRequest) -> HttpResponse:
    """Returns the databases that have an app that the token may see, by alias. Only a token with every right for every
    app learns `where` they are."""
    sources = []
    for source in registry.listed():
        with suppress(SourceError):  # nobody can say which apps an unreachable source has
            if may_know(request, source.alias):
                where = source.where if runs_everything(request) else None
                sources.append({"source": source.alias, "where": where, "vendor": source.vendor})
    return answer(sources)


@router.get("/apps", response=schemas.Apps, summary="Apps, in every source")
def list_apps(request: HttpRequest) -> HttpResponse:
    """Returns the apps that the token may see, in every source."""
    apps, problems = [], []
    for source in registry.listed():
        try:
            rows = lists.apps(source.alias, actor=actor_of(request))
        except SourceError as error:
            problems.append(error.message)
        else:
            apps += [asdict(row) for row in rows]
    return answer({"items": apps, "problems": problems_for(request, problems)})


@router.get("/apps/{plain:app_name}/users", response=schemas.Users, summary="Users of an app")
def list_users(
    request: HttpRequest, app_name: str, after: str | None = None, source: str | None = None
) -> HttpResponse:
    """Returns a page of the users of an app, by id."""
    page = lists.users(source_of(request, app_name, source), app_name, after, actor=actor_of(request))
    return answer(_page([asdict(row) for row in page.rows], page.next))


def _page(items: list[Any], following: str | None) -> dict[str, Any]:
    return {"items": items, "next": following}
