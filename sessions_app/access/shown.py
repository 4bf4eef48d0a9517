"""Decides which values leave the core, and for whom: whatever is read for somebody passes `shown`.

No rule hides anything yet: every actor sees each value of the apps that they may see. A rule that masks a key stands in
`mask_of`; it then holds for pages, REST, sockets, exports and commands alike.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from ..domain.json_values import dumps, read_stored_or_none
from ..domain.state import ABSENT, Change, Scope, full_key
from .actor import Actor

Values = TypeVar("Values")
Mask = Callable[[Any], Any]


def mask_of(actor: Actor, app_name: str) -> Mask | None:
    """Returns what hides values of an app from an actor; None if the actor may see them all.

    A mask gets an event, or a state with full keys (`user:card`), and returns the same with other values. SYSTEM
    computes with what is stored, and AGENT passes it on to a model: no mask may be for them.
    """
    return None


def shown(values: Values, actor: Actor, app_name: str, scope: Scope = "session") -> Values:
    """Returns what an actor may see of an event, or of a state. The state of one scope has bare keys."""
    mask = mask_of(actor, app_name)
    if mask is None:
        return values
    if scope == "session" or not isinstance(values, dict):
        return mask(values)  # type: ignore[no-any-return]
    seen = mask({full_key(scope, bare): value for bare, value in values.items()})
    return {bare: seen[full_key(scope, bare)] for bare in values}  # type: ignore[return-value]


def shown_change(change: Change, actor: Actor, app_name: str) -> Change:
    """Returns what an actor may see of the change of a full key."""
    key = change.key
    old, new = (
        value if value is ABSENT else shown({key: value}, actor, app_name)[key] for value in (change.old, change.new)
    )
    return Change(key, old, new)


def shown_text(text: str, actor: Actor, app_name: str, scope: Scope = "session") -> str:
    """Returns what an actor may see of a JSON text: the text itself if that is all of it."""
    if mask_of(actor, app_name) is None:
        return text
    return dumps(shown(read_stored_or_none(text), actor, app_name, scope))


def shown_pieces(pieces: Iterator[str], actor: Actor, app_name: str, scope: Scope = "session") -> Iterator[str]:
    """Returns what an actor may see of a JSON text in pieces. Only to hide something, the whole text is put together."""
    if mask_of(actor, app_name) is None:
        return pieces
    return iter([shown_text("".join(pieces), actor, app_name, scope)])
