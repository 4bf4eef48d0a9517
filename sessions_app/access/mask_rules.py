"""Keeps the rules that hide values, and answers what hides those of an app. Rules stand in adkweb's own database.

Every process reads them again once a second, and only to show somebody a value: an agent that works on its own database
asks for none. Where no rule is about an app, showing a value costs a look into a table.
"""

import threading
import time
import zlib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from ..domain.masks import Mask, Rule
from ..models import MaskRule, tables

SECONDS: Final = 1.0  # after which a rule that another process wrote hides something here, at the latest


@dataclass(frozen=True, slots=True)
class Known:
    """A rule with the apps that it is about. `number` is 0 for one that is only tried."""

    apps: str
    rule: Rule
    number: int = 0
    created: float = 0.0
    created_by: str = ""


class _Rules:
    """The rules as this process knows them, and the mask of each app, None where it has none."""

    def __init__(self) -> None:
        self.until = 0.0
        self.known: list[Known] = []
        self.masks: dict[str, Mask | None] = {}
        self.whole: Mask | None = None


_rules: Final = _Rules()
_lock: Final = threading.Lock()


def mask(app_name: str) -> Mask | None:
    """Returns what hides values of an app from whoever is not the machine itself; None if no rule is about it."""
    _refresh()
    try:
        return _rules.masks[app_name]
    except KeyError:
        pass
    with _lock:
        return _rules.masks.setdefault(app_name, mask_by(_rules.known, app_name))


def mask_of_all() -> Mask | None:
    """Returns what hides values of any app from whoever is not the machine itself; None if there are no rules."""
    _refresh()
    return _rules.whole


def mask_by(rules: list[Known], app_name: str) -> Mask | None:
    """Returns what some rules hide of an app; None if none of them is about it."""
    some = [each.rule for each in rules if fnmatchcase(app_name, each.apps)]
    return Mask(some) if some else None


def listed() -> list[Known]:
    """Returns all rules, the oldest first, as they are stored."""
    return [
        Known(row.apps, Rule(row.kind, row.pattern), row.pk, row.created, row.created_by)
        for row in tables.rows_of(MaskRule.objects.order_by("pk"))
    ]


def digest() -> int:
    """Returns a number that stands for the rules: 0 if there are none. What was read by other rules has another one."""
    _refresh()
    rules = sorted((each.apps, each.rule.kind, each.rule.pattern) for each in _rules.known)
    return zlib.crc32(repr(rules).encode("utf-8", "replace")) % 4_000_000 + 1 if rules else 0


def forget() -> None:
    """Has this process read the rules again before it next shows a value."""
    _rules.until = 0.0


def _refresh() -> None:
    now = time.monotonic()
    if now < _rules.until:
        return
    rows = listed()
    with _lock:
        if rows != _rules.known:
            _rules.known, _rules.masks = rows, {}
            _rules.whole = Mask([each.rule for each in rows]) if rows else None
        _rules.until = now + SECONDS
