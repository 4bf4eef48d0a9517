"""Puts dots in place of the secrets of credentials, and of values that rules hide: in a state, and in an event (pure).

    mask = Mask([Rule(KEY, "user:card_*"), Rule(TOOL, "charge_card: number")])
    mask({"user:card_token": "abc", "step": "pay"}) == {"user:card_token": "••••", "step": "pay"}

Values with nothing hidden are returned as they are, not copied. Names of keys are never hidden: pages and links name
them.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase, translate
from functools import lru_cache
from operator import contains, is_
from typing import Any, Final

from . import credentials
from .mask_patterns import DOTS, FORMS, hide
from .state import scope_of

KEY, FORM, PATH, TOOL = "key", "form", "path", "tool"
KINDS: Final = (KEY, FORM, PATH, TOOL)  # those that people write
STATE: Final = "state"  # a key of a state, and not a field of an event
_REMEMBERED: Final = 10_000  # names of keys
_MOST_REMEMBERED: Final = 200  # characters of a name
_DEEPEST: Final = 160  # levels: nothing deeper is shown, because it could be anything
_LONGEST_FIELD: Final = 40  # characters of a name: no event field has a longer one
_DEEPEST_FIELD: Final = 20  # levels at which an event still has fields of its own

HANDLE: Final = "user-"  # how the handle of a user starts
HANDLE_DIGITS: Final = 16
_HANDLE: Final = re.compile(rf"{HANDLE}[0-9a-f]{{{HANDLE_DIGITS}}}")

# The fields of google-adk's events that say what happened. Without them, adkweb could no longer recognise the event.
_NEVER_HIDDEN: Final = frozenset(
    [
        "id",
        "invocationid",
        "author",
        "branch",
        "name",
        "timestamp",
        "role",
        "mimetype",
        "usagemetadata",
        "modelversion",
        "artifactdelta",
        "willcontinue",
        "longrunningtoolids",
        "turncomplete",
        "partial",
        "finishreason",
        "interrupted",
        "undoes",
        "restores",
        "removed",
        "thoughtsignature",
        "actor",
        "rewindbeforeinvocationid",
        "transfertoagent",
        "inlinedata",
    ]
)
# Those that no rule by key hides, because they hold other fields or are a flag. What is inside may be hidden.
_NOT_BY_KEY: Final = frozenset(
    [
        "content",
        "parts",
        "actions",
        "functioncall",
        "functionresponse",
        "text",
        "errorcode",
        "errormessage",
        "reason",
        "executablecode",
        "filedata",
        "codeexecutionresult",
        "code",
        "output",
        "compaction",
        "compactedcontent",
        "inputtranscription",
        "outputtranscription",
        "thought",
        "ended",
        "skipsummarization",
        "escalate",
        "endofagent",
        "language",
        "outcome",
    ]
)
_STATES: Final = frozenset(("statedelta", "replaced"))
_OF_CALLS: Final = frozenset(("args", "response"))
_NOTES: Final = frozenset(("custommetadata",))


@dataclass(frozen=True, slots=True)
class Rule:
    """Selects what is hidden. `kind` is one of KINDS, or STATE. The pattern is that of a key (`*token*`), a format
    (`card`), a path in a value (`profile.card.number`), or a tool with an argument (`charge_card: card_number`). With
    `ids`, a format also hides user ids: people who may not see an id get a handle (access/handles.py)."""

    kind: str
    pattern: str
    ids: bool = False


class _Names:
    """Finds the patterns that a key matches, with or without its prefix. All are one expression; results are cached."""

    def __init__(self, patterns: Iterable[str]) -> None:
        some = list(dict.fromkeys(patterns))
        self._all = re.compile("|".join(map(translate, some)), re.I) if some else None
        self._some = [each.lower() for each in some]
        self._remembered: dict[str, frozenset[str]] = {}

    def matched_by(self, name: str) -> frozenset[str]:
        """Returns the patterns that a key matches, in lower case."""
        known = self._remembered.get(name)
        if known is None:
            known = self._look(name)
            if len(name) <= _MOST_REMEMBERED:
                if len(self._remembered) >= _REMEMBERED:
                    self._remembered.clear()
                self._remembered[name] = known
        return known

    def _look(self, name: str) -> frozenset[str]:
        both = {name, scope_of(name)[1]}
        if self._all is None or not any(map(self._all.match, both)):
            return frozenset()
        return frozenset(p for p in self._some for each in both if fnmatchcase(each.lower(), p))


class _Paths:
    """Returns whether a value is hidden by the names that lead to it. A rule by key is a path of one name."""

    def __init__(self, paths: Iterable[tuple[str, ...]]) -> None:
        self._paths = {tuple(name.lower() for name in path) for path in paths}
        self._names = _Names(name for path in self._paths for name in path)
        self._lasts = {path[-1] for path in self._paths}

    def hides(self, name: str, above: tuple[str, ...]) -> bool:
        """Returns whether a path matches the end of the names that lead to a value: its own, and those above it."""
        last = self._names.matched_by(name)
        if not last or last.isdisjoint(self._lasts):
            return False
        matches = [last, *(self._names.matched_by(each) for each in reversed(above))]
        return any(len(path) <= len(matches) and all(map(contains, matches, reversed(path))) for path in self._paths)


@lru_cache(maxsize=_REMEMBERED)
def _field_of(name: str) -> str:
    """Returns the kind of a field of an event. Its name may be written with capitals or with underscores."""
    plain = name.replace("_", "").lower()
    kinds = {"kept": _NEVER_HIDDEN, "fields": _NOT_BY_KEY, "state": _STATES, "call": _OF_CALLS, "notes": _NOTES}
    return next((kind for kind, names in kinds.items() if plain in names), "")


class Mask:
    """Hides the secrets of credentials, and values by rules. Called with a state with full keys, it returns what may be
    seen of it; `event` does so for an event, whose own fields stay readable. The same JSON of an event or state always
    gives the same result. `harmless` is for the caller, to remember texts with nothing hidden."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        rules = list(rules)
        self.harmless: set[int] = set()
        self.has_rules = bool(rules)
        forms = {rule.pattern for rule in rules if rule.kind == FORM}
        self._forms = [form for form in FORMS if form in forms]
        self._id_forms = {rule.pattern for rule in rules if rule.kind == FORM and rule.ids}
        keys = [(rule.pattern,) for rule in rules if rule.kind == KEY]
        self._paths = _Paths([*keys, *(path_of(rule.pattern) for rule in rules if rule.kind == PATH)])
        tools: dict[str, list[tuple[str, ...]]] = {}
        for rule in rules:
            if rule.kind == TOOL:
                tool, path = tool_of(rule.pattern)
                tools.setdefault(tool.lower(), []).append(path)
        states = [(rule.pattern,) for rule in rules if rule.kind == STATE]
        self._states = [_Paths(states)] if states else []
        self._tools = {tool: _Paths(paths) for tool, paths in tools.items()}
        self._tool_names = _Names(tools)

    def __call__(self, state: Any) -> Any:
        """Returns what may be seen of a state, or of any other value."""
        seen = credentials.hidden(state)
        return self._value(seen, (), self._states) if self.has_rules else seen

    def event(self, event: Any) -> Any:
        """Returns what may be seen of an event, or of a part of one."""
        seen = credentials.hidden(event)
        return self._event(seen, 0) if self.has_rules else seen

    def passes(self, text: str) -> bool:
        """Checks quickly that nothing in a JSON text is hidden: True is certain."""
        return not self.has_rules and not credentials.may_hold(text)

    @property
    def hides_forms(self) -> bool:
        """Returns whether what looks like a card number, an address or a key is hidden, wherever it is."""
        return bool(self._forms)

    @property
    def hides_ids(self) -> bool:
        """Returns whether any id of a user is hidden."""
        return bool(self._id_forms)

    def hides_id(self, user_id: str) -> bool:
        """Returns whether the id of a user is hidden. An id that looks like a handle is, too: it could be someone
        else's."""
        if not self._id_forms:
            return False
        return is_handle(user_id) or hide(user_id, self._id_forms) != user_id

    def has_dots(self, value: Any) -> bool:
        """Returns whether dots replace something in a value of which this hides something."""
        return has_dots(value if self.has_rules else credentials.secrets_of(value))

    def _event(self, event: Any, depth: int) -> Any:
        if depth > _DEEPEST_FIELD or not isinstance(event, list | dict):
            return self._value(event, (), ())
        if isinstance(event, list):
            return _each(event, lambda each: self._event(each, depth + 1))
        call = self._of_call(event)
        seen = {name: self._field(name, value, call, depth + 1) for name, value in event.items()}
        return event if _are_same(seen, event) else seen

    def _field(self, name: str, value: Any, call: list[_Paths] | None, depth: int) -> Any:
        field = _field_of(name) if len(name) <= _LONGEST_FIELD else ""
        if field == "kept":
            return value
        # JSON that an agent outputs has names of its own.
        if field == "fields" and (name != "output" or isinstance(value, str)):
            return self._event(value, depth)
        if field == "call" and call is not None:
            return self._value(value, (), call)
        if field == "state":
            return self._value(value, (), self._states)
        if field == "notes" and isinstance(value, dict):  # adkweb's own notes are fields; anyone may write the rest
            seen = {
                key: self._event(each, depth) if key == "adkweb" else self._other(key, each)
                for key, each in value.items()
            }
            return value if _are_same(seen, value) else seen
        return self._other(name, value)

    def _other(self, name: str, value: Any) -> Any:
        return DOTS if self._paths.hides(name, ()) else self._value(value, (name,), ())

    def _value(self, value: Any, names: tuple[str, ...], more: Sequence[_Paths], depth: int = 0) -> Any:
        if not isinstance(value, list | dict):
            return self._text(value)
        if depth > _DEEPEST:
            return DOTS
        if isinstance(value, list):
            return _each(value, lambda each: self._value(each, names, more, depth + 1))
        call = self._of_call(value)
        seen = {}
        for name, each in value.items():
            if self._paths.hides(name, names) or (more and any(paths.hides(name, names) for paths in more)):
                seen[name] = DOTS
            elif not isinstance(each, list | dict):
                seen[name] = self._text(each)
            elif call and name in _OF_CALLS:
                seen[name] = self._value(each, (*names, name), [*more, *call], depth + 1)
            else:
                seen[name] = self._value(each, (*names, name), more, depth + 1)
        return value if _are_same(seen, value) else seen

    def _text(self, value: Any) -> Any:
        if not self._forms or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return hide(value, self._forms)
        if isinstance(value, float) and value.is_integer():  # as tools' arguments may arrive
            return DOTS if self._text(int(value)) is DOTS else value
        if isinstance(value, int) and value.bit_length() > 40:
            return value if value.bit_length() > 70 or hide(str(value), self._forms) == str(value) else DOTS
        return value

    def _of_call(self, value: dict[str, Any]) -> list[_Paths] | None:
        """Returns the rules for the arguments and the answer of a tool, if a value is its call or its answer; else
        None."""
        name = value.get("name")
        if not isinstance(name, str) or not ("args" in value or "response" in value):
            return None
        return [self._tools[tool] for tool in self._tool_names.matched_by(name)]


def _each(values: list[Any], see: Any) -> list[Any]:
    seen = list(map(see, values))  # no comprehension: it would take one more level of Python's stack
    return values if all(map(is_, seen, values)) else seen


def _are_same(seen: dict[str, Any], values: dict[str, Any]) -> bool:
    return all(map(is_, seen.values(), values.values()))


def has_dots(value: Any) -> bool:
    """Returns whether dots replace something in a value, as a whole string or within one."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str) and DOTS in each:
            return True
        if isinstance(each, dict | list):
            waiting.extend(each.values() if isinstance(each, dict) else each)
    return False


def is_handle(text: str) -> bool:
    """Returns whether a text looks like the handle of a user: `user-3f9a2c81d07be455`."""
    return _HANDLE.fullmatch(text) is not None


def path_of(pattern: str) -> tuple[str, ...]:
    """Returns the patterns of the names that lead to a value: `profile.card.*` has three."""
    return tuple(pattern.split("."))


def tool_of(pattern: str) -> tuple[str, tuple[str, ...]]:
    """Returns the pattern of a tool, and the path of an argument: `charge_card: card.number`."""
    tool, _colon, path = pattern.partition(":")
    return tool.strip(), path_of(path.strip())
