"""Looks at the state of the newest sessions, within bounds: which keys a rule would hide, and which rules are proposed."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from ..access import mask_rules
from ..access.actor import SYSTEM, Actor
from ..access.mask_rules import Known
from ..checks.samples import OneState, sample
from ..domain.errors import Error
from ..domain.mask_patterns import CARD, FORMS, JWT, SERVICE, hide
from ..domain.masks import FORM, KEY, Rule
from ..domain.secrets import has_secret_name
from ..domain.state import State, full_key
from ..reads import lists
from ..sources import registry

_APPS: Final = 20  # that are looked at
_SECONDS: Final = 3.0
USERS: Final = 1_000  # of an app, whose ids are looked at
_PROPOSED: Final = (SERVICE, JWT, CARD)  # addresses and phone numbers are no secrets everywhere
MOST: Final = 30  # proposals, and names of keys that are told


@dataclass(frozen=True, slots=True)
class Look:
    """The keys that a rule would hide, of all that were looked at. `named` are those whose name itself holds such a value:
    names are never hidden."""

    keys: int
    hidden: list[str]
    named: int


@dataclass(frozen=True, slots=True)
class Ids:
    """How many users of an app have such a value as their id, of all, or of the first so many if there are `more`."""

    app_name: str
    users: int
    having: int
    more: bool


@dataclass(frozen=True, slots=True)
class Proposal:
    """A rule that is proposed, and the keys that it would hide."""

    known: Known
    keys: list[str]


def look(known: Known, *, actor: Actor) -> Look:
    """Returns what a rule would hide. Raises NotAllowed."""
    actor.check_runs_everything()
    names: dict[tuple[str, str], bool] = {}
    named = set()
    for app_name, state in _states(known.apps):
        mask = mask_rules.mask_by([known], app_name)
        for key, value in state.items():
            names[app_name, key] = names.get((app_name, key), False) or mask({key: value})[key] is not value
            if known.rule.kind == FORM and hide(key, [known.rule.pattern]) != key:
                named.add((app_name, key))
    hidden = sorted({key for (_app, key), is_hidden in names.items() if is_hidden})
    return Look(len(names), hidden, len(named))


def ids(known: Known, *, actor: Actor) -> list[Ids]:
    """Returns the apps of a rule by form in which users have such a value as their id. Raises NotAllowed."""
    actor.check_runs_everything()
    if known.rule.kind != FORM:
        return []
    told = []
    for source, app_name in _apps(known.apps):
        try:
            every = lists.user_ids(source, app_name, USERS + 1, actor=SYSTEM)
        except Error:
            continue
        some = every[:USERS]
        if having := sum(hide(each, [known.rule.pattern]) != each for each in some):
            told.append(Ids(app_name, len(some), having, len(every) > len(some)))
    return told


def proposals(*, actor: Actor) -> list[Proposal]:
    """Returns rules for what looks like a secret and is not hidden yet. Raises NotAllowed."""
    actor.check_runs_everything()
    keys: dict[tuple[str, Rule], set[str]] = {}
    for app_name, state in _states("*"):
        mask = mask_rules.mask(app_name)
        for key, value in mask(state).items():
            if value is not state[key]:
                continue
            for rule in _rules_for(key, value):
                keys.setdefault((app_name, rule), set()).add(key)
    ranked = sorted(keys.items(), key=lambda each: (each[0][0], each[0][1].kind, each[0][1].pattern))[:MOST]
    return [Proposal(Known(app_name, rule), sorted(some)) for (app_name, rule), some in ranked]


def _rules_for(key: str, value: Any) -> Iterator[Rule]:
    if has_secret_name(key) and not set("*?[") & set(key):
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
    """Yields apps with states of theirs, with full keys."""
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
            continue  # a source that is away is looked at another time
        for name in names:
            if looked_at == _APPS or time.monotonic() > until:
                return
            looked_at += 1
            yield source.alias, name


def _full(one: OneState, scope: Any) -> State:
    return {full_key(scope, bare): value for bare, value in one.state.items()}
