"""Proposals: the edits that wait for a second person. A program reads the outcome of its own, and can cancel them."""

from typing import Any, Final
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from ninja import Router, Schema
from pydantic import Field

from ..access.actor import Actor
from ..domain.errors import NotFound
from ..domain.session_ref import SessionRef
from ..edits import proposal_job, proposals
from ..edits.proposals import Proposal
from . import schemas
from .authorize import actor_of, names_of, source_of
from .bodies import answer, change_of
from .openapi import needs

router = Router()

ONE: Final = "/apps/{plain:app_name}/proposals/{uuid:proposal_id}"


class ProposalView(Schema):
    """An edit, an answer or a message to an agent, that waits for a second person, and its outcome."""

    id: str
    source: str
    app_name: str
    user_id: str
    session_id: str
    event_id: str = Field(description="the id that its event has, or will have")
    kind: str = Field(description="edit, event, rewind, answer or message")
    actor: str
    reason: str
    changes: list[schemas.Json] = Field(description="of state; for an answer or a message, before it is sent")
    answers: list[schemas.Json] = Field(description="to calls, as `new`, with their tools as `key`")
    text: str = Field(description="of a message")
    files: list[str] = Field(description="names of those that go with a message")
    until: float = Field(description="the time at which it lapses, in seconds")
    state: str = Field(description="waiting, applied, declined, withdrawn or lapsed")
    decided_by: str
    first: str = Field(description="who applied it first, if two people have to")
    why: str


class Proposals(Schema):
    """Proposals: those that wait, then the last ones with their outcome."""

    items: list[ProposalView]


@router.get("/proposals", response=Proposals, summary="What waits for a second person")
def listed(request: HttpRequest) -> HttpResponse:
    """Returns those in the apps that the token may see: the oldest first, then those that are decided."""
    return answer(
        {"items": [_told(each, actor_of(request)) for each in proposals.listed(actor=actor_of(request)) if each.ref]}
    )


@router.get(ONE, response=ProposalView, summary="One proposal")
def get(request: HttpRequest, app_name: str, proposal_id: UUID, source: str | None = None) -> HttpResponse:
    """Returns a proposal and its outcome. Only people can apply or decline one, on the page “Proposals”."""
    return answer(
        _told(_of_app(request, source_of(request, app_name, source), app_name, proposal_id), actor_of(request))
    )


@router.delete(ONE, response=ProposalView, summary="Cancel a proposal", openapi_extra=needs("operate"))
def cancel(request: HttpRequest, app_name: str, proposal_id: UUID, source: str | None = None) -> HttpResponse:
    """Cancels a proposal that this token made. Answers 409 if it is decided, 403 if someone else made it."""
    _of_app(request, source_of(request, app_name, source, "operate"), app_name, proposal_id)
    return answer(_told(proposal_job.cancel(proposal_id, actor=actor_of(request)), actor_of(request)))


def _of_app(request: HttpRequest, source: str, app_name: str, proposal_id: UUID) -> Proposal:
    """Returns a proposal. Raises NotFound if its app or source isn't the one in the address."""
    each = proposals.get(proposal_id, actor=actor_of(request))
    if each.ref is None or each.ref[:2] != (source, app_name):
        raise NotFound(_("This proposal doesn't exist."))
    return each


def _told(each: Proposal, actor: Actor) -> dict[str, Any]:
    return {
        "id": str(each.id),
        **names_of(each.ref or SessionRef("", "", "", ""), actor),
        "event_id": each.event_id,
        "kind": each.kind,
        "actor": each.actor,
        "reason": each.reason,
        "changes": [change_of(change) for change in each.changes],
        "answers": [change_of(change) for change in each.answers],
        "text": each.text,
        "files": each.files,
        "until": each.until,
        "state": each.state,
        "decided_by": each.decided_by,
        "first": each.first,
        "why": each.why,
    }
