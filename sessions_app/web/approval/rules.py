"""The page of approval rules: which edits need a second person."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from ...access import approval as core
from ...access.actor import Actor
from ...domain.errors import Error, Invalid
from ...http.problems import status_of
from ..html.render import page
from ..request import actor

_FORM = {"keys": "", "sessions": "", "apps": "", "sources": "", "days": str(core.DAYS)}


@require_http_methods(["GET", "POST"])
def rules(request: HttpRequest) -> HttpResponse:
    """Lists the rules, and makes another one."""
    who = actor(request)
    who.check_runs_everything()
    given = {name: request.POST.get(name, "") for name in _FORM} if request.method == "POST" else _FORM
    context: dict[str, Any] = {"given": given}
    status = 200
    if request.method == "POST":
        try:
            _make(given, who)
        except Error as error:
            context["errors"] = {error.detail.get("field", "form"): error.message}
            status = status_of(error)
        else:
            messages.success(request, _("The rule holds now."))
            return redirect("approval")
    return page(request, "approval/rules/rules.html", context | {"rules": core.listed()}, status)


def _make(given: dict[str, str], who: Actor) -> None:
    sessions = given["sessions"].strip()
    core.make(
        by=who,
        keys=given["keys"],
        sessions=_number(sessions, "sessions") if sessions else None,
        days=_number(given["days"], "days"),
        apps=given["apps"],
        sources=given["sources"],
    )


def _number(text: str, field: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise Invalid(_("This is no whole number."), field=field) from None


@require_POST
def drop(request: HttpRequest, number: int) -> HttpResponse:
    """Deletes a rule."""
    core.drop(number, by=actor(request))
    messages.success(request, _("The rule was deleted. What waits by it goes on waiting."))
    return redirect("approval")
