"""Decides which values leave the core, and for whom: whatever is read for someone passes `shown`.

It hides the secrets of credentials (domain/credentials.py), always, and what people's rules cover (masking.py). It does
so for everyone, in pages, REST, sockets, exports and commands alike; people who may see such a value ask for it
separately.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Literal, Protocol, TypeVar

from django.utils.translation import gettext as _

from ..domain.errors import Invalid
from ..domain.json_values import as_object, dumps, loads, read_stored, read_stored_or_none
from ..domain.mask_patterns import DOTS
from ..domain.masks import has_dots
from ..domain.state import ABSENT, UNKNOWN, Change, Scope, full_key, same
from . import masking
from .actor import SYSTEM, Actor

Values = TypeVar("Values")
Kind = Scope | Literal["event"]
_REMEMBERED: Final = 20_000  # texts in which a mask hides nothing
_LONGEST_NAME: Final = 100  # characters: none that `Mask.passes` looks for is longer


class Mask(Protocol):
    """Hides values of an app: returns a state with full keys (`user:card`), or an event, with other values or fewer
    keys; the same object if it hides nothing. Without `has_rules`, that is only secrets. `harmless` is for the caller, to
    remember texts in which it hides nothing."""

    harmless: set[int]
    has_rules: bool

    def passes(self, text: str) -> bool:
        """Checks quickly that nothing in a JSON text is hidden: True is certain."""

    def has_dots(self, value: Any) -> bool:
        """Returns whether dots replace something in a value of which this hides something."""

    def __call__(self, state: Any, /) -> Any:
        """Returns what may be seen of a state."""

    def event(self, event: Any, /) -> Any:
        """Returns what may be seen of an event, or of a part of it with the names of its fields."""


def mask_of(actor: Actor, app_name: str) -> Mask:
    """Returns what hides values of an app from an actor who is not the machine.

    All actors that are masked see the same: what a socket shows to PEOPLE is hidden as it is from any person.
    """
    return masking.mask(app_name)


def _mask(actor: Actor, app_name: str) -> Mask | None:
    # SYSTEM computes with what is stored, and agents pass it on to a model. An account may have the name of either.
    if actor is SYSTEM or actor.is_agent_of(app_name):
        return None
    return mask_of(actor, app_name)


def shown(values: Values, actor: Actor, app_name: str, scope: Kind = "session") -> Values:
    """Returns what an actor may see of a state, or of an event or a part of it, if `scope` is "event". The state of one
    scope has bare keys."""
    mask = _mask(actor, app_name)
    if mask is None:
        return values
    return masked(mask, values, scope)


def masked(mask: Mask, values: Values, scope: Kind) -> Values:
    """Returns what a mask leaves of a state or an event, as `shown` does."""
    if scope == "event":
        return mask.event(values)  # type: ignore[no-any-return]
    if scope == "session" or not isinstance(values, dict):
        return mask(values)  # type: ignore[no-any-return]
    full = {full_key(scope, bare): value for bare, value in values.items()}
    if (seen := mask(full)) is full:
        return values
    return {bare: seen[key] for bare in values if (key := full_key(scope, bare)) in seen}  # type: ignore[return-value]


def shown_object(
    text: str | None,
    actor: Actor,
    app_name: str,
    scope: Kind = "session",
    read: Callable[[str], Any] = read_stored,
) -> dict[str, Any]:
    """Returns what an actor may see of the object in a JSON text as it is stored; an empty one if it holds no object.

    Raises what `read` does."""
    if text is None:
        return {}
    values = as_object(read(text))
    mask = _mask(actor, app_name)
    if mask is None or mask.passes(text) or (known := hash((scope, read, text))) in mask.harmless:
        return values
    seen = shown(values, actor, app_name, scope)
    if seen is values:
        _remember(known, mask)
    return seen


def _remember(known: int, mask: Mask) -> None:
    """Most events are read again and again. Comparing a text takes a hundredth of the time of searching it."""
    if len(mask.harmless) >= _REMEMBERED:
        mask.harmless.clear()
    mask.harmless.add(known)


def shown_words(text: str, actor: Actor, app_name: str) -> str:
    """Returns what an actor may see of words that a person typed: a title, a tag, the reason of an edit."""
    return str(shown({"error_message": text}, actor, app_name, "event").get("error_message") or "")


def typed_words(text: str, stored: str, actor: Actor, app_name: str) -> str:
    """Returns the words to store when someone edits others: the stored ones if they sent back what they saw of them.
    Raises Invalid if dots replace something else that is hidden from them."""
    if stored and text == shown_words(stored, actor, app_name):
        return stored
    check_unmasked(text, actor, app_name)
    return text


def typed_value(value: Any, seen: Any, stored: Any, actor: Actor, app_name: str) -> Any:
    """Returns the value to send when someone changed one of which they saw `seen`: with what is stored where they left it
    alone. In a list, only one entry can be changed beside such that are hidden: nobody knows which is which. Raises Invalid
    if dots replace something else."""
    meant, typed = _meant(value, seen, stored)
    check_unmasked(typed, actor, app_name)
    return meant


def _meant(value: Any, seen: Any, stored: Any) -> tuple[Any, Any]:
    """Returns what to send, and what was typed of it: that without the dots that were left alone."""
    if same(value, seen):
        return stored, None if has_dots(value) else value
    match value, seen, stored:
        case dict(), dict(), dict():
            known = {name: (seen[name], stored[name]) for name in seen.keys() & stored.keys()}
            both = {name: _meant(each, *known.get(name, (UNKNOWN, UNKNOWN))) for name, each in value.items()}
            return {name: each[0] for name, each in both.items()}, {name: each[1] for name, each in both.items()}
        case list(), list(), list() if len(value) == len(seen) == len(stored):
            if sum(not same(*each) for each in zip(value, seen, strict=True)) == 1:
                pairs = [_meant(*each) for each in zip(value, seen, stored, strict=True)]
                return [each[0] for each in pairs], [each[1] for each in pairs]
    return value, value


def shown_change(change: Change, actor: Actor, app_name: str) -> Change:
    """Returns what an actor may see of the change of a full key."""
    old, new = (_shown_value(change.key, value, actor, app_name) for value in (change.old, change.new))
    return Change(change.key, old, new)


def shown_words_anywhere(text: str, actor: Actor) -> str:
    """Returns what an actor may see of words about several apps: a rule of any app hides what is in them."""
    mask = None if actor is SYSTEM else masking.mask_of_all()
    return text if mask is None else str(mask.event({"error_message": text})["error_message"])


def shown_anywhere(change: Change, actor: Actor) -> Change:
    """Returns what an actor may see of the change of a full key in several apps: a rule of any app hides it."""
    mask = None if actor is SYSTEM else masking.mask_of_all()
    if mask is None:
        return change
    old, new = (_seen_by(mask, change.key, value) for value in (change.old, change.new))
    return Change(change.key, old, new)


def is_masked(actor: Actor, app_name: str) -> bool:
    """Returns whether any value of an app can be hidden from an actor."""
    return _mask(actor, app_name) is not None


def is_hidden(key: str, values: Iterable[Any], actor: Actor, app_name: str) -> bool:
    """Returns whether any of these values of a full key is hidden from an actor, who then cannot choose among them."""
    return any(_shown_value(key, value, actor, app_name) is not value for value in values)


def _shown_value(key: str, value: Any, actor: Actor, app_name: str) -> Any:
    mask = _mask(actor, app_name)
    return value if mask is None else _seen_by(mask, key, value)


def _seen_by(mask: Mask, key: str, value: Any) -> Any:
    if value is ABSENT or value is UNKNOWN:
        return value
    seen = mask({key: value}).get(key, ABSENT)
    return value if same(seen, value) else seen


def shown_text(text: str, actor: Actor, app_name: str, scope: Kind = "session") -> str:
    """Returns what an actor may see of a JSON text: the text itself if that is all of it."""
    mask = _mask(actor, app_name)
    if mask is None or mask.passes(text) or (known := hash((scope, shown_text, text))) in mask.harmless:
        return text
    values = read_stored_or_none(text)
    seen = shown(values, actor, app_name, scope)
    if seen is values and _says_once(text):
        _remember(known, mask)
        return text
    return dumps(seen)


def _says_once(text: str) -> bool:
    """Returns whether a text has nothing beyond its parsed value: if a key is there twice, parsing drops the first
    value."""
    try:
        loads(text)
    except Invalid:
        return False
    return True


def check_unmasked(state: Any, actor: Actor, app_name: str) -> None:
    """Raises Invalid for a state, or values of keys, in which dots replace what was hidden from the sender."""
    mask = _mask(actor, app_name)
    if mask is not None and mask.has_dots(state):
        raise Invalid(
            _("“%(dots)s” is a placeholder for a hidden value. Leave the key out, or give it a new value.")
            % {"dots": DOTS}
        )


def shown_pieces(
    read: Callable[[], Iterator[str]], actor: Actor, app_name: str, scope: Kind = "session"
) -> Iterator[str]:
    """Returns what an actor may see of a JSON text that `read` yields in pieces, from its start each time.

    The whole text is only put together to hide something."""
    mask = _mask(actor, app_name)
    if mask is None or _pass(mask, read()):
        return read()
    return iter([shown_text("".join(read()), actor, app_name, scope)])


def _pass(mask: Mask, pieces: Iterator[str]) -> bool:
    end = ""
    for piece in pieces:
        if not mask.passes(end + piece):
            return False
        end = piece[-_LONGEST_NAME:]
    return True
