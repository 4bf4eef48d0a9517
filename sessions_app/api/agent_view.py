"""Shows what an agent's model got: the instruction, filled in, and the conversation."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router
from ninja.params.functions import Query

from ..access.actor import Actor
from ..agent_view import conversation as conversations
from ..agent_view import instructions
from ..agent_view.preview import Shown, preview
from ..domain.positions import number_of
from ..reads import timeline, views
from . import schemas
from .authorize import actor_of, ref_of
from .bodies import answer, body_of, body_schema
from .history import NOW, moment_of, writer_of
from .sessions import SESSION

router = Router()


@router.post(
    SESSION + "/instruction",
    response=schemas.Instruction,
    summary="Fill in an instruction as ADK does",
    openapi_extra=body_schema(schemas.Template, required=True),
)
def instruction(
    request: HttpRequest,
    app_name: str,
    user_id: str,
    session_id: str,
    at: str = Query(NOW, description="an event's id, or `now`"),
    source: str | None = None,
) -> HttpResponse:
    """Returns an instruction with its placeholders filled in, from the state now or at an event. Says which event last
    wrote each value, and what is missing."""
    ref = ref_of(request, app_name, user_id, session_id, source)
    body = body_of(request, schemas.Template)
    shown = preview(moment_of(request, ref, at), body.template)
    text = instructions.rendered([each.piece for each in shown])
    return answer({"text": text, "pieces": [_piece(each, actor_of(request)) for each in shown]})


@router.get(SESSION + "/context", response=schemas.Conversation, summary="What the model got")
def conversation(
    request: HttpRequest,
    app_name: str,
    user_id: str,
    session_id: str,
    at: str = Query(NOW, description="an event's id, or `now`"),
    agent: str = Query("", description="by default, the one that spoke last"),
    branch: str | None = None,
    before: str | None = None,
    source: str | None = None,
) -> HttpResponse:
    """Returns the contents of the model's request by page, the newest page first. Between them are the events that ADK
    leaves out, with the reason."""
    ref = ref_of(request, app_name, user_id, session_id, source)
    views.session(ref, actor=actor_of(request))
    page = conversations.conversation(
        ref,
        None if at == NOW else timeline.event(ref, at, actor=actor_of(request)),
        agent,
        branch,
        before,
        actor=actor_of(request),
    )
    return answer(
        {
            "agent": page.reader.agent,
            "branch": page.reader.branch,
            "task": page.task,
            "items": [_line(line) for line in page.lines],
            "next": page.earlier,
        }
    )


def _piece(shown: Shown, actor: Actor) -> dict[str, Any]:
    piece = shown.piece
    return {
        "kind": piece.kind,
        "written": piece.written,
        "shown": piece.shown,
        "name": piece.name,
        "optional": piece.optional,
        "fault": shown.fault,
        "writer": writer_of(shown.writer, actor) if shown.writer else None,
    }


def _line(line: conversations.Line) -> dict[str, Any]:
    left = line.left_out
    return {
        "event_id": line.event.id,
        "seq": number_of(line.event.seq),
        "role": line.content.role if line.content else None,
        "parts": list(line.content.parts) if line.content else [],
        "quoted": line.content is not None and line.content.quoted,
        "summary": line.content is not None and line.content.summary,
        "events": [event.id for event in line.events],
        "left_out": {"kind": left.kind, "by": left.by, "seq": number_of(left.seq)} if left else None,
    }
