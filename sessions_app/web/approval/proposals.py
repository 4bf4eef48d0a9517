"""Proposals: lists the edits and answers that wait for a second person, applies, declines and cancels them."""

from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET, require_POST

from ...access.actor import Actor
from ...batches import reading
from ...domain.errors import Error, Invalid
from ...domain.session_ref import OWN_NAME, SessionRef
from ...edits import proposal_job
from ...edits import proposals as proposal
from ...edits.proposals import Obstacles, Proposal
from ...http.problems import status_of
from ...jobs.lease import WAITING
from ...running import proposed
from ...sources import errors
from ..forms import Form, Text
from ..html.render import page
from ..request import actor

_SENT: Final = {"answer": gettext_lazy("Answered. The agent continues."), "message": gettext_lazy("Sent to the agent.")}


class DecideForm(Form):
    """Decides on a proposal: `action` is "apply", "now", "decline" or "cancel"."""

    action = Text()
    why = Text()


@require_GET
def proposals(request: HttpRequest) -> HttpResponse:
    """Lists the proposals; with ?own=1, those of the person."""
    return _page(request)


@require_POST
def decide(request: HttpRequest, proposal_id: UUID) -> HttpResponse:
    """Applies, declines or cancels a proposal. If a key changed meanwhile, the page says so."""
    who = actor(request)
    try:
        message = _decide(proposal_id, who, **DecideForm.of(request).read())
    except Error as error:
        proposal.get(proposal_id, actor=who)  # raises NotFound
        running = proposal_id if error.detail.get("running") else None
        return _page(
            request, {"error": errors.shown(error, who), "about": proposal_id, "running": running}, status_of(error)
        )
    messages.success(request, message)
    return redirect("proposals")


def _decide(proposal_id: UUID, who: Actor, *, action: str, why: str) -> str:
    kind = proposal.get(proposal_id, actor=who).kind
    match action:
        case "apply" | "now":
            if kind in _SENT:
                applied = proposed.apply(proposal_id, actor=who)
            else:
                applied = proposal_job.apply(proposal_id, actor=who, now=action == "now")
            if applied.state == WAITING:
                return _(
                    "This program's token has no named holder, so a second person must apply the proposal as well."
                )
            return str(_SENT.get(kind, _("Applied. The event records both names.")))
        case "decline":
            proposal_job.decline(proposal_id, actor=who, why=why)
            if kind in _SENT:  # what comes first may be written, if adkweb died right after that
                return _("Proposal declined. Nothing was sent.")
            return _("Proposal declined. Nothing was written.")
        case "cancel":
            proposal_job.cancel(proposal_id, actor=who)
            if kind in _SENT:
                return _("Proposal cancelled. Nothing was sent.")
            return _("Proposal cancelled. Nothing was written.")
    raise Invalid(_("Apply, decline or cancel it."))


def _page(request: HttpRequest, more: dict[str, Any] | None = None, status: int = 200) -> HttpResponse:
    who, own = actor(request), request.GET.get("own") == "1"
    listed = [(each, _obstacles(each, who), _again(each)) for each in proposal.listed(actor=who, own=own)]
    batches = [each for each in reading.waiting(actor=who) if not own or each.actor == who.name]
    context = {"listed": listed, "own": own, "batches": batches, "may_act": not settings.READ_ONLY, **(more or {})}
    return page(request, "approval/proposals/proposals.html", context, status)


def _obstacles(each: Proposal, who: Actor) -> Obstacles | None:
    return proposed.obstacles(each, actor=who) if each.state == WAITING else None


def _again(each: Proposal) -> str:
    """Returns the URL at which the edit of a proposal can be made again; "" while its source is away, and for an answer or
    a message."""
    if each.ref is None or each.kind in _SENT:
        return ""
    if each.kind == "rewind":
        return f"{reverse('rewind', kwargs=each.ref._asdict())}?{urlencode({'before': each.invocation})}"
    address = _form_of(each.ref) if each.kind == "edit" else reverse("add-event", kwargs=each.ref._asdict())
    return f"{address}?proposal={each.id}"


def _form_of(ref: SessionRef) -> str:
    """Returns the URL of the form that edits what this session does: an app's or a user's state has its own."""
    if ref.session_id != OWN_NAME:
        return reverse("session-edit", kwargs=ref._asdict())
    name, count = ("app-edit", 2) if ref.user_id == OWN_NAME else ("user-edit", 3)
    return reverse(name, kwargs=dict(list(ref._asdict().items())[:count]))
