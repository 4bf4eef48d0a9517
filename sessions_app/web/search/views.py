"""Saves, changes and deletes views, the tabs above the table of sessions, and sets up their webhooks."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from ...domain.errors import AlreadyExists, Invalid, NotFound
from ...domain.shorten import words
from ...search.saved import views, watching, webhooks
from ..html.render import offer_undo, page
from ..request import actor, person_of
from .params import zone_of


@require_POST
def save(request: HttpRequest) -> HttpResponse:
    """Saves a view, or brings back one that was deleted (?id=), and goes to it."""
    given, view_id = request.POST, request.POST.get("id", "")
    fields: dict[str, Any] = {"name": given.get("name", ""), "shared": "shared" in given, **_asked(request)}
    try:
        view = views.save(person_of(request), UUID(view_id) if view_id else None, **fields)
    except (AlreadyExists, Invalid, ValueError) as error:
        return _refused(request, error)
    if not view_id:
        messages.success(request, _("The view “%(name)s” was saved.") % {"name": words(view.name, 60)})
    return _to(view.id)


@require_POST
def change(request: HttpRequest, view_id: UUID) -> HttpResponse:
    """Renames and shares a view (?name=), or gives it the query, order and columns of the form, and goes to it."""
    given = request.POST
    fields = {"name": given["name"], "shared": "shared" in given} if "name" in given else _asked(request)
    try:
        view = views.change(view_id, person_of(request), **fields)
    except (AlreadyExists, Invalid) as error:
        return _refused(request, error)
    messages.success(request, _("The view “%(name)s” was changed.") % {"name": words(view.name, 60)})
    return _to(view.id)


@require_POST
def watch(request: HttpRequest, view_id: UUID) -> HttpResponse:
    """Watches a view (?on=1), or does not any more, and goes to it."""
    person = person_of(request)
    try:
        if "on" in request.POST:
            watching.watch(view_id, person, str(zone_of(request)))
            messages.success(request, _("You are told when a session begins to match this view."))
        else:
            watching.unwatch(view_id, person)
    except Invalid as error:
        messages.error(request, error.message)
    return _to(view_id)


@require_POST
def delete(request: HttpRequest, view_id: UUID) -> HttpResponse:
    """Deletes a view. The message about it has a button that brings it back."""
    view = views.delete(view_id, person_of(request))
    fields = {"id": str(view.id), "name": view.name, "q": view.query, "sort": view.sort, "cols": view.columns}
    if view.shared:
        fields["shared"] = "1"
    said = _("The view “%(name)s” was deleted.") % {"name": words(view.name, 60)}
    offer_undo(request, said, reverse("save-view"), fields.items())
    return redirect("search")


def _asked(request: HttpRequest) -> dict[str, str]:
    given = request.POST
    return {"query": given.get("q", "").strip(), "sort": given.get("sort", ""), "columns": given.get("cols", "")}


def _to(view_id: UUID) -> HttpResponseRedirect:
    return HttpResponseRedirect(f"{reverse('search')}?{urlencode({'view': str(view_id)})}")


def _refused(request: HttpRequest, error: Exception) -> HttpResponse:
    """Says what is wrong, and goes back to the query that was to be saved."""
    message = (
        error.message if isinstance(error, AlreadyExists | Invalid) else _("The number in this link is not valid.")
    )
    messages.error(request, message)
    given = {name: request.POST.get(name, "") for name in ("q", "sort", "cols")}
    query = urlencode({name: value.encode("utf-8", "replace") for name, value in given.items() if value})
    return redirect(reverse("search") + (f"?{query}" if query else ""))


# --- The webhook of a watched view ------------------------------------------------------------------------------------


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
    response = page(request, "search/views/webhook.html", context, status)
    response["Cache-Control"] = "private, no-store"
    return response


@require_GET
def deliveries(request: HttpRequest, view_id: UUID) -> HttpResponse:
    """Renders what the webhook was told last."""
    if not request.htmx:  # type: ignore[attr-defined]
        return redirect("webhook", view_id=view_id)
    context = {"view": _watched(request, view_id), "hook": webhooks.get(view_id, person_of(request))}
    return page(request, "search/views/_deliveries.html", context)


def _watched(request: HttpRequest, view_id: UUID) -> views.View:
    view = views.get(view_id, person_of(request))
    if view_id not in [each.view_id for each in watching.watched(person_of(request))]:
        raise NotFound(_("Watch this view first: its webhook is told of what begins to match."))
    return view
