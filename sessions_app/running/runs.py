"""Runs of agents that adkweb started. A run is a job that holds one open stream, whatever browser looks at it.

    say(ref, "Book the cheapest one", actor=actor)
    stop(ref, actor=actor)

A session has one run at a time. A message is sent once: if its process dies, the next one looks at the session's events to
see whether it arrived, and never sends it again.
"""

import http
import json
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

from django.conf import settings
from django.db import IntegrityError, connections, transaction
from django.utils.translation import gettext as _

from .. import broadcast
from ..access import at_rest
from ..access.actor import SYSTEM, Actor
from ..access.audit.record import record, record_with
from ..access.shown import check_unmasked
from ..domain import credentials
from ..domain.edit_note import RUN as NOTE
from ..domain.edit_note import run_of
from ..domain.errors import AgentError, Conflict, Invalid, NotFound
from ..domain.invocations import UPDATES
from ..domain.json_values import as_object
from ..domain.positions import NO_SEQ
from ..domain.session_ref import SessionRef, digest_of
from ..edits import proposals
from ..jobs import runner
from ..jobs.lease import DONE, STOPPED, WAITING, Lost, Outcome, Progress, ref_of, session_of
from ..jobs.ticker import Ticker
from ..models import Answer, Job, Pause
from ..reads import at_work, timeline
from ..reads.event_views import EventView
from ..sources import agents, registry
from . import breakpoints, files, servers
from .breakpoints import Asker, Step
from .client import Server, Stream, tell
from .first import NOTHING, First, Write
from .questions import check_waits
from .servers import RUN

TEXT_LENGTH: Final = 100_000  # characters of a message
_SPOKEN: Final = "adkweb.spoken"  # what a key is for
ASKED: Final = "adkweb"  # what a child asks in the stream of a run
READY: Final = "ready"  # the step of a run before which all is written
SENT: Final = "sent"  # and of one whose message may have reached the agent
_REMEMBERED_SECONDS: Final = 3600.0  # that a page says how the last run ended, if it didn't end well
_LOOK_SECONDS: Final = 0.2  # between two looks whether someone asked the agent to stop
_MOST_SAID: Final = 1_000_000  # characters that agents say in a run and that aren't stored yet
TELL_SECONDS: Final = 0.05  # at least, between two times that people are told what it says
_SEALING_SECONDS: Final = 10.0  # that a stopped run may take until its last event is stored
_DYING_SECONDS: Final = 4.0  # that a child may still write after its adkweb died


def newest(ref: SessionRef, *, actor: Actor) -> str:
    """Returns the cursor of a session's newest event, "" if it has none: what `make` needs. It reads the source, which may
    be slow, so call it before a transaction. Raises Conflict if someone seems to run the agent in this session now."""
    if timeline.status_of(ref, actor=actor).name == "running":
        raise Conflict(_("The agent is running in this session. Wait until it is done, then send this again."))
    events = timeline.events(ref, limit=1, actor=SYSTEM).rows
    return events[-1].cursor if events else ""


def make(
    ref: SessionRef,
    parts: list[dict[str, Any]],
    after: str,
    *,
    actor: Actor,
    calls: Sequence[Sequence[str]] = (),
    invocation: str = "",
    **more: Any,
) -> Job:
    """Makes the run that sends a message to a session's agent, whose events come `after` those that are there; `calls` are
    the events and calls that it answers, those in `updates` (in `more`) not for good. With an `invocation`, it sends none,
    and continues that one. If its caller writes something `first` (in `more`), that has to be written before `begin`. Raises
    Conflict if adkweb runs the agent in this session now."""
    task = {"parts": parts, "calls": [list(call) for call in calls], "after": after, "invocation": invocation, **more}
    names = {"app_name": ref.app_name, "user_id": ref.user_id, "session_id": ref.session_id}
    try:
        with transaction.atomic():
            where = registry.identity(ref.source)
            return Job.objects.make(RUN, where, task, lane=_lane(ref), **names, **runner.fields_of(actor))
    except IntegrityError as error:
        by = _waiting(ref).values_list("actor", flat=True).first() or ""
        raise Conflict(_("%(name)s is talking to the agent in this session right now.") % {"name": by}) from error


def begin(job: Job) -> None:
    """Starts a run, now that what comes first is written. If this process dies before, nothing is sent."""
    runner.start(job, step=READY)


def take_back(job: Job) -> None:
    """Deletes a run that wasn't begun, and what it claimed."""
    Answer.objects.filter(run=job.pk).delete()
    runner.cancel(job)


def say(
    ref: SessionRef, text: str, *, actor: Actor, attached: Sequence[dict[str, Any]] = (), first: First = NOTHING
) -> Job:
    """Starts the run in which a session's agent answers a message of its user; files.part makes what is `attached`. What is
    to be written `first` is written when nothing else stands in the way, and the agent is up. Raises as `make` and `First`,
    Invalid, AgentError; Held if a key of it needs a second person, who then finds all of it under Proposals."""
    actor.check_sees(ref)
    actor.check_may("operate", ref.source, ref.app_name)
    if why := agents.why_not(ref.source, ref.app_name):
        raise AgentError(why)
    if not text.strip() and not attached:
        raise Invalid(_("Enter a message."), field="text")
    if len(text) > TEXT_LENGTH:
        raise Invalid(_("A message can have up to %(n)s characters.") % {"n": TEXT_LENGTH}, field="text")
    files.check([files.size_of(each) for each in attached])
    check_unmasked([text, *map(files.name_of, attached)], actor, ref.app_name)
    parts = [*([{"text": text}] if text.strip() else []), *attached]
    if first.check(ref, actor=actor):
        raise proposals.keep_sent(ref, "message", {"parts": parts}, first=first.prepared(ref, actor=actor), actor=actor)
    job = prepare(ref, parts, first.writer(ref, actor=actor), actor=actor)
    begin(job)
    return job


def prepare(ref: SessionRef, parts: list[dict[str, Any]], write: Write | None, *, actor: Actor, **more: Any) -> Job:
    """Makes the run that sends a message, which `begin` starts, and has `write` write what comes first; the event's id is
    `written` (in `more`) if it was fixed before. Raises what that and `make` raise, and AgentError; there is no run then."""
    if write:
        server_of(ref, actor=actor)  # nothing is written for an agent that can't be started
    after = newest(ref, actor=actor)
    job = make(ref, parts, after, actor=actor, first=write is not None, **more)
    try:
        if write:
            write(job.pk.hex)
        record("message-sent", actor.name, ref=ref, run=job.pk.hex)
    except Exception:
        runner.cancel(job)
        raise
    return job


def go_on(ref: SessionRef, *, actor: Actor) -> Job:
    """Starts the run that continues an invocation that didn't finish: its open calls may run again. Raises as `say`, and
    Conflict if there is nothing to continue."""
    actor.check_sees(ref)
    actor.check_may("operate", ref.source, ref.app_name)
    if why := agents.why_not(ref.source, ref.app_name):
        raise AgentError(why)
    after = newest(ref, actor=actor)
    if (last := timeline.status_of(ref, actor=SYSTEM).unfinished) is None:
        raise Conflict(_("The last run has finished, so there's nothing to continue."))
    with transaction.atomic():
        job = make(ref, [], after, actor=actor, invocation=last.invocation_id)
        record("run-continued", actor.name, ref=ref, run=job.pk.hex)
    begin(job)
    return job


def running(ref: SessionRef) -> Job | None:
    """Returns the run that adkweb holds in a session."""
    run: Job | None = _waiting(ref).first()
    return run


def last(ref: SessionRef) -> Job | None:
    """Returns the last run in a session, whether it has ended or not."""
    run: Job | None = of(ref).order_by("-created").first()
    return run


def ended_badly(run: Job | None) -> bool:
    """Returns whether a run didn't end well, and that wasn't long ago."""
    return bool(run and run.message and (run.finished or 0.0) > time.time() - _REMEMBERED_SECONDS)


def sender(event: EventView) -> str:
    """Returns who started the run of an event, by adkweb's own table: an id that someone made up, or copied from another
    session, says nothing. Returns "" if adkweb didn't."""
    try:
        number = uuid.UUID(hex=run_of(event.data))
    except ValueError:
        return ""
    name: str | None = of(event.ref).filter(pk=number).values_list("actor", flat=True).first()
    return name or ""


def unsent(job: Job) -> str:
    """Returns the text of a message that didn't reach the agent."""
    if json.loads(job.result or "{}").get("sent", False) is not False:
        return ""
    return "".join(part.get("text", "") for part in json.loads(job.task)["parts"])


def unsent_files(job: Job) -> list[dict[str, Any]]:
    """Returns the files of a message that didn't reach the agent."""
    if json.loads(job.result or "{}").get("sent", False) is not False:
        return []
    return [part for part in json.loads(job.task)["parts"] if "inlineData" in part]


def stop(ref: SessionRef, *, actor: Actor) -> None:
    """Asks the agent in a session to stop, if adkweb runs it, or a companion reports that it runs. Tools of its current step
    may have run. Raises NotFound."""
    actor.check_sees(ref)
    actor.check_may("operate", ref.source, ref.app_name)
    reported = at_work.reports(ref)
    if not (_waiting(ref).exists() or reported.exists()):
        raise NotFound(_("adkweb isn't running the agent in this session, and no companion reports that it runs."))
    asked = [runs.filter(stopped_by="") for runs in (_waiting(ref), reported)]
    record_with(lambda: sum(runs.update(stopped_by=actor.name) for runs in asked), "run-stopped", actor.name, ref=ref)
    broadcast.tell("queued", ref)
    broadcast.tell("at work", ref)


def _lane(ref: SessionRef) -> str:
    return f"run {registry.identity(ref.source)} {digest_of(*ref[1:])}"


def of(ref: SessionRef) -> Any:
    """Returns the query of the runs that adkweb started in a session."""
    names = {"app_name": ref.app_name, "user_id": ref.user_id, "session_id": ref.session_id}
    return Job.objects.filter(kind=RUN, where=registry.identity(ref.source), **names)


def _waiting(ref: SessionRef) -> Any:
    return of(ref).filter(state=WAITING)


# --- At work ----------------------------------------------------------------------------------------------------------


@dataclass
class _Held:
    """A run of this process: its server and open stream, the newest breakpoint that the server knows of, None if it doesn't
    ask, and the reason why this process has lost its job."""

    server: Server
    stream: Stream
    beat: runner.Beat
    newest: int | None
    lost: Lost | None = None


class _Watch(Ticker):
    """The thread that closes the streams of runs when someone asks their agents to stop, or this process loses their jobs;
    that passes on which breakpoint is the newest, and what people decided about an agent at one; and that tells what agents
    said last, when they pause. There is one while agents run."""

    current: ClassVar["_Watch | None"] = None

    def __init__(self) -> None:
        super().__init__("runs", _LOOK_SECONDS)
        self.held: dict[uuid.UUID, _Held] = {}

    def hear(self, move: broadcast.Move) -> None:
        """Looks at once if someone may have asked an agent to stop, or let it go on. This is a listener of broadcast.py."""
        if move.what == "queued":
            self.wake()

    def run(self) -> None:
        """Looks until it is ended."""
        broadcast.listen(self.hear)
        super().run()

    def close(self) -> None:
        """Stops listening."""
        broadcast.stop_listening(self.hear)

    def tick(self) -> None:
        with _holding:
            held = dict(self.held)
        stopped = set(Job.objects.filter(pk__in=held).exclude(stopped_by="").values_list("pk", flat=True))
        for number, run in held.items():
            try:
                run.beat(Progress(step=SENT))
            except Lost as lost:
                run.lost = lost
            if run.lost or number in stopped:
                run.stream.close()
        newest = breakpoints.newest()
        for run in held.values():
            if run.newest not in (None, newest):
                run.newest = newest
                _tell_child(run.server, {"newest": newest})
        for pause in Pause.objects.decided().filter(run__in=held):
            _answer(held[pause.run].server, pause.id.hex, json.loads(pause.decision))  # type: ignore[index]
            Pause.objects.filter(pk=pause.pk).end()
        for ref in list(_untold):
            _untold.discard(ref)
            _tell(ref)


_holding: Final = threading.Lock()


@contextmanager
def _watched(job: Job, held: _Held) -> Iterator[None]:
    """Lets a run be stopped within its block."""
    with _holding:
        if (watch := _Watch.current) is None:
            watch = _Watch.current = _Watch()
            watch.start()
        watch.held[job.pk] = held
    try:
        yield
    finally:
        with _holding:
            del watch.held[job.pk]
            if not watch.held:
                _Watch.current = None
                watch.end()


def _run(job: Job, beat: runner.Beat) -> Outcome:
    ref, task, actor = ref_of(job), json.loads(job.task), runner.actor_of(job)
    if job.step == SENT:
        sent = None if servers.may_hear_later(ref.source, ref.app_name) else False
        time.sleep(_DYING_SECONDS)  # then a child has stored what it heard, or is gone
        why = _("adkweb ended, or couldn't reach its own database, while the agent was running.")
        return _ended(job, ref, task, why, sent=sent)
    if task.get("first") and job.step != READY:
        return _ended(job, ref, task, _("adkweb ended before it could send this. Nothing was sent."), sent=False)
    actor.check_may("operate", ref.source, ref.app_name)
    check_waits(ref, task["calls"], actor=SYSTEM)
    return _send(job, ref, task, server_of(ref, actor=actor), beat)


def server_of(ref: SessionRef, *, actor: Actor) -> Server:
    """Returns the server of a session's agent, and starts it if that is adkweb's to do. Raises AgentError."""
    with servers.told_to(actor):
        server = servers.of(ref.source, ref.app_name)
        if server.is_remote:
            servers.check_same(server, ref)
        return server


def _send(job: Job, ref: SessionRef, task: dict[str, Any], server: Server, beat: runner.Beat) -> Outcome:
    """Sends the message, and listens until the agent is done, or someone stops it."""
    message = {"newMessage": {"role": "user", "parts": task["parts"]}}
    if task["invocation"]:
        message = {"invocationId": task["invocation"]}
    names = {"appName": ref.app_name, "userId": ref.user_id, "sessionId": ref.session_id}
    updates = {UPDATES: task["updates"]} if task.get("updates") else {}
    body = {**names, **message, "streaming": True, "customMetadata": {NOTE: job.pk.hex, **updates}}
    newest = breakpoints.newest() if settings.BREAKPOINTS and not server.is_remote else None
    stream = Stream(server, body, newest=newest)
    beat(Progress(step=SENT))
    if not Job.objects.filter(pk=job.pk, stopped_by="").update(step=SENT):  # surely, before anything is sent
        job.refresh_from_db()
        return _ended(job, ref, task, _("Stopped by %(name)s.") % {"name": job.stopped_by}, sent=False)
    job.step = SENT
    broadcast.tell("queued", ref)
    heard, why, held = False, "", _Held(server, stream, beat, newest)
    connections.close_all()  # an agent may run for hours, and a database has few
    with _watched(job, held):
        try:
            for event in stream:
                heard = True
                if ASKED in event and not server.is_remote:
                    _answer_step(ref, job, server, event[ASKED])
                else:
                    hear(ref, event)
        except AgentError as error:
            why = _reason(error, server, stream)
        finally:
            be_silent(ref)
    if held.lost:
        raise held.lost
    job.refresh_from_db()
    sent = heard or (None if stream.begun and not stream.refused and server.is_running else False)
    if job.stopped_by:
        sealed = sent is not False and _is_sealed(ref, job, 0.0 if stream.done else _SEALING_SECONDS)
        if sealed or not stream.done:  # else the agent was faster
            why = _("Stopped by %(name)s.") % {"name": job.stopped_by}
    return _ended(job, ref, task, why, sent=sent)


def _answer_step(ref: SessionRef, job: Job, server: Server, asked: dict[str, Any]) -> None:
    """Answers what a child asks before a step. Whatever goes wrong, the agent goes on."""
    answer: dict[str, Any] = {}
    with suppress(Exception):
        step = Step(**{name: asked[name] for name in Step.__slots__ if name in asked})
        answer = breakpoints.ask(ref, step, Asker(run=job.pk))
    connections.close_all()
    _answer(server, asked["number"], answer)


def _answer(server: Server, number: str, answer: dict[str, Any]) -> None:
    _tell_child(server, {"number": number, "answer": answer})


def _tell_child(server: Server, said: dict[str, Any]) -> None:
    with suppress(AgentError):  # it has ended
        tell(server, "/adkweb/answer", said)


def _reason(error: AgentError, server: Server, stream: Stream) -> str:
    """Returns what went wrong; for an agent that can't be loaded, what its server says."""
    time.sleep(_LOOK_SECONDS)  # then a child that was killed is gone
    until = time.monotonic() + (0.0 if stream.refused or server.is_remote else _DYING_SECONDS)
    while server.is_running and time.monotonic() < until:  # the adkweb that started it may have ended
        time.sleep(_LOOK_SECONDS / 2)
    if not server.is_running:
        return _("The agent's process ended while the agent was running.")
    # ADK has no class or status of its own for it, and its words have ids beside them.
    if stream.continues and error.message.startswith("ValueError: ") and "resumable app" in error.message:
        return _("ADK can continue this kind of agent only in a resumable app. Write a message instead.")
    if error.detail.get("status") != http.HTTPStatus.INTERNAL_SERVER_ERROR:
        return error.message
    return _("The agent can't run: %(why)s") % {"why": error.detail["why"]}


class Spoken(NamedTuple):
    """Text that the agent who spoke last has said so far of an event that isn't stored yet, and when it is told next."""

    author: str
    text: str
    due: float = 0.0  # in time.monotonic()


spoken: Final[dict[SessionRef, Spoken]] = {}  # of this process's runs
# What each agent has said so far, by its name and branch: several may speak at once, and half a secret isn't recognized.
_said: Final[defaultdict[SessionRef, dict[tuple[str, str], str]]] = defaultdict(dict)
_untold: Final[set[SessionRef]] = set()  # those in which more was said since that was told


def hear(ref: SessionRef, event: dict[str, Any]) -> None:
    """Tells everyone who watches what the agent has said so far, or that an event is stored.

    The first word is told at once. Each time, everything said so far is masked anew, so telling takes a tenth of the run's
    time at most."""
    said, author = _said[ref], str(event.get("author") or "")
    speaker = author, str(event.get("branch") or "")
    if not event.get("partial"):
        said.pop(speaker, None)
        spoken.pop(ref, None)
        broadcast.tell("events", ref)
        return
    parts = as_object(event.get("content")).get("parts")
    seen = map(as_object, parts if isinstance(parts, list) else ())
    more = "".join(str(part["text"]) for part in seen if part.get("text") and not part.get("thought"))
    if not (more := more[: _MOST_SAID - sum(map(len, said.values()))]):
        return
    said[speaker] = said.get(speaker, "") + more
    so_far = Spoken(author, said[speaker], spoken[ref].due if ref in spoken else 0.0)
    spoken[ref] = so_far
    began = time.monotonic()
    if began < so_far.due:
        _untold.add(ref)
        return
    _untold.discard(ref)
    _tell(ref)
    ended = time.monotonic()
    spoken[ref] = so_far._replace(due=ended + max(TELL_SECONDS, 9 * (ended - began)))


def _tell(ref: SessionRef) -> None:
    said = spoken.get(ref)
    if said and settings.REDIS_URL:
        broadcast.tell("spoken", ref, said=at_rest.encrypted(json.dumps([said.author, said.text]), _SPOKEN))
    elif said:
        broadcast.tell("spoken", ref)


def said_in(ref: SessionRef, elsewhere: str = "") -> Spoken | None:
    """Returns what the agent says right now in a session: in a run of this process, or `elsewhere`, as that process told."""
    if elsewhere and ref not in spoken:
        with suppress(ValueError):  # it has another key
            author, text = json.loads(at_rest.decrypted(elsewhere, _SPOKEN))
            return Spoken(author, text)
    return spoken.get(ref)


def be_silent(ref: SessionRef) -> None:
    """Forgets what agents have said in a session that isn't stored."""
    spoken.pop(ref, None)
    _said.pop(ref, None)


def _ended(job: Job, ref: SessionRef, task: dict[str, Any], why: str, *, sent: bool | None) -> Outcome:
    """Returns the outcome of a run. `sent` says what is known of the message if no event of the run is stored: None if it
    may still arrive."""
    events = list(events_of_run(ref, job))
    sent = True if events else sent
    if events and not why:
        why = str(events[-1].data.get("error_message") or events[-1].data.get("error_code") or "")
    at_work.note_end(ref)
    Pause.objects.filter(run=job.pk).end()
    state = DONE if sent and not why else STOPPED
    kept = {**task, "parts": [] if sent else task["parts"]}  # what was sent is in the session's events
    return Outcome(state, why, {"result": json.dumps({"sent": sent}), "task": json.dumps(kept)})


def events_of_run(ref: SessionRef, job: Job, after: str = "") -> Iterator[EventView]:
    """Yields the stored events of a run, as they are stored; with the cursor of one of them, those `after` it."""
    after = after or json.loads(job.task)["after"]
    while True:
        page = timeline.events_after(ref, after or NO_SEQ, actor=SYSTEM)
        for view in page.rows:
            if run_of(view.data) == job.pk.hex:
                yield view
        if not page.next:
            return
        after = page.next


def _is_sealed(ref: SessionRef, job: Job, seconds: float) -> bool:
    """Returns whether the event with which a stopped run ends is stored, within some seconds."""
    until = time.monotonic() + seconds
    while not any("stopped" in each.description.kinds for each in events_of_run(ref, job)):
        if time.monotonic() >= until:
            return False
        time.sleep(_LOOK_SECONDS / 2)
    return True


def close_claims(job: Job) -> None:
    """Closes what a run that has ended claimed, and forgets the secrets of an answer that is never sent again, such as the
    address with which a sign-in came back. If the run failed before it could look at the events, it is unknown whether its
    message arrived."""
    if (task := json.loads(job.task))["calls"]:
        kept = {**task, "parts": credentials.hidden(task["parts"])}
        Job.objects.filter(pk=job.pk).update(task=json.dumps(kept))
    sent = json.loads(job.result or "{}").get("sent", None if job.step == SENT else False)
    claims = Answer.objects.filter(run=job.pk, state="open")
    if sent:
        updates = [digest_of(event, call) for event, call in task["calls"] if call in task.get("updates", ())]
        claims.filter(asked__in=updates).update(state="update")
    claims.update(state={True: "sent", False: "refused", None: "unknown"}[sent])


def _tell_end(job: Job) -> None:
    """Closes what a run claimed, and tells everyone who watches: not earlier, because they look at once, at the run too."""
    close_claims(job)
    if ref := session_of(job):
        broadcast.tell("events", ref)
        broadcast.tell("queued", ref)


KIND: Final = runner.register(runner.Kind(RUN, _run, ended=_tell_end, patience=0.0, no_return=SENT))
