"""Folds what a model does not get, so that what it gets can be read."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.utils.translation import gettext_lazy as _

from ...agent_view.conversation import Line
from ...agent_view.exclusion import Kind

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
    "rewound": _("rewound"),
    "compacted": _("summarised"),
    "branch": _("of another branch"),
    "scope": _("of another isolation scope"),
    "node": _("for another node"),
    "empty": _("without content"),
    "internal": _("internal"),
    "progress": _("of a tool's progress"),
    "half": _("with half of a call"),
    "overtaken": _("overtaken by a later response"),
    "unread": _("too large to be read"),
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
