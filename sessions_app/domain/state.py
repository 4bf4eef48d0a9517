"""Splits state by scope, merges it, applies deltas to it and compares it (pure).

Keys are full keys, with their prefix, everywhere except inside `Scoped`. It holds them as ADK's tables do, without it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from .json_values import equal

Scope = Literal["app", "user", "session", "temp"]
State = dict[str, Any]

APP, USER, TEMP = "app:", "user:", "temp:"
PREFIXES: Final[dict[Scope, str]] = {"app": APP, "user": USER, "session": "", "temp": TEMP}
STORED: Final[tuple[Scope, ...]] = ("session", "user", "app")  # in the order in which they are shown


class Absent:
    """The value of a key that does not exist. Null is another value."""

    def __repr__(self) -> str:
        return "ABSENT"

    def __bool__(self) -> bool:
        return False


class Unknown:
    """A value that cannot be known from what is stored. It is never guessed."""

    def __repr__(self) -> str:
        return "UNKNOWN"

    def __bool__(self) -> bool:
        return False


ABSENT: Final = Absent()
UNKNOWN: Final = Unknown()


@dataclass(frozen=True, slots=True)
class Change:
    """A key's value before and after: ABSENT if the key did not or does not exist, UNKNOWN if that can't be known.

    `beside` has the agents that wrote the key in the same invocation on parallel branches: the last value counts.
    """

    key: str
    old: Any
    new: Any
    beside: tuple[str, ...] = ()

    @property
    def scope(self) -> Scope:
        """Returns the scope that the key's prefix names."""
        return scope_of(self.key)[0]

    @property
    def same(self) -> bool:
        """Returns whether the key already had this value; False if the old value is UNKNOWN."""
        return self.old is not UNKNOWN and same(self.old, self.new)


@dataclass(slots=True)
class Scoped:
    """State or a delta as ADK's tables hold it: by scope, with keys without a prefix."""

    app: State = field(default_factory=dict)
    user: State = field(default_factory=dict)
    session: State = field(default_factory=dict)
    temp: State = field(default_factory=dict)

    def scope(self, scope: Scope) -> State:
        """Returns the keys and values of a scope."""
        found: State = getattr(self, scope)
        return found

    def merged(self) -> State:
        """Returns the state as an agent sees it: session keys, then `app:` keys, then `user:` keys."""
        return (
            self.session
            | {APP + key: value for key, value in self.app.items()}
            | {USER + key: value for key, value in self.user.items()}
        )

    def get(self, key: str) -> Any:
        """Returns the value of a full key, or ABSENT."""
        scope, bare = scope_of(key)
        return self.scope(scope).get(bare, ABSENT)


def scope_of(key: str) -> tuple[Scope, str]:
    """Returns the scope of a full key, and the key without its prefix: ("user", "tier") for `user:tier`."""
    if ":" not in key:
        return "session", key
    for scope, prefix in PREFIXES.items():
        if prefix and key.startswith(prefix):
            return scope, key[len(prefix) :]
    return "session", key


def full_key(scope: Scope, bare: str) -> str:
    """Returns a key with the prefix of its scope: `user:tier`."""
    return PREFIXES[scope] + bare


def shown_order(key: str) -> tuple[bool, str]:
    """Returns the sort key of a key among those of its scope: by name, with ADK's own and others with an underscore last."""
    return key.startswith("_"), key


def split(delta: Mapping[str, Any]) -> Scoped:
    """Splits a delta with full keys by scope."""
    scoped = Scoped()
    for key, value in delta.items():
        scope, bare = scope_of(key)
        scoped.scope(scope)[bare] = value
    return scoped


def without_temp(delta: Mapping[str, Any]) -> State:
    """Returns a delta without its `temp:` keys, which are never stored."""
    return {key: value for key, value in delta.items() if not key.startswith(TEMP)}


def apply(state: Mapping[str, Any], delta: Mapping[str, Any], removed: Iterable[str] = ()) -> State:
    """Returns the state after a delta.

    A new value replaces the old one, null is stored, and `removed` keys are gone.
    """
    after = {**state, **delta}
    for key in removed:
        after.pop(key, None)
    return after


def fold(initial: Mapping[str, Any], deltas: Iterable[tuple[Mapping[str, Any], Iterable[str]]]) -> State:
    """Returns the state after a series of pairs (delta, removed keys), without `temp:` keys."""
    state = without_temp(initial)
    for delta, removed in deltas:
        state = apply(state, without_temp(delta), removed)
    return state


def same(a: Any, b: Any) -> bool:
    """Returns whether two values of a key are equal, or both ABSENT, or both UNKNOWN."""
    if a is ABSENT or b is ABSENT or a is UNKNOWN or b is UNKNOWN:
        return a is b
    return equal(a, b)


def differs(then: Any, now: Any) -> bool:
    """Returns whether a key is known to have two different values; ABSENT is one."""
    return then is not UNKNOWN and now is not UNKNOWN and not same(then, now)


def diff(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """Returns what differs between two states, in the order of the keys."""
    keys = sorted(old.keys() | new.keys())
    changes = (Change(key, old.get(key, ABSENT), new.get(key, ABSENT)) for key in keys)
    return [c for c in changes if not same(c.old, c.new)]
