"""The rules of an app: what people create, change, delete and have checked again."""

import json
import time
from typing import Any, Final, NamedTuple

from django.db import transaction
from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..access.audit.record import record
from ..access.shown import check_unmasked, shown_words, typed_words
from ..domain.errors import Invalid, NotFound
from ..domain.session_ref import digest_of, own_session
from ..domain.state import scope_of
from ..models import Job, Rule
from ..reads import views
from ..search import state_condition, tree
from ..search.lines import clean
from ..search.results import COUNT_LIMIT, count
from ..search.selecting import patience
from ..sources import registry
from . import checking, rule_jobs
from .checking import Checked

MOST: Final = 50  # of an app
TITLE_LENGTH: Final = 100


def rules(source: str, app_name: str, *, actor: Actor) -> list[Rule]:
    """Returns the rules of an app as the actor sees them, the oldest first. Raises NotFound, SourceError."""
    views.app(source, app_name, partly=True, actor=actor)
    rows = list(Rule.objects.filter(**_of_app(source, app_name)).order_by("pk"))
    jobs = Job.objects.in_bulk([row.job for row in rows if row.job])
    return [_shown(row, source, jobs.get(row.job), actor) for row in rows]


def rule(source: str, app_name: str, number: int, *, actor: Actor) -> Rule:
    """Returns a rule as the actor sees it. Raises NotFound, SourceError."""
    row = _row(source, app_name, number, actor)
    return _shown(row, source, Job.objects.filter(pk=row.job).first() if row.job else None, actor)


def checked(source: str, app_name: str) -> list[Checked]:
    """Returns the rules of an app in the form in which they are checked."""
    return [rule for row in Rule.objects.filter(**_of_app(source, app_name)) if (rule := checking.checked(row))]


class Trial(NamedTuple):
    """The number of sessions that break a condition now, of those counted. `more`: others were not counted. `shared`: it is
    about the app's state alone, so it holds for all sessions or for none."""

    broken: int
    sessions: int
    more: bool
    shared: bool


def trial(source: str, app_name: str, text: str, *, actor: Actor) -> Trial:
    """Returns how many sessions of an app would break a rule now, as far as they are indexed. It reads only the index.

    Raises Invalid, NotFound, SourceError; Slow if that takes longer than a second."""
    actor.check_sees(own_session(source, app_name))
    node = state_condition.read(text)
    of_app = tree.Match("source", source, exact=True), tree.Match("app", app_name, exact=True)
    with patience(1.0):
        sessions = count(tree.Query(tree.And(of_app)), actor=actor)
        broken = count(tree.Query(tree.And((*of_app, state_condition.breaking(node)))), actor=actor)
    shared = {scope_of(key)[0] for key in state_condition.keys_of(node)} == {"app"}
    return Trial(min(broken, COUNT_LIMIT), min(sessions, COUNT_LIMIT), sessions > COUNT_LIMIT, shared)


def create(source: str, app_name: str, title: str, text: str, *, actor: Actor) -> int:
    """Creates a rule, and has all sessions of the app checked. Returns its number.

    Raises Invalid, NotAllowed, NotFound, SourceError."""
    actor.check_may("append", source, app_name)
    views.app(source, app_name, partly=True, actor=actor)
    of_app = _of_app(source, app_name)
    fields = _fields(title, text)
    check_unmasked([*fields.values()], actor, app_name)
    if Rule.objects.filter(**of_app).count() >= MOST:
        raise Invalid(_("An app can have up to %(n)s rules.") % {"n": MOST})
    with transaction.atomic():
        made = Rule.objects.create(
            **of_app, **fields, names=json.dumps([app_name]), created=time.time(), created_by=actor.name[:150]
        )
        _record("rule-created", actor, made, source, app_name)
    rule_jobs.begin(made, actor)
    return made.pk


def change(source: str, app_name: str, number: int, title: str, text: str, *, actor: Actor) -> None:
    """Changes a rule. If its condition changes, everything is checked again. Raises what `create` does."""
    actor.check_may("append", source, app_name)
    row = _row(source, app_name, number, actor)
    title, text = (
        typed_words(typed, stored, actor, app_name)
        for typed, stored in ((" ".join(title.split()), row.title), (text.strip(), row.condition))
    )
    fields = _fields(title, text)
    again = row.condition != fields["condition"]
    with transaction.atomic():
        Rule.objects.filter(pk=row.pk).update(**fields)
        row.refresh_from_db()
        _record("rule-changed", actor, row, source, app_name)
    if again:
        rule_jobs.begin(row, actor)


def delete(source: str, app_name: str, number: int, *, actor: Actor) -> None:
    """Deletes a rule with its results. Raises NotAllowed, NotFound."""
    actor.check_may("append", source, app_name)
    row = _row(source, app_name, number, actor)
    with transaction.atomic():
        rule_jobs.stop(row)
        row.delete()
        _record("rule-deleted", actor, row, source, app_name)


def check_again(source: str, app_name: str, number: int, *, actor: Actor) -> None:
    """Checks a rule from the start. Raises NotAllowed, NotFound."""
    actor.check_may("append", source, app_name)
    rule_jobs.begin(_row(source, app_name, number, actor), actor)


def stop(source: str, app_name: str, number: int, *, actor: Actor) -> None:
    """Stops the check of a rule. Raises NotAllowed, NotFound."""
    actor.check_may("append", source, app_name)
    rule_jobs.stop(_row(source, app_name, number, actor))


def _of_app(source: str, app_name: str) -> dict[str, Any]:
    return {"where": registry.identity(source), "digest": digest_of(app_name, "")}


def _record(act: str, actor: Actor, row: Rule, source: str, app_name: str) -> None:
    record(act, actor.name, source=source, app_name=app_name, title=row.title, condition=row.condition)


def _fields(title: str, text: str) -> dict[str, str]:
    title, text = " ".join(title.split()), text.strip()
    if len(title) > TITLE_LENGTH or "\0" in title:
        raise Invalid(_("A name can have up to %(n)s characters.") % {"n": TITLE_LENGTH}, field="title")
    state_condition.read(text)
    return {"title": title, "condition": clean(text, state_condition.MOST_CHARACTERS)}


def _row(source: str, app_name: str, number: int, actor: Actor) -> Rule:
    views.app(source, app_name, partly=True, actor=actor)
    row = Rule.objects.filter(**_of_app(source, app_name), pk=number).first()
    if row is None:
        raise NotFound(_("This rule doesn't exist. It may have been deleted."))
    return row


def _shown(rule: Rule, source: str, work: Job | None, actor: Actor) -> Rule:
    """Returns a rule, no longer to be saved, with its words as the actor sees them."""
    rule.source, rule.work = source, work
    rule.title, rule.condition = (shown_words(each, actor, rule.app_name) for each in (rule.title, rule.condition))
    return rule
