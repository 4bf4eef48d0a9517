"""Keeps the rules that hide values, and returns those for an app. Rules are in adkweb's own database.

Every process reads them again twice a second, but only to show someone a value: an agent that works on its own database
never does. Without a rule for an app, showing a text only costs a search for the names of credentials.
"""

import threading
import time
import zlib
from fnmatch import fnmatchcase
from typing import Any, ClassVar, Final

from django.db import DatabaseError, models
from django.utils.crypto import salted_hmac

from ..domain.masks import Mask, Rule
from ..models import tables

# The time after which a rule that another process wrote applies here, at the latest. No one may be sent what it hides
# after a second: that leaves the same time to render a page.
SECONDS: Final = 0.5


class MaskRule(models.Model):
    """Hides values of the apps whose names match `apps` (`booking*`). The other fields are as in domain/masks.py."""

    apps = models.CharField(max_length=200)
    kind = models.CharField(max_length=10)
    pattern = models.CharField(max_length=200)
    ids = models.BooleanField(default=False)
    created = models.FloatField()
    created_by = models.CharField(max_length=150)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["apps", "kind", "pattern"], name="one_mask_rule")]

    @property
    def rule(self) -> Rule:
        """Returns what it hides."""
        return Rule(self.kind, self.pattern, self.ids)


ALWAYS: Final[tuple[MaskRule, ...]] = ()  # rules that always apply, whatever admins write or remove


class _Rules:
    """The rules as this process knows them, and the mask of each app."""

    def __init__(self) -> None:
        self.until = 0.0
        self.stored: list[MaskRule] = []
        self.said: list[Any] = []  # what they say: rows that are made again may get the same numbers
        self.masks: dict[str, Mask] = {}
        self.whole = Mask([])
        self.digest = 0


_rules: Final = _Rules()
_lock: Final = threading.Lock()


def mask(app_name: str) -> Mask:
    """Returns what hides values of an app from everyone but the machine itself. Without a rule, it hides the secrets of
    credentials."""
    _refresh()
    try:
        return _rules.masks[app_name]
    except KeyError:
        pass
    with _lock:
        return _rules.masks.setdefault(app_name, mask_by(_rules.stored, app_name))


def mask_of_all() -> Mask:
    """Returns what hides values of any app from everyone but the machine itself."""
    _refresh()
    return _rules.whole


def mask_by(rules: list[MaskRule], app_name: str) -> Mask:
    """Returns what some rules hide of an app, and the secrets of credentials."""
    return Mask(each.rule for each in rules if fnmatchcase(app_name, each.apps))


def listed() -> list[MaskRule]:
    """Returns all rules, the oldest first, as they are stored."""
    return tables.rows_of(MaskRule.objects.order_by("pk"))


def digest() -> int:
    """Returns a number that identifies the rules: 0 if there are none. Other rules have another number.

    Anything that keeps what was shown has it in its key. Ask for it before you read what is shown."""
    _refresh()
    return _rules.digest


def changed_since(before: int) -> bool:
    """Returns whether the rules differ from those of a digest; False if adkweb's own database does not answer."""
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
    rows = [*ALWAYS, *listed()]
    said = sorted((each.apps, each.kind, each.pattern, each.ids) for each in rows)
    with _lock:
        if said != _rules.said:
            _rules.stored, _rules.said, _rules.masks = rows, said, {}
            _rules.whole = Mask(each.rule for each in rows)
            # With another key, ids have other handles.
            key = [salted_hmac("adkweb.handle", "").hexdigest()] if _rules.whole.hides_ids else []
            _rules.digest = zlib.crc32(repr([*said, *key]).encode("utf-8", "replace")) % 4_000_000 + 1 if said else 0
        _rules.until = now + SECONDS
