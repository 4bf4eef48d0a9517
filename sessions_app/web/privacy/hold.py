"""Puts a session on hold, so that it is not deleted, and lets it go again."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from ...domain.errors import Invalid
from ...domain.session_ref import SessionRef
from ...privacy import holds
from ...reads import views
from ..html.render import page
from ..html.targets import actor, check_may


@require_http_methods(["GET", "POST"])
def hold(request: HttpRequest, **names: str) -> HttpResponse:
    """Shows whether a session is on hold, and changes it."""
    ref, who = SessionRef(**names), actor(request)
    check_may(request, "admin", ref)
    context = {"ref": ref, "view": views.session(ref, partly=True, actor=who), "hold": holds.of(ref, actor=who)}
    if request.method == "GET":
        return page(request, "privacy/hold/hold.html", context)
    try:
        if "release" in request.POST:
            holds.release(ref, actor=who)
        else:
            holds.hold(ref, request.POST.get("reason", ""), actor=who)
    except Invalid as error:
        return page(request, "privacy/hold/hold.html", context | {"error": error.message}, 400)
    return redirect(reverse("hold-session", kwargs=names))
