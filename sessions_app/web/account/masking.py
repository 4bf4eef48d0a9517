"""Lists the rules that hide values, adds, tries and removes them, and proposes some."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from ...domain.mask_patterns import FORMS
from ...domain.masks import KINDS
from ...errors import Error
from ...http.problems import STATUS
from ...masking import looks, rules
from ..html.render import page
from ..html.targets import actor

_FORM = {"apps": "", "kind": "key", "pattern": ""}


@require_http_methods(["GET", "POST"])
def masking(request: HttpRequest) -> HttpResponse:
    """Lists the rules. A form adds one, or tries which keys it would hide; `scan` in the address proposes some."""
    who = actor(request)
    given = {name: request.POST.get(name, default) for name, default in _FORM.items()}
    context: dict[str, Any] = {"given": given, "kinds": KINDS, "forms": FORMS, "max": rules.LENGTH}
    status = 200
    try:
        if request.method == "POST" and "try" in request.POST:
            context["look"] = looks.look(rules.checked(**given), actor=who)
        elif request.method == "POST":
            rules.create(**given, actor=who)
            messages.success(
                request, _("The rule hides values from now on. Search reads everything again without them.")
            )
            return redirect("masking")
    except Error as error:
        context["errors"] = {error.detail.get("field", "form"): error.message}
        status = STATUS[type(error)]
    if "scan" in request.GET:
        context["proposals"] = looks.proposals(actor=who)
    response = page(
        request,
        "account/masking/masking.html",
        context | {"rules": rules.listed(actor=who), "most": looks.MOST},
        status,
    )
    response["Cache-Control"] = "private, no-store"
    return response


@require_POST
def remove(request: HttpRequest, number: int) -> HttpResponse:
    """Removes a rule: what it hid is seen again."""
    rules.delete(number, actor=actor(request))
    messages.success(request, _("The rule is removed. What it hid is seen again."))
    return redirect("masking")
