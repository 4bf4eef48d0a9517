"""Checks all sessions of an app against a rule, by a job (jobs/): if a process dies, another one continues where it
was."""

import json
import time
from typing import Any, Final

from django.db import IntegrityError
from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..domain.errors import Behind, Invalid, NotFound
from ..jobs import runner
from ..jobs.lease import DONE, Lost, Outcome, Progress
from ..models import Breach, Job, Rule, SearchSession
from ..sources import database, registry
from .checking import TOGETHER, Checked, Subject, check, checked, subjects

_WAIT_SECONDS: Final = 0.5  # until it checks again whether the history of a source is read


def begin(rule: Rule, actor: Actor) -> None:
    """Checks a rule from the start, and forgets earlier results."""
    stop(rule)
    Breach.objects.filter(rule_id=rule.pk).delete()
    job = Job.objects.make(KIND.name, rule.where, {"rule": rule.pk}, **runner.fields_of(actor))
    Rule.objects.filter(pk=rule.pk).update(job=job.pk, walked=0, within=None, checked=0.0)
    runner.start(job)


def stop(rule: Rule) -> None:
    """Stops the check of a rule, if one is running. Its results so far stay."""
    Rule.objects.filter(pk=rule.pk).update(job=None)  # what works on it sees that, too
    for job in Job.objects.filter(pk=rule.job) if rule.job else ():
        runner.cancel(job)


# --- At work ----------------------------------------------------------------------------------------------------------


def _run(job: Job, beat: runner.Beat) -> Outcome:
    rule = Rule.objects.filter(pk=json.loads(job.task)["rule"], job=job.pk).first()
    if rule is None:
        return Outcome(DONE)
    source, asked = registry.alias_of(rule.where) or "", checked(rule)
    if asked is None:
        raise Invalid(_("This rule can no longer be read."))
    database.get(source)
    if not database.has_order(source):
        raise Invalid(_("The order of events in this source can't be determined, so its past can't be checked."))
    sessions = SearchSession.objects.filter(source__where=rule.where, app_owner__digest=rule.digest).order_by("pk")
    done, total = sessions.filter(pk__lte=rule.walked).count(), sessions.count()
    while some := list(sessions.filter(pk__gt=rule.walked)[:TOGETHER]):
        there = {each.digest: each for each in subjects(source, some)}
        for row in some:
            beat(Progress(done, total))
            if row.digest in there:
                _check(rule, asked, there[row.digest], lambda: beat(Progress(done, total)))  # noqa: B023
            rule.walked, rule.within = row.pk, None
            done += 1
        _keep(rule)
    rule.checked = time.time()
    _keep(rule)
    return Outcome(DONE)


def _check(rule: Rule, asked: Checked, subject: Subject, alive: Any) -> None:
    """Checks a session to its end, however long it is."""
    after = rule.within
    while True:
        try:
            after = check([asked], subject, after).after
        except Behind:  # its history is still being read
            time.sleep(_WAIT_SECONDS)
        except (Invalid, NotFound):  # it is gone, or has more keys than can be checked
            return
        except IntegrityError as error:
            if not Rule.objects.filter(pk=rule.pk, job=rule.job).exists():
                raise Lost from error
        else:
            if after is None:
                return
            rule.within = after
            _keep(rule)
        alive()


def _keep(rule: Rule) -> None:
    """Saves the progress of the check. Raises Lost if another one has started in the meantime, or the rule was
    deleted."""
    at = {"walked": rule.walked, "within": rule.within, "checked": rule.checked}
    if not Rule.objects.filter(pk=rule.pk, job=rule.job).update(**at):
        raise Lost


def _forget(job: Job) -> None:
    if job.state == DONE:
        job.delete()


KIND: Final = runner.register(runner.Kind("rule", _run, ended=_forget))
