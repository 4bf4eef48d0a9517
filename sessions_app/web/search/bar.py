"""The query bar on top of every page: what it marks in a query, and what it offers to complete it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import pgettext
from django.views.decorators.http import require_GET

from ...search.completing import complete as suggestions_for
from ...search.saved import views
from ...search.tree import Problem, Query, Text, leaves
from ..html.render import page
from ..html.targets import actor, person_of

_MOST_VIEWS: Final = 12


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a query's text. `shade` is "bad" for what is wrong, "filter" for a filter, and "" for the rest."""

    text: str
    shade: str = ""


@dataclass(frozen=True, slots=True)
class Destination:
    """A page to go to, or a button of this page that is pressed. `kind` says in a word what it is."""

    title: str
    icon: str
    kind: str
    address: str = ""
    button: str = ""


def pieces(text: str, query: Query) -> Iterator[Piece]:
    """Cuts a query's text into pieces: filters, what is wrong, and the rest."""
    nodes = [] if query.tree is None else [each for each in leaves(query.tree) if not isinstance(each, Text)]
    marked = sorted([(each.start, each.end, isinstance(each, Problem)) for each in (*nodes, *query.problems)])
    at = 0
    for start, end, is_wrong in marked:
        if start < at or end <= start:
            continue
        if start > at:
            yield Piece(text[at:start])
        yield Piece(text[start:end], "bad" if is_wrong else "filter")
        at = end
    if at < len(text):
        yield Piece(text[at:])


@require_GET
def complete(request: HttpRequest) -> HttpResponse:
    """Renders what may stand at the ?at= of a query; with ?go=1, pages and actions whose names contain the query, too."""
    text = request.GET.get("q", "")
    if not request.htmx:  # type: ignore[attr-defined]
        return redirect(f"{reverse('search')}?{urlencode({'q': text.encode('utf-8', 'replace')})}")
    at = request.GET.get("at", "")
    cursor = min(int(at), len(text)) if at.isdecimal() and len(at) < 10 else len(text)
    destinations: list[Destination] = []
    if "go" in request.GET:
        wanted = text.strip().casefold()
        destinations = [each for each in _destinations(request) if wanted in each.title.casefold()]
    context = {"suggestions": suggestions_for(text, cursor, actor=actor(request)), "destinations": destinations}
    return page(request, "search/bar/_options.html", context)


def _destinations(request: HttpRequest) -> list[Destination]:
    """Returns the pages without a query of their own, the person's views, and what can be done on every page."""
    a_page, action = _("page"), _("action")
    saved = views.listed(person_of(request))[:_MOST_VIEWS]
    everywhere = [
        Destination(_("Home"), "home", a_page, reverse("home")),
        Destination(_("Sessions"), "message", a_page, reverse("search")),
        *(Destination(each.name, "eye", _("view"), f"{reverse('search')}?view={each.id}") for each in saved),
        Destination(_("Edits"), "edit", a_page, reverse("edits")),
        Destination(_("Batches"), "check", a_page, reverse("batches")),
        Destination(_("Import"), "file", a_page, reverse("imports")),
        Destination(_("New session"), "plus", a_page, reverse("new-session")),
        Destination(_("API tokens"), "key", a_page, reverse("tokens")),
        Destination(_("Roles"), "user", a_page, reverse("roles")),
        Destination(_("Theme"), "system", action, button="[data-theme-toggle]"),
        Destination(pgettext("keyboard", "Keys"), "info", action, button="[data-open='#keys']"),
    ]
    who = actor(request)
    closed = {
        reverse("imports"): settings.READ_ONLY or not who.has("admin"),
        reverse("new-session"): settings.READ_ONLY or not who.has("append"),
        reverse("tokens"): not who.runs_everything,
        reverse("roles"): not who.runs_everything,
    }
    return [each for each in everywhere if not closed.get(each.address)]
