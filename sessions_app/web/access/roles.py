"""The page of roles: who may do what, in which sources and apps."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from ...access import roles as core
from ...access.actor import Actor
from ...domain.errors import Error
from ...http.problems import STATUS
from ..html.render import page
from ..request import actor

_FORM = {"holder": "", "role": "viewer", "sources": "", "apps": "", "reveals": ""}


@require_http_methods(["GET", "POST"])
def roles(request: HttpRequest) -> HttpResponse:
    """Lists the roles, and gives another one."""
    who = actor(request)
    who.check_runs_everything()
    sent = request.method == "POST"
    given = {name: request.POST.get(name, "") for name in _FORM} if sent else _FORM
    context: dict[str, Any] = {"given": given, "names": core.ROLES}
    status = 200
    if sent:
        try:
            made = _give(given, who)
        except Error as error:
            context["errors"] = {error.detail.get("field", "form"): error.message}
            status = STATUS[type(error)]
        else:
            messages.success(
                request, _("%(name)s has the role %(role)s now.") % {"name": made.holder, "role": made.role}
            )
            return redirect("roles")
    return page(
        request, "access/roles/roles.html", context | {"roles": core.listed(), "holders": core.holders()}, status
    )


def _give(given: dict[str, str], who: Actor) -> core.GivenRole:
    kind, _colon, name = given["holder"].partition(":")
    holder = {"group": name} if kind == "group" else {"person": name}
    return core.give(
        given["role"],
        by=who,
        sources=given["sources"],
        apps=given["apps"],
        reveals=bool(given["reveals"]),
        **holder,
    )


@require_POST
def take(request: HttpRequest, number: int) -> HttpResponse:
    """Takes a role away."""
    role = core.take(number, by=actor(request))
    messages.success(request, _("%(name)s has the role %(role)s no more.") % {"name": role.holder, "role": role.role})
    return redirect("roles")
