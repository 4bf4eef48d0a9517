"""The palette: where somebody may go from any page. What the open page itself offers, palette.js reads from it."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from ...access.actor import Actor
from ...access.handles import shown_user
from ...domain.errors import NotFound, Slow, SourceError
from ...domain.session_ref import SessionRef
from ...reads import lists
from ...search.completing import owners
from ...search.results import search
from ...search.saved.views import SavedView
from ...search.selecting import HASTY, patience
from ...search.tree import Match, Query
from ..html.render import page
from ..links import page_of
from ..request import actor, person_of
from ..settings import entries
from .params import suggested

_MOST_VIEWS: Final = 12
_MOST_RECENT: Final = 8
_MOST_TITLED: Final = 5
_FEW_RECENT: Final = 6  # one of them may be the page that is open


class Option(NamedTuple):
    """A page to go to, and a word about it. `typed`: listed once something is typed. `also`: other words for it."""

    group: str
    name: str
    address: str
    hint: str = ""
    typed: bool = False
    also: str = ""


@require_GET
def palette(request: HttpRequest) -> HttpResponse:
    """Renders the sessions, apps and users of a ?q=, and how it goes on as a query. Without one: pages that no menu has,
    saved views, and those of the ?recent= sessions that exist and that the person may see; after a few, the last active
    ones."""
    if not request.htmx:  # type: ignore[attr-defined]
        return redirect("search")
    if text := request.GET.get("q", "").strip():
        known = [each for each in suggested(request) if not each.respelt]
        options = [*_titled(text, actor(request)), *_owners(text, actor(request))]
        context = {"options": options, "suggestions": known}
    else:
        context = {"options": [*_pages(actor(request)), *_views(request), *_recent(request)]}
    return page(request, "search/palette/_options.html", context)


def _pages(who: Actor) -> Iterator[Option]:
    if who.has("append") and not settings.READ_ONLY:
        yield Option("pages", _("New session"), reverse("new-session"))
    for _title, listed in entries(who):
        for each in listed:
            yield Option("pages", each.title, reverse(each.name), _("Settings"), typed=True, also=each.also)


def _views(request: HttpRequest) -> Iterator[Option]:
    for each in SavedView.objects.listed(person_of(request))[:_MOST_VIEWS]:
        yield Option("views", each.name, each.get_absolute_url())


def _recent(request: HttpRequest) -> Iterator[Option]:
    who, opened = actor(request), []
    for link in request.GET.getlist("recent")[:_MOST_RECENT]:
        try:
            match = page_of(link, who)
            ref = SessionRef(**match.kwargs) if match.url_name == "session" else None
            title = lists.existing([ref], actor=who).get(ref) if ref else None
        except (Http404, ValueError, NotFound, SourceError):
            continue
        if ref and title:
            opened.append(ref)
            yield _session(ref, title, who)
    if len(opened) < _FEW_RECENT:
        with suppress(Slow), patience(HASTY):
            active = search(Query(None), actor=who, limit=_FEW_RECENT).rows
            yield from (_session(row.ref, row.title, who) for row in active if row.ref not in opened)


def _titled(text: str, who: Actor) -> Iterator[Option]:
    with suppress(Slow), patience(HASTY):
        named = search(Query(Match("title", text)), actor=who, limit=_MOST_TITLED).rows
        yield from (_session(row.ref, row.title, who, "sessions") for row in named)


def _session(ref: SessionRef, title: str, who: Actor, group: str = "recent") -> Option:
    user = shown_user(ref.source, ref.app_name, ref.user_id, who)
    return Option(group, title, reverse("session", kwargs=ref._asdict()), f"{ref.app_name} · {user}")


def _owners(text: str, who: Actor) -> Iterator[Option]:
    for each in owners(text, actor=who):
        if each.user_id:
            address = reverse("user", args=[each.source, each.app_name, each.user_id])
            yield Option("owners", each.shown, address, _("user of %(app)s") % {"app": each.app_name})
        else:
            yield Option("owners", each.app_name, reverse("app", args=[each.source, each.app_name]), each.source)
