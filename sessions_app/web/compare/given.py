"""Compares what the models of two runs were given for the first call that is not the same, or that follows it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from django.urls import reverse
from django.utils.safestring import SafeString

from ...access.actor import Actor
from ...agent_view import agent_files
from ...agent_view.conversation import Conversation, conversation
from ...agent_view.instructions import rendered
from ...agent_view.preview import preview
from ...agent_view.sizes import tokens
from ...domain.alignment import Pair, align
from ...domain.answers import is_answer, prompt_tokens
from ...domain.errors import Error
from ...domain.kinds import describe
from ...domain.session_ref import SessionRef
from ...history import moments
from ...reads.event_views import EventView
from ..html.difference import Differences
from ..html.links import query
from ..session.runs import Run, Runs, Start
from .aligned import Block, blocks


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
        result.error = error.message
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
