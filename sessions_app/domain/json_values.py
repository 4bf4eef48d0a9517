"""JSON values: what may be stored in state and events, and when two are equal (pure).

ADK reads stored events with a parser that stops at 200 levels, so an event nested deeper would make its whole session
unreadable for the agent: MAX_DEPTH keeps a margin below that for the levels around a value.
"""

import json
import math
import re
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from .errors import Invalid
from .translation import Message
from .translation import gettext_lazy as _

read_fast: Callable[[str | bytes], Any] = json.loads
with suppress(ImportError):  # an agent's process has only what google-adk brings
    import orjson

    read_fast = orjson.loads

MAX_DEPTH: Final = 150
MAX_CONTAINERS: Final = 300_000  # lists, objects and keys of one text: creating more holds up every other thread
MAX_ITEMS: Final = 1_000_000  # items of all its lists and objects; transfer/items.py can read this many back
KEY_LENGTH: Final = 1_024  # characters of a key of state
MAX_DIGITS: Final = 4300  # Python's own limit for reading an integer back

# Above 2**53 a float is a whole number. PostgreSQL's jsonb writes it without a fraction and so as another float's
# digits (1e23 would come back as 10**23, which is not equal); written as that exact integer it reads back equal
# everywhere.
_WHOLE: Final = 1e16

_DIGITS: Final = bytes(48 if 48 <= byte < 58 else 32 for byte in range(256))
_TOO_LONG: Final = b"0" * 19  # digits of an integer that orjson would make a float of
_SOME: Final = 2**20  # bytes that are checked at once
_MAY_BE_DEEP: Final = 500  # lists and objects: orjson reads 1,024 levels, and Python may fail to write them again

_ENCRYPTED: Final = re.compile(r'"?(?!\d+$)[A-Za-z0-9+/_-]{24,}={0,2}"?')
_LOOKED_AT: Final = 200  # characters


def check(value: Any, where: str = "", depth: int = 1, known: Container[str] = ()) -> Any:
    """Returns a value as it will be stored, equal to the one given.

    Texts and keys that are `known` always pass: they name something that is stored.

    Raises Invalid, with the place, for what JSON or a database cannot hold: NaN and infinities, U+0000, lone
    surrogates, keys that are not strings, more than MAX_DEPTH levels, integers of more than MAX_DIGITS digits.
    """
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        _check_text(value, where, known)
        return value
    if isinstance(value, int):
        if value.bit_length() > MAX_DIGITS * 3 and abs(value) >= 10**MAX_DIGITS:
            raise Invalid(at(where, _("an integer with more than %(n)s digits") % {"n": MAX_DIGITS}))
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Invalid(at(where, _("NaN and infinity aren't valid JSON")))
        return int(value) if abs(value) >= _WHOLE else value
    if isinstance(value, list | tuple | Mapping):
        if depth > MAX_DEPTH:
            raise Invalid(at(where[:200], _("nested deeper than %(n)s levels") % {"n": MAX_DEPTH}))
        if isinstance(value, Mapping):
            return {
                _key(k, where, known): check(v, f"{where}.{k}" if where else str(k), depth + 1, known)
                for k, v in value.items()
            }
        return [check(v, f"{where}[{i}]", depth + 1, known) for i, v in enumerate(value)]
    raise Invalid(at(where, _("%(type)s isn't a JSON type") % {"type": type(value).__name__}))


def loads(text: str) -> Any:
    """Returns the value of JSON that a person typed. Raises Invalid with line and column if it is not JSON.

    It is stricter than Python's parser: a key that appears twice is refused, because one of its values would be lost.
    """
    return check(typed(text))


def typed(text: str) -> Any:
    """Returns the value of JSON that a person typed, before `check`. Raises Invalid."""
    check_containers(text)
    try:
        value = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        place = _("line %(line)s, column %(column)s") % {"line": error.lineno, "column": error.colno}
        problem = Message("%(problem)s (%(why)s)", {"problem": _("not valid JSON"), "why": error.msg})
        raise Invalid(at(place, problem), line=error.lineno, column=error.colno) from error
    except RecursionError as error:
        raise Invalid(_("nested deeper than %(n)s levels") % {"n": MAX_DEPTH}) from error
    except ValueError as error:  # int() of too many digits
        raise Invalid(_("an integer with more than %(n)s digits") % {"n": MAX_DIGITS}) from error
    return value


def read_stored(text: str) -> Any:
    """Returns the value of a JSON text that some program stored, which `loads` might refuse.

    It reads NaN, Infinity and half of a surrogate pair. If a key is there twice, the last value counts. 1e999 and an
    integer of more than MAX_DIGITS digits are infinite. Raises Invalid, with the reason, for what can't be read.
    """
    try:
        return _read(text)
    except RecursionError as error:
        raise Invalid(_("The stored value is nested too deeply to read.")) from error
    except ValueError as error:
        if looks_encrypted(text):
            raise Invalid(_("The stored value is encrypted. Only a program with the key can read it.")) from error
        raise Invalid(_("The stored value isn't JSON.")) from error


def read_stored_or_none(text: str | bytes | None) -> Any:
    """Returns what `read_stored` does; None for no text, and for one that cannot be read."""
    try:
        return _read(text) if text else None
    except (ValueError, RecursionError):
        return None


def damage_of(text: str | bytes) -> str:
    """Returns why a stored text can't be read as a JSON object; empty if it can. It is cheap even for many texts."""
    try:
        value = read_fast(text)
    except ValueError:  # also for what `read_stored` reads: NaN, half of a surrogate pair
        try:
            value = read_stored(text if isinstance(text, str) else text.decode("utf-8", "replace"))
        except Invalid as error:
            return error.message
    return "" if isinstance(value, dict) else str(_("The stored value is JSON, but not an object."))


def holds_values(text: str) -> bool:
    """Returns whether a text is the JSON of an object or a list."""
    return isinstance(read_stored_or_none(text), dict | list)


class Stored(json.JSONDecoder):
    """Reads a JSON column as `read_stored` does. A text that is nested too deep is None; raises ValueError if it isn't
    JSON."""

    def decode(self, s: str, *options: Any) -> Any:
        """Returns the value, or None for a text that is nested too deep."""
        try:
            return _read(s)
        except RecursionError:
            return None


def looks_encrypted(text: str) -> bool:
    """Returns whether a text that should be a JSON object is base64 and nothing else, as encrypted values are."""
    return _ENCRYPTED.fullmatch(text[:_LOOKED_AT]) is not None


def _read(text: str | bytes) -> Any:
    try:
        raw = text.encode() if isinstance(text, str) else text
        if raw.count(b"[") + raw.count(b"{") < _MAY_BE_DEEP and not _has_long_integer(raw):
            return read_fast(raw)
    except ValueError:  # NaN, 1e999 or half of a surrogate pair, which json reads
        pass
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogatepass")
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # an integer of too many digits; checking each integer takes twice as long
        return json.loads(text, parse_int=_integer)


def _has_long_integer(raw: bytes) -> bool:
    if len(raw) <= _SOME:
        return _TOO_LONG in raw.translate(_DIGITS)
    pieces = (raw[at : at + _SOME] for at in range(0, len(raw), _SOME - len(_TOO_LONG)))
    return any(_TOO_LONG in piece.translate(_DIGITS) for piece in pieces)


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits.lstrip("-")) <= MAX_DIGITS else float(digits)


def check_containers(text: str | bytes) -> None:
    """Raises Invalid for JSON with more lists, objects, keys or items than may be written. Signs inside its texts
    count, too."""
    signs = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    if sum(map(signs.count, (b"[", b"{", b":"))) > MAX_CONTAINERS:
        raise Invalid(_("more than %(n)s lists, objects and keys in total") % {"n": MAX_CONTAINERS})
    if signs.count(b",") > MAX_ITEMS:
        raise Invalid(_("more than %(n)s items") % {"n": MAX_ITEMS})


def dumps(value: Any, indent: int | None = None) -> str:
    """Returns a value as JSON text. NaN, which ADK stores although it is not JSON, is written as Python writes it.

    A value that is nested too deep to be indented is written without indent. Raises Invalid if it is too deep for that.
    """
    separators = (",", ":") if indent is None else None
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)
    except RecursionError as error:
        if indent is None:
            raise Invalid(_("This value is nested too deeply to show.")) from error
        return dumps(value)


def beginning(value: Any, length: int) -> str:
    """Returns the first characters of a value's indented JSON text, without making the rest."""
    text = ""
    try:
        for piece in _INDENTED.iterencode(value):
            text += piece
            if len(text) > length:
                break
    except RecursionError:
        text = dumps(value)
    return text[: length + 1]


_INDENTED: Final = json.JSONEncoder(ensure_ascii=False, indent=2)


_PLAIN: Final = frozenset({str, int, bool, type(None)})  # compared within their type as Python does


def equal(a: Any, b: Any) -> bool:
    """Returns whether two JSON values are the same: 1 equals 1.0, but true does not equal 1. For two that are too deep
    for that, returns whether their texts are the same.
    """
    if type(a) is type(b) and type(a) in _PLAIN:
        return bool(a == b)
    try:
        return _equal(a, b)
    except RecursionError:
        with suppress(RecursionError):
            return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)
        return False


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_equal(v, b[k]) for k, v in a.items())
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b):
        return True
    return bool(a == b)


def kind(value: Any) -> str:
    """Returns JSON's name for the type of a value: object, array, string, number, boolean or null."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, Mapping) else "array"


def check_name(name: str, what: str, limit: int) -> str:
    """Returns an id or name unchanged. Raises Invalid if its column cannot hold it."""
    if not isinstance(name, str):
        raise Invalid(_("%(what)s isn't a string") % {"what": what})
    if len(name) > limit:
        raise Invalid(
            _("%(what)s has %(n)s characters, but the limit is %(limit)s")
            % {"what": what, "n": len(name), "limit": limit}
        )
    _check_text(name, what)
    return name


def _check_text(text: str, where: str, known: Container[str] = ()) -> None:
    if known and text in known:
        return
    if "\0" in text:
        raise Invalid(at(where, _("the character U+0000 can't be stored in a database")))
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise Invalid(
                at(
                    where,
                    _("half a surrogate pair at character %(n)s isn't a valid character") % {"n": error.start + 1},
                )
            ) from error


def _key(key: Any, where: str, known: Container[str]) -> str:
    if not isinstance(key, str):
        raise Invalid(at(where, _("a key must be a string, not %(type)s") % {"type": type(key).__name__}))
    _check_text(key, where, known)
    return key


def at(where: str | Message, problem: Message) -> Message:
    """Returns a problem with the place in front, if there is one."""
    return Message("%(where)s: %(problem)s", {"where": where, "problem": problem}) if where else problem


def _refuse_constant(name: str) -> Any:
    raise Invalid(Message("%(problem)s (%(name)s)", {"problem": _("NaN and infinity aren't valid JSON"), "name": name}))


def _unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise Invalid(_("the key %(key)s appears twice in one object") % {"key": dumps(key)})
        found[key] = value
    return found


def as_object(stored: Any) -> dict[str, Any]:
    """Returns a stored JSON object; an empty one for anything else."""
    return stored if isinstance(stored, dict) else {}
