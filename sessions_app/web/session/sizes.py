"""Sizes on the page of what the agent sees: tokens, estimated, by part and by turn."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from django.utils.translation import gettext_lazy as _

from ...agent_view.conversation import Sized
from ...agent_view.sizes import tokens
from ...reads.event_views import EventView

TURNS: Final = 20  # that are listed one by one
_WIDEST: Final = 1_000  # a bar that is as long as it can be
_PARTS: Final = {
    "message": _("messages"),
    "call": _("tool calls"),
    "response": _("tool responses"),
    "summary": _("summaries"),
    "quoted": _("other agents, quoted"),
    "thought": _("thoughts"),
    "code": _("code and its output"),
    "other": _("other"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table: what is counted, its tokens, and how long its bar is. `event` begins the turn that it stands for."""

    name: str
    tokens: int
    bar: int = 0
    event: EventView | None = None


@dataclass(frozen=True, slots=True)
class Told:
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
        rows = [] if self.instruction is None else [Row(str(_("instruction")), self.instruction)]
        rows += [Row(str(_PARTS[name]), tokens(n)) for name, n in self.sized.sizes.parts.most_common() if n]
        return self._with_bars([*rows, *([Row(str(_("not known here")), self.rest)] if self.rest > 0 else [])])

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
