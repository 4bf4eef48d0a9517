"""Reads `EventActions` from a pickle, as JSON, without running anything in the pickle.

ADK's schema v0 keeps the actions of an event as a pickle, and a pickle is a program. This is not an unpickler with a
list of forbidden things: `pickle_machine` reads the few opcodes that such a pickle has, and turns them into plain data.
A name in the pickle is never looked up or imported. It only tells how the data after it becomes JSON (`pickled`). At an
unknown name, reading stops. A model becomes what its `__dict__` has; a value of the standard library becomes what
pydantic would make of it.
"""

import base64
from collections.abc import Iterator
from decimal import InvalidOperation
from typing import Any, Final

from ...domain.adk_fields import ANYTHING
from ...domain.errors import Invalid
from .pickle_machine import Machine
from .pickled import ACTIONS, KNOWN, Made, Map

MOST_BYTES: Final = 64 * 2**20
_MOST_LENGTH: Final = MOST_BYTES  # of the JSON, 64 for each value: a value that is named twice is written twice
_DEEPEST: Final = 200  # levels; ADK's parser fails beyond that


def actions(pickled: bytes) -> dict[str, Any]:
    """Returns the actions of an event. Raises Invalid unless the pickle holds EventActions or a dict, as ADK's do."""
    if len(pickled) > MOST_BYTES:
        raise Invalid(f"the pickled actions have {len(pickled)} bytes; the limit is {MOST_BYTES}")
    try:
        value = Machine(pickled).run()
        if isinstance(value, Made) and value.name != ACTIONS:
            raise Invalid(f"the pickle is a {value.name}, not EventActions")
        made = _Json().of(value, depth=0, keep_null=False)
    except Invalid as error:
        raise Invalid(f"actions: {error.message}") from error
    except RecursionError as error:
        raise Invalid(f"actions: nested deeper than {_DEEPEST} levels, which no agent could read") from error
    except ValueError as error:  # int() of too many digits
        raise Invalid(f"actions: {error}") from error
    if not isinstance(made, dict):
        raise Invalid("actions: the pickle holds no actions")
    return made


class _Json:
    """Turns values into the JSON that ADK's migration makes of them."""

    def __init__(self) -> None:
        self._length = 0

    def of(self, value: Any, *, depth: int, keep_null: bool) -> Any:
        """Turns a value into JSON. `keep_null` keeps a model's nulls, as ADK does in fields that can hold any value."""
        self._count(value)
        if depth > _DEEPEST:
            raise Invalid(f"nested deeper than {_DEEPEST} levels, which no agent could read")
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, bytes | bytearray):
            return base64.urlsafe_b64encode(value).decode()
        if isinstance(value, list | tuple):
            return [self.of(each, depth=depth + 1, keep_null=keep_null) for each in value]
        if isinstance(value, Map):
            return {self._key(key): self.of(each, depth=depth + 1, keep_null=keep_null) for key, each in value.pairs}
        if isinstance(value, Made):
            return self._made(value, depth, keep_null)
        raise Invalid(f"the pickle has {value} itself as a value")

    def _count(self, value: Any) -> None:
        length = len(value) if isinstance(value, str | bytes | bytearray) else 0
        if isinstance(value, int):
            length = value.bit_length() // 3  # digits, about
        self._length += 64 + length
        if self._length > _MOST_LENGTH:
            raise Invalid(f"the pickle unfolds to more than {_MOST_LENGTH} bytes")

    def _key(self, key: Any) -> str:
        if isinstance(key, str):
            self._count(key)
            return key
        plain = self.of(key, depth=0, keep_null=False)
        if isinstance(plain, list | dict):
            raise Invalid("the pickle has a key that JSON cannot have")
        return {True: "true", False: "false"}[plain] if isinstance(plain, bool) else str(plain)

    def _made(self, value: Made, depth: int, keep_null: bool) -> Any:
        if (convert := KNOWN.get(str(value.name))) is not None:
            try:
                return self.of(convert(value), depth=depth + 1, keep_null=keep_null)
            except (ValueError, TypeError, AttributeError, LookupError, OverflowError, InvalidOperation) as error:
                raise Invalid(f"the pickle has a {value.name} that is not valid") from error
        if value.state is None and len(value.arguments) == 1 and isinstance(value.arguments[0], str | int):
            return self.of(value.arguments[0], depth=depth + 1, keep_null=keep_null)  # an enumeration
        fields = dict(_fields(value))
        any_value = value.name == ACTIONS
        return {
            self._key(name): self.of(each, depth=depth + 1, keep_null=keep_null or (any_value and name in ANYTHING))
            for name, each in fields.items()
            if each is not None or keep_null
        }


def _fields(value: Made) -> Iterator[tuple[str, Any]]:
    """Yields the fields of a pydantic model, from its pickled state."""
    parts = value.state.pairs if isinstance(value.state, Map) and not value.arguments else []
    plain = {key: each for key, each in parts if isinstance(key, str)}
    for part in ("__dict__", "__pydantic_extra__"):
        inner = plain.get(part)
        if isinstance(inner, Map) and all(isinstance(key, str) for key, _each in inner.pairs):
            yield from inner.pairs
        elif inner is not None or part not in plain:
            raise Invalid(f"the pickle has a {value.name} that is not a model")
