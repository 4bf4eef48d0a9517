"""The rows of the timeline: events grouped by turn and invocation, with the time since the event before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from django.conf import settings

from ...access.actor import Actor
from ...agent_view.conversation import LeftOut, left_out
from ...domain.agents import colour_of
from ...domain.clock import Clock, Ended, Took
from ...domain.cost import Usage, cost_of
from ...domain.edit_note import ended_by
from ...domain.errors import Error
from ...domain.invocations import begins_turn
from ...domain.positions import Seq
from ...domain.session_ref import SessionRef
from ...reads.event_views import EventView, timed
from ...running import breakpoints
from ...running.breakpoints import Changed
from ...search.outline import Outline, Reached, Turn, outline
from .chat import Message
from .trace import Drawn


@dataclass(frozen=True, slots=True)
class Line:
    """An event, the numbers of its session, and how long it is from the end of the event before it in its invocation to
    its own: None for the first one, or if a clock was behind.

    `left_out` says why no agent is given the event any more. `said` is what a chat or a trace shows of it. `colour` is its
    agent's. `hidden` events of its turn before it are not shown, where a preview picks some. `changed` is what people
    changed of its call, or of the model's request."""

    event: EventView
    numbers: Mapping[Seq, int]
    since: Took | None
    left_out: LeftOut | None = None
    said: Sequence[Message] = ()
    colour: int = 0
    hidden: int = 0
    changed: Sequence[Changed] = ()


@dataclass(slots=True)
class Invocation:
    """Consecutive events of one invocation.

    `again`: a page shows its beginning already, which is in `count` but not in `lines`. `in_vain`: the invocation that
    this edit ended went on, because its agent's service took the edit in. `headed`: it has a heading of its own; that of
    the turn is enough for the invocation with which it begins."""

    id: str
    first: EventView
    last: Ended
    count: int = 0
    lines: list[Line] = field(default_factory=list)
    again: bool = False
    in_vain: bool = False
    headed: bool = True

    @property
    def is_edit(self) -> bool:
        """Tells whether it is an edit, which somebody made and no agent."""
        return self.first.description.kind == "edit"

    @property
    def ended(self) -> str:
        """Returns the invocation that this edit ended, or an empty string."""
        return ended_by(self.first.description.edit)

    @property
    def took(self) -> Took:
        """Returns how long it is from its first event to its last."""
        return self.first.ended.until(self.last)


@dataclass(slots=True)
class TurnRows:
    """Consecutive events of one turn.

    `turn` is None before the first user message, and if nobody knows (`known`). `begun`: its user message is among the
    rows, so that `errors` and `keys` are all that it has so far. `again`: a page shows its beginning already. `newest` is
    its last event among the rows, after which more are timed by `clock`. `trace` is its picture, where that is shown and
    all its events are among the rows. `agents` are those of the session."""

    turn: Turn | None
    first: EventView
    known: bool
    begun: bool
    last: Ended
    invocations: list[Invocation] = field(default_factory=list)
    errors: int = 0
    keys: frozenset[str] = frozenset()
    again: bool = False
    newest: EventView | None = None
    trace: Drawn | None = None
    agents: Sequence[int] = ()
    clock: Clock = field(default_factory=Clock)

    @property
    def took(self) -> Took:
        """Returns how long it took, without the time that it waited for a person; as far as the rows go if nobody knows."""
        return self.turn.took if self.turn else self.first.ended.until(self.last)

    @property
    def dollars(self) -> float | None:
        """Returns what its tokens cost; None if no model of it has a price."""
        return dollars_of(self.turn.usage if self.turn else ())


def dollars_of(usage: Sequence[Usage]) -> float | None:
    """Returns what tokens cost, by the prices that are set; None if no model of them has a price."""
    cost = cost_of(usage, settings.PRICES)
    return cost.dollars if len(cost.unpriced) < len({each.model for each in usage}) else None


def grouped(
    ref: SessionRef,
    events: Sequence[EventView],
    who: Actor,
    after: TurnRows | None = None,
    gone: Mapping[str, LeftOut] | None = None,
    upto: Reached | None = None,
) -> list[TurnRows]:
    """Groups events by turn, and those of a turn by invocation. `after` are the rows before them; `gone` says, by id, why an
    event is left out."""
    gone = gone or {}
    seqs = [*(event.seq for event in events), *(each.seq for each in gone.values())]
    known = outline(ref, [seq for seq in seqs if seq is not None], actor=who, upto=upto)
    turns: list[TurnRows] = []
    clock = timed(events, Clock(after.clock.base) if after else None)
    changed = breakpoints.changed(ref, events, actor=who)
    for event in events:
        current = turns[-1] if turns else after
        if current is None or _begins(event, known, current):
            turn, begun = known.turn_of(event.seq), begins_turn(event.description)
            turns.append(TurnRows(turn, event, bool(known.numbers), begun, event.ended, agents=known.agents))
        elif not turns:
            turns.append(replace(current, turn=known.turn_of(event.seq), invocations=_last_of(current), again=True))
        colour = colour_of(event.description.author, known.agents)
        _add(
            turns[-1],
            Line(event, known.numbers, None, gone.get(event.id), colour=colour, changed=changed.get(event.id, ())),
        )
    if turns:
        turns[-1].clock = clock
    _say_in_vain([invocation for turn in turns for invocation in turn.invocations])
    return turns


def note_gaps(turns: Sequence[TurnRows]) -> None:
    """Notes on each line how many events of its turn before it are not among the rows. Takes back times that span them."""
    for turn in turns:
        before = 0
        for invocation in turn.invocations:
            for index, line in enumerate(invocation.lines):
                number = line.numbers.get(line.event.seq, 0) if line.event.seq is not None else 0
                if before and number > before + 1:
                    invocation.lines[index] = replace(line, since=None, hidden=number - before - 1)
                before = number


def _begins(event: EventView, known: Outline, before: TurnRows) -> bool:
    """Tells whether a turn begins with an event, or before it in what a filter hides."""
    if begins_turn(event.description):
        return True
    turn = known.turn_of(event.seq)
    return turn is not None and before.known and (before.turn is None or turn.number != before.turn.number)


def _last_of(turn: TurnRows) -> list[Invocation]:
    """Returns the last invocation of a turn, to go on with it."""
    return [replace(turn.invocations[-1], lines=[], again=True)] if turn.invocations else []


def _add(turn: TurnRows, line: Line) -> None:
    event = line.event
    if not turn.invocations or turn.invocations[-1].id != event.invocation_id:
        if turn.invocations and not turn.invocations[-1].lines:
            turn.invocations.pop()  # nothing of it is new
        turn.invocations.append(Invocation(event.invocation_id, event, event.ended))
        current = turn.invocations[-1]
        current.headed = current.is_edit or not (turn.begun and turn.first is event)
    current = turn.invocations[-1]
    since = current.last.until(event.ended) if current.count and event.ended.at >= current.last.at else None
    current.lines.append(replace(line, since=since))
    current.count += 1
    current.last = max(current.last, event.ended)
    turn.last = max(turn.last, event.ended)
    turn.newest = event
    turn.errors += event.description.failed
    turn.keys |= event.description.delta.keys()


def _say_in_vain(groups: Sequence[Invocation]) -> None:
    """Says of edits that ended an invocation whether it went on all the same."""
    later = set[str]()
    for invocation in reversed(groups):
        invocation.in_vain = invocation.ended in later
        later.add(invocation.id)


def no_longer_given(ref: SessionRef, events: Sequence[EventView], who: Actor) -> dict[str, LeftOut]:
    """Returns, by id, why no agent is given an event any more. Empty if that is not known yet: no timeline waits for
    it."""
    try:
        return left_out(ref, events, actor=who)
    except Error:
        return {}
