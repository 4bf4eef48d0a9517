"""The session page's panel at an event: the state just after it, what it changed, and the event itself."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from ...access.actor import Actor
from ...domain.errors import Behind, Error, Invalid, NotFound
from ...domain.json_values import dumps
from ...domain.positions import Seq
from ...domain.session_ref import SessionRef
from ...domain.state import ABSENT, STORED, TEMP, UNKNOWN, Change, Scope, full_key, same, scope_of, shown_order
from ...history import moments, overview
from ...history.moments import Moment
from ...http.problems import status_of
from ...reads import timeline, views
from ...reads.event_views import EventView
from ...search import outline
from ...search.outline import Reached
from ...sources import database, errors
from ..html.difference import Differences
from ..html.render import data, page
from ..html.state_panel import (
    MOST_ROWS,
    ROWS,
    Group,
    Row,
    address_at,
    others_called,
    session_of,
    turn_of,
    written_last,
)
from ..request import actor
from ..session.event import about
from ..session.updates import number_in

SHOWN: Final = ("state", "changes", "event")
_MOST_STEPS: Final = 1_000_000


@require_GET
def state_at(request: HttpRequest, **names: str) -> HttpResponse:
    """Shows the panel at ?at=<event id>, or &step=<n> events away from ?seq=<number>; with &writes=1, n events that
    changed state; with &errors=1, that failed. With &key=, returns the whole value of that key as JSON."""
    ref = SessionRef(**names)
    if old := renamed(request):
        return old
    event_id = chosen(request, ref)
    if event_id is None:
        views.session(ref, partly=True, actor=actor(request))  # one that was deleted is not found
        raise Invalid(_("This link doesn't point to an event."))
    if "key" in request.GET:
        return _value(moments.state_at(ref, event_id, actor=actor(request)), request.GET["key"])
    if not request.htmx:  # type: ignore[attr-defined]
        return redirect(address_at(ref, event_id, show=request.GET.get("show", "")))
    context = panel(request, ref, event_id)
    return page(request, "history/moment/_panel.html", {"ref": ref, **context}, context["status"])


def renamed(request: HttpRequest) -> HttpResponse | None:
    """Redirects a stored link with ?place=, the former name of ?seq=. Returns None for any other link."""
    if "place" not in request.GET:
        return None
    query = request.GET.copy()
    query.setlist("seq", query.pop("place"))
    return redirect(f"{request.path}?{query.urlencode()}")


def chosen(request: HttpRequest, ref: SessionRef) -> str | None:
    """Returns the id of the event that a link names, or None. Raises Invalid, NotFound, Behind."""
    if "turn" in request.GET:
        first = outline.first_of_turn(ref, number_in(request.GET["turn"]), actor=actor(request))
        return overview.event_at(ref, first, actor=actor(request))
    if "seq" not in request.GET:
        return request.GET.get("at") or None
    seq, steps = number_in(request.GET["seq"]), number_in(request.GET.get("step", "0"))
    if not 0 <= seq < 2**63 or abs(steps) > _MOST_STEPS:
        raise Invalid(_("The event number in this link isn't valid."))
    to = overview.STATE if "writes" in request.GET else overview.ERROR if "errors" in request.GET else ""
    return overview.event_at(ref, Seq(seq), steps, to=to, actor=actor(request))


def panel(request: HttpRequest, ref: SessionRef, event_id: str, upto: Reached | None = None) -> dict[str, Any]:
    """Returns the context of history/moment/_panel.html, which also reports an event that is gone and a state that is
    unknown."""
    shown = request.GET.get("show", "")
    context: dict[str, Any] = {
        "at": event_id,
        "numbers": {},
        "total": 0,
        "show": shown if shown in SHOWN else SHOWN[0],
        "status": 200,
        "ordered": database.has_order(ref.source),
        "where": address_at(ref, event_id, "state-at", show=shown),
    }
    try:
        context["event"] = event = timeline.event(ref, event_id, actor=actor(request))
        if context["show"] == "event":
            context |= about(event, actor(request))
        else:
            context |= _state(
                *(ref, event, actor(request), upto),
                only_changes=context["show"] == "changes",
                whole="all" in request.GET,
            )
    except Behind as behind:
        context |= {"behind": True, **behind.detail, "status": 202}
    except NotFound as gone:
        context |= {"gone": gone.message, "status": 404}
    except Error as error:
        context |= {"fault": errors.shown(error, actor(request)), "status": status_of(error)}
    return context


def _state(
    ref: SessionRef, event: EventView, who: Actor, upto: Reached | None, *, only_changes: bool, whole: bool
) -> dict[str, Any]:
    after = moments.state_at(ref, event.id, actor=who)
    writers = written_last(ref, after.writers.values())
    known = outline.outline(ref, [event.seq] if event.seq is not None else [], actor=who, also=writers, upto=upto)
    turns, called = known.turn_numbers(writers), others_called(ref, after.writers.values(), who)
    changed = {change.key: change for change in _changes(ref, event, who)}
    differing = set[str]() if only_changes else moments.differing(after)
    groups = [_group(after, scope, changed, differing, only_changes, whole) for scope in STORED]
    unknown = [] if only_changes else [row for group in groups for row in group.rows if row.unknown]
    groups = [
        replace(
            group,
            rows=[
                replace(row, turn=turn_of(row.writer, turns), session=session_of(row.writer, called))
                for row in group.rows
                if row not in unknown
            ],
        )
        for group in groups
    ]
    shown = {row.key for group in groups for row in group.rows}
    return {
        "moment": after,
        "numbers": known.numbers,
        "total": known.events,
        "whole": whole,
        "unknown": unknown,
        "groups": [group for group in groups if group.rows or not only_changes],
        "differences": _differences(changed[name] for name in changed.keys() & shown) if only_changes else None,
        "temp": {name: value for name, value in event.description.delta.items() if name.startswith(TEMP)},
        "changed": sum(each.new is UNKNOWN or not same(each.old, each.new) for each in changed.values()),
        "count": sum(len(after.state.scope(scope)) for scope in STORED),
        "differing": None if only_changes else len(differing),
    }


def _differences(changed: Iterable[Change]) -> dict[str, SafeString]:
    differences = Differences()
    return {change.key: differences.html(change.old, change.new) for change in changed}


def _value(then: Moment, name: str) -> HttpResponse:
    value = then.state.get(name)
    if value is ABSENT or value is UNKNOWN:
        raise NotFound(_("There's no key “%(key)s” in this state.") % {"key": name})
    return data(dumps(value, indent=2), "text/plain; charset=utf-8")


def _changes(ref: SessionRef, event: EventView, who: Actor) -> list[Change]:
    """Returns what the event wrote, with the values before it."""
    written = moments.made(event, actor=who)
    if not written:
        return []
    before = moments.state_at(ref, event.id, before=True, actor=who).state
    return [Change(name, before.get(name), value) for name, value in written.items()]


def _group(
    after: Moment,
    scope: Scope,
    changed: Mapping[str, Change],
    differing: Collection[str],
    only_changes: bool,
    whole: bool,
) -> Group:
    """Returns a scope's rows by name, including removed keys and those that were set later. If there are too many, keeps
    those that the event wrote, then those that differ from now and were there."""
    values = {full_key(scope, bare): value for bare, value in after.state.scope(scope).items()}
    wrote = {name for name in changed if scope_of(name)[0] == scope}
    later = {name for name in differing if scope_of(name)[0] == scope} - values.keys() - wrote
    names = sorted(wrote if only_changes else values.keys() | wrote | later)
    first = sorted(names, key=lambda name: (name not in wrote, name in later, name not in differing))
    shown = sorted(first[: MOST_ROWS if whole else ROWS], key=shown_order)
    rows = [
        Row(
            name,
            value := values.get(name, ABSENT),
            after.writers.get(name),
            name in after.initial,
            changed.get(name),
            _why_unknown(after, name) if value is UNKNOWN else "",
            now=UNKNOWN if only_changes else after.now.get(name),
        )
        for name in shown
    ]
    return Group(scope, rows, len({*names} - later - {*shown}))


def _why_unknown(after: Moment, name: str) -> str:
    if name in after.either:
        return _("google-adk may have merged it or replaced it")
    scope = scope_of(name)[0]
    if scope == "session" and after.unrecorded:
        return _("the session started before adkweb adopted this database")
    if scope == "session":
        return _("the event that wrote it no longer exists")
    return _("unknown at this point")
