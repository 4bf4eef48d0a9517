"""Replays of many sessions: a job, which keeps the outcome of each session for a week.

    number = replays.draft(refs, actor=actor)
    replays.begin(number, actor=actor)
    replays.get(number, actor=actor).groups()

A process that continues after another one died replays only the sessions that have no outcome yet. Outcomes are kept as
they are, and masked for whoever reads them.
"""

import json
import shlex
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any, Final

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Min, QuerySet
from django.utils.translation import gettext as _

from ..access.actor import SYSTEM, Actor
from ..access.audit.record import record
from ..access.shown import shown_words_anywhere
from ..domain.errors import AgentError, Conflict, Error, Invalid, NotFound
from ..domain.session_ref import SessionRef
from ..jobs import lease, runner
from ..jobs.lease import DONE, STOPPED, WAITING, Outcome, Progress
from ..models import Job, ReplayItem
from ..models.pages import in_pages
from ..reads import lists
from ..search.tree import quoted
from ..sources import agents, registry
from . import replaying
from .replaying import DIVERGED, SAME, UNDECIDED, Replayed

MOST: Final = 1_000  # sessions of a replay
DRAFT, REPLAYING = "draft", "replaying"
RESULTS: Final = (DIVERGED, UNDECIDED, SAME)
LISTED: Final = 20  # sessions of a group, until all of it is asked for
PAGE: Final = 100
RECENT: Final = 50
_KEPT_SECONDS: Final = 7 * 86_400.0
_NAMED: Final = 5  # sessions that the command names one by one
_FIELDS: Final = ("event", "what", "agent", "tool", "expected", "got", "why", "unseen", "turn")


@dataclass(frozen=True, slots=True)
class Row:
    """A session of a replay: its number there, its title, and its outcome as the actor may see it."""

    number: int
    title: str
    replayed: Replayed


@dataclass(frozen=True, slots=True)
class Group:
    """Sessions that have diverged alike, or are undecided for the same reason: how many, and the first `rows`. `item` is
    the number of one of them, which names the group."""

    item: int
    size: int
    result: str
    what: str
    agent: str
    tool: str
    why: str
    rows: list[Row]

    @property
    def more(self) -> int:
        """Returns how many sessions are not among the rows."""
        return self.size - len(self.rows)


class Replay:
    """A replay as an actor sees it: its sessions, how far it is, and what has come of it.

    `counts` has how many sessions have each result, and under "" those that are still to be replayed. `before` is the
    replay that this one repeats."""

    def __init__(self, job: Job, actor: Actor) -> None:
        task = json.loads(job.task)
        self._job, self._actor = job, actor
        self.id: uuid.UUID = job.pk
        self.actor, self.created, self.finished, self.message = job.actor, job.created, job.finished, job.message
        self.source = registry.alias_of(job.where) or ""
        self.apps: list[str] = task["apps"]
        self.stage = lease.stage_of(job)
        self.run_code: bool = task["run_code"]
        self.before = uuid.UUID(task["before"]) if task.get("before") else None
        own = actor.is_same(job.actor, job.account)
        self.query: str = task["query"] if own else shown_words_anywhere(task["query"], actor)
        self.size: int = job.total

    @property
    def working(self) -> bool:
        """Returns whether a process works on it."""
        return self.stage == REPLAYING

    @property
    def may_act(self) -> bool:
        """Returns whether the actor may start, stop and repeat it."""
        return all(self._actor.may_write("operate", self.source, app) for app in self.apps)

    @cached_property
    def counts(self) -> dict[str, int]:
        """Returns how many sessions have each result."""
        rows = _items(self.id).values_list("result").annotate(n=Count("pk")).order_by()
        return dict.fromkeys(("", *RESULTS), 0) | dict(rows)

    @property
    def total(self) -> int:
        """Returns the number of its sessions."""
        return sum(self.counts.values())

    @property
    def done(self) -> int:
        """Returns how many sessions have an outcome."""
        return self.total - self.counts[""]

    @property
    def seconds(self) -> float:
        """Returns how long it took."""
        began: float = json.loads(self._job.task).get("began", self.created)
        return max(0.0, (self.finished or time.time()) - began)

    def groups(self, result: str = "") -> list[Group]:
        """Returns its outcomes by what they have in common, those that diverged first; only those with a result."""
        outcomes = _items(self.id).exclude(result="").values("result", "what", "label")
        if result:
            outcomes = outcomes.filter(result=result)
        groups = [
            self._group(each["first"], each["n"], each["result"], each["what"], each["label"], after=-1, most=LISTED)
            for each in outcomes.annotate(n=Count("pk"), first=Min("number")).order_by()[:PAGE]
        ]
        return self._titled(sorted(groups, key=lambda each: (RESULTS.index(each.result), -each.size, each.item)))

    def group(self, item: int, after: int = -1) -> Group:
        """Returns the group that has a session, with a page of its sessions `after` a number. Raises NotFound."""
        row = _items(self.id).filter(number=item).exclude(result="").first()
        if row is None:
            raise NotFound(_("This replay no longer exists."))
        size = _items(self.id).filter(result=row.result, what=row.what, label=row.label).count()
        return self._titled([self._group(item, size, row.result, row.what, row.label, after=after, most=PAGE)])[0]

    def _group(self, item: int, size: int, result: str, what: str, label: str, *, after: int, most: int) -> Group:
        rows = _items(self.id).filter(result=result, what=what, label=label, number__gt=after).order_by("number")
        shown = [self._row(each) for each in rows[:most]]
        about = shown[0].replayed if shown else Replayed(SessionRef("", "", "", ""), result)
        return Group(item, size, result, what, about.agent, about.tool, about.why, shown)

    def _row(self, item: ReplayItem) -> Row:
        ref = SessionRef(self.source, *json.loads(item.names))
        return Row(item.number, ref.session_id, _outcome(item, ref).seen(self._actor))

    def _titled(self, groups: list[Group]) -> list[Group]:
        titles = self._titles(row for group in groups for row in group.rows)
        for group in groups:
            group.rows[:] = [replace(row, title=titles.get(row.replayed.ref, row.title)) for row in group.rows]
        return groups

    def _titles(self, rows: Iterable[Row]) -> dict[SessionRef, str]:
        with suppress(Error):  # its source is away
            return lists.titles([row.replayed.ref for row in rows], actor=self._actor)
        return {}

    def changed(self) -> list[tuple[Row, Row]]:
        """Returns the sessions of which this replay shows something else than the one that it repeats: before and now."""
        if self.before is None:
            return []
        before = {each.names: each for each in _items(self.before).exclude(result="")}
        pairs = [
            (self._row(before[each.names]), self._row(each))
            for each in in_pages(_items(self.id).exclude(result=""), "number")
            if each.names in before and (each.result, each.outcome) != _stored(before[each.names])
        ]
        # Hidden values aren't compared: the page would say that they differ.
        pairs = [(old, new) for old, new in pairs if _told(old) != _told(new)]
        titles = self._titles(new for _old, new in pairs[:PAGE])
        return [(old, replace(new, title=titles.get(new.replayed.ref, new.title))) for old, new in pairs]

    @property
    def command(self) -> str:
        """Returns the command that does the same in a terminal."""
        query = self.query
        if not query:
            some = [
                json.loads(each)[2]
                for each in _items(self.id).order_by("number").values_list("names", flat=True)[: _NAMED + 1]
            ]
            names = [("app", app) for app in self.apps] if len(some) > _NAMED else [("session", each) for each in some]
            query = " or ".join(f"{name}:{quoted(each)}" for name, each in names)
        return f"adkweb replay ./agents -q {shlex.quote(query)} --fail-on-divergence" + " --run-code" * self.run_code


def draft(refs: Iterable[SessionRef], *, actor: Actor, query: str = "") -> uuid.UUID:
    """Keeps the sessions of a replay, which `begin` starts. Raises Invalid, NotAllowed, NotFound; AgentError if adkweb
    can't start one of their agents."""
    some = list(islice(dict.fromkeys(refs), MOST + 1))
    if not some:
        raise Invalid(_("No session matches."))
    if len(some) > MOST:
        raise Invalid(_("You can replay up to %(n)s sessions at once. Narrow the query.") % {"n": MOST})
    if len({ref.source for ref in some}) > 1:
        raise Invalid(_("Select sessions of one source to replay them."))
    for ref in some:
        actor.check_sees(ref)
    some.sort(key=lambda ref: ref[:2])  # an app's process is kept for all
    apps = sorted({ref.app_name for ref in some})
    _check(some[0].source, apps, actor)
    task = {"apps": apps, "run_code": False, "query": query}
    _jobs().filter(state=DRAFT, created__lt=time.time() - 86_400).delete()
    return _made(registry.identity(some[0].source), task, [ref[1:] for ref in some], actor).pk


def begin(replay_id: uuid.UUID, *, actor: Actor, run_code: bool = False) -> None:
    """Starts a replay, or continues one that was stopped. With `run_code`, functions of workflows and agents of other
    classes run, and may do anything. Raises NotFound, NotAllowed, AgentError; Conflict if it has ended."""
    job = _own(replay_id, actor)
    task = json.loads(job.task)
    if job.state == DRAFT:
        task |= {"run_code": run_code, "began": time.time()}
    elif job.state not in (STOPPED, lease.REFUSED):
        raise Conflict(_("This replay is already running or has finished."))
    with transaction.atomic():
        record(
            "replayed",
            actor.name,
            source=registry.alias_of(job.where) or "",
            app_name=", ".join(task["apps"]),
            sessions=job.total,
            run_code=task["run_code"] or None,
            replay=str(job.pk),
        )
        Job.objects.filter(pk=job.pk).update(finished=None)
        runner.start(job, step=REPLAYING, task=json.dumps(task), **runner.fields_of(actor))


def again(replay_id: uuid.UUID, *, actor: Actor) -> uuid.UUID:
    """Starts a replay of the same sessions, and returns it; one that runs code is only kept, since that has effects again.
    Raises what `begin` raises."""
    job = _own(replay_id, actor)
    task = json.loads(job.task)
    names = [json.loads(each) for each in _items(job.pk).order_by("number").values_list("names", flat=True)]
    made = _made(job.where, {**task, "before": str(job.pk), "run_code": False}, names, actor)
    if not task["run_code"]:
        begin(made.pk, actor=actor)
    return made.pk


def stop(replay_id: uuid.UUID, *, actor: Actor) -> None:
    """Stops a replay. Outcomes that are there stay, and it can continue. Raises NotFound, NotAllowed."""
    job = _own(replay_id, actor, to_run=False)
    _jobs().filter(pk=job.pk, state=WAITING).update(
        state=STOPPED,
        claim="",
        claimed_until=None,
        finished=time.time(),
        message=_("%(name)s stopped it.") % {"name": actor.name},
    )


def discard(replay_id: uuid.UUID, *, actor: Actor) -> None:
    """Forgets a replay with its outcomes. Raises NotFound, NotAllowed."""
    runner.cancel(_own(replay_id, actor, to_run=False))


def get(replay_id: uuid.UUID, *, actor: Actor) -> Replay:
    """Returns a replay as it is now. Raises NotFound: also for who is no operator of one of its apps."""
    return Replay(_job(replay_id, actor), actor)


def recent(*, actor: Actor) -> list[Replay]:
    """Returns the last replays that the actor may see, the newest first."""
    rows = _jobs().exclude(state=DRAFT).order_by("-created")[: 4 * RECENT]
    return [Replay(job, actor) for job in rows if _is_seen(job, actor)][:RECENT]


def forget_old() -> None:
    """Deletes the replays that are older than a week."""
    if not settings.READ_ONLY:
        _jobs().filter(created__lt=time.time() - _KEPT_SECONDS).delete()


def shown_outcome(text: str, actor: Actor, app_name: str) -> str:
    """Returns a stored outcome as JSON, as an actor may see it."""
    seen = Replayed(SessionRef("", app_name, "", ""), "", **json.loads(text or "{}")).seen(actor)
    return json.dumps({name: getattr(seen, name) for name in _FIELDS})


# --- At work ----------------------------------------------------------------------------------------------------------


def _run(job: Job, beat: runner.Beat) -> Outcome:
    task, source = json.loads(job.task), registry.alias_of(job.where) or ""
    _check(source, task["apps"], runner.actor_of(job))
    total, left = _items(job.pk).count(), list(_items(job.pk).filter(result="").order_by("number"))
    done = total - len(left)
    beat(Progress(done, total, REPLAYING))
    refs = _alive(
        (SessionRef(source, *json.loads(each.names)) for each in left), beat, Progress(done, total, REPLAYING)
    )
    with closing(replaying.replays(refs, actor=SYSTEM, run_code=task["run_code"])) as outcomes:
        for item, each in zip(left, outcomes, strict=True):
            _note(item, job.claim, each)
            done += 1
            beat(Progress(done, total, REPLAYING))
    return Outcome(DONE, fields={"done": total, "total": total})


def _alive(refs: Iterable[SessionRef], beat: runner.Beat, progress: Progress) -> Iterator[SessionRef]:
    """Yields sessions; ends with Lost if the job was stopped before the first outcome."""
    for number, ref in enumerate(refs):
        if number <= 2 * replaying.PROCESSES:
            beat(progress)
        yield ref


def _note(item: ReplayItem, claim: str, each: Replayed) -> None:
    """Keeps an outcome, unless another process has the job by now."""
    fields = asdict(each)
    label = each.why if each.result == UNDECIDED else json.dumps([each.agent, each.tool]) if each.what else ""
    _items(item.job_id).filter(pk=item.pk, job__claim=claim).update(
        result=each.result,
        what=each.what,
        label=label,
        outcome=json.dumps({name: fields[name] for name in _FIELDS}),
    )


KIND: Final = runner.register(runner.Kind("replay", _run))


# --- Rows --------------------------------------------------------------------------------------------------------------


def _check(source: str, apps: Sequence[str], actor: Actor) -> None:
    """Raises NotAllowed and AgentError unless the actor may have the agents of all these apps replayed, and adkweb can."""
    for app in apps:
        actor.check_may("operate", source, app)
        if why := agents.why_not_here(source, app):
            raise AgentError(why)


def _made(where: str, task: dict[str, Any], names: Sequence[Sequence[str]], actor: Actor) -> Job:
    with transaction.atomic():
        job = Job.objects.make(KIND.name, where, task, state=DRAFT, total=len(names), **runner.fields_of(actor))
        ReplayItem.objects.bulk_create(
            (
                ReplayItem(job_id=job.pk, number=number, where=where, names=json.dumps(each))
                for number, each in enumerate(names)
            ),
            batch_size=200,
        )
    return job


def _jobs() -> QuerySet[Job]:
    return Job.objects.filter(kind=KIND.name)


def _items(replay_id: uuid.UUID) -> QuerySet[ReplayItem]:
    return ReplayItem.objects.filter(job_id=replay_id)


def _job(replay_id: uuid.UUID, actor: Actor) -> Job:
    job = _jobs().filter(pk=replay_id).first()
    if job is None or not _is_seen(job, actor):
        raise NotFound(_("This replay no longer exists."))
    return job


def _own(replay_id: uuid.UUID, actor: Actor, *, to_run: bool = True) -> Job:
    job = _job(replay_id, actor)
    source = registry.alias_of(job.where) or ""
    apps = json.loads(job.task)["apps"]
    if to_run:
        _check(source, apps, actor)
    for app in apps:
        actor.check_may("operate", source, app)
    return job


def _is_seen(job: Job, actor: Actor) -> bool:
    """Returns whether a replay exists for an actor: an operator of all its apps."""
    source = registry.alias_of(job.where)
    apps = json.loads(job.task)["apps"]
    return source is not None and all(actor.may("operate", source, app) for app in apps)


def _outcome(item: ReplayItem, ref: SessionRef) -> Replayed:
    return Replayed(ref, item.result, **json.loads(item.outcome or "{}"))


def _stored(item: ReplayItem) -> tuple[str, str]:
    return item.result, item.outcome


def _told(row: Row) -> tuple[Any, ...]:
    return (row.replayed.result, *(getattr(row.replayed, name) for name in _FIELDS))
