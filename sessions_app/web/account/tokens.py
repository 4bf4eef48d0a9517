"""Lists, creates and revokes the tokens of programs."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from ...access import tokens as core
from ...errors import Error, NotFound
from ...http.problems import STATUS
from ..html.render import page
from ..html.targets import actor


@require_http_methods(["GET", "POST"])
def tokens(request: HttpRequest) -> HttpResponse:
    """Lists the tokens and creates new ones. A new token's text is shown once, on the page that answers the form."""
    sent = request.method == "POST"  # no field may fall back to a default: a token must not get more than was chosen
    given = {name: request.POST.get(name, "") for name in _FORM} if sent else _FORM
    context: dict[str, Any] = {"given": given, "address": request.build_absolute_uri("/").rstrip("/"), "max": core}
    status = 200
    if sent:
        try:
            context["made"], context["text"] = core.create(
                given["name"], given["right"], given["apps"], by=actor(request).name
            )
            context["given"] = _FORM
        except Error as error:
            context["errors"] = {error.detail.get("field", "form"): error.message}
            status = STATUS[type(error)]
    response = page(request, "account/tokens/tokens.html", context | {"tokens": core.listed()}, status)
    response["Cache-Control"] = "private, no-store"
    return response


@require_http_methods(["GET", "POST"])
def revoke(request: HttpRequest, name: str) -> HttpResponse:
    """Revokes a token, after asking for confirmation."""
    token = next((token for token in core.listed() if token.name == name), None)
    if token is None:
        raise NotFound(_("There is no token “%(name)s”.") % {"name": name})
    if request.method == "GET" and not token.revoked:
        return page(request, "account/tokens/revoke.html", {"token": token})
    if request.method == "POST":
        core.revoke(name, by=actor(request).name)
        messages.success(request, _("The token “%(name)s” is revoked.") % {"name": name})
    return redirect("tokens")


_FORM = {"name": "", "right": "append", "apps": ""}
