"""Estimates how large the contents of a request are, by part and by turn (pure).

Only characters are counted, of text and of JSON. A token is taken for CHARACTERS of them, whatever the language and the
model. Files are not estimated: what one costs depends on the model.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..domain.description import Part, length_of, parts_of
from ..domain.errors import Invalid
from ..domain.json_values import dumps
from .content import Content

CHARACTERS: Final = 4
_CODE: Final = ("code", "code_result")
_FILES: Final = ("image", "file")


@dataclass(slots=True)
class Turn:
    """The characters of a turn. `index` is that of the event with which it starts; -1 for what comes before the
    first."""

    index: int
    characters: int = 0


@dataclass(slots=True)
class Sizes:
    """The characters of a request's contents.

    `parts` has them by what they are: summary, quoted, message, thought, call, response, code or other. `files` and
    `bytes` are the number of files, and their size as far as the session holds them.
    """

    parts: Counter[str] = field(default_factory=Counter)
    turns: list[Turn] = field(default_factory=list)
    files: int = 0
    bytes: int = 0

    @property
    def characters(self) -> int:
        """Returns all characters together."""
        return self.parts.total()


def tokens(characters: int) -> int:
    """Returns the estimate for so many characters."""
    return round(characters / CHARACTERS)


def sizes_of(contents: Sequence[Content], begins_turn: Callable[[int], bool]) -> Sizes:
    """Returns the sizes of contents; `begins_turn` returns, for an index, whether the event is a user's message."""
    sizes = Sizes()
    for content in contents:
        if not content.summary and not content.quoted and begins_turn(content.index):
            sizes.turns.append(Turn(content.index))
        elif not sizes.turns:
            sizes.turns.append(Turn(-1))
        for part in parts_of({"content": {"parts": list(content.parts)}}):
            if part.kind in _FILES:
                sizes.files += 1
                sizes.bytes += part.bytes
            else:
                length = _length(part)
                sizes.parts[_name(content, part)] += length
                sizes.turns[-1].characters += length
    return sizes


def _name(content: Content, part: Part) -> str:
    if content.summary or content.quoted:
        return "summary" if content.summary else "quoted"
    if part.kind in _CODE:
        return "code"
    return {"text": "message", "unknown": "other"}.get(part.kind, part.kind)


def _length(part: Part) -> int:
    if part.kind in ("call", "response"):
        return len(part.name) + _written(part.value)
    return length_of(part.value) if isinstance(part.value, str) else _written(part.value)


def _written(value: Any) -> int:
    try:
        return len(dumps(value))
    except Invalid:  # nested too deep; ADK itself cannot send it
        return 0
