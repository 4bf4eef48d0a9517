"""Edits that take themselves back: lists them, lets them last longer, and keeps them for good."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from ...domain.errors import Conflict, Held, Invalid
from ...edits import expiry
from ..html.render import page
from ..html.targets import actor
from . import state_form


@require_GET
def expiring(request: HttpRequest) -> HttpResponse:
    """Lists the edits that take themselves back; with ?own=1, those of the person."""
    own = request.GET.get("own") == "1"
    listed = expiry.listed(actor=actor(request), own=own)
    context = {"listed": listed, "own": own, "offered_ends": [(str(each), each) for each in state_form.LASTS]}
    return page(request, "edits/expiring/expiring.html", context)


@require_POST
def extend(request: HttpRequest, expiry_id: UUID) -> HttpResponse:
    """Lets an edit last for some time from now."""
    try:
        of = state_form.end_of(request)
        if not of:
            raise Invalid(_("Choose when this edit ends."))
        expiry.extend(expiry_id, of, actor=actor(request))
        messages.success(request, _("The edit lasts longer now."))
    except (Conflict, Held, Invalid) as error:
        messages.error(request, error.message)
    return redirect("expiring")


@require_POST
def cancel(request: HttpRequest, expiry_id: UUID) -> HttpResponse:
    """Lets an edit stay for good."""
    try:
        expiry.cancel(expiry_id, actor=actor(request))
        messages.success(request, _("The edit stays."))
    except (Conflict, Held) as error:
        messages.error(request, error.message)
    return redirect("expiring")
