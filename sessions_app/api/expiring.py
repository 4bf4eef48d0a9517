"""Temporary edits: listed, extended, or kept for good."""

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from ninja import Router, Schema
from pydantic import Field

from ..access.actor import Actor
from ..domain.errors import Invalid, NotFound
from ..domain.session_ref import SessionRef
from ..edits import expiry
from ..edits.expiry import Expiry
from . import schemas
from .authorize import actor_of, names_of, source_of
from .bodies import answer, body_of, body_schema, change_of
from .openapi import needs

router = Router()

EDIT: str = "/apps/{plain:app_name}/expiring-edits/{uuid:expiry_id}"


class End(Schema):
    """The time at which an edit is undone: one of both."""

    lasts: float | None = Field(None, gt=0, description="seconds from now after which the edit is undone")
    until: float | None = Field(None, description="the time at which the edit is undone, in seconds")


class TimedEdit(schemas.Edit, End):
    """An edit of state, which becomes one event, and may be temporary."""


class ExpiringEdit(Schema):
    """A temporary edit and its outcome."""

    id: str
    source: str | None = Field(description="null while the source is not open")
    app_name: str
    user_id: str
    session_id: str
    event_id: str
    actor: str
    reason: str
    changes: list[schemas.Json]
    until: float
    state: str = Field(description="waiting, ended, left, cancelled or failed")
    left: list[str] = Field(description="keys that changed in the meantime, and were left alone")


class ExpiringEdits(Schema):
    """Temporary edits: those that have not ended, then the last ones with their outcome."""

    items: list[ExpiringEdit]


@router.get("/expiring-edits", response=ExpiringEdits, summary="Temporary edits")
def list_expiring(request: HttpRequest) -> HttpResponse:
    """Returns those in the apps that the token may see: the next to end first, then those that ended."""
    return answer(
        {"items": [_told(each, actor_of(request)) for each in expiry.listed(actor=actor_of(request)) if each.ref]}
    )


@router.post(
    EDIT + "/extend",
    response=ExpiringEdit,
    summary="Extend a temporary edit",
    openapi_extra=body_schema(End, required=True) | needs("append"),
)
def extend(request: HttpRequest, app_name: str, expiry_id: UUID, source: str | None = None) -> HttpResponse:
    """Changes the time at which an edit is undone. Answers 409 if it has ended."""
    alias = source_of(request, app_name, source, "append")
    of = end_of(body_of(request, End))
    if not of:
        raise Invalid("lasts, until: one of them")
    _check_app(request, alias, app_name, expiry_id)
    return answer(_told(expiry.extend(expiry_id, of, actor=actor_of(request)), actor_of(request)))


@router.delete(EDIT, response=ExpiringEdit, summary="Keep a temporary edit for good", openapi_extra=needs("append"))
def keep(request: HttpRequest, app_name: str, expiry_id: UUID, source: str | None = None) -> HttpResponse:
    """Keeps an edit for good: its values stay. Answers 409 if it has ended."""
    _check_app(request, source_of(request, app_name, source, "append"), app_name, expiry_id)
    return answer(_told(expiry.keep(expiry_id, actor=actor_of(request)), actor_of(request)))


def _check_app(request: HttpRequest, source: str, app_name: str, expiry_id: UUID) -> None:
    """Raises NotFound if its app or source isn't the one in the address."""
    ref = expiry.get(expiry_id, actor=actor_of(request)).ref
    if ref is None or ref[:2] != (source, app_name):
        raise NotFound(_("This edit doesn't exist."))


def end_of(body: End) -> dict[str, float]:
    """Returns when an edit ends, in the form that the core takes."""
    return {name: value for name in ("lasts", "until") if (value := getattr(body, name)) is not None}


def _told(each: Expiry, actor: Actor) -> dict[str, Any]:
    return {
        "id": str(each.id),
        **names_of(each.ref or SessionRef("", "", "", ""), actor),
        "source": each.ref.source if each.ref else None,
        "event_id": each.event_id,
        "actor": each.actor,
        "reason": each.reason,
        "changes": [change_of(change) for change in each.changes],
        "until": each.until,
        "state": each.state,
        "left": each.left,
    }
