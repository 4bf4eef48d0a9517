"""Replays of many sessions: a job, which keeps the outcome of each session for a week.

    replay_id = replays.draft(refs, actor=actor)
    replays.begin(replay_id, actor=actor)
    groups, number = replays.get(replay_id, actor=actor).groups()

A process that continues after another one died replays only the sessions that have no outcome yet. Outcomes are kept as
they are, and masked for whoever reads them.
"""

import json
import shlex
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from django.db import transaction
from django.db.models import Count, Min
from django.utils.translation import gettext as _

from ..access.actor import SYSTEM, Actor
from ..access.audit.record import record
from ..domain.errors import Conflict, NotFound
from ..domain.session_ref import SessionRef
from ..jobs import lease, runner
from ..jobs.lease import DONE, STOPPED, Outcome, Progress
from ..models import Job, TriedSession
from ..models.pages import in_pages
from ..search.tree import quoted
from ..sources import registry
from . import many, replaying
from .many import DRAFT, PAGE, RUNNING, Many
from .replaying import DIVERGED, SAME, UNDECIDED, Replayed

MOST: Final = 1_000  # sessions of a replay
RESULTS: Final = (DIVERGED, UNDECIDED, SAME)
LISTED: Final = 20  # sessions of a group, until all of it is asked for
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


class Replay(Many):
    """A replay as an actor sees it. `before` is the replay that this one repeats."""

    results = RESULTS

    def __init__(self, job: Job, actor: Actor) -> None:
        super().__init__(job, actor)
        self.before = uuid.UUID(self.task["before"]) if self.task.get("before") else None

    def groups(self, result: str = "", after: int = 0) -> tuple[list[Group], int]:
        """Returns a page of its outcomes by what they have in common, those that diverged first and then the largest: those
        `after` so many, and how many there are. With a `result`, only those that have it."""
        outcomes = many.items(self.id).exclude(result="").values("result", "what", "label")
        if result:
            outcomes = outcomes.filter(result=result)
        rows = sorted(
            outcomes.annotate(n=Count("pk"), first=Min("number")).order_by(),
            key=lambda each: (RESULTS.index(each["result"]), -each["n"], each["first"]),
        )
        groups = [
            self._group(each["first"], each["n"], each["result"], each["what"], each["label"], after=-1, most=LISTED)
            for each in rows[after : after + PAGE]
        ]
        return self._titled(groups), len(rows)

    def group(self, item: int, after: int = -1) -> Group:
        """Returns the group that has a session, with a page of its sessions `after` a number. Raises NotFound."""
        row = many.items(self.id).filter(number=item).exclude(result="").first()
        if row is None:
            raise NotFound(_("This replay no longer exists."))
        size = many.items(self.id).filter(result=row.result, what=row.what, label=row.label).count()
        return self._titled([self._group(item, size, row.result, row.what, row.label, after=after, most=PAGE)])[0]

    def _group(self, item: int, size: int, result: str, what: str, label: str, *, after: int, most: int) -> Group:
        rows = many.items(self.id).filter(result=result, what=what, label=label, number__gt=after).order_by("number")
        shown = [self._row(each) for each in rows[:most]]
        about = shown[0].replayed if shown else Replayed(SessionRef("", "", "", ""), result)
        return Group(item, size, result, what, about.agent, about.tool, about.why, shown)

    def _row(self, item: TriedSession) -> Row:
        ref = SessionRef(self.source, *json.loads(item.names))
        return Row(item.number, ref.session_id, _outcome(item, ref).seen(self._actor))

    def _titled(self, groups: list[Group]) -> list[Group]:
        titles = self.titles(row.replayed.ref for group in groups for row in group.rows)
        for group in groups:
            group.rows[:] = [replace(row, title=titles.get(row.replayed.ref, row.title)) for row in group.rows]
        return groups

    def changed(self) -> list[tuple[Row, Row]]:
        """Returns the sessions of which this replay shows something else than the one that it repeats: before and now."""
        if self.before is None:
            return []
        before = {each.names: each for each in many.items(self.before).exclude(result="")}
        pairs = [
            (self._row(before[each.names]), self._row(each))
            for each in in_pages(many.items(self.id).exclude(result=""), "number")
            if each.names in before and (each.result, each.outcome) != _stored(before[each.names])
        ]
        # Hidden values aren't compared: the page would say that they differ.
        pairs = [(old, new) for old, new in pairs if _told(old) != _told(new)]
        titles = self.titles(new.replayed.ref for _old, new in pairs[:PAGE])
        return [(old, replace(new, title=titles.get(new.replayed.ref, new.title))) for old, new in pairs]

    @property
    def command(self) -> str:
        """Returns the command that does the same in a terminal."""
        query = self.query
        if not query:
            some = [
                json.loads(each)[2]
                for each in many.items(self.id).order_by("number").values_list("names", flat=True)[: _NAMED + 1]
            ]
            names = [("app", app) for app in self.apps] if len(some) > _NAMED else [("session", each) for each in some]
            query = " or ".join(f"{name}:{quoted(each)}" for name, each in names)
        return f"adkweb replay ./agents -q {shlex.quote(query)} --fail-on-divergence" + " --run-code" * self.run_code


def draft(refs: Iterable[SessionRef], *, actor: Actor, query: str = "") -> uuid.UUID:
    """Keeps the sessions of a replay, which `begin` starts. Raises Invalid, NotAllowed, NotFound; AgentError if adkweb
    can't start one of their agents."""
    some = many.chosen(refs, MOST, actor=actor)
    task = {"apps": many.apps_of(some), "run_code": False, "query": query}
    return many.made(KIND.name, registry.identity(some[0].source), task, [ref[1:] for ref in some], actor).pk


def begin(replay_id: uuid.UUID, *, actor: Actor, run_code: bool = False) -> None:
    """Starts a replay, or continues one that was stopped. With `run_code`, functions of workflows and agents of other
    classes run, and may do anything. Raises NotFound, NotAllowed, AgentError; Conflict if it has ended."""
    job = many.own(KIND.name, replay_id, actor)
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
        runner.start(job, step=RUNNING, task=json.dumps(task), **runner.fields_of(actor))


def again(replay_id: uuid.UUID, *, actor: Actor, begins: bool = True) -> uuid.UUID:
    """Starts a replay of the same sessions, and returns it; one that runs code is only kept, since that has effects again.
    Raises what `begin` raises."""
    job = many.own(KIND.name, replay_id, actor)
    task = json.loads(job.task)
    names = [json.loads(each) for each in many.items(job.pk).order_by("number").values_list("names", flat=True)]
    made = many.made(KIND.name, job.where, {**task, "before": str(job.pk), "run_code": False}, names, actor)
    if begins and not task["run_code"]:
        begin(made.pk, actor=actor)
    return made.pk


def stop(replay_id: uuid.UUID, *, actor: Actor) -> None:
    """Stops a replay. Outcomes that are there stay, and it can continue. Raises NotFound, NotAllowed."""
    many.stop(many.own(KIND.name, replay_id, actor, to_run=False), actor)


def discard(replay_id: uuid.UUID, *, actor: Actor) -> None:
    """Forgets a replay with its outcomes. Raises NotFound, NotAllowed."""
    runner.cancel(many.own(KIND.name, replay_id, actor, to_run=False))


def get(replay_id: uuid.UUID, *, actor: Actor) -> Replay:
    """Returns a replay as it is now. Raises NotFound: also for who is no operator of one of its apps."""
    return Replay(many.seen(KIND.name, replay_id, actor), actor)


def recent(*, actor: Actor) -> list[Replay]:
    """Returns the last replays that the actor may see, the newest first."""
    return [Replay(job, actor) for job in many.recent(KIND.name, actor=actor)]


def forget_old() -> None:
    """Deletes the replays that are older than a week."""
    many.forget_old(KIND.name)


def shown_outcome(text: str, actor: Actor, app_name: str) -> str:
    """Returns a stored outcome as JSON, as an actor may see it."""
    seen = Replayed(SessionRef("", app_name, "", ""), "", **json.loads(text or "{}")).seen(actor)
    return json.dumps({name: getattr(seen, name) for name in _FIELDS})


# --- At work ----------------------------------------------------------------------------------------------------------


def _run(job: Job, beat: runner.Beat) -> Outcome:
    task, source = json.loads(job.task), registry.alias_of(job.where) or ""
    many.check(source, task["apps"], runner.actor_of(job))
    total, left = many.items(job.pk).count(), list(many.items(job.pk).filter(result="").order_by("number"))
    done = total - len(left)
    beat(Progress(done, total, RUNNING))
    refs = _alive((SessionRef(source, *json.loads(each.names)) for each in left), beat, Progress(done, total, RUNNING))
    with closing(replaying.replays(refs, actor=SYSTEM, run_code=task["run_code"])) as outcomes:
        for item, each in zip(left, outcomes, strict=True):
            _note(item, job.claim, each)
            done += 1
            beat(Progress(done, total, RUNNING))
    return Outcome(DONE, fields={"done": total, "total": total})


def _alive(refs: Iterable[SessionRef], beat: runner.Beat, progress: Progress) -> Iterator[SessionRef]:
    """Yields sessions; ends with Lost if the job was stopped before the first outcome."""
    for number, ref in enumerate(refs):
        if number <= 2 * replaying.PROCESSES:
            beat(progress)
        yield ref


def _note(item: TriedSession, claim: str, each: Replayed) -> None:
    """Keeps an outcome, unless another process has the job by now."""
    fields = asdict(each)
    label = each.why if each.result == UNDECIDED else json.dumps([each.agent, each.tool]) if each.what else ""
    many.items(item.job_id).filter(pk=item.pk, job__claim=claim).update(
        result=each.result,
        what=each.what,
        label=label,
        outcome=json.dumps({name: fields[name] for name in _FIELDS}),
    )


KIND: Final = runner.register(runner.Kind("replay", _run))


# --- Rows --------------------------------------------------------------------------------------------------------------


def _outcome(item: TriedSession, ref: SessionRef) -> Replayed:
    return Replayed(ref, item.result, **json.loads(item.outcome or "{}"))


def _stored(item: TriedSession) -> tuple[str, str]:
    return item.result, item.outcome


def _told(row: Row) -> tuple[Any, ...]:
    return (row.replayed.result, *(getattr(row.replayed, name) for name in _FIELDS))
