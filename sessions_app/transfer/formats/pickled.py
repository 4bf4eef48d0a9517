"""Represents the content of a pickle as plain data: classes only by name, values of the standard library as JSON.

Nothing here looks up or imports a class that a pickle names.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from ...domain.errors import Invalid

_LONGEST_PATH: Final = 100_000


@dataclass(frozen=True, slots=True)
class Name:
    """A class, by name only."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(slots=True, eq=False)
class Made:
    """An object that the pickle would have made: its class, the arguments and the state."""

    name: Name
    arguments: tuple[Any, ...]
    state: Any = None


@dataclass(slots=True, eq=False)
class Map:
    """A dict as pairs. No key is ever hashed, because a hostile pickle could make that slow."""

    pairs: list[tuple[Any, Any]]


ACTIONS: Final = Name("google.adk.events.event_actions", "EventActions")
_MODELS: Final = frozenset(  # modules whose models and enumerations can be in actions
    {
        ACTIONS.module,
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
MAPS: Final = {"builtins.dict", "collections.OrderedDict", "collections.defaultdict"}
_LISTS: Final = {"builtins.list", "builtins.tuple", "builtins.set", "builtins.frozenset"}
_PATHS: Final = {
    f"{module}.{name}": "\\" if "Windows" in name else "/"
    for module in ("pathlib", "pathlib._local")
    for name in ("PurePosixPath", "PosixPath", "PureWindowsPath", "WindowsPath")
}


def name_of(module: str, name: str) -> Name:
    """Makes the name of a class that can be in actions. Raises Invalid for any other.

    Names of the standard library may be those of Python 2.
    """
    named = Name({"__builtin__": "builtins"}.get(module, module), name)
    if not (module in _MODELS and _CLASS.fullmatch(name)) and str(named) not in KNOWN:
        raise Invalid(f"refused, and nothing of it run: the pickle names {module[:100]}.{name[:100]}".strip())
    return named


# --- The standard library's -------------------------------------------------------------------------------------------


def _moment(value: Made) -> str:
    """Returns a date, a time or both in ISO 8601, from the pickled bytes and the zone, if any."""
    kind: type[date] | type[time] = {"date": date, "datetime": datetime, "time": time}[value.name.name]
    packed, *zone = value.arguments
    if not isinstance(packed, bytes) or len(packed) != {date: 4, datetime: 10, time: 6}[kind] or len(zone) > 1:
        raise ValueError
    text = kind(packed, *map(_zone, zone)).isoformat()  # type: ignore[arg-type]
    return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text


def _zone(value: Any) -> timezone:
    if not isinstance(value, Made) or str(value.name) != "datetime.timezone":
        raise ValueError
    return timezone(_delta(value.arguments[0]))


def _delta(value: Any) -> timedelta:
    if not isinstance(value, Made) or str(value.name) != "datetime.timedelta":
        raise ValueError
    days, seconds, microseconds = value.arguments
    return timedelta(days=days, seconds=seconds, microseconds=microseconds)


def _duration(value: Made) -> str:
    """Returns a duration as pydantic writes it: P1DT2H3M4.5S."""
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


def _first(value: Made) -> Any:
    """Returns the items that a list, tuple or set was made from."""
    (argument,) = value.arguments or ((),)
    if not isinstance(argument, list | tuple):
        raise TypeError
    return list(argument)


def _plain(value: Made) -> Any:
    (argument,) = value.arguments
    return argument if type(argument).__name__ == value.name.name else _refuse()


def _map(value: Made) -> Map:
    (argument,) = (each for each in value.arguments if isinstance(each, Map))
    return argument


def _bytes(value: Made) -> bytes:
    argument = value.arguments[0]
    return bytes(argument) if isinstance(argument, bytes | bytearray) else _refuse()  # bytes(n) would be n zeros


def _text(value: Made) -> str:
    (text,) = value.arguments
    return str(Decimal(text)) if isinstance(text, str) else _refuse()


def _uuid(value: Made) -> str:
    return str(UUID(int=dict(value.state.pairs)["int"]))


def _path(value: Made) -> str:
    separator = _PATHS[str(value.name)]
    parts = [part for part in value.arguments if isinstance(part, str)]
    if len(parts) != len(value.arguments):
        raise TypeError
    if sum(map(len, parts)) > _LONGEST_PATH:  # a pickle can repeat a part a million times
        raise ValueError
    if not parts:
        return "."
    root = parts[0] if parts[0].endswith(separator) else ""
    return root + separator.join(parts[1:] if root else parts)


def _complex(value: Made) -> str:
    real, imaginary = value.arguments
    return str(complex(float(real), float(imaginary))).strip("()")


def _refuse() -> Any:
    raise TypeError


KNOWN: Final[dict[str, Callable[[Made], Any]]] = {
    **dict.fromkeys(MAPS, _map),
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
