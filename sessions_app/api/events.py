"""Events: a page of them, one of them, appending one, and all edits."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from ninja import Router
from ninja.params.functions import Query

from ..artifacts import downloads
from ..domain.adk_fields import check_fields
from ..domain.errors import Invalid, StaleSession
from ..domain.event import check_event
from ..domain.positions import Seq, number_of
from ..domain.session_ref import SessionRef
from ..history.edit_log import edits
from ..reads import timeline, views, whole_session
from ..reads.event_views import EventView
from ..reads.filters import FILTERS
from ..sources.errors import shown
from ..writes.append import Appended, append_event
from . import schemas
from .authorize import actor_of, check_order, names_of, ref_of
from .bodies import IF_MATCH, Precondition, answer, change_of, expected_revision, object_of
from .openapi import needs, tagged
from .sessions import SESSION

router = Router()

EVENTS = SESSION + "/events"
MOST: int = 1_000


@router.get(EVENTS, response=schemas.Events, summary="Events of a session, by page", openapi_extra=tagged(200))
def listed(
    request: HttpRequest,
    app_name: str,
    user_id: str,
    session_id: str,
    before: str | None = Query(None, description="`next` of the page with later ones"),
    after: int | None = Query(None, ge=0, lt=2**63, description="events after this seq, the oldest first"),
    kind: str = Query("", description=", ".join(FILTERS)),
    author: str = "",
    limit: int = Query(timeline.EVENTS, ge=1, le=MOST),
    source: str | None = None,
) -> HttpResponse:
    """Returns a page of a session's events with what each changed: the newest, those before them, or those after a seq.
    They are in append order."""
    ref = ref_of(request, app_name, user_id, session_id, source)
    revision = views.session(ref, partly=True, actor=actor_of(request)).revision
    if after is None:
        page = timeline.events(ref, before=before, kind=kind, author=author, limit=limit, actor=actor_of(request))
        return answer({"items": [_event(view) for view in page.rows], "next": page.next}, revision=revision)
    if before is not None:
        raise Invalid("before, after: one of them")
    check_order(ref.source)
    page = timeline.events_after(ref, Seq(after), kind=kind, author=author, limit=limit, actor=actor_of(request))
    following = str(page.rows[-1].seq) if page.next else None
    return answer({"items": [_event(view) for view in page.rows], "next": following}, revision=revision)


@router.get(EVENTS + "/{plain:event_id}", response=schemas.EventView, summary="One event")
def get(
    request: HttpRequest, app_name: str, user_id: str, session_id: str, event_id: str, source: str | None = None
) -> HttpResponse:
    """Returns an event, with what it changed."""
    ref = ref_of(request, app_name, user_id, session_id, source)
    return answer(_event(timeline.event(ref, event_id, actor=actor_of(request))))


@router.get(
    EVENTS + "/{plain:event_id}/data/{int:file}",
    response={200: None},
    summary="A file in an event",
    openapi_extra={
        "responses": {200: {"content": {"*/*": {"schema": {"type": "string", "format": "binary"}}}}},
    },
)
def data(
    request: HttpRequest,
    app_name: str,
    user_id: str,
    session_id: str,
    event_id: str,
    file: int,
    source: str | None = None,
) -> HttpResponseBase:
    """Returns the bytes of an image or a file in an event, the first one for 0, however large the event is."""
    ref = ref_of(request, app_name, user_id, session_id, source)
    view = timeline.event(ref, event_id, actor=actor_of(request))
    return downloads.send(view, file, actor=actor_of(request))


@router.post(
    EVENTS,
    response={201: schemas.Appended, 200: schemas.Appended},
    summary="Append an event",
    openapi_extra={
        "requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}, "required": True},
        **IF_MATCH,
        **needs("append"),
        **tagged(200, 201, required=False),
    },
)
def append(
    request: HttpRequest, app_name: str, user_id: str, session_id: str, source: str | None = None
) -> HttpResponse:
    """Appends an event in ADK's stored form, in snake_case, and applies its `state_delta`.

    An event that is sent again with its `id` is stored once and answered with 200; a different event with that id is
    answered with 409. With `If-Match: "<revision>"`, the event is stored only if no one has written since, else 412.
    The notes that adkweb itself writes for edits and forks, `custom_metadata.adkweb` and
    `custom_metadata.adkweb_origin`, are refused."""
    ref = ref_of(request, app_name, user_id, session_id, source, "append")
    event = object_of(request)
    check_fields(check_event(event, newer=actor_of(request).is_agent_of(app_name)), newer=True)
    if event.get("partial"):
        raise Invalid("partial: a partial event is never stored")
    try:
        appended = append_event(ref, event, actor=actor_of(request), expected=expected_revision(request))
    except StaleSession as error:
        raise Precondition from error
    return stored_answer(request, appended, ref)


@router.get("/edits", response=schemas.Edits, summary="Edits in every session")
def all_edits(request: HttpRequest, before: str | None = None) -> HttpResponse:
    """Returns a page of the edits in the apps that the token may see, the newest first: who changed what and why, and
    the values before it."""
    page, problems = edits(before, actor=actor_of(request))
    items = [
        {
            **names_of(view.ref, actor_of(request)),
            "actor": view.description.edit.get("actor"),
            "reason": view.description.edit.get("reason"),
        }
        | _event(view)
        for view in page.rows
    ]
    shown_problems = [shown(error, actor_of(request)) for error in problems]
    return answer({"items": items, "next": page.next, "problems": shown_problems})


def stored_answer(request: HttpRequest, appended: Appended, ref: SessionRef) -> HttpResponse:
    """Answers with the event as it is stored, now or already, and its seq.

    Leaves out the session's revision if it was stored already: with it, the sender could overwrite, unseen, what others
    wrote since."""
    if appended.seq is not None:
        return answer(_stored(appended, appended.seq), 201, appended.revision)
    head = whole_session.read_head(ref, appended.event["id"], actor=actor_of(request))
    return answer(_stored(appended, head.seq if head else None), 200)


def _stored(appended: Appended, seq: Seq | None) -> dict[str, Any]:
    return {"seq": seq, "revision": appended.revision, "event": appended.event}


def _event(view: EventView) -> dict[str, Any]:
    return {
        "seq": number_of(view.seq),
        "id": view.id,
        "invocation_id": view.invocation_id,
        "timestamp": view.timestamp,
        "kind": view.description.kind,
        "changes": [change_of(change) for change in view.changes],
        "event": view.data,
        "size": view.size or None,
    }
