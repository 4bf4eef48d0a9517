"""Rules that delete idle sessions: what they would do, and what they did. Sessions on hold are not deleted."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from ...domain.errors import Error, Invalid
from ...domain.session_ref import SessionRef
from ...http.problems import status_of
from ...privacy import holds
from ...privacy import retention as core
from ...reads import views
from ..html.render import page
from ..request import actor, check_may


@require_http_methods(["GET", "POST"])
def retention(request: HttpRequest) -> HttpResponse:
    """Lists the rules, tries a new one, and saves it."""
    who = actor(request)
    who.check_right("admin")
    given = {name: request.POST.get(name, "").strip() for name in ("source", "app_name", "days")}
    context: dict[str, Any] = {**given, "export": "export" in request.POST, "sources": core.sources(who)}
    status = 200
    if request.method == "POST":
        try:
            days = core.check_days(given["days"])
            if "save" in request.POST:
                core.save(given["source"], given["app_name"], days, export=context["export"], actor=who)
                return redirect("retention")
            context["trial"] = core.try_(given["source"], given["app_name"], days, actor=who)
        except Error as error:
            context["error"], status = error.message, status_of(error)
    return page(request, "privacy/retention/retention.html", context | {"rules": core.listed(actor=who)}, status)


@require_POST
def remove(request: HttpRequest, number: int) -> HttpResponse:
    """Takes a rule away."""
    actor(request).check_right("admin")
    core.remove(number, actor=actor(request))
    return redirect("retention")


# --- A session on hold ------------------------------------------------------------------------------------------------


@require_http_methods(["GET", "POST"])
def hold(request: HttpRequest, **names: str) -> HttpResponse:
    """Shows whether a session is on hold, and changes it."""
    ref, who = SessionRef(**names), actor(request)
    check_may(request, "admin", ref)
    context = {"ref": ref, "view": views.session(ref, partly=True, actor=who), "hold": holds.of(ref, actor=who)}
    if request.method == "GET":
        return page(request, "privacy/retention/hold.html", context)
    try:
        if "release" in request.POST:
            holds.release(ref, actor=who)
        else:
            holds.hold(ref, request.POST.get("reason", ""), actor=who)
    except Invalid as error:
        return page(request, "privacy/retention/hold.html", context | {"error": error.message}, 400)
    return redirect(reverse("hold-session", kwargs=names))
