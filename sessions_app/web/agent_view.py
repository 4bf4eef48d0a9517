"""The page of what the model got: its conversation, its instruction, filled in from the state, and its size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods

from ..access.actor import Actor
from ..agent_view import agent_files
from ..agent_view.conversation import Conversation, Line, Sized, conversation
from ..agent_view.exclusion import Kind
from ..agent_view.preview import Shown, preview
from ..agent_view.sizes import tokens
from ..domain.content import is_answer, prompt_tokens
from ..domain.errors import Behind, Error, Invalid, NotFound
from ..domain.positions import Seq
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, UNKNOWN, scope_of
from ..history import moments
from ..history.moments import Moment
from ..http.problems import status_of
from ..reads import timeline, views
from ..reads.event_views import EventView
from ..search import outline
from ..sources import errors
from .forms import Form, Text
from .html.render import page
from .request import actor
from .templatetags.links import query

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


class TemplateForm(Form):
    """A template as somebody typed it: the preview says what is wrong with it."""

    template = Text()


@require_http_methods(["GET", "POST"])
def context(request: HttpRequest, **names: str) -> HttpResponse:
    """Shows what the model of ?agent= got at ?at=<event id>, or gets now. The template comes from ?key= or from POST.

    At an event that a model wrote, that is what the model got; with &after=1, what the next call gets. At any other, it
    is always the latter. htmx gets the preview of the template, or the contents ?before= a cursor.
    """
    asked = _asked(request, SessionRef(**names))
    if request.htmx and request.method == "POST":  # type: ignore[attr-defined]
        return page(request, "agent_view/_preview.html", {"ref": asked.ref, **_instruction(request, asked)})
    newest = timeline.newest_seq(asked.ref, actor=asked.who)  # first: what comes meanwhile is told of as new
    view = views.session(asked.ref, partly=True, actor=asked.who)
    context: dict[str, Any] = {
        "newest": newest,
        "ref": asked.ref,
        "at": asked.event,
        "wanted": asked,
        "address": asked.address(),
        "numbers": {},
    }
    try:
        context |= _conversation(request, asked)
    except Behind as error:
        if request.method == "GET":
            raise
        context["behind"] = error.message  # what was sent is shown again
    if request.htmx and "before" in request.GET:  # type: ignore[attr-defined]
        return page(request, "agent_view/_contents.html", context)
    reader = context["conversation"].reader.agent if "conversation" in context else ""
    context |= {"view": view, **_instruction(request, asked, reader)}
    context["estimate"] = _estimate(asked, context)
    return page(request, "agent_view/agent_view.html", context, context.get("status", 200))


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


def _estimate(asked: _Asked, context: dict[str, Any]) -> Estimate | None:
    """Returns the sizes; None on an earlier page of the conversation, or of an empty one."""
    sized = context["conversation"].sized if "conversation" in context else None
    if sized is None or not sized.turns:
        return None
    shown = context.get("preview")
    known = shown is not None and bool(shown.spans) and not shown.stops
    answered = asked.event.data if asked.event and asked.given else {}
    return Estimate(sized, tokens(shown.length) if shown and known else None, prompt_tokens(answered))


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
    form = TemplateForm.of(request)
    sent = form.cleaned_data["template"] if form.is_valid() else None
    written = None
    context: dict[str, Any] = {
        "template": (sent or "").replace("\r\n", "\n"),
        "from_key": name,
        "sent": sent is not None,
    }
    if sent is None and not name and agent and agent_files.has_files(asked.ref, actor=asked.who):
        written = agent_files.instruction(asked.ref, agent, actor=asked.who)
        context |= {"written": written, "has_files": True, "template": written.text if written else ""}
    try:
        moment = asked.moment()
    except (Invalid, Behind) as error:
        if isinstance(error, Behind) and request.method == "GET":
            raise
        return {**context, "fault": error.message, "offered": []}
    context |= {"moment": moment, "offered": _offered(moment)}
    try:
        if sent is None and name:
            context["template"] = _taken(moment, name)
        shown = preview(moment, context["template"], given=asked.given)
        writers = [each.writer.seq for each in shown if each.writer and each.writer.ref == asked.ref]
        wrote = outline.numbers_of(asked.ref, writers[:NAMED], actor=asked.who)
        return {**context, "preview": filled(shown), "wrote": wrote}
    except Error as error:
        return {**context, "fault": errors.shown(error, asked.who), "status": 200 if written else status_of(error)}


def _offered(moment: Moment) -> list[str]:
    """Returns the keys that hold strings, those with a placeholder first."""
    texts = {name: value for name, value in moment.state.merged().items() if isinstance(value, str)}
    return sorted(texts, key=lambda name: ("{" not in texts[name], name))[:_OFFERED]


def _taken(moment: Moment, name: str) -> str:
    """Returns the template in a key's value."""
    value = moment.state.get(name)
    if value is ABSENT:
        raise NotFound(_("There's no key “%(key)s” in this state.") % {"key": name})
    if value is UNKNOWN:
        raise Invalid(_("The value of “%(key)s” at this event wasn't recorded.") % {"key": name})
    if not isinstance(value, str):
        raise Invalid(_("The value of “%(key)s” isn't a string, so it can't be used as a template.") % {"key": name})
    return value


# --- An instruction, filled in, its placeholders marked and listed ----------------------------------------------------

SHOWN: Final = 100_000  # characters of a filled-in template that are shown
VALUE: Final = 2_000  # characters of one value in it that are shown
MARKED: Final = 1_000  # placeholders that are marked in it
NAMED: Final = 100  # placeholders that are listed
_UNKNOWN: Final = ("unrecorded", "unread")


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


def filled(pieces: list[Shown]) -> Preview:
    """Returns a template as the page shows it, filled in."""
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
    left, spare, more, unmarked = SHOWN, MARKED, 0, 0
    for shown in pieces:
        text = _text(shown)
        if left <= 0:
            more += len(text)
            continue
        part = text[: left if shown.piece.kind == "text" else min(left, VALUE)]
        left -= len(part)
        if shown.piece.kind == "text" or not spare:
            unmarked += shown.piece.kind != "text"
            more += len(text) - len(part)
            spans.append(Span(part))
        else:
            spare -= 1
            left -= 1  # an empty one takes room, too
            spans.append(Span(part, shown, len(text) - len(part)))
    return spans, more, unmarked


def _text(shown: Shown) -> str:
    return shown.piece.written if shown.piece.shown is None else shown.piece.shown


# --- What a model does not get, folded --------------------------------------------------------------------------------

# Reasons that a person takes for one are counted together. The words follow a number of events.
_REASONS: Final[dict[Kind, str]] = {
    "rewind": "rewound",
    "contained": "compacted",
    "auth": "internal",
    "confirmation": "internal",
    "framework": "internal",
    "unpaired": "half",
    "unanswered": "half",
    "replaced": "overtaken",
}
_WORDS: Final = {
    "rewound": gettext_lazy("rewound"),
    "compacted": gettext_lazy("summarised"),
    "branch": gettext_lazy("from another branch"),
    "scope": gettext_lazy("from another isolation scope"),
    "node": gettext_lazy("for another node"),
    "empty": gettext_lazy("without content"),
    "internal": gettext_lazy("internal"),
    "progress": gettext_lazy("about a tool's progress"),
    "half": gettext_lazy("with an unpaired call"),
    "overtaken": gettext_lazy("replaced by a later response"),
    "unread": gettext_lazy("too large to read"),
}


@dataclass(frozen=True, slots=True)
class Fold:
    """Consecutive events that the model does not get."""

    lines: Sequence[Line]

    @property
    def reasons(self) -> list[tuple[int, str]]:
        """Returns how many of them there are for each reason, in words, the most frequent reason first."""
        kinds = (line.left_out.kind for line in self.lines if line.left_out)
        counts = Counter(_REASONS.get(kind, kind) for kind in kinds)
        return [(number, str(_WORDS[reason])) for reason, number in counts.most_common()]


def folded(lines: Sequence[Line]) -> list[Line | Fold]:
    """Returns what a model gets, in order, and a fold for what is left out in between."""
    items: list[Line | Fold] = []
    left: list[Line] = []
    for line in lines:
        if line.left_out:
            left.append(line)
            continue
        if left:
            items.append(Fold(left))
            left = []
        items.append(line)
    return [*items, Fold(left)] if left else items


# --- What it weighs: tokens, estimated, by part and by turn -----------------------------------------------------------

TURNS: Final = 20  # that are listed one by one
_WIDEST: Final = 1_000  # a bar that is as long as it can be
_PARTS: Final = {
    "message": gettext_lazy("messages"),
    "call": gettext_lazy("tool calls"),
    "response": gettext_lazy("tool responses"),
    "summary": gettext_lazy("summaries"),
    "quoted": gettext_lazy("other agents, quoted"),
    "thought": gettext_lazy("thoughts"),
    "code": gettext_lazy("code and its output"),
    "other": gettext_lazy("other"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table: what is counted, its tokens, and how long its bar is. `event` begins the turn that it stands for."""

    name: str
    tokens: int
    bar: int = 0
    event: EventView | None = None


@dataclass(frozen=True, slots=True)
class Estimate:
    """The sizes that are shown. `instruction` is None if nobody knows it, `reported` if the event does not say it.

    `rest` is what `reported` has more than `total`; it is negative if the estimate has more.
    """

    sized: Sized
    instruction: int | None
    reported: int | None

    @property
    def history(self) -> int:
        """Returns the tokens of the whole history."""
        return tokens(self.sized.sizes.characters)

    @property
    def total(self) -> int:
        """Returns the tokens of all that is known here."""
        return (self.instruction or 0) + self.history

    @property
    def rest(self) -> int:
        """Returns how many tokens more the event reports."""
        return 0 if self.reported is None else self.reported - self.total

    @property
    def excess(self) -> int:
        """Returns how many tokens fewer the event reports."""
        return max(0, -self.rest)

    @property
    def parts(self) -> list[Row]:
        """Returns the parts of the request, the instruction first, then those of the history by size."""
        rows = [] if self.instruction is None else [Row(_("instruction"), self.instruction)]
        rows += [Row(str(_PARTS[name]), tokens(n)) for name, n in self.sized.sizes.parts.most_common() if n]
        return self._with_bars([*rows, *([Row(_("not known here"), self.rest)] if self.rest > 0 else [])])

    @property
    def turns(self) -> list[Row]:
        """Returns the turns of the history; those before the newest ones are one row."""
        listed, early = self.sized.turns[-TURNS:], self.sized.turns[:-TURNS]
        rows = [Row("early", tokens(sum(n for _event, n in early)))] if early else []
        return self._with_bars(
            [*rows, *(Row("turn" if event else "before", tokens(n), 0, event) for event, n in listed)]
        )

    @property
    def number_early(self) -> int:
        """Returns how many turns that one row stands for."""
        return max(0, len(self.sized.turns) - TURNS)

    def _with_bars(self, rows: Iterable[Row]) -> list[Row]:
        whole = max(self.total, self.reported or 0, 1)
        return [Row(row.name, row.tokens, row.tokens * _WIDEST // whole, row.event) for row in rows]
