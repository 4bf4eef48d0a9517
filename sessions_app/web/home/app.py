"""The apps of a source, and one app: its state, its users, its sessions."""

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from ...access.handles import are_hidden
from ...domain.errors import NotFound
from ...domain.session_ref import own_session
from ...reads import lists, views
from ...search import feeding
from ...search.health import Of
from ..html.render import page
from ..html.targets import actor, of_app, with_writers
from .figures import figures

USERS: Final = 10  # on the page of an app; there are more on the following ones


@require_GET
def apps(request: HttpRequest, source: str) -> HttpResponse:
    """Lists the apps of a source, by page: home shows only the first ones. htmx gets only the rows."""
    rows = lists.apps(source, request.GET.get("after"), actor=actor(request))
    if not rows.rows and not actor(request).sees_all_of(source):
        raise NotFound(_("There is no source “%(alias)s” here.") % {"alias": source})
    template = "home/app/_app_rows.html" if request.htmx else "home/app/apps.html"  # type: ignore[attr-defined]
    return page(request, template, {"source": source, "apps": rows})


@require_GET
def app(request: HttpRequest, source: str, app_name: str) -> HttpResponse:
    """Shows the app's state beside the newest sessions and the first users."""
    row, _state = views.app(source, app_name, partly=True, actor=actor(request))
    whole = "all" in request.GET
    context = {
        "figures": figures(request, Of(source, app_name)),
        "source": source,
        "app": row,
        "target": with_writers(of_app(source, app_name, actor(request), partly=True), actor(request), whole=whole),
        "all": whole,
        "users": lists.users(source, app_name, limit=USERS, actor=actor(request)),
        "behind": _behind(request, source, app_name),
        "sessions": lists.sessions(source, app_name, actor=actor(request)),
        "changes": lists.left_out(own_session(source, app_name), actor=actor(request)),
    }
    return page(request, "home/app/app.html", context)


@require_GET
def users(request: HttpRequest, source: str, app_name: str) -> HttpResponse:
    """Lists the users of an app, by page. htmx gets only the rows."""
    rows = lists.users(source, app_name, request.GET.get("after"), actor=actor(request))
    template = "home/app/_user_rows.html" if request.htmx else "home/app/users.html"  # type: ignore[attr-defined]
    context = {"source": source, "app_name": app_name, "users": rows, "behind": _behind(request, source, app_name)}
    return page(request, template, context)


def _behind(request: HttpRequest, source: str, app_name: str) -> bool:
    """Tells whether users may be missing: where ids are hidden, those are listed whom the index has."""
    return are_hidden(source, app_name, actor(request)) and feeding.share(source) < 1
