"""An instruction as the page of what the agent sees shows it: filled in, with its placeholders marked and listed."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ...agent_view.preview import Shown
from ...domain.state import scope_of

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
