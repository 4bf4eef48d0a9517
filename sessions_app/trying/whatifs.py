"""Tries the same change in many sessions, and compares how each ends with how it was recorded.

    number = draft(refs, actor=actor)
    begin(number, Change("", instructions={"booking": "Always ask for the date."}), actor=actor)
    get(number, actor=actor).rows()

Each session has a what-if of its own (whatif.py). It runs the turn of the last message, or with `later` every turn from the
first message on. The app's rules are checked on the state that the recording ended with, and on the new one.
"""

import json
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from statistics import median
from typing import Any, Final

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from ..access.actor import PEOPLE, Actor
from ..access.shown import shown
from ..checks import rules
from ..domain.alignment import Pair
from ..domain.cost import Usage, cost_of, usage_of
from ..domain.errors import Behind, Conflict, Invalid, NotFound
from ..domain.json_values import as_object
from ..domain.session_ref import SessionRef
from ..domain.state import State
from ..edits import reveal
from ..history import moments
from ..jobs import lease, runner
from ..jobs.lease import DONE, STOPPED, WAITING, Lost, Outcome, Progress
from ..models import Job, Rule, TriedSession
from ..reads import timeline
from ..reads.event_views import EventView
from ..search import outline, state_condition
from ..sources import registry
from . import many, whatif
from .many import DRAFT, RUNNING, Many
from .whatif import Change, TrialView, Unknown

MOST: Final = 100  # sessions
AT_ONCE: Final = 2  # processes of agents
LOOK_SECONDS: Final = 0.3  # between two looks whether one has ended
WORSE, BETTER, CHANGED, SAME, UNDECIDED = "worse", "better", "changed", "same", "undecided"
RESULTS: Final = (WORSE, BETTER, UNDECIDED, CHANGED, SAME)
_NEEDS_CODE: Final = "needs code"  # the label of a session that only runs with `run_code`
_WORDS: Final = 400  # characters of what an agent said
_SAMPLE: Final = 5  # sessions whose agents are looked at


@dataclass(frozen=True, slots=True)
class Estimate:
    """The tokens that the recordings took, and their price in dollars, None if it isn't known: of an average turn of each
    session, and of all turns. `uncounted` sessions are not in it, because the index hasn't read them yet."""

    tokens: int
    dollars: float | None
    all_tokens: int
    all_dollars: float | None
    uncounted: int


@dataclass(frozen=True, slots=True)
class End:
    """The end of a session's turns: its last words, or the error if it `failed`; the numbers of the rules that the
    state breaks then, and what it took. `dollars` is None if a price isn't known."""

    words: str
    failed: bool
    rules: list[int]
    tokens: int
    seconds: float
    dollars: float | None


@dataclass(frozen=True, slots=True)
class Row:
    """A session: its ends as recorded and with the change, and the id of its what-if. `what` differs first: `agent`, `tool`,
    `arguments`, `state`, `text` or `error`. If it is undecided: why."""

    title: str
    ref: SessionRef
    result: str
    before: End | None
    after: End | None
    what: str
    what_if: uuid.UUID | None
    why: str


@dataclass(frozen=True, slots=True)
class Total:
    """The ends of the sessions that are decided: how many failed, how many break which rule, what they took together, and
    the median of their times."""

    sessions: int
    failed: int
    broken: dict[int, int]
    tokens: int
    seconds: float
    dollars: float | None

    @classmethod
    def of(cls, ends: list[End]) -> "Total":
        """Returns the total of some ends."""
        numbers = [number for each in ends for number in each.rules]
        costs = [each.dollars for each in ends]
        return cls(
            len(ends),
            sum(each.failed for each in ends),
            {number: numbers.count(number) for number in sorted(set(numbers))},
            sum(each.tokens for each in ends),
            median(each.seconds for each in ends) if ends else 0.0,
            None if None in costs else sum(cost or 0.0 for cost in costs),
        )


class WhatIfs(Many):
    """A what-if of many sessions of one app, as an actor sees it."""

    results = RESULTS

    @property
    def app_name(self) -> str:
        """Returns the app of its sessions."""
        return self.apps[0]

    @property
    def sample(self) -> SessionRef:
        """Returns one of its sessions. Raises NotFound if all of them were deleted."""
        names = many.items(self.id).order_by("number").values_list("names", flat=True).first()
        if names is None:
            raise NotFound(_("All sessions of this what-if were deleted."))
        return SessionRef(self.source, *json.loads(names))

    @property
    def change(self) -> Change:
        """Returns what is different, as the actor may see it."""
        return whatif.seen(Change(**self.task["change"]), self.app_name, self._actor)

    @property
    def unknown(self) -> str:
        """Returns what happens to a tool's call that a recording doesn't know."""
        return str(self.task["unknown"])

    @property
    def agents(self) -> dict[str, str]:
        """Returns the agents of its sessions, each with the model that it had last."""
        return dict(self.task["agents"])

    @property
    def estimate(self) -> Estimate:
        """Returns what the recordings took."""
        return Estimate(**self.task["estimate"])

    def rows(self, result: str = "") -> list[Row]:
        """Returns its sessions that have a result, the worst first; only those with one."""
        tried = many.items(self.id).exclude(result="").select_related("what_if").order_by("number")
        some = [self._row(each) for each in tried if result in ("", each.result)]
        titles = self.titles(row.ref for row in some)
        some.sort(key=lambda row: RESULTS.index(row.result))
        return [replace(row, title=titles.get(row.ref, row.title)) for row in some]

    def _row(self, item: TriedSession) -> Row:
        ref = SessionRef(self.source, *json.loads(item.names))
        ends = json.loads((item.what_if and item.what_if.result) or "{}")
        before, after = (self._end(ends.get(name)) for name in ("before", "after"))
        outcome = json.loads(item.outcome or "{}")
        why = whatif.seen_words(outcome.get("why", ""), self.app_name, self._actor)
        if "tool" in outcome:
            why = _("It calls %(tool)s in a way that the recording doesn't know, and that wasn't run.") % outcome
        return Row(ref.session_id, ref, item.result, before, after, item.what, item.what_if_id, why)

    def _end(self, stored: dict[str, Any] | None) -> End | None:
        if stored is None:
            return None
        return End(**{**stored, "words": whatif.seen_words(stored["words"], self.app_name, self._actor)})

    @cached_property
    def totals(self) -> tuple[Total, Total]:
        """Returns the totals as recorded, and with the change."""
        decided = many.items(self.id).exclude(result__in=("", UNDECIDED))
        ends = list(map(json.loads, decided.values_list("what_if__result", flat=True)))
        before, after = ([End(**each[name]) for each in ends] for name in ("before", "after"))
        return Total.of(before), Total.of(after)

    @cached_property
    def rules(self) -> list[Rule]:
        """Returns the app's rules, as the actor may see them."""
        return rules.rules(self.source, self.app_name, actor=self._actor)

    @property
    def has_dots(self) -> bool:
        """Returns whether an agent got dots in the place of hidden values."""
        results = many.items(self.id).values_list("what_if__result", flat=True)
        return any(json.loads(each).get("has_dots") for each in results if each)

    @property
    def needs_code(self) -> bool:
        """Returns whether a session couldn't be tried because that runs code which can't be held back."""
        return many.items(self.id).filter(label=_NEEDS_CODE).exists()


def draft(refs: Iterable[SessionRef], *, actor: Actor, query: str = "") -> uuid.UUID:
    """Keeps the sessions of a what-if, which `begin` starts. Raises Invalid, NotAllowed, NotFound; AgentError if adkweb
    can't start their agent."""
    some = many.chosen(refs, MOST, actor=actor)
    if len(apps := many.apps_of(some)) > 1:
        raise Invalid(_("Select sessions of one app, because each has agents of its own."))
    task = {
        "apps": apps,
        "query": query,
        "run_code": False,
        "change": asdict(Change("")),
        "unknown": "fail",
        "reason": "",
        "revealed": False,
        "agents": _agents(some[:_SAMPLE], actor),
        "estimate": asdict(_estimate(some, actor)),
    }
    return many.made(KIND.name, registry.identity(some[0].source), task, [ref[1:] for ref in some], actor).pk


def begin(
    set_id: uuid.UUID,
    change: Change,
    *,
    actor: Actor,
    unknown: Unknown = "fail",
    run_code: bool = False,
    reason: str = "",
) -> None:
    """Starts a what-if of many sessions. With a `reason`, the agents get the values that rules hide from the actor.

    Raises NotFound, NotAllowed, AgentError, Invalid; Conflict if it was started before."""
    job = many.own(KIND.name, set_id, actor)
    if job.state != DRAFT:
        raise Conflict(_("This what-if is already running or has finished."))
    whole = WhatIfs(job, actor)
    whatif.check(change, whole.app_name, actor)
    if reason:
        reveal.check_may_reveal(whole.sample, actor)
        reason = reveal.checked(reason)
    more = {"unknown": unknown, "run_code": run_code, "reason": reason, "revealed": bool(reason), "began": time.time()}
    _start(job, actor, {**whole.task, "change": asdict(change), **more})


def resume(set_id: uuid.UUID, *, actor: Actor) -> None:
    """Continues one that was stopped. Raises NotFound, NotAllowed, AgentError; Conflict if it wasn't."""
    job = many.own(KIND.name, set_id, actor)
    if job.state not in (STOPPED, lease.REFUSED):
        raise Conflict(_("This what-if is already running or has finished."))
    stopped = many.items(job.pk).filter(result="", what_if__isnull=False).exclude(what_if__stopped_by="")
    gone = list(_jobs_of(stopped))
    stopped.update(what_if=None)
    whatif.forget(gone)
    Job.objects.filter(pk=job.pk).update(finished=None)
    _start(job, actor, json.loads(job.task))


def _start(job: Job, actor: Actor, task: dict[str, Any]) -> None:
    runner.start(job, step=RUNNING, task=json.dumps(task), **runner.fields_of(actor))


def again(set_id: uuid.UUID, *, actor: Actor) -> uuid.UUID:
    """Keeps another what-if of the same sessions with the same change, which `begin` starts. Raises NotFound, NotAllowed,
    AgentError."""
    job = many.own(KIND.name, set_id, actor)
    names = [json.loads(each) for each in many.items(job.pk).order_by("number").values_list("names", flat=True)]
    task = {**json.loads(job.task), "run_code": False, "reason": "", "revealed": False}
    return many.made(KIND.name, job.where, task, names, actor).pk


def stop(set_id: uuid.UUID, *, actor: Actor) -> None:
    """Stops one, and the what-ifs that run. It can continue. Raises NotFound, NotAllowed."""
    job = many.own(KIND.name, set_id, actor, to_run=False)
    many.stop(job, actor)
    _tried(job).filter(state=WAITING).update(stopped_by=actor.name)


def discard(set_id: uuid.UUID, *, actor: Actor) -> None:
    """Forgets one with all of its what-ifs, but those of sessions on hold. Raises NotFound, NotAllowed."""
    job = many.own(KIND.name, set_id, actor, to_run=False)
    whatif.forget(_tried(job))
    runner.cancel(job)


def get(set_id: uuid.UUID, *, actor: Actor) -> WhatIfs:
    """Returns a what-if of many sessions as it is now. Raises NotFound: also for who may not operate its app."""
    return WhatIfs(many.seen(KIND.name, set_id, actor), actor)


def recent(*, actor: Actor) -> list[WhatIfs]:
    """Returns the last ones that the actor may see, the newest first."""
    return [WhatIfs(job, actor) for job in many.recent(KIND.name, actor=actor)]


def forget_old() -> None:
    """Deletes those that are older than a week. What-ifs of sessions on hold stay (whatif.py)."""
    many.forget_old(KIND.name)


def _tried(job: Job) -> QuerySet[Job]:
    return _jobs_of(many.items(job.pk).exclude(what_if=None))


def _jobs_of(rows: Iterable[TriedSession]) -> QuerySet[Job]:
    return Job.objects.filter(pk__in=[each.what_if_id for each in rows])


# --- Before it starts -------------------------------------------------------------------------------------------------


def _agents(refs: Iterable[SessionRef], actor: Actor) -> dict[str, str]:
    """Returns the agents that have said something in some sessions, each with its last model."""
    agents: dict[str, str] = {}
    for ref in refs:
        for event in timeline.events(ref, limit=1, actor=actor).rows:
            agents |= whatif.plan(ref, event.id, actor=actor).agents
    return agents


def _estimate(refs: Iterable[SessionRef], actor: Actor) -> Estimate:
    counted = [outline.turns_of(ref, actor=actor) for ref in refs]
    known = [each for each in counted if each is not None]
    usage = [used for _turns, all_used in known for used in all_used]
    turns = [
        Usage(used.model, used.prompt // max(1, number), used.output // max(1, number))
        for number, all_used in known
        for used in all_used
    ]
    return Estimate(_tokens(turns), _dollars(turns), _tokens(usage), _dollars(usage), len(counted) - len(known))


def _tokens(usage: Iterable[Usage]) -> int:
    return sum(each.prompt + each.output for each in usage)


def _dollars(usage: list[Usage]) -> float | None:
    cost = cost_of(usage, settings.PRICES)
    return None if cost.unpriced or not usage else cost.dollars


# --- At work ----------------------------------------------------------------------------------------------------------


def _run(job: Job, beat: runner.Beat) -> Outcome:
    """Starts the what-ifs, a few at once, and notes how each has ended."""
    task, source, actor = json.loads(job.task), registry.alias_of(job.where) or "", runner.actor_of(job)
    many.check(source, task["apps"], actor)
    total = many.items(job.pk).count()
    left = list(many.items(job.pk).filter(result="").order_by("number"))
    done, at_work = total - len(left), list[TriedSession]()
    while left or at_work:
        beat(Progress(done, total, RUNNING))
        while left and len(at_work) < AT_ONCE:
            item = left.pop(0)
            if item.what_if_id or _begin(item, SessionRef(source, *json.loads(item.names)), job, actor):
                at_work.append(item)
            else:
                done += 1
        running = set(_jobs_of(at_work).filter(state=WAITING).values_list("pk", flat=True))
        ended = [each for each in at_work if each.what_if_id not in running]
        for item in ended:
            _note_end(item, job, actor)
            at_work.remove(item)
            done += 1
        if at_work and not ended:
            time.sleep(LOOK_SECONDS)
    return Outcome(DONE, fields={"done": total, "total": total})


def _begin(item: TriedSession, ref: SessionRef, job: Job, actor: Actor) -> bool:
    """Starts the what-if of a session. Returns False if it can't be tried, and notes why. Raises NotAllowed, AgentError."""
    task = json.loads(job.task)
    change = Change(**task["change"])
    try:
        with transaction.atomic():
            at = _message(ref, actor, first=change.later)
            options = {name: task[name] for name in ("unknown", "run_code", "reason")}
            child = whatif.start(ref, replace(change, at=at), actor=actor, waits=False, **options)
            _update(item, job, what_if=child)
    except (NotFound, Invalid) as error:
        _update(item, job, result=UNDECIDED, outcome=json.dumps({"why": error.message}))
        return False
    item.what_if_id = child.pk
    return True


def _message(ref: SessionRef, actor: Actor, *, first: bool) -> str:
    """Returns the id of the first or the last message of a session. Raises NotFound, Invalid."""
    counted = outline.turns_of(ref, actor=actor)
    if counted is None:
        raise Invalid(_("adkweb hasn't read this session yet."))
    if not counted[0]:
        raise Invalid(_("The user has written nothing in this session."))
    seq = outline.first_of_turn(ref, 1 if first else counted[0], actor=actor)
    return timeline.events_at(ref, [seq], actor=actor)[0].id


def _update(item: TriedSession, job: Job, **fields: Any) -> None:
    """Sets fields of a session, unless it was deleted. Raises Lost if another process has the job by now, or someone
    stopped it."""
    has_it = Job.objects.filter(pk=job.pk, claim=job.claim)
    if not many.items(job.pk).filter(pk=item.pk, job__claim=job.claim).update(**fields) and not has_it.exists():
        raise Lost


def _note_end(item: TriedSession, job: Job, actor: Actor) -> None:
    """Notes how a session's what-if has ended, beside how the recording did. It may have been deleted with the session."""
    child = _jobs_of([item]).first()
    if child is None:
        return
    tried = whatif.of(child, actor=actor)
    trial = next(iter(tried.trials), None)
    if trial is None or not trial.has_ended or not trial.made or trial.needs_code:
        why = (trial.error if trial else "") or child.message
        label = _NEEDS_CODE if trial and trial.needs_code else ""
        _update(item, job, result=UNDECIDED, label=label, outcome=json.dumps({"why": why}))
        return
    recorded = _recorded_state(trial, tried.ref)
    checked = rules.checked(tried.ref.source, tried.ref.app_name) if recorded is not None else []

    def broken(state: State) -> list[int]:
        return [rule.number for rule in checked if state_condition.broken(rule.node, state)]

    before = _end(trial.original, _error_of(trial.original), recorded or {}, broken)
    row = child.trials.get(number=trial.number)
    raw = as_object(json.loads(row.ended).get("state"))
    after = _end(trial.made, trial.error, shown(raw, PEOPLE, tried.ref.app_name), broken, trial.seconds)
    ends = {**json.loads(child.result or "{}"), "before": asdict(before), "after": asdict(after)}
    Job.objects.filter(pk=child.pk).update(result=json.dumps(ends))
    if row.question:
        _update(item, job, result=UNDECIDED, outcome=json.dumps({"tool": json.loads(row.question)["tool"]}))
    else:
        first = trial.alignment.first
        _update(item, job, result=_result(before, after, first is None), what=_what(first) if first else "")


def _end(
    events: list[EventView],
    error: str,
    state: State,
    broken: Callable[[State], list[int]],
    seconds: float | None = None,
) -> End:
    usage = [used for each in events if (used := usage_of(each.data))]
    if seconds is None:
        seconds = max(0.0, events[-1].timestamp - events[0].timestamp) if events else 0.0
    words = (error or whatif.last_words(events))[:_WORDS]
    return End(words, bool(error), broken(state), _tokens(usage), seconds, _dollars(usage) if usage else 0.0)


def _error_of(events: list[EventView]) -> str:
    """Returns the error that some recorded events end with."""
    last = events[-1].data if events else {}
    return str(last.get("error_message") or last.get("error_code") or "")


def _recorded_state(trial: TrialView, ref: SessionRef) -> State | None:
    """Returns the state that the recording ended with, None if that can't be known now."""
    try:
        return moments.state_at(ref, trial.original[-1].id, actor=PEOPLE).state.merged()
    except (Behind, NotFound, IndexError):
        return None


def _result(before: End, after: End, is_same: bool) -> str:
    if after.failed > before.failed or set(after.rules) - set(before.rules):
        return WORSE
    if before.failed > after.failed or set(before.rules) - set(after.rules):
        return BETTER
    return SAME if is_same else CHANGED


def _what(pair: Pair[EventView]) -> str:
    """Returns what differs first, in the words of a replay."""
    if pair.differs:
        return _ASPECTS.get(pair.differs[0], "text")
    only = pair.left or pair.right
    return "tool" if only and (only.description.calls or only.description.responses) else "text"


_ASPECTS: Final[dict[str, str]] = {
    **dict.fromkeys(("kind", "tools", "response"), "tool"),
    **dict.fromkeys(("state", "actions"), "state"),
    "author": "agent",
    "arguments": "arguments",
    "error": "error",
}


KIND: Final = runner.register(runner.Kind("whatifs", _run))
