"""The page of an event, its data, and the form that adds one."""

import base64
import binascii
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import quote

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import content_disposition_header
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods

from ...access.actor import Actor
from ...domain.answers import is_answer
from ...domain.description import Part
from ...domain.event import new_id
from ...domain.json_values import beginning, dumps, loads
from ...domain.session_ref import SessionRef
from ...domain.state import STORED, UNKNOWN, Change
from ...edits import edit, own_event, proposal, queue
from ...errors import Behind, Error, Held, Invalid, NotFound
from ...history import moments
from ...http.problems import status_of
from ...http.streaming import streamed
from ...reads import texts, timeline
from ...reads import views as reads_views
from ...reads.event_views import EventView
from ...search import outline
from ...sources import database
from ...writes.half_made import is_half
from ..html.markdown import Texts
from ..html.render import data, page
from ..html.targets import actor, check_may
from .news import number_in

RAW_LIMIT: Final = 100_000  # characters of raw JSON on the page
PARTS: Final = 200  # parts, and also changes, on the page
NAME_LENGTH: Final = 200  # characters of a download's name
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
        return _download(dumps(view.data, indent=2), "application/json", "event.json")
    pieces = (piece.encode("utf-8", "replace") for piece in texts.event_text(ref, event_id, actor=actor(request)))
    return streamed(pieces, "application/json", {"Content-Disposition": 'attachment; filename="event.json"'})


@require_GET
def media(request: HttpRequest, event_id: str, number: int, **names: str) -> HttpResponse:
    """Returns a piece of inline data: shown if it is an image without scripts, downloaded otherwise."""
    view = timeline.event(SessionRef(**names), event_id, actor=actor(request))
    pieces = view.description.media
    if number >= len(pieces):
        raise NotFound(_("This event has no such data."))
    piece = pieces[number]
    content = _decode(piece)
    if piece.kind == "image":
        return data(content, piece.value["mime_type"])
    return _download(content, "application/octet-stream", _file_name(piece) or f"data-{number}")


@require_http_methods(["GET", "POST"])
def add(request: HttpRequest, **names: str) -> HttpResponse:
    """Appends an event that a person typed."""
    ref = SessionRef(**names)
    who = actor(request)
    check_may(request, "append", ref)
    once, view = request.POST.get("once") or new_id(), reads_views.session(ref, partly=True, actor=actor(request))
    context: dict[str, Any] = {
        "ref": ref,
        "view": view,
        "held": queue.held(ref, actor=actor(request)),
        "half": is_half(view.state.session),
        "text": dumps(TEMPLATE, indent=2),
        "once": once,
    }
    if request.method == "GET":
        if "proposal" in request.GET:
            context["text"] = dumps(proposal.draft_of(request.GET["proposal"], actor=who), indent=2)
        return page(request, "session/event/add.html", context)
    text = request.POST.get("event", "").replace("\r\n", "\n")
    try:
        event = _object(loads(text))
        appended = own_event.add_event(
            ref, {"id": edit.id_of(once, event), **event}, actor=who, reason=request.POST.get("reason", "")
        )
    except Held:
        raise
    except Error as error:
        context |= {"text": text, "reason": request.POST.get("reason", ""), "error": error.message}
        return page(request, "session/event/add.html", context, status_of(error))
    messages.success(request, _("The event was added."))
    return redirect(reverse("session", kwargs=names) + f"#event-{quote(appended.event['id'])}")


def about(view: EventView, who: Actor, parts: int = 0, changes: int = 0, *, raw_texts: bool = False) -> dict[str, Any]:
    """Returns the context of an event's templates: its neighbours, PARTS of its parts and of its changes from the given
    index on, and its JSON, cut to RAW_LIMIT. With `raw_texts`, its texts are shown as they are.
    """
    earlier, later = timeline.around(view, actor=who)
    shown = view.description.parts[parts : parts + PARTS]
    pairs = _pairs(shown, earlier, later)
    raw = "" if view.size else beginning(view.data, RAW_LIMIT)
    return {
        "event": view,
        "is_answer": is_answer(view.data),
        "ordered": database.has_order(view.ref.source),
        "parts": shown,
        "texts": Texts(raw=raw_texts),
        "parts_page": _Shown("parts", parts, len(view.description.parts)),
        "changes": _changes(view, view.changes[changes : changes + PARTS], who),
        "changes_page": _Shown("changes", changes, len(view.changes)),
        "previous": earlier[0] if earlier else None,
        "following": later[0] if later else None,
        "pairs": pairs,
        "numbers": outline.numbers_of(view.ref, [each.seq for each in (view, *pairs.values())], actor=who),
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


def _pairs(shown: list[Part], earlier: list[EventView], later: list[EventView]) -> dict[str, Any]:
    """Returns for each call or response, by id, the nearest event with its other half."""
    answers, calls = _nearest(later, "response"), _nearest(earlier, "call")
    halves = ((part.id, (answers if part.kind == "call" else calls).get(part.id)) for part in shown if part.id)
    return {name: other for name, other in halves if other}


def _nearest(views: list[EventView], kind: str) -> dict[str, EventView]:
    nearest: dict[str, EventView] = {}
    for view in views:
        for part in view.description.of(kind):
            nearest.setdefault(part.id, view)
    return nearest


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Invalid(_("An event is a JSON object."))
    return value


def _decode(piece: Part) -> bytes:
    """Decodes inline data. ADK writes base64 in its URL-safe form."""
    text = piece.value.get("data")
    if not isinstance(text, str):
        raise NotFound(_("The data itself is not stored in this event, only where it is."))
    try:
        plain = "".join(text.split()).translate(str.maketrans("-_", "+/"))
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Invalid(_("The data of this event is not valid base64.")) from error


def _file_name(piece: Part) -> str:
    """Returns a file name for a header, without folders and control characters. Empty for a name of only dots."""
    text = str(piece.value.get("display_name") or "").replace("\\", "/")
    name = "".join(c for c in text.rpartition("/")[2] if c.isprintable())[:NAME_LENGTH]
    return name if name.strip(". ") else ""


def _download(content: bytes | str, mime_type: str, name: str) -> HttpResponse:
    response = data(content, mime_type)
    response.headers["Content-Disposition"] = (
        content_disposition_header(as_attachment=True, filename=name) or "attachment"
    )
    response.headers["Content-Security-Policy"] = "default-src 'none'; sandbox"
    return response
