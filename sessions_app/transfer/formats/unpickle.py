"""`EventActions` out of a pickle, as JSON, with nothing of the pickle ever run.

ADK's schema v0 keeps an event's actions pickled, and a pickle is a program. This is no unpickler with a list of what is
forbidden: it reads the few opcodes of which such a pickle consists and makes plain data of them. A name in it is never
looked up or imported: it only says how what follows becomes JSON, and one that is not known here ends the reading. Models
are what `__dict__` says they are; the standard library's values become what pydantic makes of them in JSON.
"""

import base64
import pickletools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal, InvalidOperation
from io import BytesIO
from typing import Any, Final
from uuid import UUID

from ...errors import Invalid

MOST_BYTES: Final = 64 * 2**20
_MOST_STEPS: Final = 1_000_000  # each can make an object of 100 bytes
_MOST_LENGTH: Final = MOST_BYTES  # of the JSON, a value counted as 64: what is named twice is written twice, and so on
_LONGEST_PATH: Final = 100_000
_DEEPEST: Final = 200  # levels; ADK's parser stops there


def actions(pickled: bytes) -> dict[str, Any]:
    """The actions of an event. Raises Invalid for anything but a pickle of EventActions, or of a dict, made by ADK."""
    if len(pickled) > MOST_BYTES:
        raise Invalid(f"the pickled actions have {len(pickled)} bytes; the limit is {MOST_BYTES}")
    try:
        value = _Machine(pickled).run()
        if isinstance(value, _Made) and value.name != _ACTIONS:
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


@dataclass(frozen=True, slots=True)
class _Name:
    """A class, by name only."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(slots=True, eq=False)
class _Made:
    """What a class would have made of arguments and a state."""

    name: _Name
    arguments: tuple[Any, ...]
    state: Any = None


@dataclass(slots=True, eq=False)
class _Map:
    """A dict as it was put together; no key is ever hashed, which a hostile pickle could make slow."""

    pairs: list[tuple[Any, Any]]


_ACTIONS: Final = _Name("google.adk.events.event_actions", "EventActions")
_MODELS: Final = frozenset(  # whose models and enumerations actions can hold
    {
        _ACTIONS.module,
        "fastapi.openapi.models",
        "google.adk.auth.auth_credential",
        "google.adk.auth.auth_schemes",
        "google.adk.auth.auth_tool",
        "google.adk.events.ui_widget",
        "google.adk.tools.tool_confirmation",
        "google.genai.types",
    }
)
_CLASS: Final = re.compile(r"[A-Z]\w*")
_MAPS: Final = {"builtins.dict", "collections.OrderedDict", "collections.defaultdict"}
_LISTS: Final = {"builtins.list", "builtins.tuple", "builtins.set", "builtins.frozenset"}
_PATHS: Final = {
    f"{module}.{name}": "\\" if "Windows" in name else "/"
    for module in ("pathlib", "pathlib._local")
    for name in ("PurePosixPath", "PosixPath", "PureWindowsPath", "WindowsPath")
}


def _named(module: str, name: str) -> _Name:
    """A name that actions can hold; the standard library's may stand under the name that Python 2 had for it."""
    found = _Name({"__builtin__": "builtins"}.get(module, module), name)
    if not (module in _MODELS and _CLASS.fullmatch(name)) and str(found) not in _KNOWN:
        raise Invalid(f"refused, and nothing of it run: the pickle names {module[:100]}.{name[:100]}".strip())
    return found


class _Machine:
    """Goes through a pickle's opcodes, from the first to STOP."""

    def __init__(self, pickled: bytes) -> None:
        self._pickled = pickled
        self._stack: list[Any] = []
        self._below: list[list[Any]] = []  # what was on the stack before each mark
        self._memo: dict[int, Any] = {}

    def run(self) -> Any:
        """What the pickle is of."""
        file = BytesIO(self._pickled)
        try:
            for number, (opcode, argument, _place) in enumerate(pickletools.genops(file)):
                if opcode.name == "STOP":
                    break
                if number > _MOST_STEPS:
                    raise Invalid(f"the pickle has more than {_MOST_STEPS} steps")
                self._step(opcode.name, argument)
        except (IndexError, KeyError) as error:
            raise Invalid("the pickle is damaged") from error
        except (ValueError, TypeError, AttributeError) as error:
            raise Invalid(f"this is no pickle, or a damaged one: {str(error)[:200]}") from error
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

    def _mark(self, _argument: Any) -> None:
        self._below.append(self._stack)
        self._stack = []

    def _marked(self) -> list[Any]:
        found, self._stack = self._stack, self._below.pop()
        return found

    def _pop(self, count: int) -> tuple[Any, ...]:
        if len(self._stack) < count:
            raise IndexError
        found = tuple(self._stack[-count:])
        del self._stack[-count:]
        return found

    def _tuple(self, _argument: Any) -> None:
        found = tuple(self._marked())
        self._stack.append(found)

    def _items(self, found: list[Any]) -> None:
        into = self._stack[-1]
        if type(into) is not list:
            raise Invalid("the pickle is damaged")
        into.extend(found)

    def _set(self, found: list[Any]) -> None:
        into = self._stack[-1]
        if type(into) is not _Map or len(found) % 2:
            raise Invalid("the pickle is damaged")
        into.pairs.extend(zip(found[::2], found[1::2], strict=True))

    def _memoize(self, index: int | None) -> None:
        self._memo[len(self._memo) if index is None else index] = self._stack[-1]

    def _get(self, index: int) -> None:
        self._stack.append(self._memo[index])

    def _global(self, text: str) -> None:
        module, _space, name = text.partition(" ")
        self._stack.append(_named(module, name))

    def _stack_global(self, _argument: Any) -> None:
        module, name = self._pop(2)
        if not isinstance(module, str) or not isinstance(name, str):
            raise Invalid("the pickle is damaged")
        self._stack.append(_named(module, name))

    def _make(self, _argument: Any) -> None:
        """REDUCE and NEWOBJ: what a class makes of arguments. Nothing is called."""
        what, arguments = self._pop(2)
        if not isinstance(what, _Name) or not isinstance(arguments, tuple):
            raise Invalid("refused, and nothing of it run: the pickle calls what is no class")
        if str(what) in _MAPS and not any(isinstance(a, _Map) for a in arguments):
            self._stack.append(_Map([]))  # its items follow; a default factory is not needed
        else:
            self._stack.append(_Made(what, arguments))

    def _build(self, _argument: Any) -> None:
        into, state = self._pop(2)
        if not isinstance(into, _Made):
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
    "EMPTY_SET": list,  # JSON has no sets, and nothing that is in one needs to be hashable then
    "EMPTY_DICT": lambda: _Map([]),
}
_Step = Callable[[_Machine, Any], None]
_STEPS: Final[dict[str, _Step]] = {
    "MARK": _Machine._mark,
    "TUPLE": _Machine._tuple,
    "TUPLE1": lambda machine, _: machine._stack.append(machine._pop(1)),
    "TUPLE2": lambda machine, _: machine._stack.append(machine._pop(2)),
    "TUPLE3": lambda machine, _: machine._stack.append(machine._pop(3)),
    "FROZENSET": lambda machine, _: machine._stack.append(machine._marked()),
    "APPEND": lambda machine, _: machine._items(list(machine._pop(1))),
    "APPENDS": lambda machine, _: machine._items(machine._marked()),
    "ADDITEMS": lambda machine, _: machine._items(machine._marked()),
    "SETITEM": lambda machine, _: machine._set(list(machine._pop(2))),
    "SETITEMS": lambda machine, _: machine._set(machine._marked()),
    "MEMOIZE": _Machine._memoize,
    "BINPUT": _Machine._memoize,
    "LONG_BINPUT": _Machine._memoize,
    "BINGET": _Machine._get,
    "LONG_BINGET": _Machine._get,
    "GLOBAL": _Machine._global,
    "STACK_GLOBAL": _Machine._stack_global,
    "REDUCE": _Machine._make,
    "NEWOBJ": _Machine._make,
    "BUILD": _Machine._build,
}


# --- As JSON ----------------------------------------------------------------------------------------------------------


class _Json:
    """Values as the JSON that ADK's migration makes of them."""

    def __init__(self) -> None:
        self._length = 0

    def of(self, value: Any, *, depth: int, keep_null: bool) -> Any:
        """One value. `keep_null`: whether a model's nulls stay, as they do where ADK has any value, not this model."""
        self._count(value)
        if depth > _DEEPEST:
            raise Invalid(f"nested deeper than {_DEEPEST} levels, which no agent could read")
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, bytes | bytearray):
            return base64.urlsafe_b64encode(value).decode()
        if isinstance(value, list | tuple):
            return [self.of(each, depth=depth + 1, keep_null=keep_null) for each in value]
        if isinstance(value, _Map):
            return {self._key(key): self.of(each, depth=depth + 1, keep_null=keep_null) for key, each in value.pairs}
        if isinstance(value, _Made):
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
        found = self.of(key, depth=0, keep_null=False)
        if isinstance(found, list | dict):
            raise Invalid("the pickle has a key that JSON cannot have")
        return {True: "true", False: "false"}[found] if isinstance(found, bool) else str(found)

    def _made(self, value: _Made, depth: int, keep_null: bool) -> Any:
        if (convert := _KNOWN.get(str(value.name))) is not None:
            try:
                return self.of(convert(value), depth=depth + 1, keep_null=keep_null)
            except (ValueError, TypeError, AttributeError, LookupError, OverflowError, InvalidOperation) as error:
                raise Invalid(f"the pickle has a {value.name} that is none") from error
        if value.state is None and len(value.arguments) == 1 and isinstance(value.arguments[0], str | int):
            return self.of(value.arguments[0], depth=depth + 1, keep_null=keep_null)  # of an enumeration
        fields = dict(_fields(value))
        any_value = value.name == _ACTIONS
        return {
            self._key(name): self.of(each, depth=depth + 1, keep_null=keep_null or (any_value and name in _ANY))
            for name, each in fields.items()
            if each is not None or keep_null
        }


_ANY: Final = {"state_delta", "agent_state", "set_model_response"}  # of actions: any value, whatever its model


def _fields(value: _Made) -> Iterator[tuple[str, Any]]:
    """A pydantic model's, from what it gives to pickle."""
    parts = value.state.pairs if isinstance(value.state, _Map) and not value.arguments else []
    found = {key: each for key, each in parts if isinstance(key, str)}
    for part in ("__dict__", "__pydantic_extra__"):
        inner = found.get(part)
        if isinstance(inner, _Map) and all(isinstance(key, str) for key, _each in inner.pairs):
            yield from inner.pairs
        elif inner is not None or part not in found:
            raise Invalid(f"the pickle has a {value.name} that is no model")


# --- The standard library's -------------------------------------------------------------------------------------------


def _moment(value: _Made) -> str:
    """A date, time or both: the bytes that it gives to pickle, and perhaps its zone."""
    kind: type[date] | type[time] = {"date": date, "datetime": datetime, "time": time}[value.name.name]
    packed, *zone = value.arguments
    if not isinstance(packed, bytes) or len(packed) != {date: 4, datetime: 10, time: 6}[kind] or len(zone) > 1:
        raise ValueError
    text = kind(packed, *map(_zone, zone)).isoformat()  # type: ignore[arg-type]
    return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text


def _zone(value: Any) -> timezone:
    if not isinstance(value, _Made) or str(value.name) != "datetime.timezone":
        raise ValueError
    return timezone(_delta(value.arguments[0]))


def _delta(value: Any) -> timedelta:
    if not isinstance(value, _Made) or str(value.name) != "datetime.timedelta":
        raise ValueError
    days, seconds, microseconds = value.arguments
    return timedelta(days=days, seconds=seconds, microseconds=microseconds)


def _duration(value: _Made) -> str:
    """As pydantic writes it: P1DT2H3M4.5S."""
    delta = _delta(value)
    sign = "-" if delta < timedelta(0) else ""
    delta = abs(delta)
    hours, rest = divmod(delta.seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    part = f"{seconds}.{delta.microseconds:06}".rstrip("0").rstrip(".") if delta.microseconds else str(seconds)
    clock = (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "") + (f"{part}S" if part != "0" else "")
    years, days = divmod(delta.days, 365)
    whole = (f"{years}Y" if years else "") + (f"{days}D" if days else "")
    if not whole and not clock:
        clock = "0S"
    return f"{sign}P{whole}{'T' + clock if clock else ''}"


def _first(value: _Made) -> Any:
    """What a list, tuple or set was made of."""
    (found,) = value.arguments or ((),)
    if not isinstance(found, list | tuple):
        raise TypeError
    return list(found)


def _plain(value: _Made) -> Any:
    (found,) = value.arguments
    return found if type(found).__name__ == value.name.name else _refuse()


def _map(value: _Made) -> _Map:
    (found,) = (each for each in value.arguments if isinstance(each, _Map))
    return found


def _bytes(value: _Made) -> bytes:
    found = value.arguments[0]
    return bytes(found) if isinstance(found, bytes | bytearray) else _refuse()  # of a number it would be so many


def _text(value: _Made) -> str:
    (text,) = value.arguments
    return str(Decimal(text)) if isinstance(text, str) else _refuse()


def _uuid(value: _Made) -> str:
    return str(UUID(int=dict(value.state.pairs)["int"]))


def _path(value: _Made) -> str:
    separator = _PATHS[str(value.name)]
    parts = [part for part in value.arguments if isinstance(part, str)]
    if len(parts) != len(value.arguments):
        raise TypeError
    if sum(map(len, parts)) > _LONGEST_PATH:  # one that is named a million times
        raise ValueError
    if not parts:
        return "."
    root = parts[0] if parts[0].endswith(separator) else ""
    return root + separator.join(parts[1:] if root else parts)


def _complex(value: _Made) -> str:
    real, imaginary = value.arguments
    return str(complex(float(real), float(imaginary))).strip("()")


def _refuse() -> Any:
    raise TypeError


_KNOWN: Final[dict[str, Callable[[_Made], Any]]] = {
    **dict.fromkeys(_MAPS, _map),
    **dict.fromkeys(_LISTS, _first),
    **dict.fromkeys(_PATHS, _path),
    **dict.fromkeys([f"builtins.{name}" for name in ("bool", "bytes", "float", "int", "str")], _plain),
    **dict.fromkeys(("datetime.date", "datetime.datetime", "datetime.time"), _moment),
    "builtins.bytearray": lambda value: _bytes(value) if value.arguments else b"",
    "builtins.complex": _complex,
    "datetime.timedelta": _duration,
    "datetime.timezone": lambda value: str(_zone(value)),
    "decimal.Decimal": _text,
    "uuid.UUID": _uuid,
}
