"""Lists, creates, renews and revokes the tokens of programs."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from ...access import tokens as core
from ...access.tokens import ApiToken
from ...domain.errors import Error
from ...http.problems import STATUS
from ..html.render import page
from ..request import actor


@require_http_methods(["GET", "POST"])
def tokens(request: HttpRequest) -> HttpResponse:
    """Lists the tokens and creates new ones. A new token's text is shown once, on the page that answers the form."""
    actor(request).check_runs_everything()
    sent = request.method == "POST"  # no field may fall back to a default: a token must not get more than was chosen
    given = {name: request.POST.get(name, "") for name in _FORM} if sent else _FORM
    context: dict[str, Any] = {"given": given}
    status = 200
    if sent:
        try:
            context["made"], context["text"] = core.create(
                given["name"],
                given["right"],
                given["apps"],
                by=actor(request),
                days=core.number_of("days", given["days"]),
                rate=core.number_of("rate", given["rate"]),
                holders=given["holders"].split(","),
            )
            context["given"] = _FORM
        except Error as error:
            context["errors"] = {error.detail.get("field", "form"): error.message}
            status = STATUS[type(error)]
    return _list(request, context, status)


@require_http_methods(["GET", "POST"])
def renew(request: HttpRequest, name: str) -> HttpResponse:
    """Gives a token a new text, after asking how long the one from before goes on. Shows it once."""
    actor(request).check_runs_everything()
    token = ApiToken.objects.named(name)
    if token.revoked:
        return redirect("tokens")
    hours, status = request.POST.get("hours", str(core.OVERLAP_HOURS)), 200
    context: dict[str, Any] = {
        "token": token,
        "hours": hours,
        "holders": request.POST.get("holders", ", ".join(token.held_by)),
    }
    if request.method == "POST":
        try:
            number = core.number_of("hours", hours, needed=True)
            held = context["holders"].split(",")
            text = token.renew(by=actor(request), hours=number or 0, holders=held)
        except Error as refused:
            field = "holders_error" if refused.detail.get("field") == "holders" else "error"
            context[field], status = refused.message, STATUS[type(refused)]
        else:
            return _list(request, {"made": token, "text": text, "given": _FORM})
    return page(request, "access/tokens/renew.html", context, status)


@require_http_methods(["GET", "POST"])
def revoke(request: HttpRequest, name: str) -> HttpResponse:
    """Revokes a token, after asking for confirmation."""
    actor(request).check_runs_everything()
    token = ApiToken.objects.named(name)
    if request.method == "GET" and not token.revoked:
        return page(request, "access/tokens/revoke.html", {"token": token})
    if request.method == "POST":
        token.revoke(by=actor(request))
        messages.success(request, _("The token “%(name)s” is revoked.") % {"name": name})
    return redirect("tokens")


def _list(request: HttpRequest, context: dict[str, Any], status: int = 200) -> HttpResponse:
    """Shows the tokens; the text of one may be in the context, and is kept by no cache."""
    more = {"tokens": ApiToken.objects.listed(), "address": request.build_absolute_uri("/").rstrip("/"), "max": core}
    response = page(request, "access/tokens/tokens.html", context | more, status)
    response["Cache-Control"] = "private, no-store"
    return response


_FORM = {"name": "", "right": "append", "apps": "", "days": "", "rate": "", "holders": ""}
