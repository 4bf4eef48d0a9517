"""The ways to read a timeline: as a chat, as events, or as traces."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_GET

from ...domain.session_ref import SessionRef
from ...reads.event_views import EventView
from ..html.markdown import ROOM, Texts
from .chat import PLAIN, Message, messages
from .timeline import TurnRows
from .trace import SAME, drawn

CHAT: Final = "chat"
EVENTS: Final = "events"
TRACE: Final = "trace"
_ALL: Final = (CHAT, EVENTS, TRACE)
_YEAR: Final = 365 * 86_400
_ROOM: Final = {CHAT: ROOM, TRACE: 0}  # characters of Markdown that are rendered: a trace shows a question in one line


def density_of(request: HttpRequest) -> str:
    """Returns how the timeline is shown: by ?density=, or as it was shown last in this browser."""
    return known(request.GET.get("density") or request.COOKIES.get("density", ""))


def known(name: str) -> str:
    """Returns the density with a name; events if there is none."""
    return name if name in _ALL else EVENTS


def remember(request: HttpRequest, answer: HttpResponse) -> HttpResponse:
    """Returns an answer that makes the browser keep the density and the scale that were chosen by ?density= and ?scale=."""
    for name, choices in (("density", _ALL), ("scale", (SAME, "own"))):
        if (chosen := request.GET.get(name, "")) in choices:
            answer.set_cookie(name, chosen, max_age=_YEAR, secure=request.is_secure(), httponly=True, samesite="Lax")
    return answer


def fill(
    turns: Sequence[TurnRows],
    density: str,
    *,
    filtered: bool,
    at_end: bool,
    after: EventView | None = None,
    longest: float = 0.0,
) -> None:
    """Gives the rows of a timeline what the density shows of them. `after` is the event before them.

    Turns of which all events are among the rows are drawn: with a filter none, and the last one if the rows are `at_end`
    of the session. The traces of others are asked for when they come into sight.
    """
    if density == EVENTS:
        return
    events = [line.event for turn in turns for each in turn.invocations for line in each.lines]
    said: dict[str, list[Message]] = defaultdict(list)
    for message in messages(events, Texts(most=PLAIN, room=_ROOM[density]), after):
        if density == CHAT or message.kind == "edit" or (message.by_user and message.kind in ("text", "media")):
            said[message.event.id].append(message)
    for turn in turns:
        for each in turn.invocations:
            each.lines = [replace(line, said=said.get(line.event.id, ())) for line in each.lines]
        is_whole = turn.begun and not turn.again and not filtered and (at_end or turn is not turns[-1])
        if density == TRACE and is_whole:
            turn.trace = drawn([line.event for each in turn.invocations for line in each.lines], longest, turn.agents)


@require_GET
def chat(request: HttpRequest, **names: str) -> HttpResponse:
    """Leads from the address that the chat had to the session as a chat."""
    return redirect(f"{reverse('session', kwargs=SessionRef(**names)._asdict())}?density=chat")
