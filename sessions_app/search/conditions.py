"""Reads one condition of a query: a filter with its value, a time, a number, a key of the state (pure)."""

import re
from collections.abc import Sequence
from datetime import datetime, time, timedelta, tzinfo
from decimal import Decimal
from typing import Any, Final, NamedTuple, cast

from django.utils.translation import gettext as _
from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from ..domain import pending
from ..domain.errors import Invalid
from ..domain.kinds import KINDS
from ..domain.shorten import words
from .tree import STATUSES, Kind, Leaf, Match, Number, Presence, Scope, State, Status, Text, Time, Value, Waits, Wrote

_SECONDS: Final = {"": "1", "ms": "0.001", "s": "1", "m": "60", "h": "3600", "d": "86400", "w": "604800"}
_THOUSANDS: Final = {"": "1", "k": "1000", "m": "1000000"}


class Filter(NamedTuple):
    """The values that may follow the name of a filter, and those that complete it where none were seen.

    A session may have none of what a filter `of_some` is about. `units` are those of a number."""

    offered: tuple[str, ...] = ()
    of_some: bool = False
    is_time: bool = False
    units: dict[str, str] | None = None


FILTERS: Final = {  # the likeliest first
    **dict.fromkeys(("app", "user", "session", "title", "author", "tool"), Filter()),
    "kind": Filter(KINDS),
    "error": Filter(of_some=True),
    "status": Filter(STATUSES),
    "waits": Filter((*pending.KINDS, "any", "none"), of_some=True),
    "tag": Filter(of_some=True),
    "edited": Filter(of_some=True),
    "before": Filter(("today", "yesterday"), is_time=True),
    "after": Filter(("today", "yesterday", "1h", "24h", "7d"), is_time=True),
    **dict.fromkeys(("changed", "set"), Filter()),
    "waits-for": Filter(),
    "waiting": Filter((">1h", ">1d"), units=_SECONDS),
    "took": Filter((">5s", ">1m"), units=_SECONDS),
    "tokens": Filter((">10k",), units=_THOUSANDS),
    "turns": Filter((">3",), units=_THOUSANDS),
    "events": Filter((">100",), units=_THOUSANDS),
    "source": Filter(),
}


def text_condition(token: str) -> Text:
    """Reads words, with or without quotes: `expired`, `"fare expired"`."""
    text = _unquoted(token) if token.startswith('"') else token
    if not text.strip():
        raise Invalid(_("There is nothing between the quotes."))
    if token[-1] == ":" and token[:-1].lower() in FILTERS:
        raise Invalid(_("Something is missing after “%(sign)s”.") % {"sign": token})
    return Text(text)


def filter_condition(token: str, now: float, zone: tzinfo) -> Leaf:
    """Reads a filter: `user:nadia`, `took:>5s`, `after:"2026-11-22 14:00"`."""
    name, _colon, given = token.partition(":")
    name, exact = name.lower(), given.startswith('"')
    value = _unquoted(given) if exact else given
    known = FILTERS.get(name)
    if known is None:
        hint = _likely(f"{name}:", [f"{each}:" for each in FILTERS]) or " " + _(
            "To search for it as text, put it in quotes."
        )
        raise Invalid(_("There's no filter “%(given)s:”.") % {"given": words(name, 40)} + hint)
    if known.is_time:
        return Time(name, time_of(value, now, zone), value)
    if known.units:
        return _number(name, value, known.units)
    if name in ("set", "changed"):
        return _wrote(name, value.strip())
    if name == "kind":
        return Kind(_one_of(KINDS, value, _("“%(given)s” isn't a kind of event.")))
    if name == "status":
        return Status(_one_of(STATUSES, value, _("“%(given)s” isn't a status.")))
    if known.of_some and not exact and value.lower() in ("any", "none"):
        return Presence(name, value.lower() == "any")
    if name == "waits":
        return Waits(_one_of(pending.KINDS, value, _("“%(given)s” isn't something that a call waits for.")))
    return Match(name, value, exact)


# --- Values that are named --------------------------------------------------------------------------------------------


def _one_of(names: Sequence[str], given: str, problem: str) -> str:
    if given.lower() in names:
        return given.lower()
    hint = _likely(given, names) or " " + _("Use one of: %(names)s.") % {"names": ", ".join(names)}
    raise Invalid(problem % {"given": words(given, 40)} + hint)


def _likely(given: str, names: Sequence[str]) -> str:
    """Asks for the name that somebody may have meant; it differs by at most two letters."""
    most = min(2, len(given) // 2)
    best = process.extractOne(given.lower()[:40], names, scorer=Levenshtein.distance, score_cutoff=most)
    return " " + _("Did you mean “%(name)s”?") % {"name": best[0]} if best else ""


def _unquoted(text: str) -> str:
    r"""Reads what stands between quotes: `\"` and `\\` are a quote and a backslash. The last quote may be missing."""
    return re.sub(r"\\(.)", r"\1", text[1:-1] if is_closed(text) else text[1:], flags=re.DOTALL)


def is_closed(text: str) -> bool:
    """Tells whether what begins with a quote ends with another one."""
    return bool(re.fullmatch(r'"(?:\\.|[^"\\])*"', text, re.DOTALL))


# --- Numbers and times ------------------------------------------------------------------------------------------------

_AMOUNT: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)([a-z]{0,2})", re.IGNORECASE)


_CLOCK: Final = r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?"


def _number(name: str, given: str, units: dict[str, str]) -> Number:
    op, first, upto = "=", given, None
    if match := re.match(r"[<>]=?|=", given):
        op, first = match[0], given[match.end() :]
    elif ".." in given:
        op, (first, upto) = "..", given.split("..", 1)
    amounts = [_amount(each, units) for each in (first, upto) if each is not None]
    if None in amounts:
        raise Invalid(
            _("“%(given)s” isn't a duration. Use a value like 5s, 2m or 1h..3h.") % {"given": words(given, 40)}
            if units is _SECONDS
            else _("“%(given)s” isn't a number. Use a value like 3, 10k or 5..10.") % {"given": words(given, 40)}
        )
    if (name, op) == ("waiting", "="):
        problem = _("No call waits for exactly “%(given)s”.") % {"given": words(first, 40)}
        raise Invalid(problem + " " + _("Did you mean “%(name)s”?") % {"name": f"{name}:>{first}"})
    return Number(name, cast(Any, op), *cast(list[float], amounts))


def _amount(given: str, units: dict[str, str]) -> float | None:
    match = _AMOUNT.fullmatch(given)
    if not match or match[2].lower() not in units:
        return None
    return float(Decimal(match[1]) * Decimal(units[match[2].lower()]))


def time_of(given: str, now: float, zone: tzinfo) -> float:
    """Reads a time, in seconds: 14:00, 2026-11-22, yesterday, 2h. Raises Invalid."""
    try:
        seconds = _moment(given.lower(), datetime.fromtimestamp(now, zone)).timestamp()
        datetime.fromtimestamp(seconds, zone)
    except (ValueError, OverflowError) as error:
        raise Invalid(
            _("“%(given)s” isn't a time. Use a value like 14:00, 2026-11-22, 2026-11-22T14:00, today, yesterday or 2h.")
            % {"given": words(given, 40)}
        ) from error
    return seconds


def _moment(given: str, now: datetime) -> datetime:
    if given in ("today", "yesterday"):
        return datetime.combine(now.date() - timedelta(days=given == "yesterday"), time(), now.tzinfo)
    if match := re.fullmatch(r"([0-9]{1,9})([smhdw])", given):
        return now.replace(microsecond=0) - timedelta(seconds=int(match[1]) * int(_SECONDS[match[2]]))
    if re.fullmatch(f"{_CLOCK}z?", given):
        given = f"{now.date()} {'0' if given[1] == ':' else ''}{given}"
    elif not re.fullmatch(rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}(?:[t ]{_CLOCK}(?:z|[+-][0-9]{{2}}:[0-9]{{2}})?)?", given):
        raise ValueError(given)
    moment = datetime.fromisoformat(given.upper())
    return moment if moment.tzinfo else moment.replace(tzinfo=now.tzinfo)


# --- State ------------------------------------------------------------------------------------------------------------

_QUOTED_OR_PLAIN: Final = re.compile(r'("(?:\\.|[^"\\])*")|([\w-]+)', re.DOTALL)
_PATH: Final = re.compile(r'(?:"(?:\\.|[^"\\])*"|[\w-]+)(?:\.(?:"(?:\\.|[^"\\])*"|[\w-]+))*', re.DOTALL)
_KEY_BY: Final = re.compile(r'(?P<key>(?:"(?:\\.|[^"\\])*"|.)+?)(?:\s+by\s+(?P<by>.+))?', re.DOTALL | re.IGNORECASE)
_JSON_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,99})(\.[0-9]{1,99})?([eE][+-]?[0-9]{1,2})?")
_CONSTANTS: Final[dict[str, Value]] = {"true": True, "false": False, "null": None}
_SCOPES: Final[dict[str, Scope]] = {"state.": "session", "user:": "user", "app:": "app"}
_EVER: Final = "was."


def state_condition(key: str, op: str, values: Sequence[str]) -> State:
    """Reads a comparison of a key: (`cart.total`, `>`, [`100`])."""
    ever = key.lower().startswith(_EVER)
    scope, path = _key(key[len(_EVER) :] if ever else key)
    way = cast(Any, "=" if op == "==" else op.lower())
    return State(scope, path, way, tuple(_json_value(each) for each in values), ever)


def _wrote(name: str, given: str) -> Wrote:
    """Reads what an event wrote, and who did: (`changed`, `user:tier by maria`)."""
    match = _KEY_BY.fullmatch(given)
    scope, path = _key(match["key"]) if match else ("session", ())
    if not match or not any(path):
        raise Invalid(_("Something is missing after “%(sign)s”.") % {"sign": f"{name}:"})
    return Wrote(name, scope, path, match["by"] or "")


def _key(text: str) -> tuple[Scope, tuple[str, ...]]:
    """Reads a key, `user:tier` or `state."odd key".total`. What is not written so is the whole name of one."""
    prefix = next((each for each in _SCOPES if text.lower().startswith(each)), "")
    path = text[len(prefix) :]
    if _PATH.fullmatch(path):
        parts = _QUOTED_OR_PLAIN.findall(path)
        return _SCOPES.get(prefix, "session"), tuple(_unquoted(quoted) if quoted else plain for quoted, plain in parts)
    return _SCOPES.get(prefix, "session"), (path,)


def _json_value(token: str) -> Value:
    if token.startswith('"'):
        return _unquoted(token)
    if match := _JSON_NUMBER.fullmatch(token):
        return float(token) if match[1] or match[2] else int(token)
    return _CONSTANTS.get(token, token)
