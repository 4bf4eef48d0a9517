"""Keeps the rules that hide values, and answers what hides those of an app. Rules stand in adkweb's own database.

Every process reads them again twice a second, and only to show somebody a value: an agent that works on its own database
asks for none. Where no rule is about an app, showing a text costs a look for the names of credentials.
"""

import threading
import time
import zlib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from django.db import DatabaseError
from django.utils.crypto import salted_hmac

from ..domain.masks import Mask, Rule
from ..models import MaskRule, tables

# After which a rule that another process wrote hides something here, at the latest. Within a second, nobody is sent what
# it hides: that leaves as long again to make a page.
SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Known:
    """A rule with the apps that it is about. `number` is 0 for one that is only tried."""

    apps: str
    rule: Rule
    number: int = 0
    created: float = 0.0
    created_by: str = ""


class _Rules:
    """The rules as this process knows them, and the mask of each app."""

    def __init__(self) -> None:
        self.until = 0.0
        self.known: list[Known] = []
        self.masks: dict[str, Mask] = {}
        self.whole = Mask([])
        self.digest = 0


_rules: Final = _Rules()
_lock: Final = threading.Lock()


def mask(app_name: str) -> Mask:
    """Returns what hides values of an app from whoever is not the machine itself. Without a rule, it hides the secrets of
    credentials."""
    _refresh()
    try:
        return _rules.masks[app_name]
    except KeyError:
        pass
    with _lock:
        return _rules.masks.setdefault(app_name, mask_by(_rules.known, app_name))


def mask_of_all() -> Mask:
    """Returns what hides values of any app from whoever is not the machine itself."""
    _refresh()
    return _rules.whole


def mask_by(rules: list[Known], app_name: str) -> Mask:
    """Returns what some rules hide of an app, and the secrets of credentials."""
    return Mask(each.rule for each in rules if fnmatchcase(app_name, each.apps))


def listed() -> list[Known]:
    """Returns all rules, the oldest first, as they are stored."""
    return [
        Known(row.apps, Rule(row.kind, row.pattern, row.ids), row.pk, row.created, row.created_by)
        for row in tables.rows_of(MaskRule.objects.order_by("pk"))
    ]


def digest() -> int:
    """Returns a number that stands for the rules: 0 if there are none. What was read by other rules has another one.

    Whatever keeps something that was shown has it in its key. Ask for it before you read what is shown."""
    _refresh()
    return _rules.digest


def changed_since(before: int) -> bool:
    """Tells whether other rules hold than those of a digest; False if adkweb's own database does not answer."""
    try:
        return digest() != before
    except DatabaseError:
        return False


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
            _rules.whole = Mask(each.rule for each in rows)
            rules: list[Any] = sorted((each.apps, each.rule.kind, each.rule.pattern, each.rule.ids) for each in rows)
            if _rules.whole.hides_ids:  # with another key, ids have other handles
                rules.append(salted_hmac("adkweb.handle", "").hexdigest())
            _rules.digest = zlib.crc32(repr(rules).encode("utf-8", "replace")) % 4_000_000 + 1 if rules else 0
        _rules.until = now + SECONDS
