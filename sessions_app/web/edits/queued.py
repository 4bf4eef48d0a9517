"""Queued edits: lists and cancels them, and shows the outcome. Temporary edits: lists, extends, keeps them."""

import json
from typing import Final
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from ...domain.errors import Conflict, Held, Invalid
from ...domain.json_values import dumps
from ...domain.session_ref import SessionRef
from ...domain.state import ABSENT
from ...edits import expiry, queue
from ...http.reader import zone_of
from ..html.render import data, page
from ..request import actor
from .form import EndForm

_QUEUED: Final = "adkweb:queued"  # the event on which a page loads its queued edits again


@require_GET
def of_session(request: HttpRequest, **names: str) -> HttpResponse:
    """Renders a session's queued edits."""
    ref = SessionRef(**names)
    if not request.htmx:  # type: ignore[attr-defined]
        return redirect(reverse("session", kwargs=names))
    return page(request, "edits/queued/_list.html", {"ref": ref, "queued": queue.of_session(ref, actor=actor(request))})


@require_GET
def outcomes(request: HttpRequest) -> HttpResponse:
    """Renders the outcomes of this person's queued edits. With ?messages=1, tells what else is to be told, too."""
    return page(request, "edits/queued/_outcomes.html")


@require_GET
def raw(request: HttpRequest, queued_id: UUID) -> HttpResponse:
    """Returns the values that an edit was to write, as JSON, with null for a key that it was to remove."""
    values = {
        entry.key: None if entry.value is ABSENT else entry.value
        for entry in queue.get(queued_id, actor=actor(request)).entries
    }
    return data(dumps(values, indent=2), "text/plain; charset=utf-8")


@require_POST
def cancel_queued(request: HttpRequest, queued_id: UUID) -> HttpResponse:
    """Cancels a waiting edit. If it is too late, says so, and the list shows the outcome."""
    try:
        queue.cancel(queued_id, request.user)  # type: ignore[arg-type]
    except Conflict as error:
        response = _back(request, queued_id, error.message)
        if request.htmx:  # type: ignore[attr-defined]
            response["HX-Trigger"] = json.dumps({_QUEUED: None, "adkweb:toast": {"text": error.message}})
        return response
    return _back(request, queued_id, _("Edit cancelled. Nothing was written."))


@require_POST
def dismiss(request: HttpRequest, queued_id: UUID) -> HttpResponse:
    """Notes that the author has seen the outcome of an edit."""
    queue.dismiss(queued_id, request.user)  # type: ignore[arg-type]
    return _back(request, queued_id)


def _back(request: HttpRequest, queued_id: UUID, message: str = "") -> HttpResponse:
    """Redirects to the session's page. Under htmx, tells the page to load its queued edits again."""
    if request.htmx:  # type: ignore[attr-defined]
        return HttpResponse(status=204, headers={"HX-Trigger": _QUEUED})
    if message:
        messages.info(request, message)
    ref = queue.get(queued_id, actor=actor(request)).ref
    return redirect(reverse("session", kwargs=ref._asdict()) if ref else reverse("home"))


# --- Temporary edits -----------------------------------------------------------------------------------


@require_GET
def temporary_edits(request: HttpRequest) -> HttpResponse:
    """Lists the edits that are undone after a while; with ?own=1, those of the person."""
    own = request.GET.get("own") == "1"
    listed = expiry.listed(actor=actor(request), own=own)
    context = {"listed": listed, "own": own, "offered_ends": EndForm.offered_ends}
    return page(request, "edits/queued/temporary.html", context)


@require_GET
def expiring(request: HttpRequest) -> HttpResponse:
    """Leads from the address that the page of temporary edits had."""
    return redirect(reverse("temporary-edits", query=request.GET))


@require_POST
def extend(request: HttpRequest, expiry_id: UUID) -> HttpResponse:
    """Lets an edit last for some time from now."""
    try:
        end = EndForm.of(request, zone=zone_of(request)).end
        if not end:
            raise Invalid(_("Choose when this edit expires."))
        expiry.extend(expiry_id, end, actor=actor(request))
        messages.success(request, _("Edit extended."))
    except (Conflict, Held, Invalid) as error:
        messages.error(request, error.message)
    return redirect("temporary-edits")


@require_POST
def keep(request: HttpRequest, expiry_id: UUID) -> HttpResponse:
    """Lets an edit stay for good."""
    try:
        expiry.keep(expiry_id, actor=actor(request))
        messages.success(request, _("Edit kept for good."))
    except (Conflict, Held) as error:
        messages.error(request, error.message)
    return redirect("temporary-edits")
