"""The past: state at an event, histories, comparing, drift, what an agent sees; and taking back, as events."""

from typing import Any, Final, cast
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from ninja import Router
from ninja.params.functions import Query

from ..agent_view import conversation as agent_view_conversation
from ..agent_view import instructions
from ..agent_view.preview import Shown, preview
from ..domain.session_ref import SessionKey, own_session
from ..domain.state import STORED, UNKNOWN, Change, Scope, State, full_key
from ..domain.units import number_of
from ..edits import edit
from ..edits import fork as forks
from ..edits import repair as edits_repair
from ..edits import rewind as rewinds
from ..edits import undo as taking_back
from ..edits.repair import choose
from ..errors import Conflict, Invalid, StaleSession
from ..history import drift, key_history, moments
from ..history.key_history import KeyWrite
from ..history.moments import Moment
from ..http.names import Name
from ..reads import timeline, views
from ..reads.deltas import Writer
from . import schemas
from .authorize import actor_of, source_of
from .bodies import IF_MATCH, Precondition, answer, body_of, body_schema, change_of, expected_revision, text_of
from .events import EVENTS, told
from .openapi import needs, tagged
from .sessions import SESSION, USER
from .state import APP

router = Router()

EVENT: Final = EVENTS + "/{plain:event_id}"
MOST: Final = 500  # writes of a page
LONGEST: Final = 4_000_000  # characters of a page, after which it ends
_STEP: Final = 25  # writes read at once
NOW: Final = "now"
_LIMIT: Final = Query(moments.PAGE, ge=1, le=MOST)
_KEY: Final = Query(..., description="with its prefix")
_APPENDED: Final = {201: schemas.Appended, 200: schemas.Appended}
_WRITES: Final = needs("append") | tagged(200, 201, required=False)


# --- State, histories, comparing --------------------------------------------------------------------------------------


@router.get(EVENT + "/state", response=schemas.Moment, summary="State at an event, by scope")
def state_at(
    request: HttpRequest,
    app_name: str,
    user_id: str,
    session_id: str,
    event_id: str,
    before: bool = Query(False, description="just before the event; else just after it"),
    source: str | None = None,
) -> HttpResponse:
    """Its own, its user's and its app's, the latter two with what other sessions had written by then. What cannot be known
    is named, and never guessed. 503 with `Retry-After` while the source is read for the first time.
    """
    key = SessionKey(source_of(request, app_name, source), app_name, user_id, session_id)
    return answer(_moment(moments.state_at(key, event_id, before=before)))


@router.get(SESSION + "/state/history", response=schemas.History, summary="Every value that a key had")
def history_of_session(
    request: HttpRequest,
    app_name: str,
    user_id: str,
    session_id: str,
    key: str = _KEY,
    before: str | None = None,
    limit: int = _LIMIT,
    source: str | None = None,
) -> HttpResponse:
    """A key of any scope; of `user:` and `app:` keys the writes of every session."""
    of = SessionKey(source_of(request, app_name, source), app_name, user_id, session_id)
    views.session(of, partly=True)
    return _history(of, key, before, limit)


@router.get(USER + "/state/history", response=schemas.History, summary="Every value that a key of a user had")
def history_of_user(
    request: HttpRequest,
    app_name: str,
    user_id: str,
    key: str = _KEY,
    before: str | None = None,
    limit: int = _LIMIT,
    source: str | None = None,
) -> HttpResponse:
    """A key that begins with `user:`."""
    alias = source_of(request, app_name, source)
    views.user_state(alias, app_name, user_id, partly=True)
    return _history(own_session(alias, app_name, user_id), key, before, limit, "user")


@router.get(APP + "/state/history", response=schemas.History, summary="Every value that a key of an app had")
def history_of_app(
    request: HttpRequest,
    app_name: str,
    key: str = _KEY,
    before: str | None = None,
    limit: int = _LIMIT,
    source: str | None = None,
) -> HttpResponse:
    """A key that begins with `app:`."""
    alias = source_of(request, app_name, source)
    views.app(alias, app_name, partly=True)
    return _history(own_session(alias, app_name), key, before, limit, "app")


@router.get(SESSION + "/compare", response=schemas.Comparison, summary="What differs between two moments")
def compare(
    request: HttpRequest,
    app_name: str,
    user_id: str,
    session_id: str,
    a: str = Query(..., description="an event's id, or `now`"),
    b: str = Query(NOW, description="an event's id, or `now`"),
    b_user: str | None = Query(None, description="whose session `b` is of; without it, the same user's"),
    b_session: str | None = Query(None, description="which session `b` is of; without it, the same"),
    source: str | None = None,
) -> HttpResponse:
    """By key, of all three scopes; `old` is at `a`, `new` at `b`."""
    key = SessionKey(source_of(request, app_name, source), app_name, user_id, session_id)
    other = key._replace(
        user_id=user_id if b_user is None else b_user, session_id=session_id if b_session is None else b_session
    )
    changes = moments.compare(_moment_of(key, a), _moment_of(other, b))
    return answer({"items": [_change(change) for change in changes]})


# --- Taking back ------------------------------------------------------------------------------------------------------


@router.post(
    EVENT + "/undo",
    response=_APPENDED,
    summary="Undo an event's state delta",
    openapi_extra={**body_schema(schemas.Undo), **_WRITES, **IF_MATCH},
)
def undo(
    request: HttpRequest, app_name: str, user_id: str, session_id: str, event_id: str, source: str | None = None
) -> HttpResponse:
    """Each key as it was just before, in one event. 409 where somebody wrote a key since, with `current`; 400 where there
    is nothing to undo, as after an undo.
    """
    key = SessionKey(source_of(request, app_name, source, "append"), app_name, user_id, session_id)
    body = body_of(request, schemas.Undo)
    plan = taking_back.undo(key, event_id)
    if before := plan.event.description.actions.get("rewind_before_invocation_id"):
        raise Invalid(_("This event rewinds to before %(id)s: rewind to before its own invocation.") % {"id": before})
    if not body.overwrite and (contested := {step.key: step.now for step in plan.steps if step.contested}):
        raise Conflict(_("Somebody wrote these keys since; nothing was written."), current=contested)
    return _take_back(request, plan, body.reason, {"undoes": event_id})


@router.post(
    SESSION + "/restore",
    response=_APPENDED,
    summary="Restore the state of a moment",
    openapi_extra={**body_schema(schemas.Restore, required=True), **_WRITES, **IF_MATCH},
)
def restore(
    request: HttpRequest, app_name: str, user_id: str, session_id: str, source: str | None = None
) -> HttpResponse:
    """Some keys, or whole scopes, as they were just after an event, in one event; what cannot be known stays."""
    key = SessionKey(source_of(request, app_name, source, "append"), app_name, user_id, session_id)
    body = body_of(request, schemas.Restore)
    if strange := set(body.scopes) - {*STORED}:
        raise Invalid(_("There is no scope “%(name)s”.") % {"name": min(strange)})
    plan = taking_back.restore(key, body.to, keys=body.keys, scopes=cast(list[Scope], body.scopes))
    return _take_back(request, plan, body.reason, {"restores": body.to})


@router.post(
    SESSION + "/rewind",
    response=_APPENDED,
    summary="Rewind to before an invocation",
    openapi_extra={**body_schema(schemas.Rewind, required=True), **_WRITES, **IF_MATCH},
)
def rewind(
    request: HttpRequest, app_name: str, user_id: str, session_id: str, source: str | None = None
) -> HttpResponse:
    """As ADK means it: the agent sees the conversation as it was, and its own keys are as they were, initial state kept."""
    key = SessionKey(source_of(request, app_name, source, "append"), app_name, user_id, session_id)
    body, who, revision = body_of(request, schemas.Rewind), actor_of(request), expected_revision(request)
    once = f"{who.name}\n{body.once}" if body.once else ""
    try:
        done = rewinds.rewind(key, body.before, actor=who, reason=body.reason, revision=revision, once=once)
    except StaleSession as error:
        raise error if revision is None else Precondition() from error
    return told(done, key)


@router.post(
    EVENT + "/fork",
    response={201: schemas.Created},
    summary="Fork a session at an event",
    openapi_extra={
        **body_schema(schemas.Fork),
        **needs("admin"),
        "responses": {201: {"headers": {"Location": {"schema": {"type": "string"}, "required": True}}}},
    },
)
def fork(
    request: HttpRequest, app_name: str, user_id: str, session_id: str, event_id: str, source: str | None = None
) -> HttpResponse:
    """A new session with the events up to this one and the state of that moment; a long one takes seconds. One that was
    interrupted goes on under the same id.
    """
    key = SessionKey(source_of(request, app_name, source, "admin"), app_name, user_id, session_id)
    body = body_of(request, schemas.Fork)
    into = forks.name(key, user_id if body.user_id is None else body.user_id, body.session_id, "")
    made = forks.fork(
        key, event_id, user_id=into.user_id, session_id=into.session_id, actor=actor_of(request), reason=body.reason
    )
    names = {"source": made.source, "app_name": app_name, "user_id": made.user_id, "id": made.session_id}
    response = answer(names, 201)
    app, user, session = (quote(Name().to_url(name)) for name in made[1:])
    response["Location"] = f"/api/apps/{app}/users/{user}/sessions/{session}"
    return response


def _take_back(request: HttpRequest, plan: taking_back.Plan, reason: str, of: dict[str, str]) -> HttpResponse:
    who, revision = actor_of(request), expected_revision(request)
    try:
        done = edit.edit_state(plan.event.key, plan.entries, actor=who, reason=reason, revision=revision, of=of)
    except StaleSession as error:
        raise Precondition from error
    return told(done, plan.event.key)


# --- Drift ------------------------------------------------------------------------------------------------------------


@router.get(SESSION + "/drift", response=schemas.Drift, summary="Keys that are not what the events make of them")
def drifted(
    request: HttpRequest, app_name: str, user_id: str, session_id: str, source: str | None = None
) -> HttpResponse:
    """By replaying the session's events; of `user:` and `app:` keys beside what was last written, as far as is known."""
    key = SessionKey(source_of(request, app_name, source), app_name, user_id, session_id)
    own = drift.own(key)
    shared = drift.Report() if own.untold else drift.shared(key)
    return answer(
        {
            "events": own.events,
            "items": [_drifted(each) for each in (*own.drifted, *shared.drifted)],
            "unknown": [*own.unknown, *shared.unknown, *own.either, *shared.either],
            "untold": own.untold,
        }
    )


@router.post(
    SESSION + "/drift",
    response=_APPENDED,
    summary="Repair keys that drifted",
    openapi_extra={**body_schema(schemas.Repair, required=True), **_WRITES},
)
def repair(
    request: HttpRequest, app_name: str, user_id: str, session_id: str, source: str | None = None
) -> HttpResponse:
    """By one event, after which stored state and events agree in these keys. 400 for a key that did not drift; 409 where
    one is written meanwhile.
    """
    key = SessionKey(source_of(request, app_name, source, "append"), app_name, user_id, session_id)
    body, who = body_of(request, schemas.Repair), actor_of(request)
    choices = choose(key, body.keep, body.put_back)
    return told(edits_repair.repair(key, choices, actor=who, reason=body.reason), key)


# --- What an agent sees -----------------------------------------------------------------------------------------------


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
    """With the state now, or at an event; each placeholder with who wrote its value last, and what is missing."""
    key = SessionKey(source_of(request, app_name, source), app_name, user_id, session_id)
    body = body_of(request, schemas.Template)
    found = preview(_moment_of(key, at), body.template)
    text = instructions.rendered([each.piece for each in found])
    return answer({"text": text, "pieces": [_piece(each) for each in found]})


@router.get(SESSION + "/context", response=schemas.Conversation, summary="What an agent's model is given")
def conversation(
    request: HttpRequest,
    app_name: str,
    user_id: str,
    session_id: str,
    at: str = Query(NOW, description="an event's id, or `now`"),
    agent: str = Query("", description="without one, that which spoke last"),
    branch: str | None = None,
    before: str | None = None,
    source: str | None = None,
) -> HttpResponse:
    """The contents of its request, the newest, or those before; and between them the events that ADK leaves out, and why."""
    key = SessionKey(source_of(request, app_name, source), app_name, user_id, session_id)
    views.session(key)
    found = agent_view_conversation.conversation(
        key, None if at == NOW else timeline.event(key, at), agent, branch, before
    )
    return answer(
        {
            "agent": found.reader.agent,
            "branch": found.reader.branch,
            "task": found.task,
            "items": [_line(line) for line in found.lines],
            "next": found.earlier,
        }
    )


# --- As JSON ----------------------------------------------------------------------------------------------------------


def _moment_of(key: SessionKey, at: str) -> Moment:
    return moments.state_now(key) if at == NOW else moments.state_at(key, at)


def _moment(moment: Moment) -> dict[str, Any]:
    unknown = [
        full_key(scope, bare)
        for scope in STORED
        for bare, value in moment.state.scope(scope).items()
        if value is UNKNOWN
    ]
    return {
        "event_id": moment.event.id if moment.event else None,
        "seq": number_of(moment.seq),
        "state": {scope: _known(moment.state.scope(scope)) for scope in STORED},
        "unknown": unknown,
        "initial": sorted(moment.initial),
        "writers": {name: _writer(writer) for name, writer in moment.writers.items()},
        "unrecorded": moment.unrecorded,
    }


def _known(state: State) -> State:
    return {name: value for name, value in state.items() if value is not UNKNOWN}


def _writer(writer: Writer) -> dict[str, Any]:
    return {
        "user_id": writer.key.user_id,
        "session_id": writer.key.session_id,
        "event_id": writer.event_id,
        "seq": number_of(writer.seq),
        "author": writer.author,
        "actor": writer.actor,
        "timestamp": writer.timestamp,
    }


def _history(of: SessionKey, key: str, before: str | None, limit: int, only: Scope | None = None) -> HttpResponse:
    if only and Change(key, None, None).scope != only:
        raise Invalid(_("%(key)s: here, a key begins with %(scope)s:") % {"key": key, "scope": only})
    items: list[dict[str, Any]] = []
    length, wanted = 0, 1
    while True:  # a few more at a time, as nobody knows how large the values are that come
        found = key_history.history(of, key, before, wanted)
        more = [_write(write) for write in found.rows]
        items += more
        length += len(text_of(more))
        before, wanted = found.next, min(limit - len(items), len(items), _STEP)
        if before is None or wanted < 1 or length > LONGEST:
            return answer({"items": items, "next": before})


def _write(write: KeyWrite) -> dict[str, Any]:
    return {
        "user_id": write.key.user_id,
        "session_id": write.key.session_id,
        "event_id": write.event_id or None,
        "seq": number_of(write.seq) if write.event_id else None,
        "timestamp": write.timestamp,
        "author": write.author,
        "actor": write.actor,
        "reason": write.reason,
    } | _change(write.change)


def _change(change: Change) -> dict[str, Any]:
    sides = {"old": change.old, "new": change.new}
    return change_of(change) | {"unknown": [name for name, value in sides.items() if value is UNKNOWN]}


def _drifted(found: drift.Drift) -> dict[str, Any]:
    last = found.last
    return _change(found.change) | {
        "user_id": last.key.user_id if last else None,
        "session_id": last.key.session_id if last else None,
        "event_id": last.event_id or None if last else None,
        "seq": number_of(last.seq) if last and last.event_id else None,
        "lost": found.lost,
        "stray": found.stray,
    }


def _piece(shown: Shown) -> dict[str, Any]:
    piece = shown.piece
    return {
        "kind": piece.kind,
        "written": piece.written,
        "shown": piece.shown,
        "name": piece.name,
        "optional": piece.optional,
        "fault": shown.fault,
        "writer": _writer(shown.writer) if shown.writer else None,
    }


def _line(line: agent_view_conversation.Line) -> dict[str, Any]:
    left = line.left_out
    return {
        "event_id": line.event.id,
        "seq": number_of(line.event.seq),
        "role": line.turn.role if line.turn else None,
        "parts": list(line.turn.parts) if line.turn else [],
        "quoted": line.turn is not None and line.turn.quoted,
        "summary": line.turn is not None and line.turn.summary,
        "events": [event.id for event in line.events],
        "left_out": {"kind": left.kind, "by": left.by, "seq": number_of(left.seq)} if left else None,
    }
