"""The page of what the agent sees: its instruction, filled in from the state, and its conversation."""

from dataclasses import dataclass, replace
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from ...access.actor import Actor
from ...agent_view import agent_files
from ...agent_view.conversation import Conversation, conversation
from ...agent_view.preview import preview
from ...agent_view.sizes import tokens
from ...domain.answers import is_answer, prompt_tokens
from ...domain.errors import Behind, Error, Invalid, NotFound
from ...domain.positions import Seq
from ...domain.session_ref import SessionRef
from ...domain.state import ABSENT, UNKNOWN
from ...history import moments
from ...history.moments import Moment
from ...http.problems import status_of
from ...reads import timeline, views
from ...reads.event_views import EventView
from ...search import outline
from ..html.links import query
from ..html.render import page
from ..html.targets import actor
from .filled import NAMED, filled
from .folds import folded
from .sizes import Told

_NO_BRANCH: Final = "."  # in a link; no branch has this name
_OFFERED: Final = 200  # keys that are offered as templates


@dataclass(frozen=True, slots=True)
class _Asked:
    """The moment that is asked for: now, or just after `event`, or just before it if its model was `given` that."""

    ref: SessionRef
    event: EventView | None
    given: bool
    who: Actor

    @property
    def fields(self) -> dict[str, str]:
        """Returns what names this moment in an address."""
        if self.event is None:
            return {}
        return {"at": self.event.id, **({"after": "1"} if is_answer(self.event.data) and not self.given else {})}

    def address(self, **more: str) -> str:
        """Returns the address of this moment."""
        return _address(self.ref, {**self.fields, **more})

    def moment(self) -> Moment:
        """Returns the state of this moment. Raises Behind, Invalid."""
        if self.event is None:
            return moments.state_now(self.ref, actor=self.who)
        return moments.state_at(self.ref, self.event.id, actor=self.who, before=self.given)


@require_http_methods(["GET", "POST"])
def context(request: HttpRequest, **names: str) -> HttpResponse:
    """Shows what ?agent= sees at ?at=<event id>, or now. The template comes from the key ?key=, or from POST.

    At an event that a model wrote, that is what the model got; with &after=1, what the next call gets. At any other, it
    is always the latter. htmx gets the preview of the template, or the contents ?before= a cursor.
    """
    asked = _asked(request, SessionRef(**names))
    if request.htmx and request.method == "POST":  # type: ignore[attr-defined]
        return page(request, "session/agent_view/_preview.html", {"ref": asked.ref, **_instruction(request, asked)})
    view = views.session(asked.ref, partly=True, actor=asked.who)
    told: dict[str, Any] = {
        "ref": asked.ref,
        "at": asked.event,
        "asked": asked,
        "address": asked.address(),
        "numbers": {},
    }
    try:
        told |= _conversation(request, asked)
    except Behind as error:
        if request.method == "GET":
            raise
        told["behind"] = error.message  # what was sent is shown again
    if request.htmx and "before" in request.GET:  # type: ignore[attr-defined]
        return page(request, "session/agent_view/_contents.html", told)
    reader = told["conversation"].reader.agent if "conversation" in told else ""
    told |= {"view": view, **_instruction(request, asked, reader)}
    told["told"] = _told(asked, told)
    return page(request, "session/agent_view/agent_view.html", told, told.get("status", 200))


def _asked(request: HttpRequest, ref: SessionRef) -> _Asked:
    who, event_id = actor(request), request.GET.get("at", "")
    event = timeline.event(ref, event_id, actor=who) if event_id else None
    return _Asked(ref, event, event is not None and is_answer(event.data) and "after" not in request.GET, who)


def _conversation(request: HttpRequest, asked: _Asked) -> dict[str, Any]:
    before = request.GET.get("before") or None
    branch = request.GET.get("branch", "")
    own = "" if branch == _NO_BRANCH else branch or None
    agent = request.GET.get("agent", "")
    shown = conversation(asked.ref, asked.event, agent, own, before, actor=asked.who, given=asked.given)
    key = {"key": request.GET["key"]} if request.GET.get("key") else {}
    reading = {"agent": shown.reader.agent, **({"branch": branch} if branch else {})}
    return {
        "conversation": shown,
        "items": folded(shown.lines),
        "numbers": outline.numbers_of(asked.ref, _seqs(shown, asked.event), actor=asked.who),
        "arrived": sum(line.content is not None for line in shown.lines),
        "chosen": {**asked.fields, **key},
        "reading": reading,
        "branch": branch,
        "no_branch": _NO_BRANCH,
        "address": asked.address(**key, **reading),
        "now": _address(asked.ref, {**key, **reading}),
        "other": _other(asked, {**key, **reading}),
        "later": before is not None,
    }


def _seqs(shown: Conversation, at: EventView | None) -> list[Seq | None]:
    """Returns the seqs of the events that the page names."""
    lines = [[line.event.seq, *(event.seq for event in line.events)] for line in shown.lines]
    causes = [line.left_out.seq for line in shown.lines if line.left_out]
    return [at.seq if at else None, *(seq for line in lines for seq in line), *causes]


def _told(asked: _Asked, context: dict[str, Any]) -> Told | None:
    """Returns the sizes; None on an earlier page of the conversation, or of an empty one."""
    sized = context["conversation"].sized if "conversation" in context else None
    if sized is None or not sized.turns:
        return None
    shown = context.get("preview")
    known = shown is not None and bool(shown.spans) and not shown.stops
    answered = asked.event.data if asked.event and asked.given else {}
    return Told(sized, tokens(shown.length) if shown and known else None, prompt_tokens(answered))


def _other(asked: _Asked, more: dict[str, str]) -> str:
    """Returns the address of the moment on the other side of an event that a model wrote."""
    if asked.event is None or not is_answer(asked.event.data):
        return ""
    return replace(asked, given=not asked.given).address(**more)


def _address(ref: SessionRef, asked: dict[str, str]) -> str:
    return f"{reverse('context', kwargs=ref._asdict())}?{query(**asked)}"


def _instruction(request: HttpRequest, asked: _Asked, agent: str = "") -> dict[str, Any]:
    """Returns the template with its preview, or the reason why there is none.

    If none is sent and no key is named, it is the one that the files of the agent have."""
    name = request.GET.get("key", "")
    sent = request.POST.get("template")
    written = None
    told: dict[str, Any] = {"template": (sent or "").replace("\r\n", "\n"), "from_key": name}
    if sent is None and not name and agent and agent_files.has_files(asked.ref, actor=asked.who):
        written = agent_files.instruction(asked.ref, agent, actor=asked.who)
        told |= {"written": written, "has_files": True, "template": written.text if written else ""}
    try:
        moment = asked.moment()
    except (Invalid, Behind) as error:
        if isinstance(error, Behind) and request.method == "GET":
            raise
        return {**told, "fault": error.message, "offered": []}
    told |= {"moment": moment, "offered": _offered(moment)}
    try:
        if sent is None and name:
            told["template"] = _taken(moment, name)
        shown = preview(moment, told["template"], given=asked.given)
        writers = [each.writer.seq for each in shown if each.writer and each.writer.ref == asked.ref]
        wrote = outline.numbers_of(asked.ref, writers[:NAMED], actor=asked.who)
        return {**told, "preview": filled(shown), "wrote": wrote}
    except Error as error:
        return {**told, "fault": error.message, "status": 200 if written else status_of(error)}


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
