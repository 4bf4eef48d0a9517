"""The page of what the agent sees: its instruction, filled in from the state, and its conversation."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from ...access.actor import Actor
from ...agent_view.conversation import Conversation, conversation
from ...agent_view.preview import Shown, preview
from ...domain.edit_note import SYSTEM
from ...domain.json_values import as_object
from ...domain.positions import Seq
from ...domain.session_ref import SessionRef
from ...domain.state import ABSENT, UNKNOWN, scope_of
from ...edits.rewind import USER
from ...errors import Behind, Error, Invalid, NotFound
from ...history import moments
from ...history.moments import Moment
from ...http.problems import status_of
from ...reads import timeline, views
from ...reads.event_views import EventView
from ...search import outline
from ..html.links import query
from ..html.render import page
from ..html.targets import actor

SHOWN: Final = 100_000  # characters of a filled-in template that are shown
VALUE: Final = 2_000  # characters of one value in it that are shown
MARKS: Final = 1_000  # placeholders that are marked in it
NAMED: Final = 100  # placeholders that are listed
_UNKNOWN: Final = ("unrecorded", "unread")
_NO_BRANCH: Final = "."  # in a link; no branch has this name
_OFFERED: Final = 200  # keys that are offered as templates


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of the preview. Without `shown` it is plain text; `more` characters of its value are not shown."""

    text: str
    shown: Shown | None = None
    more: int = 0

    @property
    def look(self) -> str:
        """Returns the CSS class: `bad` for an error, `unknown`, or the scope of the key."""
        if self.shown is None:
            return ""
        if self.shown.piece.shown is None:
            return "unknown" if self.shown.fault in _UNKNOWN else "bad"
        return "" if self.shown.piece.kind == "artifact" else scope_of(self.shown.piece.name)[0]


@dataclass(frozen=True, slots=True)
class Preview:
    """A template as the model gets it. `named` has each placeholder once; `more` characters are not shown."""

    spans: list[Span]
    named: list[Shown]
    faults: list[Shown]
    length: int
    more: int = 0
    unmarked: int = 0

    @property
    def stops(self) -> list[Shown]:
        """Returns the placeholders for which ADK raises an error."""
        return [shown for shown in self.faults if shown.fault not in _UNKNOWN]


@require_http_methods(["GET", "POST"])
def context(request: HttpRequest, **names: str) -> HttpResponse:
    """Shows what ?agent= sees at ?at=<event id>, or now. The template comes from the key ?key=, or from POST.

    htmx gets the preview of the template, or the contents ?before= a cursor.
    """
    ref = SessionRef(**names)
    event_id = request.GET.get("at", "")
    if request.htmx and request.method == "POST":  # type: ignore[attr-defined]
        return page(request, "session/agent_view/_preview.html", {"ref": ref, **_instruction(request, ref, event_id)})
    view = views.session(ref, partly=True, actor=actor(request))
    event = timeline.event(ref, event_id, actor=actor(request)) if event_id else None
    told: dict[str, Any] = {"ref": ref, "at": event, "address": _address(ref, {"at": event_id} if event_id else {})}
    try:
        told |= _conversation(request, ref, event)
    except Behind as error:
        if request.method == "GET":
            raise
        told["behind"] = error.message  # what was sent is shown again
    if request.htmx and "before" in request.GET:  # type: ignore[attr-defined]
        return page(request, "session/agent_view/_contents.html", told)
    told |= {"view": view, "given": _given(event, actor(request)), **_instruction(request, ref, event_id)}
    return page(request, "session/agent_view/agent_view.html", told, told.get("status", 200))


def _conversation(request: HttpRequest, ref: SessionRef, event: EventView | None) -> dict[str, Any]:
    before = request.GET.get("before") or None
    branch = request.GET.get("branch", "")
    own = "" if branch == _NO_BRANCH else branch or None
    shown = conversation(ref, event, request.GET.get("agent", ""), own, before, actor=actor(request))
    asked = {"at": event.id if event else "", "key": request.GET.get("key", "")}
    chosen = {name: value for name, value in asked.items() if value}
    reading = {"agent": shown.reader.agent, **({"branch": branch} if branch else {})}
    return {
        "conversation": shown,
        "numbers": outline.numbers_of(ref, _seqs(shown, event), actor=actor(request)),
        "arrived": sum(line.content is not None for line in shown.lines),
        "chosen": chosen,
        "reading": reading,
        "branch": branch,
        "no_branch": _NO_BRANCH,
        "address": _address(ref, {**chosen, **reading}),
        "now": _address(ref, {"key": asked["key"], **reading}),
        "later": before is not None,
    }


def _seqs(shown: Conversation, at: EventView | None) -> list[Seq | None]:
    """Returns the seqs of the events that the page names."""
    lines = [[line.event.seq, *(event.seq for event in line.events)] for line in shown.lines]
    causes = [line.left_out.seq for line in shown.lines if line.left_out]
    return [at.seq if at else None, *(seq for line in lines for seq in line), *causes]


def _given(event: EventView | None, who: Actor) -> str:
    """Returns the URL that shows what a model was given for this event: the moment before it. Empty if no model wrote
    the event."""
    if event is None or event.description.author in ("", USER, SYSTEM):
        return ""
    if as_object(event.data.get("content")).get("role") != "model":
        return ""
    earlier, _later = timeline.around(event, 1, actor=who)
    return _address(event.ref, {"at": earlier[0].id, "agent": event.description.author}) if earlier else ""


def _address(ref: SessionRef, asked: dict[str, str]) -> str:
    return f"{reverse('context', kwargs=ref._asdict())}?{query(**asked)}"


def _instruction(request: HttpRequest, ref: SessionRef, event_id: str) -> dict[str, Any]:
    """Returns the template with its preview, or the reason why there is none."""
    name = request.GET.get("key", "")
    sent = request.POST.get("template")
    told: dict[str, Any] = {"template": (sent or "").replace("\r\n", "\n"), "from_key": name}
    try:
        moment = (
            moments.state_at(ref, event_id, actor=actor(request))
            if event_id
            else moments.state_now(ref, actor=actor(request))
        )
    except (Invalid, Behind) as error:
        if isinstance(error, Behind) and request.method == "GET":
            raise
        return {**told, "fault": error.message, "offered": []}
    told |= {"moment": moment, "offered": _offered(moment)}
    try:
        if sent is None and name:
            told["template"] = _taken(moment, name)
        shown = preview(moment, told["template"])
        writers = [each.writer.seq for each in shown if each.writer and each.writer.ref == ref]
        wrote = outline.numbers_of(ref, writers[:NAMED], actor=actor(request))
        return {**told, "preview": _preview(shown), "wrote": wrote}
    except Error as error:
        return {**told, "fault": error.message, "status": status_of(error)}


def _offered(moment: Moment) -> list[str]:
    """Returns the keys that hold strings, those with a placeholder first."""
    texts = {name: value for name, value in moment.state.merged().items() if isinstance(value, str)}
    return sorted(texts, key=lambda name: ("{" not in texts[name], name))[:_OFFERED]


def _taken(moment: Moment, name: str) -> str:
    """Returns the template in a key's value."""
    value = moment.state.get(name)
    if value is ABSENT:
        raise NotFound(_("There is no key “%(key)s” in this state.") % {"key": name})
    if value is UNKNOWN:
        raise Invalid(_("The value of “%(key)s” at this event was not recorded.") % {"key": name})
    if not isinstance(value, str):
        raise Invalid(_("The value of “%(key)s” is not a string, so it cannot be a template.") % {"key": name})
    return value


def _preview(pieces: list[Shown]) -> Preview:
    named: dict[tuple[str, str, bool], Shown] = {}
    for shown in pieces:
        if shown.piece.kind != "text":
            named.setdefault((shown.piece.kind, shown.piece.name, shown.piece.optional), shown)
    length = sum(len(_text(shown)) for shown in pieces)
    spans, more, unmarked = _spans(pieces)
    faults = [shown for shown in named.values() if shown.piece.shown is None]
    return Preview(spans, list(named.values())[:NAMED], faults, length, more, unmarked)


def _spans(pieces: Iterable[Shown]) -> tuple[list[Span], int, int]:
    """Returns the pieces to show, the number of characters left out, and the number of placeholders not marked."""
    spans: list[Span] = []
    left, marks, more, unmarked = SHOWN, MARKS, 0, 0
    for shown in pieces:
        text = _text(shown)
        if left <= 0:
            more += len(text)
            continue
        part = text[: left if shown.piece.kind == "text" else min(left, VALUE)]
        left -= len(part)
        if shown.piece.kind == "text" or not marks:
            unmarked += shown.piece.kind != "text"
            more += len(text) - len(part)
            spans.append(Span(part))
        else:
            marks -= 1
            left -= 1  # an empty one takes room, too
            spans.append(Span(part, shown, len(text) - len(part)))
    return spans, more, unmarked


def _text(shown: Shown) -> str:
    return shown.piece.written if shown.piece.shown is None else shown.piece.shown
