"""Judges the names of keys (pure): how they are spelled, what their prefix means, and whose data they seem to be."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from ..domain.json_values import dumps
from ..domain.secrets import plain
from ..domain.state import PREFIXES, scope_of

_STYLES: Final = {
    "snake_case": re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)+"),
    "camelCase": re.compile(r"[a-z]+[a-z0-9]*(?:[A-Z][a-z0-9]*)+"),
    "PascalCase": re.compile(r"(?:[A-Z][a-z0-9]+){2,}"),
    "kebab-case": re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)+"),
}
_ENOUGH: Final = 5  # keys of a style, before the others are said to differ from it
_MOST_OTHERS: Final = 0.3  # of all keys: with more, there is no style to differ from
_OF_USER: Final = re.compile(
    r"(?:user|customer|client|guest|member|profile)_(?:name|id|e?mail|phone|lang(?:uage)?|locale|tier|plan|role|time_?zone"
    r"|address|preferences?|settings|profile|birth\w{0,20})"
    r"|e?mail(?:_address)?|phone(?:_number)?|language|locale|time_?zone|preferences|preferred_\w{1,40}"
    r"|favou?rite_\w{1,40}|loyalty_\w{1,40}|date_of_birth|birth(?:day|date)|(?:first|last|full)_name"
)


def spellings(names: Collection[str]) -> list[list[str]]:
    """Returns the bare keys that are one name in several spellings: [["bookingStep", "booking_step"]]."""
    alike: dict[str, list[str]] = {}
    for name in sorted(names):
        if form := plain(name):
            alike.setdefault(form, []).append(name)
    return [same for same in alike.values() if len(same) > 1]


def style_of(name: str) -> str:
    """Returns the spelling of a name of several words, such as `snake_case`; "" for one word and for a mix."""
    return next((style for style, pattern in _STYLES.items() if pattern.fullmatch(name[:200])), "")


def other_style(names: Collection[str]) -> tuple[str, list[str]]:
    """Returns the style that most of these names have, and those names that have another one; "" if there is none."""
    styles = {name: style_of(name) for name in names if style_of(name)}
    if not styles:
        return "", []
    (usual, count), *_others = Counter(styles.values()).most_common()
    others = sorted(name for name, style in styles.items() if style != usual)
    return (usual, others) if count >= _ENOUGH and len(others) <= _MOST_OTHERS * len(styles) else ("", [])


def meant_prefix(key: str) -> str:
    """Returns the prefix that a key of a session seems to mean: `user:` for `User:tier` and `users:tier`; "" for any
    other.

    To ADK, a prefix that it does not know is a part of the name, and the key is the session's.
    """
    head, colon, rest = key.partition(":")
    if not colon or not rest or scope_of(key)[0] != "session":
        return ""
    head = head.strip().lower()
    return next((prefix for prefix in PREFIXES.values() if prefix and head in (prefix[:-1], prefix[:-1] + "s")), "")


def seems_users(key: str) -> bool:
    """Returns whether a session's key has a name that fits a user better: `email`, `userName`, `preferred_seat`."""
    return bool(_OF_USER.fullmatch(plain(key)))


def is_same_for_each_user(states: Sequence[tuple[str, Mapping[str, Any]]], key: str) -> bool:
    """Returns whether a key of sessions has one value for each user, different between users.

    `states` are pairs of a user and the state of one of their sessions. At least two users must have two sessions with
    it.
    """
    values: dict[str, list[str]] = {}
    for user, state in states:
        value = state.get(key)
        if isinstance(value, str | int | float) and not isinstance(value, bool) and value != "":
            values.setdefault(user, []).append(dumps(value)[:1000])
    often = [each for each in values.values() if len(each) > 1]
    if len(often) < 2 or any(len({*each}) > 1 for each in values.values()):
        return False
    return len({each[0] for each in values.values()}) == len(values)
