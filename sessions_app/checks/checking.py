"""Checks sessions against rules: goes through their changes of the keys that a rule names, a few at a time.

A session broke a rule at an event of its own that wrote one of these keys, and after which the state does not meet the
rule (state_condition.broken). Other sessions may write shared keys, too: for their events, no session is blamed here.
"""

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from django.db import transaction

from ..access.actor import PEOPLE
from ..access.shown import shown
from ..domain.errors import Invalid
from ..domain.json_values import as_object, read_stored_or_none
from ..domain.positions import Position, Seq, position_of
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, UNKNOWN, State, full_key, scope_of
from ..history.index import written
from ..history.steps import Step, Steps, steps_of
from ..models import Breach, Rule, SearchSession
from ..search import state_condition, tree
from ..search.index.read import Stored, is_large, rows_of, shared_states, state_of
from ..search.index.tables import ref_of
from ..sources import database, registry

CHANGES: Final = 200  # writes that are checked before the result is saved
AGAIN: Final = 500  # sessions that are checked again once someone wrote a key that they share
TOGETHER: Final = 50  # sessions whose states are read at once
_UNKNOWN: Final = written.FOREVER  # the position of a breach that no event is known to have made


@dataclass(frozen=True, slots=True)
class Checked:
    """A rule that sessions are checked against, and the full keys that it names."""

    number: int
    node: tree.Node
    keys: tuple[str, ...]

    @property
    def is_shared(self) -> bool:
        """Returns whether sessions share all of its keys."""
        return all(scope_of(key)[0] != "session" for key in self.keys)


@dataclass(frozen=True, slots=True)
class Subject:
    """A session that is checked: its state as it is stored now, by full key, and the position of its last event.

    If its own state is `large`, or can't be read, `state` is what it shares; `whole` reads the rest later. A session in
    which adkweb keeps edits of shared state is not `listed`: only its events are checked, because it has no keys.
    """

    ref: SessionRef
    digest: str
    names: str
    created: float
    until: Position
    state: State
    listed: bool
    large: Stored | None = None


class Came(NamedTuple):
    """The result of a check: where to continue (None at the end), and the shared keys that the session itself wrote."""

    after: Position | None
    shared: frozenset[str]


def checked(rule: Rule) -> Checked | None:
    """Returns a rule in the form in which it is checked; None if the language has changed since it was written."""
    try:
        node = state_condition.read(rule.condition)
    except Invalid:
        return None
    return Checked(rule.pk, node, tuple(state_condition.keys_of(node)))


def subjects(source: str, some: Iterable[SearchSession]) -> list[Subject]:
    """Returns those of these sessions that exist, with their state. Raises SourceError."""
    refs = {ref_of(source, row.names): row for row in some}
    with database.using(source) as db:
        rows = rows_of(db, [(ref.app_name, ref.user_id, ref.session_id) for ref in refs])
        shared = shared_states(db, {row[:2] for row in rows})
    existing = []
    for ref, row in refs.items():
        if stored := rows.get((ref.app_name, ref.user_id, ref.session_id)):
            read = None if is_large(stored.state) else read_stored_or_none(stored.state)
            large = stored if read is None else None
            own = as_object(read)
            app, user = (shared.get((ref.app_name, name), {}) for name in ("", ref.user_id))
            state = shown(own | _prefixed("app", app) | _prefixed("user", user), PEOPLE, ref.app_name)
            until = position_of(Seq(json.loads(row.summary).get("read", 0)))
            existing.append(Subject(ref, row.digest, row.names, stored.created, until, state, row.listed, large))
    return existing


def whole(subject: Subject, rules: Sequence[Checked]) -> Subject:
    """Returns a session with its own state, too, however large it is. If it can't be read, the keys of the rules are
    unknown. Raises SourceError."""
    if subject.large is None:
        return subject
    with database.using(subject.ref.source) as db:
        own = shown(state_of(db, subject.large), PEOPLE, subject.ref.app_name)
    keys = dict.fromkeys(key for rule in rules for key in rule.keys if scope_of(key)[0] == "session")
    state = {key: own.get(key, ABSENT) if own else UNKNOWN for key in keys}
    return replace(subject, state=state | subject.state, large=None)


def _prefixed(scope: str, state: State) -> State:
    return {full_key(scope, bare): value for bare, value in state.items()}  # type: ignore[arg-type]


def check(rules: Sequence[Checked], subject: Subject, after: Position | None) -> Came:
    """Checks the next changes of a session, from its start if `after` is None, and saves the result.

    Raises Behind, SourceError, and IntegrityError if a rule was deleted in the meantime.
    """
    steps = Steps(subject.until)
    if after is None or after < subject.until:
        names = list(dict.fromkeys(key for rule in rules for key in rule.keys))
        steps = steps_of(subject.ref, names, after, subject.until, CHANGES, actor=PEOPLE)
    subject = whole(subject, rules)
    numbers = [rule.number for rule in rules]
    kept = {each.rule_id: each for each in Breach.objects.filter(rule_id__in=numbers, digest=subject.digest)}
    for rule in rules:
        _note(rule, subject, steps, kept.get(rule.number))
    own = {key for step in steps.steps if step.ref == subject.ref for key in step.wrote}
    return Came(steps.upto if steps.more else None, frozenset(key for key in own if scope_of(key)[0] != "session"))


def _note(rule: Checked, subject: Subject, steps: Steps, kept: Breach | None) -> None:
    """Saves the result of checking some changes of a session against a rule, and whether its state breaks the rule
    now."""
    if kept is not None and kept.created != subject.created:  # that was another session with the same id
        kept.delete()
        kept = None
    now = state_condition.broken(rule.node, subject.state)
    first = _first(rule, subject, steps)
    if first is None and now and subject.listed and not rule.is_shared and not steps.more:
        since = subject.created if steps.begun is not None and not steps.steps else time.time()
        first = Step(_UNKNOWN, subject.ref, "", since)
    if kept is None and first is not None:
        with transaction.atomic():
            Breach.objects.create(
                rule_id=rule.number,
                digest=subject.digest,
                names=subject.names,
                position=first.position,
                event_id=first.event_id,
                at=first.timestamp,
                now=now,
                created=subject.created,
            )
    elif kept is not None and first is not None and first.position < kept.position:
        kept.position, kept.event_id, kept.at, kept.now = first.position, first.event_id, first.timestamp, now
        kept.save()
    elif kept is not None and kept.now != now:
        _keep_now([kept.pk], now=now)


def _keep_now(numbers: Sequence[int], *, now: bool) -> None:
    """Keeps whether sessions break a rule now. If no event is known to have done it, the breach is dropped once the
    state meets the rule again."""
    kept = Breach.objects.filter(pk__in=numbers)
    if not now:
        kept.filter(position=_UNKNOWN).delete()
    kept.update(now=now)


def _first(rule: Checked, subject: Subject, steps: Steps) -> Step | None:
    """Returns the first of these changes after which a state breaks a rule."""
    if steps.begun is not None and _began_with(rule, steps) and state_condition.broken(rule.node, steps.start):
        return Step(steps.begun, subject.ref, "", subject.created)
    for step in steps.steps:
        own = step.ref == subject.ref and not step.wrote.isdisjoint(rule.keys)
        if own and state_condition.broken(rule.node, step.values):
            return step
    return None


def _began_with(rule: Checked, steps: Steps) -> bool:
    """Returns whether a session was created with keys of a rule. If some are shared, that is the first of its steps."""
    if not steps.steps or steps.steps[0].position == steps.begun:
        return False
    return any(steps.start[key] is not ABSENT for key in rule.keys if scope_of(key)[0] == "session")


def look_again(rule: Checked, source: str) -> None:
    """Checks the state of sessions that break a rule again: someone else may have changed a key that they share."""
    kept = list(Breach.objects.filter(rule_id=rule.number, now=True).order_by("-at")[:AGAIN])
    for start in range(0, len(kept), TOGETHER):
        digests = {each.digest: each.pk for each in kept[start : start + TOGETHER]}
        rows = SearchSession.objects.filter(source__where=registry.identity(source), digest__in=digests)
        states = [(each, whole(each, [rule]).state) for each in subjects(source, rows)]
        better = [each for each, state in states if not state_condition.broken(rule.node, state)]
        _keep_now([digests[each.digest] for each in better], now=False)
