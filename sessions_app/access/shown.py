"""Decides which values leave the core, and for whom: whatever is read for somebody passes `shown`.

No rule hides anything yet: every actor sees each value of the apps that they may see. A rule that masks a key stands in
`mask_of`; it then holds for pages, REST, sockets, exports and commands alike.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from ..domain.json_values import dumps, read_stored_or_none
from ..domain.state import ABSENT, UNKNOWN, Change, Scope, full_key, same
from .actor import AGENT, SYSTEM, Actor

Values = TypeVar("Values")
Mask = Callable[[Any], Any]


def mask_of(actor: Actor, app_name: str) -> Mask | None:
    """Returns what hides values of an app from an actor; None if the actor may see them all.

    A mask gets an event, or a state with full keys (`user:card`), and returns it with other values or fewer keys. A
    socket shows everybody what PEOPLE may see: hide from PEOPLE what is hidden from any person.
    """
    return None


def _mask(actor: Actor, app_name: str) -> Mask | None:
    # SYSTEM computes with what is stored, and AGENT passes it on to a model. An account may have the name of either.
    return mask_of(actor, app_name) if actor is not SYSTEM and actor is not AGENT else None


def shown(values: Values, actor: Actor, app_name: str, scope: Scope = "session") -> Values:
    """Returns what an actor may see of an event, or of a state. The state of one scope has bare keys."""
    mask = _mask(actor, app_name)
    if mask is None:
        return values
    if scope == "session" or not isinstance(values, dict):
        return mask(values)  # type: ignore[no-any-return]
    seen = mask({full_key(scope, bare): value for bare, value in values.items()})
    return {bare: seen[full] for bare in values if (full := full_key(scope, bare)) in seen}  # type: ignore[return-value]


def shown_change(change: Change, actor: Actor, app_name: str) -> Change:
    """Returns what an actor may see of the change of a full key."""
    old, new = (_shown_value(change.key, value, actor, app_name) for value in (change.old, change.new))
    return Change(change.key, old, new)


def is_hidden(key: str, values: Iterable[Any], actor: Actor, app_name: str) -> bool:
    """Tells whether any of these values of a full key is hidden from an actor, who then cannot choose among them."""
    return any(_shown_value(key, value, actor, app_name) is not value for value in values)


def _shown_value(key: str, value: Any, actor: Actor, app_name: str) -> Any:
    if value is ABSENT or value is UNKNOWN:
        return value
    seen = shown({key: value}, actor, app_name).get(key, ABSENT)
    return value if same(seen, value) else seen


def shown_text(text: str, actor: Actor, app_name: str, scope: Scope = "session") -> str:
    """Returns what an actor may see of a JSON text: the text itself if that is all of it."""
    if _mask(actor, app_name) is None:
        return text
    return dumps(shown(read_stored_or_none(text), actor, app_name, scope))


def shown_pieces(pieces: Iterator[str], actor: Actor, app_name: str, scope: Scope = "session") -> Iterator[str]:
    """Returns what an actor may see of a JSON text in pieces. Only to hide something, the whole text is put together."""
    if _mask(actor, app_name) is None:
        return pieces
    return iter([shown_text("".join(pieces), actor, app_name, scope)])
