"""Sessions: lists of them, one with all its events, creating and deleting one."""

from collections.abc import Iterator
from itertools import chain
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _
from ninja import Router
from ninja.params.functions import Query

from ..access.actor import Actor
from ..access.handles import shown_user
from ..domain.errors import NotFound, StaleSession
from ..domain.json_values import damage_of
from ..domain.positions import Seq
from ..http.names import Name
from ..http.streaming import encoded, streamed
from ..reads import lists, stored_sessions, whole_session
from ..reads.users import meant
from ..search import labels
from ..writes.sessions import create_session, delete_session
from . import schemas
from .authorize import actor_of, check_order, names_of, ref_of, source_of
from .bodies import (
    IF_MATCH,
    Precondition,
    answer,
    body_of,
    body_schema,
    checked,
    expected_revision,
    headers_of,
    text_of,
)
from .openapi import LOCATION, needs, tagged

router = Router()

USER = "/apps/{plain:app_name}/users/{plain:user_id}"
SESSION = USER + "/sessions/{plain:session_id}"
MOST: int = 500  # rows of a page
HIDDEN = Query(False, description="also the sessions named `adkweb` that hold the edits of `user:` and `app:` state")


@router.get("/apps/{plain:app_name}/sessions", response=schemas.Sessions, summary="Sessions of an app")
def of_app(
    request: HttpRequest,
    app_name: str,
    before: str | None = None,
    limit: int = Query(lists.PAGE, ge=1, le=MOST),
    hidden: bool = HIDDEN,
    source: str | None = None,
) -> HttpResponse:
    """Returns a page of the sessions of an app, the last active first."""
    return _listed(request, source_of(request, app_name, source), app_name, None, before, limit, hidden)


@router.get(
    "/apps/{plain:app_name}/sessions/states", response=schemas.States, summary="Sessions of an app with their state"
)
def states(
    request: HttpRequest,
    app_name: str,
    user: str | None = Query(None, description="only sessions of this user"),
    after: str | None = None,
    limit: int = Query(MOST, ge=1, le=MOST),
    hidden: bool = HIDDEN,
    source: str | None = None,
) -> HttpResponse:
    """Returns a page of the sessions of an app with their state, the one updated longest ago first.

    A session that is updated between two pages comes again at the end, so that none is left out. State that sessions
    share is sent once."""
    alias, who = source_of(request, app_name, source), actor_of(request)
    named = None if user is None else meant(alias, app_name, user, actor=who)
    selection = stored_sessions.Selection(alias, app_name, named, hidden)
    page = stored_sessions.load_page(selection, after, limit, actor=who, most=whole_session.STATE)
    users = {stored.ref.user_id: shown_user(*stored.ref[:3], who) for stored in page.rows}
    items = [
        {
            "user_id": users[stored.ref.user_id],
            "id": stored.ref.session_id,
            "created": stored.created,
            "revision": stored.revision,
            "state": stored.state.session,
        }
        for stored in page.rows
    ]
    shared = {users[stored.ref.user_id]: stored.state.user for stored in page.rows if stored.state.user}
    app = page.rows[0].state.app if page.rows else {}
    return answer({"items": items, "app": app, "users": shared, "next": page.next})


@router.get(USER + "/sessions", response=schemas.Sessions, summary="Sessions of a user")
def of_user(
    request: HttpRequest,
    app_name: str,
    user_id: str,
    before: str | None = None,
    limit: int = Query(lists.PAGE, ge=1, le=MOST),
    hidden: bool = HIDDEN,
    source: str | None = None,
) -> HttpResponse:
    """Returns a page of the sessions of a user, the last active first."""
    alias = source_of(request, app_name, source)
    return _listed(
        request, alias, app_name, meant(alias, app_name, user_id, actor=actor_of(request)), before, limit, hidden
    )


@router.post(
    USER + "/sessions",
    response={201: schemas.Created},
    summary="Create a session",
    openapi_extra=body_schema(schemas.NewSession) | needs("append") | LOCATION,
)
def create(request: HttpRequest, app_name: str, user_id: str, source: str | None = None) -> HttpResponse:
    """Creates a session. Its initial state is split by scope. Answers 409 if the id is taken."""
    alias = source_of(request, app_name, source, "append", new=True)
    body = body_of(request, schemas.NewSession)
    ref = create_session(
        alias,
        app_name,
        meant(alias, app_name, user_id, actor=actor_of(request)),
        actor=actor_of(request),
        state=body.state,
        session_id=body.session_id,
        origin="person",
    )
    response = answer(names_of(ref, actor_of(request), "id"), 201)
    response["Location"] = f"{quote(request.path)}/{quote(Name().to_url(ref.session_id))}"
    return response


@router.get(SESSION, response=schemas.Session, summary="A session with its events", openapi_extra=tagged(200))
def get(
    request: HttpRequest,
    app_name: str,
    user_id: str,
    session_id: str,
    newest: int | None = Query(None, ge=0, le=2**31, description="only this many of the newest events"),
    after: int | None = Query(None, ge=0, lt=2**63, description="only events after this seq"),
    since: float | None = Query(None, ge=0, lt=2**32, description="only events from this time on"),
    source: str | None = None,
) -> HttpResponseBase:
    """Returns a session with its state by scope and its events as they are stored, all as of one moment. The answer is
    streamed."""
    ref = ref_of(request, app_name, user_id, session_id, source)
    if after is not None:
        check_order(ref.source)
    opened = whole_session.stream(
        ref, newest=newest, since=since, after=None if after is None else Seq(after), actor=actor_of(request)
    )
    if opened is None:
        raise NotFound(_("There's no session “%(id)s”.") % {"id": session_id})
    session, pages = opened
    return streamed(_session(session, pages, actor_of(request)), "application/json", headers_of(session.revision))


@router.get(SESSION + "/standing", response=schemas.Standing, summary="Status of a session", openapi_extra=tagged(200))
def standing(
    request: HttpRequest, app_name: str, user_id: str, session_id: str, event: str = "", source: str | None = None
) -> HttpResponse:
    """Returns the revision of a session, the id of its newest event, and the seq of the requested event."""
    ref = ref_of(request, app_name, user_id, session_id, source)
    head = whole_session.read_head(ref, event, actor=actor_of(request))
    if head is None:
        raise NotFound(_("There's no session “%(id)s”.") % {"id": session_id})
    told = {"created": head.created, "revision": head.revision, "newest": head.newest, "seq": head.seq}
    return answer(told, revision=head.revision)


@router.patch(
    SESSION,
    response=schemas.Labels,
    summary="Rename or tag a session",
    openapi_extra=body_schema(schemas.NewLabels) | needs("append"),
)
def label(
    request: HttpRequest, app_name: str, user_id: str, session_id: str, source: str | None = None
) -> HttpResponse:
    """Gives a session a title and tags, which are adkweb's own data. No agent sees them. Returns both as they are
    now."""
    ref = ref_of(request, app_name, user_id, session_id, source, "append")
    body = body_of(request, schemas.NewLabels)
    given = labels.change(ref, title=body.title, tags=body.tags, actor=actor_of(request))
    return answer({"title": given.title, "tags": given.tags})


@router.delete(SESSION, response={204: None}, summary="Delete a session", openapi_extra={**IF_MATCH, **needs("admin")})
def delete(
    request: HttpRequest, app_name: str, user_id: str, session_id: str, source: str | None = None
) -> HttpResponse:
    """Deletes a session with its events. The state of its user and app stays. With `If-Match: "<revision>"`, it is
    deleted only if no one has written since, else 412."""
    ref = ref_of(request, app_name, user_id, session_id, source, "admin")
    try:
        delete_session(ref, actor=actor_of(request), revision=expected_revision(request))
    except StaleSession as error:
        raise Precondition from error
    return HttpResponse(status=204)


def _listed(
    request: HttpRequest, source: str, app_name: str, user_id: str | None, before: str | None, limit: int, hidden: bool
) -> HttpResponse:
    page = lists.sessions(source, app_name, user_id, before, limit, hidden=hidden, actor=actor_of(request))
    items = [
        {
            **names_of(row.ref, actor_of(request), "id"),
            "title": row.title,
            "created": row.create_time,
            "revision": row.update_time,
            "events": row.events,
            "errors": row.errors,
        }
        for row in page.rows
    ]
    return answer({"items": items, "next": page.next})


def _session(
    session: whole_session.StoredSession, pages: Iterator[list[whole_session.StoredEvent]], actor: Actor
) -> Iterator[bytes]:
    """Yields a session as JSON, with its events as they are stored."""
    state = session.state
    head = {
        **names_of(session.ref, actor, "id"),
        "created": session.created,
        "revision": session.revision,
        "seq": session.seq,
        "state": {"app": state.app, "user": state.user, "session": state.session},
    }
    yield f'{text_of(head)[:-1]},"events":['.encode("utf-8", "replace")
    comma = ""
    for event in chain.from_iterable(pages):
        beside = {
            "seq": event.seq,
            "id": event.id,
            "invocation_id": event.invocation_id,
            "timestamp": event.timestamp,
        }
        damage = damage_of(event.text)
        if damage:  # what can't be read would make the whole answer invalid JSON
            beside |= {"damage": damage}
        yield f'{comma}{text_of(beside)[:-1]},"event":'.encode("utf-8", "replace")
        yield from encoded("{}" if damage else checked(event.text))
        yield b"}"
        comma = ","
    yield b"]}"
