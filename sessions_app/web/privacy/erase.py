"""Erases a user of an app: what that would remove, the confirmation, the progress and the report."""

import uuid
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from ...domain.errors import Conflict, Invalid, NotFound
from ...domain.session_ref import SessionRef
from ...http.problems import status_of
from ...http.reader import user_for_reader
from ...privacy import erasures
from ..html.render import page, to_type, typed
from ..request import actor, check_may


@require_http_methods(["GET", "POST"])
def erase(request: HttpRequest, source: str, app_name: str, user_id: str) -> HttpResponse:
    """Shows what an erasure would do, and those that were done. htmx gets only the part that changes."""
    names = (source, app_name, user_id)
    check_may(request, "admin", SessionRef(*names, ""))
    context: dict[str, Any] = {"source": source, "app_name": app_name, "user_id": user_id}
    context["wanted"] = to_type(user_for_reader(*names))
    status = 200
    if request.method == "POST":
        try:
            _act(request, names)
            return redirect("erase-user", *names)
        except (Conflict, Invalid) as error:
            context["error"], status = error.message, status_of(error)
    context["erasures"] = erasures.listed(*names, actor=actor(request))
    context["working"] = any(each.stage == "working" for each in context["erasures"])
    if not context["working"]:
        context["plan"] = erasures.plan(*names, actor=actor(request))
        if not (context["plan"] or context["erasures"]):
            raise NotFound(_("There is no user “%(name)s” in this app.") % {"name": user_for_reader(*names)})
    template = "privacy/erase/_erase.html" if request.htmx else "privacy/erase/erase.html"  # type: ignore[attr-defined]
    return page(request, template, context, status)


def _act(request: HttpRequest, names: tuple[str, str, str]) -> None:
    """Does what a button of the page asks for."""
    who = actor(request)
    for name, act in (("stop", erasures.stop), ("go-on", erasures.go_on), ("discard", erasures.discard)):
        if given := request.POST.get(name):
            act(_number(given), *names, actor=who)
            return
    if typed(request.POST.get("confirm", "")) != typed(to_type(user_for_reader(*names))):
        raise Invalid(_("This is not the user's id; nothing was erased."))
    if erasures.plan(*names, actor=who) is None:
        raise NotFound(_("There is no user “%(name)s” in this app.") % {"name": user_for_reader(*names)})
    erasures.begin(*names, actor=who)


def _number(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError as error:
        raise Invalid(str(error)) from error
