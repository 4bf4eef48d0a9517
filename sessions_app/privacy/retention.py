"""Rules that delete the sessions of an app to which no one has written for some days. `retention_job.py` applies
them."""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Final

from django.db import models
from django.db.models import Q
from django.utils.functional import cached_property
from django.utils.translation import gettext as _

from ..access import approval
from ..access.actor import Actor
from ..access.audit.record import record
from ..domain.errors import Invalid, NotFound
from ..domain.event import ID_LENGTH
from ..domain.json_values import check_name
from ..domain.session_ref import OWN_NAME, SessionRef
from ..models import Session
from ..sources import database, registry
from ..writes.sessions import is_on_hold

MOST_DAYS: Final = 36_500
_COUNTED: Final = 10_000  # sessions that a dry run reads
_FIRST_SECONDS: Final = 60.0  # until a new rule first runs, so that there is time to remove it


class RetentionRuleQuerySet(models.QuerySet["RetentionRule"]):
    """The questions that are asked about rules."""

    def administered_by(self, actor: Actor) -> list["RetentionRule"]:
        """Returns the rules of the apps in which an actor is an admin, by app."""
        return [
            rule
            for rule in self.order_by("app_name", "id")
            if (actor.may("admin", rule.source, rule.app_name) if rule.source else actor.runs_everything)
        ]


class RetentionRule(models.Model):
    """The days without a write after which the sessions of an app are deleted, and whether they are exported before.

    `where` is registry.identity. `account` is that of the rule's author, as in Job: the rule acts with their permissions.
    `due` is the next run; `result` is what the last one did, as JSON. Times are seconds.
    """

    where = models.TextField()
    app_name = models.CharField(max_length=128)
    days = models.IntegerField()
    export = models.BooleanField(default=False)
    by = models.CharField(max_length=150)
    account = models.CharField(max_length=40, default="")
    changed = models.FloatField()
    due = models.FloatField()
    result = models.TextField(default="")

    objects = RetentionRuleQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["where", "app_name"], name="one_retention_rule")]

    @cached_property
    def source(self) -> str:
        """Returns the alias of its source, "" while that is not open."""
        return registry.alias_of(self.where) or ""

    @property
    def last_run(self) -> dict[str, Any]:
        """Returns the result of the last run, {} before the first."""
        done: dict[str, Any] = json.loads(self.result or "{}")
        return done


@dataclass(frozen=True, slots=True)
class Trial:
    """The numbers of a dry run. With `more`, there are more sessions than were read."""

    sessions: int
    held: int
    more: bool


def try_(source: str, app_name: str, days: int, *, actor: Actor) -> Trial:
    """Returns how many sessions a rule would delete now. Writes nothing. Raises NotAllowed, NotFound, Invalid,
    SourceError."""
    _check(source, app_name, days, actor)
    some = list(islice(idle_sessions(source, app_name, time.time() - days * DAY), _COUNTED + 1))
    held = sum(is_on_hold(ref) for ref, _revision in some[:_COUNTED])
    return Trial(min(len(some), _COUNTED) - held, held, len(some) > _COUNTED)


def save(source: str, app_name: str, days: int, *, export: bool, actor: Actor) -> RetentionRule:
    """Sets the rule of an app, replacing an existing one. Raises NotAllowed, NotFound, Invalid, SourceError."""
    _check(source, app_name, days, actor)
    mine = RetentionRule.objects.filter(where=registry.identity(source), app_name=app_name)
    if not mine.filter(days__lte=days).exists():  # unless it deletes no more than the previous rule
        idle = idle_sessions(source, app_name, time.time() - days * DAY)
        approval.check_size(source, app_name, (ref for ref, _revision in idle if not is_on_hold(ref)))
    record("retention-changed", actor.name, source=source, app_name=app_name, days=days, export=export)
    now = time.time()
    fields = {"days": days, "export": export, "by": actor.name, "account": actor.account, "changed": now}
    rule, _made = RetentionRule.objects.update_or_create(
        where=registry.identity(source), app_name=app_name, defaults={**fields, "due": now + _FIRST_SECONDS}
    )
    return rule


def remove(number: int, *, actor: Actor) -> None:
    """Removes a rule; a current run ends soon. Raises NotFound, NotAllowed."""
    rule = next((each for each in RetentionRule.objects.administered_by(actor) if each.pk == number), None)
    if rule is None:
        raise NotFound(_("This rule doesn't exist."))
    actor.check_may_write()
    record("retention-removed", actor.name, source=rule.source, app_name=rule.app_name)
    RetentionRule.objects.filter(pk=number).delete()


def check_days(text: str) -> int:
    """Returns a number of days that was typed. Raises Invalid."""
    text = text.strip()
    if not (text.isascii() and text.isdigit() and 0 < int(text[:9]) <= MOST_DAYS and len(text) < 9):
        raise Invalid(_("Enter a number of days from 1 to %(most)s.") % {"most": MOST_DAYS}, field="days")
    return int(text)


def sources(actor: Actor) -> Sequence[str]:
    """Returns the sources in which the actor is an admin of an app."""
    return [each.alias for each in registry.listed() if actor.has("admin", each.alias)]


def _check(source: str, app_name: str, days: int, actor: Actor) -> None:
    check_name(app_name, _("the app's name"), ID_LENGTH)
    actor.check_may("admin", source, app_name)
    database.get(source)
    if not 0 < days <= MOST_DAYS:
        raise Invalid(_("Enter a number of days from 1 to %(most)s.") % {"most": MOST_DAYS}, field="days")


# --- Sessions to which no one has written for a time ------------------------------------------------------------------

DAY: Final = 86400.0
PAGE: Final = 200


def idle_sessions(source: str, app_name: str, before: float) -> Iterator[tuple[SessionRef, float]]:
    """Yields sessions whose last write was before a time, each with its revision. Raises SourceError.

    Those in which adkweb keeps edits of shared state are left out. An index of adkweb's has this order, so that a page
    costs what it has, however many sessions there are."""
    last: tuple[float, str, str] | None = None
    while True:
        with database.using(source):
            rows = Session.objects.using(source).filter(app_name=app_name, update_time__lt=before)
            if last:
                moment, user, name = last
                same = Q(update_time=moment)
                rows = rows.filter(
                    Q(update_time__gt=moment) | same & Q(user_id__gt=user) | same & Q(user_id=user, id__gt=name),
                    update_time__gte=moment,
                )
            ordered = rows.order_by("update_time", "user_id", "id").values_list("update_time", "user_id", "id")
            page = list(ordered[:PAGE])
        for moment, user, name in page:
            if name != OWN_NAME:
                yield SessionRef(source, app_name, user, name), moment
        if len(page) < PAGE:
            return
        last = page[-1]
