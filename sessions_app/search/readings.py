"""Holds what was read of a session until it is stored."""

from dataclasses import dataclass, field
from typing import Any, Final

from ..domain.key_schema import KeySchema
from ..domain.session_ref import SessionRef
from ..models import SearchSession
from .folding import Span, Summary
from .lines import Fact
from .values import Value

Owner = tuple[str, str]  # of shared state: app and user, or app and ""
_KEYS: Final = 50  # whose schemas take as much memory as a piece


@dataclass(frozen=True, slots=True)
class Piece:
    """Some lines of a session as words, and the range of the events that said them."""

    first: int
    last: int
    words: list[str]


@dataclass(slots=True)
class Reading:
    """A session as it was read: all of it, or what is new since its row was `stored`.

    `fields` are the columns of the row that its summary does not have: title, created, updated, phase, listed.
    """

    ref: SessionRef
    stored: SearchSession | None
    summary: Summary
    fields: dict[str, Any] = field(default_factory=dict)
    state: dict[str, Value] = field(default_factory=dict)
    pieces: list[Piece] = field(default_factory=list)
    facts: set[Fact] = field(default_factory=set)
    spans: dict[tuple[str, int], Span] = field(default_factory=dict)  # by kind and number
    learnt: dict[str, KeySchema] = field(default_factory=dict)  # by key
    more: bool = False  # it has more events than are read at once

    @property
    def weight(self) -> int:
        """Returns how much memory it takes, in pieces."""
        return len(self.pieces) + len(self.learnt) // _KEYS

    @property
    def is_news(self) -> bool:
        """Tells whether anything differs from what is stored."""
        stored = self.stored
        return (
            stored is None
            or stored.events != self.summary.events
            or any(getattr(stored, name) != value for name, value in self.fields.items() if "title" not in name)
        )
