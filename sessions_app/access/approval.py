"""Decides what needs a second person: by rules over patterns of keys, over the size of batches, and over the tools whose
calls are answered.

Every edit passes `check` (in writes/append.py). An edit that it refuses becomes a proposal (edits/proposals.py), and so
does an answer (running/answers.py).
"""

import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any, Final

from django.db import models, transaction
from django.db.models.signals import post_delete, post_save
from django.utils.translation import gettext as _

from ..domain.errors import Held, Invalid, NotAllowed, NotFound
from ..domain.event import delta_of
from ..domain.kinds import describe
from ..models import tables
from .actor import SYSTEM, Actor, checked_pattern
from .audit.record import record

log = logging.getLogger("adkweb.approval")

DAYS: Final = 7  # until a proposal lapses
MOST_DAYS: Final = 90
MOST_SESSIONS: Final = 100_000  # of a batch
_NAMED: Final = 10  # keys in a message
_TRUSTED_SECONDS: Final = 1.0  # as long as a role is (roles.py)


class ApprovalRule(models.Model):
    """A rule. `keys` and `tools` are empty, or `sessions` None, if it is not about that. Its proposals lapse after
    `days`."""

    sources = models.CharField(max_length=200, default="*")
    apps = models.CharField(max_length=200, default="*")
    keys = models.CharField(max_length=200, default="")
    sessions = models.IntegerField(null=True)
    tools = models.CharField(max_length=200, default="", db_default="")
    days = models.IntegerField(default=7)
    made_by = models.CharField(max_length=150)
    made = models.DateTimeField(auto_now_add=True)

    def is_about(self, source: str, app_name: str) -> bool:
        """Returns whether the rule is about an app of a source."""
        return fnmatchcase(source, self.sources) and fnmatchcase(app_name, self.apps)

    def matches(self, key: str) -> bool:
        """Returns whether the rule is about a key, by its full name."""
        return bool(self.keys) and (key == self.keys or fnmatchcase(key, self.keys))

    def asks_for(self, tool: str) -> bool:
        """Returns whether the rule is about answers to the calls of a tool."""
        return bool(self.tools) and fnmatchcase(tool, self.tools)


known: dict[str, tuple[float, tuple[ApprovalRule, ...]]] = {}  # until when all rules are trusted, and they


def listed() -> tuple[ApprovalRule, ...]:
    """Returns all rules. A change applies at once here, and within a second elsewhere."""
    until, rules = known.get("rules", (0.0, ()))
    if time.monotonic() >= until:
        rules = tuple(tables.rows_of(ApprovalRule.objects.order_by("keys", "tools", "sessions", "pk")))
        known["rules"] = (time.monotonic() + _TRUSTED_SECONDS, rules)
    return rules


def held_keys(source: str, app_name: str, keys: Iterable[str]) -> list[str]:
    """Returns those of the keys whose edits need a second person, in the given order."""
    rules = [rule for rule in listed() if rule.is_about(source, app_name)]
    return [key for key in keys if any(rule.matches(key) for rule in rules)] if rules else []


def held_tools(source: str, app_name: str, tools: Iterable[str]) -> list[str]:
    """Returns those of the tools to whose calls an answer needs a second person, in the given order."""
    rules = [rule for rule in listed() if rule.is_about(source, app_name)]
    return [tool for tool in tools if any(rule.asks_for(tool) for rule in rules)]


def held_in(source: str, app_name: str, event: Mapping[str, Any]) -> list[str]:
    """Returns what of an event that a person writes needs a second person: its keys; and the calls that it answers, by
    their names, if a rule is about any tool: what a response is called says little about the call that it answers."""
    answered = [part.name for part in describe(event).responses]
    about_tools = answered and any(rule.tools and rule.is_about(source, app_name) for rule in listed())
    return [*held_keys(source, app_name, delta_of(event)), *(answered if about_tools else ())]


def check_event(source: str, app_name: str, event: Mapping[str, Any], *, actor: Actor) -> None:
    """Raises Held where an event needs a second person. The machine itself needs none."""
    if actor is not SYSTEM and (names := held_in(source, app_name, event)):
        raise _held(names)


def check(source: str, app_name: str, keys: Collection[str], *, actor: Actor) -> None:
    """Raises Held where an edit of these keys needs a second person. The machine itself needs none."""
    if actor is not SYSTEM and (names := held_keys(source, app_name, keys)):
        raise _held(names)


def _held(names: list[str]) -> Held:
    return Held(_("%(keys)s: needs a second person. Nothing was written.") % {"keys": named(names)}, keys=names)


def days_of(
    apps: Iterable[tuple[str, str]], keys: Collection[str] = (), sessions: int = 0, tools: Collection[str] = ()
) -> int | None:
    """Returns the days after which a proposal for an edit of these keys, a batch of so many sessions, or an answer to calls
    of these tools lapses.

    Returns None if no rule asks for a second person. `apps` are the sources and apps that it touches.
    """
    pairs = list(apps)
    days = [
        rule.days
        for rule in listed()
        if any(rule.is_about(*pair) for pair in pairs)
        and (
            any(map(rule.matches, keys))
            or (rule.sessions is not None and sessions > rule.sessions)
            or any(map(rule.asks_for, tools))
        )
    ]
    return min(days, default=None)


def check_size(source: str, app_name: str, sessions: Iterable[object]) -> None:
    """Raises NotAllowed if one person alone may not delete so many sessions. Reads only as many of them as needed."""
    sizes = [rule.sessions for rule in listed() if rule.sessions is not None and rule.is_about(source, app_name)]
    if sizes and next(islice(sessions, min(sizes), None), None) is not None:
        raise NotAllowed(
            _(
                "Deleting more than %(n)s sessions needs another person's approval. Find the sessions and "
                "delete them as a batch instead."
            )
            % {"n": min(sizes)}
        )


def named(keys: Sequence[str]) -> str:
    """Returns keys as one text: “user:tier, app:limit”."""
    return ", ".join(keys[:_NAMED]) + ("…" if len(keys) > _NAMED else "")


def make(
    *,
    by: Actor,
    keys: str = "",
    sessions: int | None = None,
    tools: str = "",
    days: int = DAYS,
    apps: str = "*",
    sources: str = "*",
) -> ApprovalRule:
    """Makes a rule: `make(by=actor, keys="user:tier", apps="booking*")`. Raises Invalid, NotAllowed."""
    by.check_runs_everything()
    by.check_may_write()
    keys, tools = checked_pattern(keys, "keys"), checked_pattern(tools, "tools")
    if not keys and sessions is None and not tools:
        raise Invalid(_("Enter a key pattern, a number of sessions or the name of a tool."), field="keys")
    if sessions is not None and not 0 <= sessions <= MOST_SESSIONS:
        raise Invalid(_("Enter a number of sessions from 0 to %(most)s.") % {"most": MOST_SESSIONS}, field="sessions")
    if not 1 <= days <= MOST_DAYS:
        raise Invalid(_("Enter a number of days from 1 to %(most)s.") % {"most": MOST_DAYS}, field="days")
    sources, apps = checked_pattern(sources, "sources") or "*", checked_pattern(apps, "apps") or "*"
    with transaction.atomic():
        about: dict[str, Any] = {"keys": keys, "sessions": sessions, "tools": tools, "days": days}
        record("approval-rule-made", by.name, source=sources, app_name=apps, **about)
        rule = ApprovalRule.objects.create(sources=sources, apps=apps, **about, made_by=by.name)
    log.info("%s created the approval rule %s (apps %s): %s", by.name, rule.pk, rule.apps, about)
    return rule


def delete(number: int, *, by: Actor) -> ApprovalRule:
    """Deletes a rule. What waits for a second person because of it still waits. Raises NotFound, NotAllowed."""
    by.check_runs_everything()
    by.check_may_write()
    rule = ApprovalRule.objects.filter(pk=number).first()
    if rule is None:
        raise NotFound(_("This rule has already been deleted."))
    with transaction.atomic():
        record(
            "approval-rule-deleted",
            by.name,
            source=rule.sources,
            app_name=rule.apps,
            keys=rule.keys,
            sessions=rule.sessions,
            tools=rule.tools,
        )
        rule.delete()
    log.info("%s deleted the approval rule %s", by.name, number)
    return rule


def _forget(**_signal: Any) -> None:
    known.clear()
    transaction.on_commit(known.clear)  # before the commit, another reader would get the old rules again


post_save.connect(_forget, ApprovalRule, weak=False)
post_delete.connect(_forget, ApprovalRule, weak=False)
