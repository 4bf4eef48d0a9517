"""Finds agents that wrote the same keys at the same time, so that all but the last write were lost (pure).

An agent reads the state when it starts. Two agents on branches `para.creative` and `para.strict` don't see each other's
writes.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class Write(NamedTuple):
    """A write: who wrote which keys, in which invocation and on which branch."""

    invocation_id: str
    branch: str
    author: str
    keys: Iterable[str]


def write_of(event: Mapping[str, Any], invocation_id: str, keys: Iterable[str]) -> Write:
    """Returns what an event wrote; without a branch, it is parallel to nothing."""
    return Write(invocation_id, str(event.get("branch") or ""), str(event.get("author") or ""), keys)


def are_parallel(a: str, b: str) -> bool:
    """Returns whether neither of two branches leads to the other: `p.a` and `p.b` are, `p` and `p.b` are not."""
    return bool(a and b) and not f"{a}.".startswith(f"{b}.") and not f"{b}.".startswith(f"{a}.")


class Writes:
    """All writes of some invocations, by key."""

    def __init__(self, writes: Iterable[Write]) -> None:
        self._by_key: dict[tuple[str, str], list[Write]] = {}
        for write in writes:
            for key in write.keys if write.branch and write.invocation_id else ():
                self._by_key.setdefault((write.invocation_id, key), []).append(write)

    def beside(self, write: Write, key: str) -> tuple[str, ...]:
        """Returns who else wrote a key in parallel with a write, each once."""
        others = self._by_key.get((write.invocation_id, key), ())
        return tuple(dict.fromkeys(each.author for each in others if are_parallel(each.branch, write.branch)))
