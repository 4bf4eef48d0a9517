"""Compares two runs event by event, or two moments of state (compare_state.py). Without another session, it offers some."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.views.decorators.http import require_GET

from ...access.actor import Actor
from ...agent_view import agent_files
from ...agent_view.conversation import Conversation, conversation
from ...agent_view.instructions import rendered
from ...agent_view.preview import preview
from ...agent_view.sizes import tokens
from ...domain.alignment import Pair, align
from ...domain.content import is_answer, prompt_tokens
from ...domain.errors import Error
from ...domain.kinds import describe
from ...domain.session_ref import SessionRef
from ...history import moments
from ...http.problems import status_of
from ...reads import views
from ...reads.event_views import EventView
from ...search.outline import Numbers
from ...sources import errors
from ..html.difference import Differences
from ..html.render import page
from ..request import actor
from ..session.runs import Run, Runs, Start, in_numbers_of, read_starts, runs, why, write_starts
from ..templatetags.links import query
from .aligned import FILTERS, Block, blocks
from .other_run import NOW, choices, is_link, other
from .state import compare_state

# --- What the models of both were given for the first call that differs, or that follows the difference ---------------


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a model: the event that it wrote, its number in the session, and what it was given.

    `instruction` is None if nobody knows it. `tokens` are those that the event reports, otherwise an estimate.
    """

    event: EventView
    number: int | None
    conversation: Conversation
    instruction: str | None
    tokens: int
    address: str


@dataclass(slots=True)
class Given:
    """Holds what both models were given. Without `left` or `right`, that run called no model from there on.

    `instruction` is the difference of the instructions; None if one of them is not known.
    """

    left: Call | None = None
    right: Call | None = None
    blocks: list[Block] = field(default_factory=list)
    same: bool = False
    instruction: SafeString | None = None
    error: str = ""

    @property
    def calls(self) -> list[Call | None]:
        """Returns the calls of both sides."""
        return [self.left, self.right]

    @property
    def earlier(self) -> bool:
        """Tells whether a model was given more than is compared."""
        return any(call.conversation.earlier for call in self.calls if call)


def given(both: Runs, *, actor: Actor) -> Given | None:
    """Compares what the models were given at the first divergence of two runs; None if there is none on this page.

    Where that cannot be said, or not yet, the answer says so.
    """
    pairs = both.alignment.pairs
    at = next((n for n, pair in enumerate(pairs) if not pair.same), None)
    if at is None:
        return None
    answers = [_first_answer(pairs[at:], side) for side in ("left", "right")]
    result = Given()
    try:
        result.left, result.right = (
            _call(run, event, actor) if event else None
            for run, event in zip((both.left, both.right), answers, strict=True)
        )
    except Error as error:
        result.error = errors.shown(error, actor)
        return result
    if result.left and result.right:
        _compare(result, result.left, result.right)
    return result


def _first_answer(pairs: Sequence[Pair[EventView]], side: str) -> EventView | None:
    events = (event for pair in pairs if (event := getattr(pair, side)))
    return next((event for event in events if is_answer(event.data)), None)


def _call(run: Run, event: EventView, actor: Actor) -> Call:
    shown = conversation(run.ref, event, actor=actor, given=True)
    instruction = _instruction(run.ref, event, shown.reader.agent, actor)
    size = tokens(shown.sized.sizes.characters + len(instruction or "")) if shown.sized else 0
    return Call(
        event,
        run.numbers.get(event.id),
        shown,
        instruction,
        prompt_tokens(event.data) or size,
        f"{reverse('context', kwargs=run.ref._asdict())}?{query(at=event.id)}",
    )


def _instruction(ref: SessionRef, event: EventView, agent: str, actor: Actor) -> str | None:
    """Returns the instruction of an agent's files, filled in from the state before an event."""
    written = agent_files.instruction(ref, agent, actor=actor)
    if written is None or written.kind != "text":
        return "" if written and written.kind == "none" else None
    moment = moments.state_at(ref, event.id, actor=actor, before=True)
    return rendered([shown.piece for shown in preview(moment, written.text, given=True)])


def _compare(result: Given, left: Call, right: Call) -> None:
    contents = [_contents(call.conversation) for call in (left, right)]
    alignment = align(*contents)
    unknown = None if result.earlier else 0  # of parts of a conversation, nobody knows how much precedes them
    start = Start(events=unknown, turns=unknown)
    one, other = (Run(call.event.ref, start, some, None) for call, some in zip((left, right), contents, strict=True))
    result.blocks = list(blocks(Runs(one, other, alignment), None))
    result.same = alignment.first is None
    if left.instruction is not None and right.instruction is not None:
        result.instruction = Differences().text(left.instruction, right.instruction)


def _contents(shown: Conversation) -> list[EventView]:
    """Returns each content that a model was given as if it were an event that says nothing else."""
    contents = []
    for line in shown.lines:
        if line.content:
            data = {
                "author": line.content.author,
                "content": {"role": line.content.role, "parts": list(line.content.parts)},
            }
            contents.append(replace(line.event, data=data, description=describe(data), changes=[], size=0))
    return contents


# --- The page ---------------------------------------------------------------------------------------------------------

_TOLD: Final = 0.1  # seconds of a difference that is told
_GIVEN: Final = "given"  # chosen like a filter: what the models got, instead of the events


@dataclass(frozen=True, slots=True)
class Head:
    """A session at the top: its figures, and for the second one how they differ from those of the first."""

    view: views.SessionView
    numbers: Numbers | None
    took: float | None = None
    tokens: int | None = None


@require_GET
def compare(request: HttpRequest, **names: str) -> HttpResponse:
    """Shows two runs beside each other; with ?a= or ?b=, two moments; without a second session, those to choose from."""
    if "a" in request.GET or "b" in request.GET:
        return compare_state(request, **names)
    ref, who = SessionRef(**names), actor(request)
    view = views.session(ref, partly=True, actor=who)  # raises NotFound
    text = request.GET.get("find", "").strip()
    asked = text if is_link(text) else request.GET.get("with", "").strip()
    if not asked:
        return page(request, "compare/compare/choose.html", {"ref": ref, "view": view, **choices(request, ref)})
    try:
        second = views.session(other(ref, asked, who)[0], partly=True, actor=who)
    except Error as error:
        return _refused(request, view, asked, error)
    if is_link(text):
        return redirect(_address(ref, second.ref) + "#first-divergence")
    return page(request, "compare/compare/compare.html", _context(request, view, second))


def _refused(request: HttpRequest, view: views.SessionView, asked: str, error: Error) -> HttpResponse:
    context = {"ref": view.ref, "view": view, **choices(request, view.ref), "find": asked}
    context["fault"] = errors.shown(error, actor(request))
    return page(request, "compare/compare/choose.html", context, status_of(error))


def _context(request: HttpRequest, left: views.SessionView, right: views.SessionView) -> dict[str, Any]:
    who, only = actor(request), request.GET.get("only", "")
    both = runs(left.ref, right.ref, read_starts(request.GET.get("page", "")), actor=who)
    pairs = both.alignment.pairs
    counts = {name: sum(map(is_one, pairs)) for name, is_one in FILTERS.items()}
    address, here = _address(left.ref, right.ref), {"page": request.GET.get("page", "")}
    return {
        "ref": left.ref,
        "runs": both,
        "heads": _heads(both, left, right, request),
        "blocks": [] if only == _GIVEN else list(blocks(both, FILTERS.get(only))),
        "given": given(both, actor=who) if only == _GIVEN else None,
        "first": both.alignment.first,
        "why": why(both, actor=who),
        "only": only if only in (*FILTERS, _GIVEN) else "",
        "counts": counts,
        "all": _address(left.ref, right.ref, **here),
        "filters": {name: _address(left.ref, right.ref, **here, only=name) for name in (*FILTERS, _GIVEN)},
        "swap": _address(right.ref, left.ref, only=only) + "#first-divergence",
        "states": f"{address}&{urlencode({'a': NOW, 'b': NOW})}",
        "link": _address(left.ref, right.ref, **here, only=only),
        "from_start": _address(left.ref, right.ref, page="0"),
        "on": _address(left.ref, right.ref, page=write_starts(both), only=only) if both.more else "",
    }


def _address(left: SessionRef, right: SessionRef, **given: str) -> str:
    asked = {"with": reverse("session", kwargs=right._asdict())} | {name: text for name, text in given.items() if text}
    return f"{reverse('compare', kwargs=left._asdict())}?{urlencode(asked)}"


def _heads(both: Runs, left: views.SessionView, right: views.SessionView, request: HttpRequest) -> list[Head]:
    one, other = (in_numbers_of(run, actor(request)) for run in (both.left, both.right))
    if not (one and other):
        return [Head(left, one), Head(right, other)]
    took = other.took.seconds - one.took.seconds
    return [Head(left, one), Head(right, other, took if abs(took) >= _TOLD else None, other.tokens - one.tokens)]
