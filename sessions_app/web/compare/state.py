"""Compares two moments of one session or of two: what differs in each scope, and the delta from one to the other."""

from dataclasses import dataclass, field
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.http import content_disposition_header, urlencode
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from ...access.actor import Actor
from ...domain.errors import Behind, Error, Invalid, NotFound
from ...domain.json_values import beginning, check_name, dumps
from ...domain.positions import Seq, number_of
from ...domain.session_ref import SessionRef
from ...domain.state import ABSENT, STORED, UNKNOWN, Change, Scope
from ...history import moments
from ...history.moments import Moment
from ...http.problems import status_of
from ...reads import lists, views
from ...search import outline
from ...sources import errors
from ..html import difference
from ..html.render import data, page
from ..request import actor
from .other_run import NOW
from .other_run import other as other_run

ROWS: Final = 300  # keys of a scope that are shown
NAME_LENGTH: Final = 128  # of an id in ADK's tables
COPY_LIMIT: Final = 100_000  # characters of a delta that is shown on the page; a longer one is only downloaded


@dataclass(frozen=True, slots=True)
class Row:
    """One key that differs."""

    key: str
    kind: str  # added, changed, removed or unknown
    shown: SafeString


@dataclass(slots=True)
class Group:
    """The differences in one scope, with the number of keys of each kind. `more` of them are not shown."""

    scope: Scope
    rows: list[Row] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    more: int = 0


@dataclass(slots=True)
class Side:
    """One of the two moments: what was asked for, and the moment or the error."""

    ref: SessionRef
    asked: str
    moment: Moment | None = None
    number: int | None = None  # of its event in the session
    error: str = ""

    @property
    def name(self) -> str:
        """Returns its name in a link: the event's id, or `now`."""
        if self.moment is None:
            return self.asked
        return self.moment.event.id if self.moment.event else NOW


def compare_state(request: HttpRequest, **names: str) -> HttpResponse:
    """Shows what differs between two moments. The error of a moment is shown beside its field."""
    ref = SessionRef(**names)
    views.session(ref, partly=True, actor=actor(request))  # raises NotFound
    a, b, fault = _asked(request, ref)
    context: dict[str, Any] = {"ref": ref, "a": a, "b": b, "with": request.GET.get("with", ""), "fault": fault}
    called = lists.titles({a.ref, b.ref}, actor=actor(request))
    context["titles"] = called[a.ref], called[b.ref]
    if fault:
        return page(request, "compare/state/state.html", context, 400)
    counted = "counted" in request.GET
    status = max(_find(side, actor(request), counted=counted) for side in (a, b))
    if a.moment and b.moment:
        changes = moments.compare(a.moment, b.moment)
        delta = beginning(_delta(changes), COPY_LIMIT)
        context |= {
            "groups": _groups([change for change in changes if _kind(change) != "unknown"]),
            "folded": _rows([change for change in changes if _kind(change) == "unknown"]),
            "changes": changes,
            "runs": _runs(a, b),
            "swap": _link("compare", b, a),
            "link": _link("compare", a, b),
            "download": _link("compare-delta", a, b),
            "delta": delta if len(delta) <= COPY_LIMIT else "",
            "unknown": sum(change.new is UNKNOWN for change in changes),
            "removed": [change.key for change in changes if change.new is ABSENT],
            "unrecorded": sorted({moment.ref.session_id for moment in (a.moment, b.moment) if moment.unrecorded}),
        }
    return page(request, "compare/state/state.html", context, status)


@require_GET
def delta(request: HttpRequest, **names: str) -> HttpResponse:
    """Downloads the delta that turns the first moment's state into the second's. Raises the errors that the page shows."""
    a, b, fault = _asked(request, SessionRef(**names))
    if fault:
        raise Invalid(fault)
    changes = moments.compare(*(_moment(side.ref, side.asked, actor(request)) for side in (a, b)))
    response = data(dumps(_delta(changes), indent=2), "application/json")
    response.headers["Content-Disposition"] = (
        content_disposition_header(as_attachment=True, filename="state-delta.json") or "attachment"
    )
    return response


def _asked(request: HttpRequest, ref: SessionRef) -> tuple[Side, Side, str]:
    """Returns both sides that the link names, and an error if it does not name the second session correctly."""
    other, name = request.GET.get("with", "").strip(), request.GET.get("b", "").strip()
    a = Side(ref, request.GET.get("a", "").strip())
    try:
        second, event_id = other_run(ref, other, actor(request)) if other else (ref, NOW)
    except Error as error:
        return a, Side(ref, name or NOW), errors.shown(error, actor(request))
    return a, Side(second, name or event_id), ""


def _find(side: Side, who: Actor, *, counted: bool) -> int:
    """Finds the moment of a side or notes its error. Returns the HTTP status. Raises Behind."""
    if not side.asked:
        return 200
    try:
        side.moment = _moment(side.ref, side.asked, who, counted=counted)
        if event := side.moment.event:
            side.number = outline.numbers_of(side.ref, [event.seq], actor=who).get(side.moment.seq)
    except Behind:
        raise
    except Error as error:
        side.error = errors.shown(error, who)
        return status_of(error)
    return 200


def _moment(ref: SessionRef, asked: str, who: Actor, *, counted: bool = False) -> Moment:
    """Returns the moment that an event's id, its number or `now` names.

    The form says that its numbers are `counted` in the session. In older links, a number is the event's in its source."""
    if asked == NOW:
        return moments.state_now(ref, actor=who)
    check_name(asked, _("The event's id"), NAME_LENGTH)
    number = asked.removeprefix("#")
    try:
        return moments.state_at(ref, asked, actor=who)
    except NotFound:
        if not (number.isdecimal() and number.isascii() and len(number) < 19):
            raise
    if counted:
        return moments.state_at(ref, outline.event_numbered(ref, int(number), actor=who), actor=who)
    moment = moments.state_at_seq(ref, Seq(int(number)), actor=who)
    if moment.seq != int(number):  # a number that a person types means exactly that event
        said = _("There's no event #%(number)s in this session.") % {"number": number}
        raise NotFound(
            said
            + (" " + _("The closest earlier event is #%(seq)s.") % {"seq": moment.seq} if number_of(moment.seq) else "")
        )
    return moment


def _link(name: str, a: Side, b: Side) -> str:
    asked = {"a": a.name, "b": b.name}
    if a.ref != b.ref:
        asked["with"] = reverse("session", kwargs=b.ref._asdict())
    known = {name: value.encode("utf-8", "replace") for name, value in asked.items()}  # no address can hold half a pair
    return f"{reverse(name, kwargs=a.ref._asdict())}?{urlencode(known)}"


def _runs(a: Side, b: Side) -> str:
    """Returns the address that compares the events of both sessions; "" for two moments of one."""
    if a.ref == b.ref:
        return ""
    asked = urlencode({"with": reverse("session", kwargs=b.ref._asdict())})
    return f"{reverse('compare', kwargs=a.ref._asdict())}?{asked}#first-divergence"


def _groups(changes: list[Change]) -> list[Group]:
    shown = difference.Differences()
    groups = {scope: Group(scope) for scope in STORED}
    for change in changes:
        group, kind = groups[change.scope], _kind(change)
        group.counts[kind] = group.counts.get(kind, 0) + 1
        if len(group.rows) < ROWS:
            group.rows.append(Row(change.key, kind, shown.html(change.old, change.new)))
        else:
            group.more += 1
    return [group for group in groups.values() if group.rows]


def _rows(changes: list[Change]) -> list[Row]:
    """Returns the first ROWS rows of the keys whose value is unknown at one of the moments."""
    shown = difference.Differences()
    return [Row(change.key, _kind(change), shown.html(change.old, change.new)) for change in changes[:ROWS]]


def _kind(change: Change) -> str:
    if UNKNOWN in (change.old, change.new):
        return "unknown"
    return "added" if change.old is ABSENT else "removed" if change.new is ABSENT else "changed"


def _delta(changes: list[Change]) -> dict[str, Any]:
    """Returns what an edit would write: null removes a key. Unknown values are left out."""
    return {change.key: None if change.new is ABSENT else change.new for change in changes if change.new is not UNKNOWN}
