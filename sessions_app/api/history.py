"""State at an event, the history of a key, two moments compared, and the keys that drifted."""

from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from ninja import Router
from ninja.params.functions import Query

from ..access.actor import Actor
from ..access.handles import shown_user
from ..domain.errors import Invalid
from ..domain.positions import number_of
from ..domain.session_ref import SessionRef, own_session
from ..domain.state import STORED, UNKNOWN, Change, Scope, State, full_key
from ..history import drift, key_history, moments
from ..history.key_history import PAGE, KeyWrite
from ..history.moments import Moment
from ..reads import views
from ..reads.deltas import Writer
from ..reads.users import meant
from . import schemas
from .authorize import actor_of, ref_of, source_of
from .bodies import answer, change_of, text_of
from .edits import APP
from .events import EVENTS
from .sessions import SESSION, USER

router = Router()

EVENT: Final = EVENTS + "/{plain:event_id}"
MOST: Final = 500  # writes of a page
LONGEST: Final = 4_000_000  # characters after which a page ends
_STEP: Final = 25  # writes that are read at once
NOW: Final = "now"
_LIMIT: Final = Query(PAGE, ge=1, le=MOST)
_KEY: Final = Query(..., description="with its prefix")


@router.get(EVENT + "/state", response=schemas.Moment, summary="State at an event, by scope")
def state_at(
    request: HttpRequest,
    app_name: str,
    user_id: str,
    session_id: str,
    event_id: str,
    before: bool = Query(False, description="state just before the event, not just after it"),
    source: str | None = None,
) -> HttpResponse:
    """Returns the state at an event: that of the session, its user and its app, including what other sessions had
    written by then.

    Keys whose value cannot be known are named, and never guessed. Answers 503 with `Retry-After` while the source is
    read for the first time."""
    ref = ref_of(request, app_name, user_id, session_id, source)
    return answer(_moment(moments.state_at(ref, event_id, before=before, actor=actor_of(request)), actor_of(request)))


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
    """Returns the writes of a key of any scope, the newest first. For `user:` and `app:` keys, these are the writes of
    every session."""
    of = ref_of(request, app_name, user_id, session_id, source)
    views.session(of, partly=True, actor=actor_of(request))
    return _history(request, of, key, before, limit)


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
    """Returns the writes of a key that starts with `user:`, the newest first."""
    alias = source_of(request, app_name, source)
    user = meant(alias, app_name, user_id, actor=actor_of(request))
    views.user_state(alias, app_name, user, partly=True, actor=actor_of(request))
    return _history(request, own_session(alias, app_name, user), key, before, limit, "user")


@router.get(APP + "/state/history", response=schemas.History, summary="Every value that a key of an app had")
def history_of_app(
    request: HttpRequest,
    app_name: str,
    key: str = _KEY,
    before: str | None = None,
    limit: int = _LIMIT,
    source: str | None = None,
) -> HttpResponse:
    """Returns the writes of a key that starts with `app:`, the newest first."""
    alias = source_of(request, app_name, source)
    views.app(alias, app_name, partly=True, actor=actor_of(request))
    return _history(request, own_session(alias, app_name), key, before, limit, "app")


@router.get(SESSION + "/compare", response=schemas.Comparison, summary="Differences between two moments")
def compare(
    request: HttpRequest,
    app_name: str,
    user_id: str,
    session_id: str,
    a: str = Query(..., description="an event's id, or `now`"),
    b: str = Query(NOW, description="an event's id, or `now`"),
    b_user: str | None = Query(None, description="the user of the session for `b`; by default, the same user"),
    b_session: str | None = Query(None, description="the session for `b`; by default, the same session"),
    source: str | None = None,
) -> HttpResponse:
    """Returns the keys of all three scopes that differ between two moments: `old` is the value at `a`, `new` the value
    at `b`."""
    ref = ref_of(request, app_name, user_id, session_id, source)
    user = ref.user_id if b_user is None else meant(ref.source, app_name, b_user, actor=actor_of(request))
    other = ref._replace(user_id=user, session_id=session_id if b_session is None else b_session)
    changes = moments.compare(moment_of(request, ref, a), moment_of(request, other, b))
    return answer({"items": [_change(change) for change in changes]})


@router.get(SESSION + "/drift", response=schemas.Drift, summary="Drifted keys")
def drifted(
    request: HttpRequest, app_name: str, user_id: str, session_id: str, source: str | None = None
) -> HttpResponse:
    """Returns the keys whose stored value differs from what the session's events say. `user:` and `app:` keys are
    compared with what any session wrote last, as far as that is known."""
    ref = ref_of(request, app_name, user_id, session_id, source)
    own = drift.own(ref, actor=actor_of(request))
    shared = drift.Report() if own.untold else drift.shared(ref, actor=actor_of(request))
    return answer(
        {
            "events": own.events,
            "items": [_drifted(each, actor_of(request)) for each in (*own.drifted, *shared.drifted)],
            "unknown": [*own.unknown, *shared.unknown, *own.either, *shared.either],
            "untold": own.untold,
        }
    )


# --- As JSON ----------------------------------------------------------------------------------------------------------


def moment_of(request: HttpRequest, ref: SessionRef, at: str) -> Moment:
    """Returns the state of a session now, or at the event with this id. Raises NotFound."""
    return (
        moments.state_now(ref, actor=actor_of(request))
        if at == NOW
        else moments.state_at(ref, at, actor=actor_of(request))
    )


def _moment(moment: Moment, actor: Actor) -> dict[str, Any]:
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
        "writers": {name: writer_of(writer, actor) for name, writer in moment.writers.items()},
        "unrecorded": moment.unrecorded,
    }


def _known(state: State) -> State:
    return {name: value for name, value in state.items() if value is not UNKNOWN}


def writer_of(writer: Writer, actor: Actor) -> dict[str, Any]:
    """Returns the event that wrote a key, as JSON."""
    return {
        "user_id": shown_user(*writer.ref[:3], actor),
        "session_id": writer.ref.session_id,
        "event_id": writer.event_id,
        "seq": number_of(writer.seq),
        "author": writer.author,
        "actor": writer.actor,
        "timestamp": writer.timestamp,
    }


def _history(
    request: HttpRequest, of: SessionRef, key: str, before: str | None, limit: int, only: Scope | None = None
) -> HttpResponse:
    if only and Change(key, None, None).scope != only:
        raise Invalid(_("%(key)s: keys here must start with %(scope)s:") % {"key": key, "scope": only})
    items: list[dict[str, Any]] = []
    length, wanted = 0, 1
    while True:  # a few more each time, as no one knows how large the next values are
        page = key_history.history(of, key, before, wanted, actor=actor_of(request))
        more = [_write(write, actor_of(request)) for write in page.rows]
        items += more
        length += len(text_of(more))
        before, wanted = page.next, min(limit - len(items), len(items), _STEP)
        if before is None or wanted < 1 or length > LONGEST:
            return answer({"items": items, "next": before})


def _write(write: KeyWrite, actor: Actor) -> dict[str, Any]:
    return {
        "user_id": shown_user(*write.ref[:3], actor),
        "session_id": write.ref.session_id,
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


def _drifted(drifted: drift.Drift, actor: Actor) -> dict[str, Any]:
    last = drifted.last
    return _change(drifted.change) | {
        "user_id": shown_user(*last.ref[:3], actor) if last else None,
        "session_id": last.ref.session_id if last else None,
        "event_id": last.event_id or None if last else None,
        "seq": number_of(last.seq) if last and last.event_id else None,
        "lost": drifted.lost,
        "stray": drifted.stray,
    }
