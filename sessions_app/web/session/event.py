"""The page of an event, its data and its outcome, the form that adds one, and whole values of state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import quote

from django.contrib import messages
from django.forms import HiddenInput
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET, require_http_methods

from ...access.actor import Actor
from ...agent_view import agent_files
from ...artifacts import downloads
from ...domain.clock import Took
from ...domain.content import is_answer
from ...domain.description import Part
from ...domain.errors import Behind, Invalid, NotFound
from ...domain.event import new_id
from ...domain.json_values import beginning, dumps, loads
from ...domain.model_calls import is_exception
from ...domain.positions import Seq
from ...domain.session_ref import SessionRef
from ...domain.state import STORED, UNKNOWN, Change, Scope
from ...edits import edit, proposals, queue
from ...history import moments
from ...history.index.written import Written
from ...history.key_history import next_writes
from ...http.streaming import streamed
from ...reads import event_views, timeline, views
from ...reads import views as reads_views
from ...reads.event_views import EventView, timed
from ...running import breakpoints, runs
from ...search import outline, sharing
from ...search.sharing import Readers
from ...sources import database
from ...writes.append import Appended
from ..forms import Form, Reason, Text, act
from ..html.markdown import Texts
from ..html.render import data, page
from ..html.state_panel import Target, of_app, of_session, of_user
from ..request import actor, check_may
from .updates import number_in

RAW_LIMIT: Final = 100_000  # characters of raw JSON on the page
PARTS: Final = 200  # parts, and also changes, on the page
TEMPLATE: Final = {"author": "user", "content": {"role": "user", "parts": [{"text": ""}]}}


@require_GET
def event(request: HttpRequest, event_id: str, **names: str) -> HttpResponse:
    """Shows an event with its parts, its neighbours and its paired calls."""
    view = timeline.event(SessionRef(**names), event_id, actor=actor(request))
    begins = {name: max(0, number_in(request.GET.get(name) or "0")) for name in ("parts", "changes")}
    context = about(view, actor(request), **begins, raw_texts=request.GET.get("text") == "raw")
    pane = bool(request.htmx)  # type: ignore[attr-defined]
    return page(request, "session/event/event.html", {"ref": view.ref, "pane": pane, **context})


@require_GET
def raw(request: HttpRequest, event_id: str, **names: str) -> HttpResponseBase:
    """Downloads the event as JSON. If it is too large to be parsed, sends it as it is stored."""
    ref = SessionRef(**names)
    view = timeline.event(ref, event_id, actor=actor(request))
    if not view.size:
        headers = {"Cache-Control": "private, no-cache", **downloads.as_download("event.json")}
        content = dumps(view.data, indent=2).encode("utf-8", "replace")
        return HttpResponse(content, "application/json", headers=headers)
    pieces = (piece.encode("utf-8", "replace") for piece in event_views.event_text(ref, event_id, actor=actor(request)))
    return streamed(pieces, "application/json", downloads.as_download("event.json"))


@require_GET
def media(request: HttpRequest, event_id: str, number: int, **names: str) -> HttpResponseBase:
    """Returns a piece of inline data: shown if it is an image without scripts, downloaded otherwise."""
    view = timeline.event(SessionRef(**names), event_id, actor=actor(request))
    return downloads.send(view, number, actor=actor(request))


@require_http_methods(["GET", "POST"])
def add(request: HttpRequest, **names: str) -> HttpResponse:
    """Appends an event that a person typed."""
    ref = SessionRef(**names)
    who = actor(request)
    check_may(request, "append", ref)
    text = TEMPLATE
    if request.method == "GET" and "proposal" in request.GET:
        text = proposals.draft_of(request.GET["proposal"], actor=who)
    form = EventForm.of(request, initial={"once": new_id(), "event": dumps(text, indent=2)})
    appended, status = act(form, lambda given: _add(ref, **given, who=who))
    if appended:
        messages.success(request, _("The event was added."))
        return redirect(reverse("session", kwargs=names) + f"#event-{quote(appended.event['id'])}")
    view = reads_views.session(ref, partly=True, actor=who)
    context = {"ref": ref, "view": view, "held": queue.held(ref, actor=who)}
    return page(request, "session/event/add.html", {**context, "form": form}, status)


class EventForm(Form):
    """An event as JSON, and why it is added."""

    once = Text(widget=HiddenInput)
    event = Text()
    reason = Reason(help_text=gettext_lazy("Saved with the event."))


def _add(ref: SessionRef, *, once: str, event: str, reason: str, who: Actor) -> Appended:
    given = _object(loads(event))
    return edit.add_event(ref, {"id": edit.id_of(once, given), **given}, actor=who, reason=reason)


def about(view: EventView, who: Actor, parts: int = 0, changes: int = 0, *, raw_texts: bool = False) -> dict[str, Any]:
    """Returns the context of an event's templates: its neighbours, PARTS of its parts and of its changes from the given
    index on, and its JSON, cut to RAW_LIMIT. With `raw_texts`, its texts are shown as they are.
    """
    earlier, later = timeline.around(view, actor=who)
    shown = view.description.parts[parts : parts + PARTS]
    timed([*reversed(earlier), view, *later])
    pairs = _pairs(view, shown, earlier, later)
    raw = "" if view.size else beginning(view.data, RAW_LIMIT)
    seqs = [each.seq for each in (view, *(half.event for half in pairs.values())) if each.seq is not None]
    known = outline.outline(view.ref, seqs, actor=who)
    return {
        "event": view,
        "is_answer": is_answer(view.data),
        "sent_by": runs.sender(view),
        "changed": breakpoints.changed(view.ref, [view], actor=who).get(view.id, ()),
        "ordered": database.has_order(view.ref.source),
        "parts": shown,
        "texts": Texts(raw=raw_texts),
        "parts_page": _Shown("parts", parts, len(view.description.parts)),
        "changes": _changes(view, view.changes[changes : changes + PARTS], who),
        "changes_page": _Shown("changes", changes, len(view.changes)),
        "previous": earlier[0] if earlier else None,
        "following": later[0] if later else None,
        "pairs": pairs,
        "numbers": known.numbers,
        "total": known.events,
        "raw": raw[:RAW_LIMIT],
        "raw_cut": len(raw) > RAW_LIMIT,
    }


@dataclass(frozen=True, slots=True)
class _Shown:
    """A page of an event's parts or changes."""

    name: str
    begin: int
    number: int

    @property
    def cut(self) -> bool:
        """Tells whether the event has more than this page shows."""
        return self.number > PARTS or self.begin > 0

    @property
    def first(self) -> int:
        """Returns the number of the first one on the page."""
        return min(self.begin + 1, self.number)

    @property
    def last(self) -> int:
        """Returns the number of the last one on the page."""
        return min(self.begin + PARTS, self.number)

    @property
    def before(self) -> int | None:
        """Returns the index at which the page before this one begins."""
        return max(0, self.begin - PARTS) if self.begin else None

    @property
    def after(self) -> int | None:
        """Returns the index at which the next page begins."""
        return self.last if self.last < self.number else None


def _changes(view: EventView, shown: list[Change], who: Actor) -> list[Change]:
    """Fills in the values from before the event that only the events of other sessions know."""

    def untold(change: Change) -> bool:
        return change.old is UNKNOWN and change.scope in STORED

    if view.seq is None or not any(map(untold, shown)):
        return shown
    try:
        before = moments.state_at(view.ref, view.id, before=True, actor=who).state
        made = moments.made(view, actor=who)
    except (Behind, Invalid, NotFound):
        return shown
    return [replace(each, old=before.get(each.key), new=made[each.key]) if untold(each) else each for each in shown]


@dataclass(frozen=True, slots=True)
class _Half:
    """The other half of a call or of a response: the event that has it, which is None for the exception of a tool,
    and how long the tool took."""

    event: EventView
    part: Part | None
    took: Took


def _pairs(view: EventView, shown: list[Part], earlier: list[EventView], later: list[EventView]) -> dict[str, _Half]:
    """Returns for each call or response, by id, the nearest event with its other half; for a call without one, the next
    event of its agent, if that is an exception."""
    answers, calls = _nearest(later, "response"), _nearest(earlier, "call")
    by_agent = (view.invocation_id, view.description.author)
    after = next((each for each in later if (each.invocation_id, each.description.author) == by_agent), None)
    exception = after if after and is_exception(after.description) else None
    halves: dict[str, _Half] = {}
    for part in shown:
        if part.kind == "response" and part.id in calls:
            event, call = calls[part.id]
            halves[part.id] = _Half(event, call, event.ended.until(view.ended))
        elif part.kind == "call" and part.id in answers:
            event, answer = answers[part.id]
            halves[part.id] = _Half(event, answer, view.ended.until(event.ended))
        elif part.kind == "call" and part.id and exception:
            halves[part.id] = _Half(exception, None, view.ended.until(exception.ended))
    return halves


def _nearest(views: list[EventView], kind: str) -> dict[str, tuple[EventView, Part]]:
    nearest: dict[str, tuple[EventView, Part]] = {}
    for view in views:
        for part in view.description.of(kind):
            nearest.setdefault(part.id, (view, part))
    nearest.pop("", None)
    return nearest


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Invalid(_("An event must be a JSON object."))
    return value


# --- The outcome of an edit: which turn loaded it, and when its keys were next given to a model or written ------------

MOST: Final = 12  # keys
_AGENTS: Final = 3  # whose instruction has a key


@dataclass(frozen=True, slots=True)
class KeyDelivery:
    """The way of one key: who `loaded` it, the first event of each agent whose instruction has it, and its next write."""

    change: Change
    loaded: Readers
    rendered: Sequence[EventView]
    written: Written | None


@require_GET
def delivery(request: HttpRequest, event_id: str, **names: str) -> HttpResponse:
    """Renders what became of an edit, as far as it is known by now."""
    who = actor(request)
    edit = timeline.event(SessionRef(**names), event_id, actor=who)
    changes = [change for change in edit.changes if change.scope in STORED]
    keys = [] if edit.seq is None else _keys(edit, edit.seq, changes[:MOST], who)
    seqs = [view.seq for each in keys for view in each.rendered if view.ref == edit.ref]
    context = {
        "event": edit,
        "keys": keys,
        "more": len(changes) - len(keys),
        "numbers": outline.numbers_of(edit.ref, seqs, actor=who),
    }
    return page(request, "session/event/_delivery.html", context)


def _keys(edit: EventView, seq: Seq, changes: Sequence[Change], who: Actor) -> list[KeyDelivery]:
    scopes = {change.scope for change in changes}
    loaded = {scope: sharing.readers(edit.ref, seq, edit.timestamp, scope, actor=who) for scope in sorted(scopes)}
    agents = agent_files.readers(edit.ref, actor=who)
    written = _written(edit.ref, [change.key for change in changes], seq, who)
    first: dict[tuple[Readers, str], EventView | None] = {}
    for scope in scopes:
        for agent in {name for each in changes if each.scope == scope for name in agents.get(each.key, [])[:_AGENTS]}:
            first[loaded[scope], agent] = _first_of(loaded[scope], agent, who)
    return [
        KeyDelivery(
            change,
            loaded[change.scope],
            [event for name in agents.get(change.key, [])[:_AGENTS] if (event := first[loaded[change.scope], name])],
            written.get(change.key),
        )
        for change in changes
    ]


def _first_of(loaded: Readers, agent: str, who: Actor) -> EventView | None:
    """Returns an agent's first event in the session that loaded an edit first, from that turn on."""
    if loaded.first is None:
        return None
    rows = timeline.events_after(loaded.first.ref, Seq(loaded.first.seq - 1), author=agent, limit=1, actor=who).rows
    return rows[0] if rows else None


def _written(ref: SessionRef, keys: Sequence[str], seq: Seq, who: Actor) -> Mapping[str, Written]:
    try:
        return next_writes(ref, keys, seq, actor=who)
    except Behind:  # the history is still being read; who opens the event again is told
        return {}


# --- Whole values of state: one as JSON text, or a scope as a file ----------------------------------------------------


@require_GET
def session(request: HttpRequest, **names: str) -> HttpResponseBase:
    """Returns a value that a session sees, or downloads a whole scope with ?scope=."""
    if "scope" in request.GET:
        return _stored(request, SessionRef(**names))
    return _value(request, of_session(views.session(SessionRef(**names), actor=actor(request))))


@require_GET
def app(request: HttpRequest, source: str, app_name: str) -> HttpResponseBase:
    """Returns a value of `app:` state, or downloads all of it with ?scope=."""
    if "scope" in request.GET:
        return _stored(request, SessionRef(source, app_name, "", ""), "app")
    return _value(request, of_app(source, app_name, actor(request)))


@require_GET
def user(request: HttpRequest, source: str, app_name: str, user_id: str) -> HttpResponseBase:
    """Returns a value of `user:` state, or downloads all of it with ?scope=."""
    if "scope" in request.GET:
        return _stored(request, SessionRef(source, app_name, user_id, ""), "user")
    return _value(request, of_user(source, app_name, user_id, actor(request)))


def _stored(request: HttpRequest, ref: SessionRef, only: Scope | None = None) -> HttpResponseBase:
    """Streams a scope's state as it is stored, even if it is too large to be parsed."""
    scope = next((each for each in STORED if each == request.GET["scope"] and only in (None, each)), None)
    if scope is None:
        raise NotFound(_("This state doesn't exist."))
    pieces = (piece.encode("utf-8", "replace") for piece in event_views.state_text(ref, scope, actor=actor(request)))
    name = f'attachment; filename="{scope}-state.json"'
    return streamed(pieces, "application/json", {"Content-Disposition": name})


def _value(request: HttpRequest, target: Target) -> HttpResponse:
    key = request.GET.get("key", "")
    if key not in target.state:
        raise Invalid(_("There's no key “%(key)s” in this state.") % {"key": key})
    return data(dumps(target.state[key], indent=2), "text/plain; charset=utf-8")
