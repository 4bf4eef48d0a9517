"""The page of a watched view's webhook: its address, its secret, once, and what it was told last."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods

from ...domain.errors import Invalid, NotFound
from ...search.saved import views, watching, webhooks
from ..html.render import page
from ..html.targets import actor, person_of


@require_http_methods(["GET", "POST"])
def webhook(request: HttpRequest, view_id: UUID) -> HttpResponse:
    """Shows the webhook. A form gives it an address, tests it or takes it away; a new secret is shown in the answer only."""
    actor(request).check_may_write()
    person = person_of(request)
    context: dict[str, Any] = {"view": _watched(request, view_id)}
    if request.POST.get("do") == "remove":
        webhooks.remove(view_id, person)
        messages.success(request, _("The webhook was taken away."))
        return redirect("webhook", view_id=view_id)
    if request.POST.get("do") == "test":
        webhooks.test(view_id, person)
        return redirect("webhook", view_id=view_id)
    status = 200
    if request.method == "POST":
        url = request.POST.get("url", "")
        try:
            context["secret"] = webhooks.put(view_id, person, url, request.build_absolute_uri("/").rstrip("/"))
        except Invalid as error:
            context |= {"error": error.message, "typed": url}
            status = 400
    context["hook"] = webhooks.get(view_id, person)
    response = page(request, "search/webhook/webhook.html", context, status)
    response["Cache-Control"] = "private, no-store"
    return response


@require_GET
def deliveries(request: HttpRequest, view_id: UUID) -> HttpResponse:
    """Renders what the webhook was told last."""
    if not request.htmx:  # type: ignore[attr-defined]
        return redirect("webhook", view_id=view_id)
    context = {"view": _watched(request, view_id), "hook": webhooks.get(view_id, person_of(request))}
    return page(request, "search/webhook/_deliveries.html", context)


def _watched(request: HttpRequest, view_id: UUID) -> views.View:
    view = views.get(view_id, person_of(request))
    if view_id not in [each.view_id for each in watching.watched(person_of(request))]:
        raise NotFound(_("Watch this view first: its webhook is told of what begins to match."))
    return view
