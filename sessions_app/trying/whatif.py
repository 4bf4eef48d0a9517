"""Tries what an agent does if something is different: in the memory of a process of its own, and never in the session.

    job = start(ref, Change("7ea3454f", state={"booking_step": "confirmed"}), actor=actor)
    of(job, actor=actor).trials

A what-if is a job, with a trial for each repeat. Its agent gets the session as its author may see it: with dots where rules
hide values, unless they may reveal them and gave a reason. It ends with its session, and after DAYS.
"""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Any, Final, Literal

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Length
from django.utils.translation import gettext as _

from ..access import approval
from ..access.actor import SYSTEM, Actor
from ..access.audit.record import record
from ..access.shown import check_unmasked, mask_of, shown
from ..domain.alignment import Alignment, align
from ..domain.cost import Cost, Usage, cost_of, usage_of
from ..domain.errors import AgentError, AlreadyExists, Conflict, Invalid, NotAllowed, NotFound
from ..domain.event import Event
from ..domain.invocations import begins_turn
from ..domain.json_values import as_object
from ..domain.kinds import describe
from ..domain.session_ref import SessionRef, digest_of
from ..domain.shorten import brief
from ..domain.state import ABSENT, same, scope_of
from ..edits import edit, fork, reveal
from ..history import moments
from ..jobs import runner
from ..jobs.lease import DONE, STOPPED, WAITING, Outcome, Progress, ref_of
from ..jobs.ticker import Ticker
from ..models import Job, SessionHold, Trial
from ..reads import timeline
from ..reads.event_views import EventView, timed
from ..sources import agents, registry
from ..transfer import recording
from .process import Process

KIND: Final = "whatif"
DAYS: Final = 7  # that a what-if is kept; one of a session on hold stays
MOST_REPEATS: Final = 10
LISTED: Final = 20  # what-ifs of a session
MOST_EVENTS: Final = 500  # of a trial
TEXT_LENGTH: Final = 100_000  # characters of a message or an instruction
SECONDS: Final = 600.0  # that an agent may take from one event to the next
ASK_SECONDS: Final = 1800.0  # that a call may wait for a decision
_VALUE: Final = 120  # characters of a value in an outcome
LOOK_SECONDS: Final = 0.3  # between two looks whether someone has decided, or stopped it

Unknown = Literal["ask", "fail", "run"]


@dataclass(frozen=True, slots=True)
class Change:
    """What is different: at which event, and the values of full keys after it; what the user says in the turn that the agent
    runs; responses of tools by the id of their call; instructions and models by the name of their agent.

    With `later`, the messages after that turn are sent, too."""

    at: str
    state: Mapping[str, Any] = field(default_factory=dict)
    removed: Sequence[str] = ()  # full keys that aren't there after it
    message: str = ""
    results: Mapping[str, Any] = field(default_factory=dict)
    instructions: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    later: bool = False


@dataclass(frozen=True, slots=True)
class TrialView:
    """A trial as someone may see it. `question` is the call that waits for a decision: `agent`, `tool` and `args`.

    `original` has the recorded events from the same message on, and `made` the new ones, without the edit that changed
    state: that isn't what an agent did."""

    number: int
    original: list[EventView]
    made: list[EventView]
    alignment: Alignment[EventView]
    question: dict[str, Any]
    error: str
    unsent: int
    state: dict[str, Any]
    has_ended: bool
    seconds: float
    needs_code: bool  # it ended before anything ran, because that takes `run_code`

    @property
    def usage(self) -> list[Usage]:
        """Returns the tokens of the models that were called."""
        return [used for each in self.made if (used := usage_of(each.data))]

    @property
    def tokens(self) -> int:
        """Returns the number of tokens that it took."""
        return sum(each.prompt + each.output for each in self.usage)

    @property
    def cost(self) -> Cost:
        """Returns what they cost."""
        return cost_of(self.usage, settings.PRICES)

    @property
    def said(self) -> str:
        """Returns what the agent said last."""
        return last_words(self.made)

    @property
    def outcome(self) -> str:
        """Returns in a few words how it ended: two trials that end alike have the same."""
        return self.error or self.said


@dataclass(frozen=True, slots=True)
class Plan:
    """The part of a recording that a what-if at an event runs again: `turn`, the events of the turn that the agent runs,
    from its message on, none if nothing comes after the event; how many messages follow `later`; and the `agents` of these
    and of the turns around it, each with the model that it had last."""

    event: EventView
    turn: list[EventView]
    later: int
    agents: dict[str, str]

    @property
    def message(self) -> str:
        """Returns what the user says in that turn."""
        return _text_of(self.turn[0].data) if self.turn else ""

    @property
    def usage(self) -> list[Usage]:
        """Returns the tokens that it took."""
        return [used for each in self.turn if (used := usage_of(each.data))]


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A what-if as someone may see it. `has_dots` says that its agent got dots in the place of hidden values."""

    job: Job
    ref: SessionRef
    change: Change
    repeats: int
    trials: list[TrialView]
    has_dots: bool
    is_running: bool
    why: str  # it ended early, or couldn't be tried


def start(  # noqa: PLR0913  (how it runs, and for whom)
    ref: SessionRef,
    change: Change,
    *,
    actor: Actor,
    repeats: int = 1,
    unknown: Unknown = "ask",
    waits: bool = True,
    run_code: bool = False,
    reason: str = "",
) -> Job:
    """Starts a what-if. A tool's call that the recording doesn't know waits for a decision, fails, or runs: `unknown`. Where
    a rule forbids that it runs, it fails unless the what-if `waits`. With `run_code`, functions of workflows and agents of
    other classes run. With a `reason`, the agent gets the values that rules hide from the actor, who must be allowed to
    reveal them.

    Raises NotFound, NotAllowed, Invalid, AgentError and SourceError."""
    actor.check_sees(ref)
    actor.check_may("operate", ref.source, ref.app_name)
    if why := why_not(ref):
        raise AgentError(why)
    if not 1 <= repeats <= MOST_REPEATS:
        raise Invalid(_("A what-if runs 1 to %(n)s times.") % {"n": MOST_REPEATS}, field="repeats")
    check(change, ref.app_name, actor)
    if reason:
        reveal.check_may_reveal(ref, actor)
        reason = reveal.checked(reason)
    timeline.event(ref, change.at, actor=actor)  # raises NotFound
    task: dict[str, Any] = {
        "change": asdict(change),
        "edit": _edit(ref, change, actor) if change.state or change.removed else None,
        "repeats": repeats,
        "unknown": unknown,
        "waits": waits,
        "run_code": run_code,
        "revealed": bool(reason),
        "answers": [],
    }
    names = dict(zip(("app_name", "user_id", "session_id"), ref[1:], strict=True))
    with transaction.atomic():
        job = Job.objects.make(KIND, registry.identity(ref.source), task, **names, **runner.fields_of(actor))
        record("tried", actor.name, ref=ref, event=change.at, reason=reason, run=job.pk.hex)
    runner.start(job)
    return job


def why_not(ref: SessionRef) -> str:
    """Returns why nothing can be tried with a session's agent; "" if it can."""
    return agents.why_not_here(ref.source, ref.app_name)


def plan(ref: SessionRef, event_id: str, *, actor: Actor) -> Plan:
    """Returns what a what-if at an event runs. Raises NotFound."""
    event = timeline.event(ref, event_id, actor=actor)
    before = timeline.events(ref, before=event.cursor, limit=MOST_EVENTS, actor=actor).rows
    rows = [*before, event, *timeline.events_after(ref, event.cursor, limit=MOST_EVENTS, actor=actor).rows]
    begins = [n for n, each in enumerate(rows) if begins_turn(each.description)]
    at = len(before)
    first = max((n for n in begins if n <= at), default=None)
    if first is None or (first < at and _ends(rows[at:])):
        first = min((n for n in begins if n > at), default=None)
    later = [n for n in begins if first is not None and n > first]
    turn = [] if first is None else rows[first : later[0] if later else None]
    agents: dict[str, str] = {}
    for each in rows:
        name, model = each.description.author, str(each.data.get("model_version") or "")
        if name not in ("user", "") and not each.description.edit:
            agents[name] = model or agents.get(name, "")
    return Plan(event, turn, len(later), agents)


def _ends(rows: Sequence[EventView]) -> bool:
    """Returns whether the first of some events ends its turn, as adk/whatif.py sees it."""
    said, data = rows[0].description, rows[0].data
    after = [each for each in rows[1:2] if not begins_turn(each.description) and not each.description.edit]
    goes_on = bool(said.calls or said.responses) and not data.get("long_running_tool_ids")
    return not (after or goes_on or data.get("error_code")) or bool(said.edit)


def check(change: Change, app_name: str, actor: Actor) -> None:
    """Raises Invalid if a change can't be tried, NotAllowed if the actor can't have seen what it says."""
    texts = {"message": change.message, **change.instructions, **change.models}
    for text in texts.values():
        if len(text) > TEXT_LENGTH:
            raise Invalid(_("A text can have up to %(n)s characters.") % {"n": TEXT_LENGTH})
    for result in change.results.values():
        if not isinstance(result, dict):
            raise Invalid(_("The result of a tool is a JSON object."), field="results")
    for part in (change.state, list(texts.values()), list(change.results.values())):
        check_unmasked(part, actor, app_name)


def _edit(ref: SessionRef, change: Change, actor: Actor) -> Event | None:
    """Returns the edit that the copy has after the event; None if its state is already so."""
    then = moments.state_at(ref, change.at, actor=actor).state.merged()
    values = {**change.state, **dict.fromkeys(change.removed, ABSENT)}
    entries = [edit.Entry(key, value, then.get(key, ABSENT)) for key, value in values.items()]
    entries = [each for each in entries if not same(each.value, each.seen)]
    return edit.state_event(entries, actor, _("What if"))[0] if entries else None


def of(job: Job, *, actor: Actor, beside: bool = True) -> WhatIf:
    """Returns a what-if. Only if its trials stand `beside` what was recorded, that is read.

    Raises NotFound, and NotAllowed if its agent got values that the actor may not reveal."""
    ref, task = ref_of(job), json.loads(job.task)
    actor.check_sees(ref)
    if task["revealed"]:
        reveal.check_may_reveal(ref, actor)
    change = Change(**task["change"])
    edited = str((task["edit"] or {}).get("id", ""))
    rows = list(job.trials.order_by("number"))
    begins = {each.begins for each in rows if each.begins and beside}
    original = {each: _original(ref, each, actor, later=change.later) for each in begins}
    trials = [_view(each, ref, original.get(each.begins, []), edited, actor) for each in rows]
    return WhatIf(
        job,
        ref,
        seen(change, ref.app_name, actor),
        task["repeats"],
        trials,
        json.loads(job.result or "{}").get("has_dots", False),
        job.state == WAITING,
        job.message,
    )


def seen(change: Change, app_name: str, actor: Actor) -> Change:
    """Returns a change as someone may see it."""

    def result(value: Any) -> Any:
        part = {"function_response": {"response": value}}
        (part,) = shown({"content": {"parts": [part]}}, actor, app_name, "event")["content"]["parts"]
        return part["function_response"]["response"]

    return replace(
        change,
        state=shown({"actions": {"state_delta": change.state}}, actor, app_name, "event")["actions"]["state_delta"],
        message=seen_words(change.message, app_name, actor),
        results={call: result(value) for call, value in change.results.items()},
        instructions={name: seen_words(text, app_name, actor) for name, text in change.instructions.items()},
    )


def seen_words(text: str, app_name: str, actor: Actor) -> str:
    """Returns what someone said as someone may see it."""
    (part,) = shown({"content": {"parts": [{"text": text}]}}, actor, app_name, "event")["content"]["parts"]
    return str(part["text"])


def progress(job: Job, *, actor: Actor) -> list[tuple[int, float, str, str]]:
    """Returns what tells whether `of` returns something new: of each trial, how much there is and what it asks."""
    actor.check_sees(ref_of(job))
    rows = job.trials.order_by("number").annotate(size=Length("events"))
    return list(rows.values_list("size", "seconds", "question", "answer"))


def get(ref: SessionRef, number: str, *, actor: Actor) -> Job:
    """Returns the job of a session's what-if by its id. Raises NotFound."""
    actor.check_sees(ref)
    job: Job
    for job in _of_session(ref):
        if job.pk.hex == number:
            return job
    raise NotFound(_("There's no such what-if. Each is deleted after %(n)s days.") % {"n": DAYS})


def listed(ref: SessionRef, *, actor: Actor) -> list[WhatIf]:
    """Returns the newest what-ifs of a session that the actor may see, the newest first, without what was recorded."""
    actor.check_sees(ref)
    reveals = actor.may_reveal(ref.source, ref.app_name)
    seen = (job for job in _of_session(ref) if reveals or not json.loads(job.task)["revealed"])
    return [of(job, actor=actor, beside=False) for job in islice(seen, LISTED)]


def _of_session(ref: SessionRef) -> Any:
    names = dict(zip(("app_name", "user_id", "session_id"), ref[1:], strict=True))
    return Job.objects.filter(kind=KIND, where=registry.identity(ref.source), **names).order_by("-created")


def _view(trial: Trial, ref: SessionRef, original: list[EventView], edited: str, actor: Actor) -> TrialView:
    made = [_event(each, ref, actor) for each in json.loads(trial.events) if each.get("id") != edited]
    timed(made)
    question = json.loads(trial.question) if trial.question and not trial.answer else {}
    if question:
        part = {"function_call": {"name": question["tool"], "args": question["args"]}}
        (part,) = shown({"content": {"parts": [part]}}, actor, ref.app_name, "event")["content"]["parts"]
        question = {**question, "args": part["function_call"]["args"]}
    ended = json.loads(trial.ended or "{}")
    state = shown(as_object(ended.get("state")), actor, ref.app_name)
    error = shown({"error_message": ended.get("error", "")}, actor, ref.app_name, "event")["error_message"]
    return TrialView(
        trial.number,
        original,
        made,
        align(original, made),
        question,
        error,
        ended.get("unsent", 0),
        state,
        bool(trial.ended),
        trial.seconds,
        bool(ended.get("needs_code")),
    )


def _event(event: dict[str, Any], ref: SessionRef, actor: Actor) -> EventView:
    data = shown(event, actor, ref.app_name, "event")
    names = str(event.get("id", "")), None, str(event.get("invocation_id", ""))
    return EventView(ref, *names, float(event.get("timestamp") or 0.0), data, describe(data))


def _original(ref: SessionRef, begins: str, actor: Actor, *, later: bool) -> list[EventView]:
    """Returns the recorded events from a message on, to the end of its turn or of the session."""
    try:
        first = timeline.event(ref, begins, actor=actor)
    except NotFound:
        return []
    rows = timeline.events_after(ref, first.cursor, limit=MOST_EVENTS, actor=actor).rows
    if not later:
        ends = next((n for n, each in enumerate(rows) if begins_turn(each.description)), len(rows))
        rows = rows[:ends]
    timed([first, *rows])
    return [first, *rows]


def last_words(events: Sequence[EventView]) -> str:
    """Returns the last thing that the agent said or did in some events: its words, or a call with its arguments, or what a
    tool returned."""
    for each in reversed(events):
        said = each.description
        if said.author != "user" and (text := _text_of(each.data)):
            return text
        for part in said.calls:
            return f"{part.name}({brief(part.value, _VALUE)})"
        for part in said.responses:
            return f"{part.name} → {brief(part.value, _VALUE)}"
    return ""


def _text_of(event: Mapping[str, Any]) -> str:
    parts = as_object(event.get("content")).get("parts") or []
    return "".join(str(part.get("text") or "") for part in parts if isinstance(part, dict) and not part.get("thought"))


# --- Decisions --------------------------------------------------------------------------------------------------------


def decide(job: Job, number: int, answer: Mapping[str, Any], *, actor: Actor, always: bool = False) -> None:
    """Decides a call that waits: `{"result": …}`, `{"run": True}` or `{"fail": "words"}`; with `always`, later calls of the
    same tool, too. Raises NotAllowed, Invalid, and Conflict if it doesn't wait any longer."""
    ref = ref_of(job)
    actor.check_sees(ref)
    actor.check_may("operate", ref.source, ref.app_name)
    if json.loads(job.task)["revealed"]:
        reveal.check_may_reveal(ref, actor)
    check_unmasked(dict(answer), actor, ref.app_name)
    with transaction.atomic():
        trial = job.trials.select_for_update().filter(number=number, ended="").exclude(question="").first()
        if trial is None or trial.answer:
            raise Conflict(_("This call doesn't wait any longer."))
        tool = json.loads(trial.question)["tool"]
        if "run" in answer:
            _check_may_run(ref, tool)
            record("tool-tried", actor.name, ref=ref, tool=tool, run=job.pk.hex)
        trial.answer = json.dumps({**answer, "always": always})
        trial.save(update_fields=["answer"])


def _check_may_run(ref: SessionRef, tool: str) -> None:
    """Raises NotAllowed for a tool whose calls need a second person: a what-if has none."""
    if approval.held_tools(ref.source, ref.app_name, [tool]):
        raise NotAllowed(
            _("%(tool)s: a rule asks a second person before it acts, so it doesn't run here.") % {"tool": tool}
        )


def stop(job: Job, *, actor: Actor) -> None:
    """Ends a what-if. What its trials have made stays."""
    ref = ref_of(job)
    actor.check_sees(ref)
    actor.check_may("operate", ref.source, ref.app_name)
    Job.objects.filter(pk=job.pk, state=WAITING).update(stopped_by=actor.name)


def keep(job: Job, number: int, *, actor: Actor, reason: str = "") -> SessionRef:
    """Stores what a trial did as a fork: the events before its turn, and then its own. The user's and the app's state stay
    as they are. Doing it again returns the same session.

    Raises NotFound, NotAllowed (also where a rule asks a second person), Invalid (it has dots, or nothing to keep), and what
    a fork does."""
    ref, task = ref_of(job), json.loads(job.task)
    actor.check_sees(ref)
    actor.check_may("admin", ref.source, ref.app_name)
    if task["revealed"]:
        reveal.check_may_reveal(ref, actor)
    trial = job.trials.filter(number=number).first()
    events, ended = json.loads(trial.events if trial else "[]"), json.loads(trial.ended or "{}" if trial else "{}")
    if trial is None or not events or "state" not in ended:
        raise Invalid(_("There's nothing to keep of this try."))
    for part in (events, ended["state"]):
        check_unmasked(part, actor, ref.app_name)
    for event in events:
        if held := approval.held_in(ref.source, ref.app_name, event):
            raise NotAllowed(
                _("%(names)s: a rule asks a second person, so this try can't be kept.") % {"names": ", ".join(held)}
            )
    into = fork.name(ref, ref.user_id, "", f"{job.pk.hex} {number}")
    last = trial.begins or timeline.events(ref, limit=1, actor=actor).rows[-1].id
    own = {key: value for key, value in ended["state"].items() if scope_of(key)[0] == "session"}
    with suppress(AlreadyExists):  # it was kept before
        end = fork.End(events, own, replaces=bool(trial.begins))
        copying = fork.prepare(ref, last, into, actor, reason or _("What if"), end)
        record("kept", actor.name, ref=ref, run=job.pk.hex, into=into.session_id)
        copying.run(actor)
    return into


def sweep() -> None:
    """Deletes what-ifs that are too old."""
    forget(Job.objects.filter(kind=KIND, created__lt=time.time() - DAYS * 86400).exclude(state=WAITING))


def forget(jobs: Iterable[Job]) -> None:
    """Deletes what-ifs, but those of sessions on hold."""
    for job in jobs:
        digest = digest_of(job.app_name, job.user_id, job.session_id)
        if not SessionHold.objects.filter(where=job.where, digest=digest).exists():
            job.delete()


# --- At work ----------------------------------------------------------------------------------------------------------


class _Stopped(Exception):
    """Someone has stopped it."""


class _Watch(Ticker):
    """Ends the process when someone stops the what-if, or deletes it."""

    def __init__(self, job: Job, process: Process) -> None:
        super().__init__("what-if", LOOK_SECONDS)
        self._job, self._process, self.stopped = job, process, False

    def tick(self) -> None:
        if not Job.objects.filter(pk=self._job.pk, stopped_by="").exists():
            self.stopped = True
            self._process.kill()
            self.end()


def _run(job: Job, beat: runner.Beat) -> Outcome:
    ref, task, actor = ref_of(job), json.loads(job.task), runner.actor_of(job)
    actor.check_may("operate", ref.source, ref.app_name)
    recorded = recording.of(ref, actor=SYSTEM if task["revealed"] else actor)
    has_dots = not task["revealed"] and mask_of(actor, ref.app_name).has_dots(recorded)
    Job.objects.filter(pk=job.pk).update(result=json.dumps({"has_dots": has_dots}))
    try:
        for number in range(task["repeats"]):
            beat(Progress(number, task["repeats"]))
            trial, _made = Trial.objects.get_or_create(job=job, number=number)
            if not trial.ended:
                _try(trial, ref, recorded, beat)
    except _Stopped:
        job.refresh_from_db()
        return Outcome(STOPPED, _("Stopped by %(name)s.") % {"name": job.stopped_by})
    return Outcome(DONE)


def _try(trial: Trial, ref: SessionRef, recorded: Mapping[str, Any], beat: runner.Beat) -> None:
    """Runs the agent once, and keeps what it does."""
    task = json.loads(trial.job.task)
    agent = agents.agent_of(ref.source, ref.app_name)
    if agent is None:
        raise AgentError(why_not(ref))
    began, events = time.monotonic(), list[Any]()
    trial.events, trial.question, trial.answer = "[]", "", ""
    process = Process(ref[:2], agent.folder, run_code=task["run_code"], what_if=True)
    watch = _Watch(trial.job, process)
    watch.start()
    try:
        process.send(json.dumps({**task["change"], "edit": task["edit"]}))
        process.send(json.dumps(recorded))
        while not trial.ended:
            line = process.read(SECONDS)
            match line:
                case {"begins": str(begins)}:
                    trial.begins, began = begins, time.monotonic()  # before that, the agent is loaded
                case {"event": dict(event)}:
                    events.append(event)
                    trial.events = json.dumps(events)
                    if len(events) > MOST_EVENTS:
                        trial.ended = json.dumps({"error": _("Ended after %(n)s events.") % {"n": MOST_EVENTS}})
                case {"ask": dict(call)}:
                    process.send(json.dumps(_decided(trial, ref, call, beat, watch)))
                case {"ended": dict(ended)}:
                    trial.ended = json.dumps({"error": ended.pop("impossible", ""), **ended})
            trial.seconds = time.monotonic() - began
            trial.save()
    except AgentError as error:
        if watch.stopped:
            raise _Stopped from error
        trial.ended = json.dumps({"error": error.message})
        trial.save()
    finally:
        watch.end()
        process.end()


def _decided(
    trial: Trial, ref: SessionRef, call: dict[str, Any], beat: runner.Beat, watch: _Watch
) -> Mapping[str, Any]:
    """Returns how a call is decided: as one like it was before, by the choice for all, or by someone who is asked."""
    task = json.loads(Job.objects.values_list("task", flat=True).get(pk=trial.job.pk))
    for tool, args, answer in task["answers"]:
        if tool == call["tool"] and (args == call["args"] or answer["always"]):
            return dict(answer)
    if task["unknown"] == "run" and not approval.held_tools(ref.source, ref.app_name, [call["tool"]]):
        return {"run": True}
    trial.question, trial.answer = json.dumps(call), ""
    if task["unknown"] == "fail" or not task.get("waits", True):
        failed = {"fail": _("This tool isn't run in a what-if.")}
        trial.answer = json.dumps(failed)
        return failed
    trial.save()
    until = time.monotonic() + ASK_SECONDS
    while not trial.answer:
        if watch.stopped:
            raise _Stopped
        if time.monotonic() > until:
            trial.answer = json.dumps({"fail": _("No one decided what this call returns."), "always": False})
            break
        beat(Progress(trial.number, task["repeats"], "asks"))
        time.sleep(LOOK_SECONDS)
        trial.refresh_from_db(fields=["answer"])
    answer = json.loads(trial.answer)
    task["answers"].append([call["tool"], call["args"], answer])
    Job.objects.filter(pk=trial.job.pk).update(task=json.dumps(task))
    trial.question = trial.answer = ""
    return dict(answer)


runner.register(runner.Kind(KIND, _run, patience=0.0))
