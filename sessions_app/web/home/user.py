"""A user of an app: their state and their sessions."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from ...domain.session_ref import own_session
from ...reads import lists
from ...search.health import Of
from ..html.render import page
from ..html.targets import actor, of_user, with_writers
from .figures import figures


@require_GET
def user(request: HttpRequest, source: str, app_name: str, user_id: str) -> HttpResponse:
    """Shows the user's state beside their newest sessions."""
    whole, who = "all" in request.GET, actor(request)
    context = {
        "figures": figures(request, Of(source, app_name, user_id)),
        "source": source,
        "app_name": app_name,
        "user_id": user_id,
        "target": with_writers(of_user(source, app_name, user_id, who, partly=True), who, whole=whole),
        "all": whole,
        "keeps_privacy": who.may_write("admin", source, app_name),
        "sessions": lists.sessions(source, app_name, user_id, actor=who),
        "changes": lists.left_out(own_session(source, app_name, user_id), actor=who),
    }
    return page(request, "home/user/user.html", context)
