"""Keeps the rules that hide values; access/masking.py applies them. Only an admin of all sources and apps changes them.
On a bounded number of the newest sessions, it shows what a rule would hide, and which rules to propose.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from ..access import masking
from ..access.actor import SYSTEM, Actor
from ..access.audit.record import record
from ..access.masking import MaskRule
from ..domain.errors import AlreadyExists, Error, Invalid, NotFound
from ..domain.mask_patterns import CARD, FORMS, JWT, SERVICE, hide
from ..domain.masks import FORM, KEY, KINDS, PATH, TOOL, Rule, path_of, tool_of
from ..domain.secrets import suggests_secret
from ..domain.state import State, full_key
from ..reads import lists
from ..search import labels
from ..search.index.tables import forget_all
from ..sources import registry
from .samples import OneState, sample

MOST: Final = 200  # rules
LENGTH: Final = 200  # characters of a pattern
_STARS: Final = 10  # of a pattern: each costs another search through a name
_APPS: Final = 20  # that are checked
_SECONDS: Final = 3.0
USERS: Final = 1_000  # of an app, whose ids are checked
_PROPOSED: Final = (SERVICE, JWT, CARD)  # addresses and phone numbers aren't secrets everywhere
SHOWN: Final = 30  # proposals, and names of keys that are shown


def listed(*, actor: Actor) -> list[MaskRule]:
    """Returns all rules, the oldest first. Raises NotAllowed."""
    actor.check_runs_everything()
    return masking.listed()


def checked(apps: str, kind: str, pattern: str, *, ids: bool = False) -> MaskRule:
    """Returns a rule as it would be stored. Raises Invalid, which names the field."""
    apps, pattern = apps.strip() or "*", pattern.strip()
    for field, text in (("apps", apps), ("pattern", pattern)):
        if len(text) > LENGTH or "\0" in text:
            raise Invalid(_("A pattern can have up to %(n)s characters.") % {"n": LENGTH}, field=field)
        if text.count("*") + text.count("?") > _STARS:
            raise Invalid(_("A pattern can have up to %(n)s stars.") % {"n": _STARS}, field=field)
    if kind not in KINDS:
        raise Invalid(_("This type of rule doesn't exist."), field="kind")
    if problem := _problem(kind, pattern):
        raise Invalid(problem, field="pattern")
    if ids and kind != FORM:
        raise Invalid(_("Only format rules can hide user ids."), field="ids")
    if ids and apps != "*":  # a user has the same handle in every app
        raise Invalid(_("User ids are hidden in all apps or none, so leave the apps field empty."), field="apps")
    return MaskRule(apps=apps, kind=kind, pattern=pattern, ids=ids)


def _problem(kind: str, pattern: str) -> str:
    if kind == FORM:
        return "" if pattern in FORMS else _("Choose one of: %(forms)s.") % {"forms": ", ".join(FORMS)}
    if kind == PATH:
        path = path_of(pattern)
        return "" if len(path) > 1 and all(path) else _("Enter a path like this: profile.card.number")
    if kind == TOOL:
        tool, path = tool_of(pattern)
        return "" if tool and all(path) else _("Enter the tool, a colon and the argument: charge_card: card_number")
    return "" if pattern else _("Enter the name of a key, or a pattern like *token*.")


def create(apps: str, kind: str, pattern: str, *, ids: bool = False, actor: Actor) -> MaskRule:
    """Adds a rule that hides values, and has the search index rebuilt without them.

    With `ids`, a format also hides user ids; such a rule replaces the same one without.

    Raises Invalid, AlreadyExists, NotAllowed."""
    actor.check_runs_everything()
    actor.check_may_write()
    rule = checked(apps, kind, pattern, ids=ids)
    rule.created, rule.created_by = time.time(), actor.name[:150]
    if MaskRule.objects.count() >= MOST:
        raise Invalid(_("There can be up to %(n)s rules.") % {"n": MOST})
    try:
        with transaction.atomic():
            _record("mask-rule-made", rule, actor)
            if ids:
                MaskRule.objects.filter(apps=rule.apps, kind=rule.kind, pattern=rule.pattern, ids=False).delete()
            rule.save()
    except IntegrityError:
        raise AlreadyExists(_("There's already a rule like this."), field="pattern") from None
    masking.forget()
    labels.mask_again()
    forget_all()
    return rule


def _record(act: str, rule: MaskRule, actor: Actor) -> None:
    record(act, actor.name, app_name=rule.apps, kind=rule.kind, pattern=rule.pattern, ids=rule.ids or None)


def delete(number: int, *, actor: Actor) -> None:
    """Deletes a rule: what it hid is visible again. Raises NotFound, NotAllowed."""
    actor.check_runs_everything()
    actor.check_may_write()
    with transaction.atomic():
        rule = MaskRule.objects.filter(pk=number).first()
        if rule is None:
            raise NotFound(_("This rule doesn't exist. It may have been deleted."))
        _record("mask-rule-removed", rule, actor)
        rule.delete()
    masking.forget()
    labels.mask_again()


# --- What a rule would hide, and which rules are proposed -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Look:
    """The keys that a rule would hide, of all that were checked. `named` are those whose own name holds such a value:
    names are never hidden."""

    keys: int
    hidden: list[str]
    named: int


@dataclass(frozen=True, slots=True)
class Ids:
    """The number of users of an app whose id is such a value, of all users or, if there are `more`, of the first ones."""

    app_name: str
    users: int
    having: int
    more: bool


def look(rule: MaskRule, *, actor: Actor) -> Look:
    """Returns what a rule would hide. Raises NotAllowed."""
    actor.check_runs_everything()
    names: dict[tuple[str, str], bool] = {}
    named = set()
    for app_name, state in _states(rule.apps):
        mask = masking.mask_by([rule], app_name)
        for key, value in state.items():
            names[app_name, key] = names.get((app_name, key), False) or mask({key: value})[key] is not value
            if rule.kind == FORM and hide(key, [rule.pattern]) != key:
                named.add((app_name, key))
    hidden = sorted({key for (_app, key), is_hidden in names.items() if is_hidden})
    return Look(len(names), hidden, len(named))


def ids(rule: MaskRule, *, actor: Actor) -> list[Ids]:
    """Returns the apps of a rule by format in which users have such a value as their id. Raises NotAllowed."""
    actor.check_runs_everything()
    if rule.kind != FORM:
        return []
    told = []
    for source, app_name in _apps(rule.apps):
        try:
            every = lists.user_ids(source, app_name, USERS + 1, actor=SYSTEM)
        except Error:
            continue
        some = every[:USERS]
        if having := sum(hide(each, [rule.pattern]) != each for each in some):
            told.append(Ids(app_name, len(some), having, len(every) > len(some)))
    return told


def proposals(*, actor: Actor) -> list[tuple[MaskRule, list[str]]]:
    """Returns rules for values that look like a secret, and for keys that are named like one, unless they are hidden
    already; each with the keys that it would hide.

    Raises NotAllowed."""
    actor.check_runs_everything()
    keys: dict[tuple[str, Rule], set[str]] = {}
    for app_name, state in _states("*"):
        mask = masking.mask(app_name)
        for key, value in mask(state).items():
            if value is not state[key]:
                continue
            for rule in _rules_for(key, value):
                keys.setdefault((app_name, rule), set()).add(key)
    ranked = sorted(keys.items(), key=lambda each: (each[0][0], each[0][1].kind, each[0][1].pattern))[:SHOWN]
    return [
        (MaskRule(apps=app_name, kind=rule.kind, pattern=rule.pattern), sorted(some))
        for (app_name, rule), some in ranked
    ]


def _rules_for(key: str, value: Any) -> Iterator[Rule]:
    if suggests_secret(key) and not set("*?[") & set(key):
        yield Rule(KEY, key)
        return
    for form in FORMS:
        if form in _PROPOSED and _has(value, form):
            yield Rule(FORM, form)


def _has(value: Any, form: str) -> bool:
    if isinstance(value, dict):
        return any(_has(each, form) for each in value.values())
    if isinstance(value, list):
        return any(_has(each, form) for each in value)
    return isinstance(value, str) and hide(value, [form]) != value


def _states(apps: str) -> Iterator[tuple[str, State]]:
    """Yields apps with some of their states, with full keys."""
    for source, name in _apps(apps):
        try:
            one = sample(source, name, actor=SYSTEM)
        except Error:
            continue
        yield from ((name, _full(each, "app")) for each in one.apps)
        yield from ((name, _full(each, "user")) for each in one.users)
        yield from ((name, each.state) for each in one.sessions)


def _apps(apps: str) -> Iterator[tuple[str, str]]:
    """Yields the sources and names of some apps that match a pattern."""
    until, looked_at = time.monotonic() + _SECONDS, 0
    for source in registry.listed():
        try:
            names = [name for name in lists.app_names(source.alias, actor=SYSTEM) if fnmatchcase(name, apps)]
        except Error:
            continue  # a source that doesn't answer is checked another time
        for name in names:
            if looked_at == _APPS or time.monotonic() > until:
                return
            looked_at += 1
            yield source.alias, name


def _full(one: OneState, scope: Any) -> State:
    return {full_key(scope, bare): value for bare, value in one.state.items()}
