"""Reads the opcodes of a pickle and turns them into plain data. Nothing in the pickle is run."""

import pickletools
from collections.abc import Callable
from io import BytesIO
from typing import Any, Final

from ...domain.errors import Invalid
from .pickled import MAPS, Made, Map, Name, name_of

_MOST_STEPS: Final = 1_000_000  # each can make an object of 100 bytes


class Machine:
    """Runs through a pickle's opcodes, from the first to STOP."""

    def __init__(self, pickled: bytes) -> None:
        self._pickled = pickled
        self._stack: list[Any] = []
        self._below: list[list[Any]] = []  # what was on the stack before each MARK
        self._memo: dict[int, Any] = {}

    def run(self) -> Any:
        """Returns the value that the pickle holds."""
        file = BytesIO(self._pickled)
        try:
            for number, (opcode, argument, _offset) in enumerate(pickletools.genops(file)):
                if opcode.name == "STOP":
                    break
                if number > _MOST_STEPS:
                    raise Invalid(f"the pickle has more than {_MOST_STEPS} steps")
                self._step(opcode.name, argument)
        except (IndexError, KeyError) as error:
            raise Invalid("the pickle is damaged") from error
        except (ValueError, TypeError, AttributeError) as error:
            raise Invalid(f"this is not a pickle, or it is damaged: {str(error)[:200]}") from error
        if len(self._stack) != 1 or self._below or file.read(1):
            raise Invalid("the pickle is damaged")
        return self._stack[0]

    def _step(self, name: str, argument: Any) -> None:
        stack = self._stack
        if name in _VALUES:
            stack.append(argument)
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif (method := _STEPS.get(name)) is not None:
            method(self, argument)
        elif name not in ("PROTO", "FRAME"):
            raise Invalid(f"refused, and nothing of it run: the pickle has the opcode {name}")

    def _begin_group(self, _argument: Any) -> None:
        self._below.append(self._stack)
        self._stack = []

    def _end_group(self) -> list[Any]:
        items, self._stack = self._stack, self._below.pop()
        return items

    def _pop(self, count: int) -> tuple[Any, ...]:
        if len(self._stack) < count:
            raise IndexError
        items = tuple(self._stack[-count:])
        del self._stack[-count:]
        return items

    def _tuple(self, _argument: Any) -> None:
        items = tuple(self._end_group())
        self._stack.append(items)

    def _items(self, items: list[Any]) -> None:
        into = self._stack[-1]
        if type(into) is not list:
            raise Invalid("the pickle is damaged")
        into.extend(items)

    def _set(self, items: list[Any]) -> None:
        into = self._stack[-1]
        if type(into) is not Map or len(items) % 2:
            raise Invalid("the pickle is damaged")
        into.pairs.extend(zip(items[::2], items[1::2], strict=True))

    def _memoize(self, index: int | None) -> None:
        self._memo[len(self._memo) if index is None else index] = self._stack[-1]

    def _get(self, index: int) -> None:
        self._stack.append(self._memo[index])

    def _global(self, text: str) -> None:
        module, _space, name = text.partition(" ")
        self._stack.append(name_of(module, name))

    def _stack_global(self, _argument: Any) -> None:
        module, name = self._pop(2)
        if not isinstance(module, str) or not isinstance(name, str):
            raise Invalid("the pickle is damaged")
        self._stack.append(name_of(module, name))

    def _make(self, _argument: Any) -> None:
        """Records what REDUCE and NEWOBJ would make: a class with its arguments. Nothing is called."""
        what, arguments = self._pop(2)
        if not isinstance(what, Name) or not isinstance(arguments, tuple):
            raise Invalid("refused, and nothing of it run: the pickle calls something that is not a class")
        if str(what) in MAPS and not any(isinstance(a, Map) for a in arguments):
            self._stack.append(Map([]))  # its items follow; the default factory is not needed
        else:
            self._stack.append(Made(what, arguments))

    def _build(self, _argument: Any) -> None:
        into, state = self._pop(2)
        if not isinstance(into, Made):
            raise Invalid("the pickle is damaged")
        into.state = state
        self._stack.append(into)


_VALUES: Final = {
    *("BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
}
_EMPTY: Final[dict[str, Callable[[], Any]]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_SET": list,  # JSON has no sets, and the items of a list need not be hashable
    "EMPTY_DICT": lambda: Map([]),
}
_Step = Callable[[Machine, Any], None]
_STEPS: Final[dict[str, _Step]] = {
    "MARK": Machine._begin_group,
    "TUPLE": Machine._tuple,
    "TUPLE1": lambda machine, _: machine._stack.append(machine._pop(1)),
    "TUPLE2": lambda machine, _: machine._stack.append(machine._pop(2)),
    "TUPLE3": lambda machine, _: machine._stack.append(machine._pop(3)),
    "FROZENSET": lambda machine, _: machine._stack.append(machine._end_group()),
    "APPEND": lambda machine, _: machine._items(list(machine._pop(1))),
    "APPENDS": lambda machine, _: machine._items(machine._end_group()),
    "ADDITEMS": lambda machine, _: machine._items(machine._end_group()),
    "SETITEM": lambda machine, _: machine._set(list(machine._pop(2))),
    "SETITEMS": lambda machine, _: machine._set(machine._end_group()),
    "MEMOIZE": Machine._memoize,
    "BINPUT": Machine._memoize,
    "LONG_BINPUT": Machine._memoize,
    "BINGET": Machine._get,
    "LONG_BINGET": Machine._get,
    "GLOBAL": Machine._global,
    "STACK_GLOBAL": Machine._stack_global,
    "REDUCE": Machine._make,
    "NEWOBJ": Machine._make,
    "BUILD": Machine._build,
}
