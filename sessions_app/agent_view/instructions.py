"""Fills in the `{key}` placeholders of an instruction from state, as ADK's `inject_session_state` does (pure).

The rules are exactly ADK's. Surplus braces and blanks around a name are ignored. A trailing `?` makes a name optional.
Null becomes an empty text, any other value what Python's `str` makes of it. A name that is not an identifier, alone or
after `app:`, `user:` or `temp:`, stays as it was written."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from django.utils.translation import gettext as _

from ..domain.errors import Invalid
from ..domain.state import ABSENT, PREFIXES

Kind = Literal["text", "key", "artifact"]

LONGEST: Final = 500_000  # characters of a template
MOST: Final = 5_000_000  # characters of a filled-in template: a large value may occur in it a thousand times

_PLACEHOLDER: Final = re.compile(r"(?<![$\{\\]){+[^{}]*}+")
_ARTIFACT: Final = "artifact."


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a template: `written` in the template, `shown` to the model.

    `name` is a key (with its prefix) or an artifact. `shown` is None if ADK raises an error because the name does not
    exist, or if the content of an artifact is not known here. `value` is the key's value, or ABSENT."""

    kind: Kind
    written: str
    shown: str | None
    name: str = ""
    optional: bool = False
    value: Any = ABSENT


def pieces(
    template: str, state: Mapping[str, Any], artifact: Callable[[str], str | None] = lambda name: None
) -> list[Piece]:
    """Fills in a template and returns its pieces in order; `state` has full keys, `artifact` returns the text of one.

    Raises Invalid for a template longer than LONGEST, and for one that becomes longer than MOST.
    """
    if len(template) > LONGEST:
        raise Invalid(_("A template can have up to %(number)s characters.") % {"number": LONGEST})
    result = []
    known: dict[str, Piece] = {}
    length = end = 0
    for match in _PLACEHOLDER.finditer(template):
        if match.start() > end:
            result.append(_text(template[end : match.start()]))
        if match[0] not in known:
            known[match[0]] = _placeholder(match[0], state, artifact)
        result.append(known[match[0]])
        length += len(result[-1].shown or "")
        if length > MOST:
            raise Invalid(_("The filled-in template is longer than %(number)s characters.") % {"number": MOST})
        end = match.end()
    if end < len(template):
        result.append(_text(template[end:]))
    return result


def rendered(filled: list[Piece]) -> str | None:
    """Returns the instruction as the model gets it; None if ADK raises an error instead."""
    shown = [piece.shown for piece in filled]
    return None if None in shown else "".join(each for each in shown if each is not None)


def keys_in(template: str) -> set[str]:
    """Returns the keys whose values a template is filled in with: {"user:tier"} for `Hello {user:tier?}`."""
    filled = (_placeholder(written, {}, lambda name: None) for written in set(_PLACEHOLDER.findall(template)))
    return {piece.name for piece in filled if piece.kind == "key"}


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
