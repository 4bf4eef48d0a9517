"""`{key}` in an instruction, filled in from state as ADK's `inject_session_state` does it, piece by piece (pure).

ADK's own rules, kept to the letter: braces and blanks around a name do not count, a trailing `?` makes it optional, null is
the empty text, any other value is what Python writes of it. A name that is no identifier, alone or after `app:`, `user:`,
`temp:`, stays as it was written.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from django.utils.translation import gettext as _

from ..domain.state import ABSENT, PREFIXES
from ..errors import Invalid

Kind = Literal["text", "key", "artifact"]

LONGEST: Final = 500_000  # characters of a template
MOST: Final = 5_000_000  # characters of what it becomes: a value may be large, and stand there a thousand times

_PLACEHOLDER: Final = re.compile(r"(?<![$\{\\]){+[^{}]*}+")
_ARTIFACT: Final = "artifact."


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a template: `written` as it stands there, `shown` as the model gets it.

    `name` is that of a key (with prefix) or an artifact. `shown` is None where ADK raises an error: the name is needed and
    not there, or, of an artifact, nobody here knows what is in it. `value` is a key's, ABSENT for none.
    """

    kind: Kind
    written: str
    shown: str | None
    name: str = ""
    optional: bool = False
    value: Any = ABSENT


def pieces(
    template: str, state: Mapping[str, Any], artifact: Callable[[str], str | None] = lambda name: None
) -> list[Piece]:
    """A template's pieces in order; `state` has full keys, `artifact` answers the text of one, or None.

    Raises Invalid for a template longer than LONGEST, and where it becomes longer than MOST.
    """
    if len(template) > LONGEST:
        raise Invalid(_("A template can have %(number)s characters here.") % {"number": LONGEST})
    found = []
    known: dict[str, Piece] = {}
    length = end = 0
    for match in _PLACEHOLDER.finditer(template):
        if match.start() > end:
            found.append(_text(template[end : match.start()]))
        if match[0] not in known:
            known[match[0]] = _placeholder(match[0], state, artifact)
        found.append(known[match[0]])
        length += len(found[-1].shown or "")
        if length > MOST:
            raise Invalid(_("Filled in, this template has more than %(number)s characters.") % {"number": MOST})
        end = match.end()
    if end < len(template):
        found.append(_text(template[end:]))
    return found


def rendered(found: list[Piece]) -> str | None:
    """The instruction as the model gets it; None where ADK raises an error instead."""
    shown = [piece.shown for piece in found]
    return None if None in shown else "".join(each for each in shown if each is not None)


def _placeholder(written: str, state: Mapping[str, Any], artifact: Callable[[str], str | None]) -> Piece:
    name = written.lstrip("{").rstrip("}").strip()
    optional = name.endswith("?")
    name = name.removesuffix("?")
    if name.startswith(_ARTIFACT):
        name = name.removeprefix(_ARTIFACT)
        text = artifact(name)
        return Piece("artifact", written, "" if text is None and optional else text, name, optional)
    if not _is_key(name):
        return _text(written)
    value = state.get(name, ABSENT)
    if value is ABSENT:
        return Piece("key", written, "" if optional else None, name, optional)
    return Piece("key", written, "" if value is None else str(value), name, optional, value)


def _is_key(name: str) -> bool:
    prefix, colon, bare = name.partition(":")
    return bare.isidentifier() and prefix + colon in PREFIXES.values() if colon else name.isidentifier()


def _text(written: str) -> Piece:
    return Piece("text", written, written)
