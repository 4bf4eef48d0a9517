"""Knows which agents run now: adkweb's own runs by their jobs, others by what their companions report. Where there is
neither, `running` guesses from the events.

A report counts for as long as its process is heard. A run that is reported as ended, or whose process has fallen silent, is
over at once; if the session goes on all the same, someone who reports nothing runs it.
"""

import json
import math
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from django.conf import settings

from ..access.actor import Actor
from ..access.shown import shown_words
from ..domain.invocations import Running, Told, running_of
from ..domain.session_ref import SessionRef, digest_of
from ..models import Job, Pause, Report, ReportQuerySet, tables
from ..sources import registry

MOST: Final = 1_000  # reports and runs that are read for all sessions together
_LATE: Final = 6.0  # seconds between the last sign of a process and its last event


@dataclass(frozen=True, slots=True)
class AtWork:
    """An agent that is known to run. While it calls a model or a tool, `step` says which of both, `name` its name, and
    `step_since` since when. `stopped_by` asked it to stop. `is_own` says whether adkweb started it, `paused` whether it
    waits before that step, at a breakpoint."""

    since: float
    invocation_id: str = ""
    step: str = ""
    name: str = ""
    step_since: float = 0.0
    stopped_by: str = ""
    is_own: bool = False
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Known:
    """The facts about a session's agent: what it does, if it runs; and which invocations are `over`, each up to the time of
    an event, by the clock of its own process; "" stands for all of them."""

    at_work: AtWork | None = None
    over: Mapping[str, float] = field(default_factory=dict)

    def is_over(self, invocation_id: str, last: float) -> bool:
        """Returns whether an invocation is over whose last event has this time."""
        return last <= max(self.over.get(invocation_id, 0.0), self.over.get("", 0.0))

    def with_end(self, row: Report) -> "Known":
        """Returns what is known with a report of what doesn't run any longer."""
        return replace(self, over={**self.over, row.invocation: row.at + _LATE})

    def running(self, events: Sequence[Told]) -> Running | None:
        """Returns the invocation that runs, otherwise the newest one that waits, otherwise None, by a session's newest
        events, the oldest first."""
        guess = running_of(events, time.time(), settings.SILENCE_SECONDS)
        busy = guess if guess and not guess.waiting else None
        if work := self.at_work:
            if work.is_own:
                return busy or Running("", work.since, work.since, waiting=False)
            calls = (work.name,) if work.step == "tool" else ()
            return Running(work.invocation_id, work.since, work.step_since, waiting=False, calls=calls)
        if busy and self.is_over(busy.invocation_id, busy.last):
            return running_of(events, time.time(), -math.inf)  # what waits, waits on
        return guess


NOTHING: Final = Known()


def of(ref: SessionRef, *, actor: Actor) -> Known:
    """Returns what is known about a session's agent."""
    actor.check_sees(ref)
    return known([ref], actor=actor)[ref]


def known(refs: Collection[SessionRef], *, actor: Actor) -> dict[SessionRef, Known]:
    """Returns what is known about the agents of those sessions that the actor may see. It takes two queries of adkweb's own
    database."""
    refs = [ref for ref in refs if actor.may_see(ref.source, ref.app_name)]
    where = {ref: registry.identity(ref.source) for ref in refs}
    by_key = {(where[ref], digest_of(*ref[1:])): ref for ref in refs}
    result = dict.fromkeys(refs, NOTHING)
    if not refs:
        return result
    wheres, digests = zip(*by_key, strict=True)
    for row in tables.rows_of(Report.objects.filter(where__in={*wheres}, digest__in=digests).order_by("since")):
        if ref := by_key.get((row.where, row.digest)):
            before = result[ref]
            if row.is_running:
                result[ref] = replace(before, at_work=_reported(row, shown_words(row.name, actor, ref.app_name)))
            else:
                result[ref] = before.with_end(row)
    by_names = {(where[ref], *ref[1:]): ref for ref in refs}
    sessions = {ref.session_id for ref in refs}
    for job in tables.rows_of(Job.objects.filter(kind="run", state="waiting", session_id__in=sessions)):
        if ref := by_names.get((job.where, job.app_name, job.user_id, job.session_id)):
            own = AtWork(job.created, stopped_by=job.stopped_by, is_own=True)
            result[ref] = replace(result[ref], at_work=own)
    if any(each.at_work for each in result.values()):
        for pause in Pause.objects.waiting().filter(where__in={*wheres}, digest__in=digests).defer("request"):
            if (ref := by_key.get((pause.where, pause.digest))) and (work := result[ref].at_work):
                name = shown_words(pause.name, actor, ref.app_name)
                at = replace(work, step=pause.kind, name=name, step_since=pause.since, paused=True)
                result[ref] = replace(result[ref], at_work=at)
    return result


def everywhere() -> dict[tuple[str, str], Known]:
    """Returns what is known of all sessions, by `where` and `digest` as in the index. It is for searching, and shows no name
    of a tool."""
    result: dict[tuple[str, str], Known] = {}
    for row in Report.objects.order_by("-beat")[:MOST]:
        before = result.get((row.where, row.digest), NOTHING)
        if row.is_running:
            result[row.where, row.digest] = replace(before, at_work=_reported(row, ""))
        else:
            result[row.where, row.digest] = before.with_end(row)
    for job in Job.objects.filter(kind="run", state="waiting")[:MOST]:
        key = job.where, digest_of(job.app_name, job.user_id, job.session_id)
        result[key] = replace(result.get(key, NOTHING), at_work=AtWork(job.created, is_own=True))
    if any(each.at_work for each in result.values()):
        for key in Pause.objects.waiting().values_list("where", "digest")[:MOST]:
            if (each := result.get(key)) and each.at_work:
                result[key] = replace(each, at_work=replace(each.at_work, paused=True))
    return result


def reports(ref: SessionRef) -> ReportQuerySet:
    """Returns the query of what companions report to run in a session."""
    return Report.objects.running().filter(where=registry.identity(ref.source), digest=digest_of(*ref[1:]))


def note_end(ref: SessionRef) -> None:
    """Notes that adkweb's own run in a session is over, whatever its last event says."""
    now = time.time()
    Report.objects.update_or_create(
        where=registry.identity(ref.source),
        digest=digest_of(*ref[1:]),
        invocation="",
        defaults={"names": json.dumps(ref[1:]), "since": now, "at": now, "beat": now, "ended": True},
    )
    Report.objects.forget_old()


def _reported(row: Report, name: str) -> AtWork:
    return AtWork(row.since, row.invocation, row.step, name, row.step_since or row.since, row.stopped_by)
