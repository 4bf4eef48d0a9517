"""Sums a session up: its turns, times, tokens and failures, from its events one after the other. Pure.

A turn is one user message and everything that it caused. It took the time between its events, without the time that it
waited for a person.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..domain.description import Description
from ..domain.invocations import seconds_of
from .lines import clean, failure_of

_ASKING: Final = frozenset({"auth", "confirmation", "long_running"})
_TITLE: Final = 120
_MOST_TOKENS: Final = 2**53


@dataclass(slots=True)
class Summary:
    """A session in numbers, as far as it was read. Times are seconds."""

    events: int = 0
    turns: int = 0
    failed_turns: int = 0
    tokens: int = 0
    errors: int = 0
    took: float = 0.0
    first: float = 0.0
    last: float = 0.0
    opening: str = ""  # the first words of the first user message
    error: str = ""  # the last one
    error_seq: int = 0
    failed: bool = False  # the last turn
    edited: bool = False
    spoken: bool = False  # has an event that is not an edit
    asks: bool = False  # a call may wait for somebody
    open: bool = False  # the last event was not a last word
    read: int = 0  # the seq of the last event
    read_id: str = ""
    segments: int = 0  # of the index of words


def fold(so_far: Summary, event: Mapping[str, Any], told: Description, seq: int) -> None:
    """Adds the next event to a summary."""
    so_far.events += 1
    so_far.read, so_far.read_id = seq, str(event.get("id") or "")
    at = seconds_of(event)
    so_far.first = so_far.first or at
    if told.edit:
        so_far.edited = True
        so_far.last = max(so_far.last, at)
        return
    so_far.spoken = True
    text = told.text if told.author == "user" else ""
    speaks = told.author == "user" and bool(text or told.media)
    if speaks:
        so_far.turns += 1
        so_far.failed = False
        so_far.opening = so_far.opening or clean(" ".join(text[: _TITLE * 4].split()), _TITLE)
    elif told.author != "user" and so_far.last and at:
        so_far.took += max(0.0, at - so_far.last)
    if told.tokens and told.tokens > 0:
        so_far.tokens = min(so_far.tokens + told.tokens, _MOST_TOKENS)
    if failure := failure_of(event, told):
        so_far.errors += 1
        so_far.error, so_far.error_seq = clean(failure), seq
        so_far.failed_turns += not so_far.failed
        so_far.failed = True
    so_far.asks = so_far.asks or not _ASKING.isdisjoint(told.kinds)
    so_far.open = told.author == "user" or bool(
        told.calls or told.responses or event.get("partial") or told.actions.get("agent_state")
    )
    so_far.last = max(so_far.last, at)
