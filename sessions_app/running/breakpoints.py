"""Decides where agents pause, and what happens then: breakpoints, which people set, and pauses, which they end.

An agent's process asks before each step (adk/breakpoints.py): by its companion, or in the stream of a run of adkweb's own.
It asks no more once no breakpoint is about its session, until another one is the `newest`.

    ask(ref, step)                                 # {"pauses": True}, then with the request: {"seconds": 600.0}
    decide(ref, pause.id, "continue", args={"city": "Porto"}, actor=actor)
"""

import json
import time
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypedDict, Unpack

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from .. import broadcast
from ..access import approval
from ..access.actor import PEOPLE, SYSTEM, Actor
from ..access.audit.record import record
from ..access.shown import check_unmasked, shown, shown_words, typed_value, typed_words
from ..domain.errors import AgentError, Conflict, Held, Invalid, NotAllowed, NotFound
from ..domain.json_values import as_object, dumps
from ..domain.session_ref import SessionRef, digest_of
from ..domain.state import same
from ..jobs.lease import WAITING
from ..models import Breakpoint, Job, Pause, Report
from ..reads import at_work
from ..reads.event_views import EventView
from ..search import state_condition
from ..sources import registry

SECONDS = 600.0  # until an agent goes on by itself
MODEL, TOOL, STATE = "model", "tool", "state"
NOTE: Final = "adkweb_pause"  # what an event's custom_metadata has whose request was changed
KINDS: Final = (MODEL, TOOL, STATE)
NAME_LENGTH: Final = 128
MOST_LENGTH: Final = 1_000_000  # characters of a request
TEXT_LENGTH: Final = 100_000  # characters of what someone changes
_PARTS: Final = {"args": ("functionCall", "args"), "result": ("functionResponse", "response")}  # of an event
_REFUSAL: Final = "This tool was not run: its call needs a second person, and nobody decided in time."


@dataclass(frozen=True, slots=True)
class Step:
    """A step before which an agent's process asks whether it pauses: it calls a `model`, or a `tool`. `steps` says that
    someone let it go on to here, `met` which conditions were met at its last step, and `state` has the values of `keys`.
    With a `pause`, it pauses, and `request` is what the model or the tool is to get, until the time is `over`."""

    invocation: str
    kind: str
    agent: str
    name: str
    call: str = ""
    steps: bool = False
    met: Sequence[int] = ()
    keys: Sequence[str] = ()
    state: Mapping[str, Any] = field(default_factory=dict)
    pause: str = ""
    over: bool = False
    request: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Asker:
    """The process that asks: that of a companion, with its token's account, or that of a run of adkweb's own."""

    process: str = ""
    account: str = ""
    run: uuid.UUID | None = None


def ask(ref: SessionRef, step: Step, asker: Asker) -> dict[str, Any]:
    """Returns what an agent's process does before a step: the `keys` of state that it must say, or whether it `pauses`, and
    then for how many `seconds`, with the `refusal` that a tool's result is then, if someone must decide about it and adkweb
    is away. After that time, it's the `decision`: nothing that someone changed or proposed is passed over. If no breakpoint
    is about the session, it's enough to ask again when the newest one isn't that in `none` any longer."""
    before_all = newest()  # one that is set while this looks is newer
    if not settings.BREAKPOINTS:
        return {"none": before_all}
    where, digest = registry.identity(ref.source), digest_of(*ref[1:])
    before = Pause.objects.filter(where=where, digest=digest, invocation=step.invocation, over=False)
    if not step.pause:
        if before.exists() and before.end():  # it went on by itself
            _tell(ref)
        rows = list(Breakpoint.objects.about(where, ref.app_name, digest))
        return _pauses(ref, step, rows) | ({} if rows or step.steps else {"none": before_all})
    if step.over:
        return {"decision": _at_last(ref, step)}
    refusal = _REFUSAL if _needs_second(ref, step) else ""
    now, request = time.time(), json.dumps(_read(step.request))
    if len(request) > MOST_LENGTH:
        raise Invalid(_("This can have up to %(n)s characters.") % {"n": MOST_LENGTH}, field="request")
    Pause.objects.filter(over=False, until__lt=now - SECONDS).end()  # whose processes died
    try:
        with transaction.atomic():
            Pause.objects.create(
                id=uuid.UUID(hex=step.pause),
                where=where,
                digest=digest,
                names=json.dumps(ref[1:]),
                invocation=step.invocation,
                kind=step.kind,
                agent=step.agent,
                name=step.name,
                call=step.call,
                process=asker.process,
                account=asker.account,
                run=asker.run,
                request=request,
                since=now,
                until=now + SECONDS,
                refusal=refusal,
            )
    except IntegrityError as error:
        raise Conflict from error
    if Report.objects.filter(where=where, digest=digest, invocation=step.invocation, ended=True).exists():
        # This took so long that the agent went on, and its run has ended.
        Pause.objects.filter(pk=uuid.UUID(hex=step.pause)).end()
        return {}
    _tell(ref)
    return {"seconds": SECONDS, "refusal": refusal}


def _at_last(ref: SessionRef, step: Step) -> dict[str, Any]:
    """Ends a pause whose time is over. Returns what someone has decided by then, or what follows if no one has."""
    where, digest = registry.identity(ref.source), digest_of(*ref[1:])
    pause = Pause.objects.filter(where=where, digest=digest, pk=uuid.UUID(hex=step.pause))
    pause.update(until=0.0)  # from here on, nobody can
    row, decision = pause.first(), {"go": "continue"}
    if row and row.decision:
        decision = json.loads(row.decision)
    elif _needs_second(ref, step) or (row and (row.refusal or row.proposed)):
        decision = {"go": "refuse", "why": _REFUSAL}
    pause.end()
    _tell(ref)
    return decision


def ask_of_unknown(app_name: str) -> dict[str, Any]:
    """Returns what `ask` does for a session that no source has, or not yet: its agent doesn't pause."""
    before_all = newest()
    there = settings.BREAKPOINTS and Breakpoint.objects.filter(app_name=app_name).exists()
    return {} if there else {"none": before_all}


def newest() -> int:
    """Returns the number of the newest breakpoint; 0 if there is none, or this adkweb allows none."""
    return Breakpoint.objects.newest() if settings.BREAKPOINTS else 0


def _read(request: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a process says of a request, as adk/breakpoints.py says it: it may say anything."""

    def objects(value: Any) -> list[dict[str, Any]]:
        return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []

    texts = {name: request.get(name) for name in ("cut", "begins", "instruction", "message")}
    left_out, args = request.get("left_out"), request.get("args")
    return {
        **{name: text if isinstance(text, str) else None for name, text in texts.items()},
        "args": args if isinstance(args, dict) else None,
        "left_out": left_out if isinstance(left_out, int) and 0 < left_out < MOST_LENGTH else 0,
        "contents": [
            {"role": str(each.get("role") or ""), "parts": objects(each.get("parts"))}
            for each in objects(request.get("contents"))
        ],
        "tools": [
            {name: str(each.get(name) or "") for name in ("name", "description")}
            for each in objects(request.get("tools"))
        ],
    }


def _pauses(ref: SessionRef, step: Step, rows: Sequence[Breakpoint]) -> dict[str, Any]:
    nodes = {row.pk: state_condition.read(row.condition) for row in rows if row.kind == STATE}
    keys = sorted({key for node in nodes.values() for key in state_condition.keys_of(node)})
    if not {*keys} <= {*step.keys}:
        return {"keys": keys}
    # By what everyone sees: an agent that pauses must not tell what is hidden.
    values = state_condition.compared(shown(dict(step.state), PEOPLE, ref.app_name), keys)
    met = [number for number, node in nodes.items() if state_condition.holds(node, values)]
    name = step.agent if step.kind == MODEL else step.name
    here = any(row.kind == step.kind and row.name in ("", name) for row in rows)
    return {"met": met, "pauses": step.steps or here or not {*met} <= {*step.met}}


def decisions(asker: Asker) -> dict[str, Any]:
    """Returns the decisions that a companion's process may not have yet, by pause."""
    rows = Pause.objects.decided().filter(process=asker.process, account=asker.account)
    return {row.id.hex: json.loads(row.decision) for row in rows}


def note_heard(asker: Asker, pauses: Sequence[str]) -> None:
    """Notes that a process has got decisions."""
    Pause.objects.decided().filter(process=asker.process, account=asker.account, id__in=pauses).end()


def told() -> set[str]:
    """Returns the companions' processes that may not have a decision yet."""
    return {*Pause.objects.decided().exclude(process="").values_list("process", flat=True)}


def _tell(ref: SessionRef) -> None:
    broadcast.tell("queued", ref)
    broadcast.tell("at work", ref)


# --- What people see and decide ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Paused:
    """A step before which an agent pauses, as someone may see it. `args`, `instruction` and `message` can be changed unless
    they are None. `proposed` is a change of what it `proposes`, args or result, which waits for a second person, as the
    reader is if it `applies`."""

    of: Pause
    agent: str
    name: str
    args: Any
    cut: str
    instruction: str | None
    begins: str
    message: str | None
    contents: list[Any]
    left_out: int
    tools: list[tuple[str, str]]
    needs_second: bool
    proposes: str
    proposed: Any
    applies: bool

    @property
    def id(self) -> str:
        """Returns the number of the pause."""
        return self.of.id.hex

    @property
    def args_text(self) -> str:
        """Returns the arguments as JSON, to be changed."""
        return dumps(self.args, 2)

    @property
    def proposed_text(self) -> str:
        """Returns what was proposed as JSON."""
        return dumps(self.proposed, 2)

    @property
    def lines(self) -> list[tuple[str, str]]:
        """Returns who said what in the conversation, each part as a text."""
        parts = ((each.get("role") or "", part) for each in self.contents for part in each.get("parts") or ())
        return [(str(role), str(part["text"]) if "text" in part else dumps(part)) for role, part in parts]


def paused(ref: SessionRef, *, actor: Actor) -> list[Paused]:
    """Returns the steps before which a session's agent pauses now."""
    actor.check_sees(ref)
    return [_seen(ref, row, actor) for row in _open(ref)]


def _open(ref: SessionRef) -> list[Pause]:
    where = registry.identity(ref.source)
    rows = list(Pause.objects.waiting().filter(where=where, digest=digest_of(*ref[1:])).order_by("since"))
    if not rows:
        return []
    runs = {
        *Job.objects.filter(pk__in=[row.run for row in rows if row.run], state=WAITING).values_list("pk", flat=True)
    }
    reported = {*at_work.reports(ref).values_list("process", "invocation")}
    return [row for row in rows if row.run in runs or (row.process, row.invocation) in reported]


def _seen(ref: SessionRef, row: Pause, actor: Actor) -> Paused:
    request = json.loads(row.request)
    texts = {
        name: None if request[name] is None else _words(request[name], ref, actor)
        for name in ("instruction", "message")
    }
    ((proposes, proposed),) = json.loads(row.proposed).items() if row.proposed else (("", None),)
    return Paused(
        row,
        _words(row.agent, ref, actor),
        _words(row.name, ref, actor),
        _value(row, "args", request["args"], ref, actor),
        _words(request["cut"] or "", ref, actor),
        **texts,
        begins=_words(request["begins"] or "", ref, actor),
        contents=[shown({"content": each}, actor, ref.app_name, "event")["content"] for each in request["contents"]],
        left_out=request["left_out"],
        tools=[
            (_words(each["name"], ref, actor), _words(each["description"], ref, actor)) for each in request["tools"]
        ],
        needs_second=_needs_second(ref, row),
        proposes=proposes,
        proposed=_value(row, proposes, proposed, ref, actor),
        applies=bool(row.proposed) and _is_second(row, actor),
    )


def _words(text: Any, ref: SessionRef, actor: Actor) -> str:
    return shown_words(str(text), actor, ref.app_name)


def _value(row: Pause, what: str, value: Any, ref: SessionRef, actor: Actor) -> Any:
    """Returns the arguments or the result of a call, or a text of a model's request, as an actor sees it."""
    if value is None or what not in _PARTS:
        return None if value is None else _words(value, ref, actor)
    part, name = _PARTS[what]
    event = {"content": {"parts": [{part: {"id": row.call, "name": row.name, name: value}}]}}
    return shown(event, actor, ref.app_name, "event")["content"]["parts"][0][part].get(name, {})


def _needs_second(ref: SessionRef, row: Pause | Step) -> bool:
    return row.kind == TOOL and bool(approval.held_tools(ref.source, ref.app_name, [row.name]))


def _is_second(row: Pause, actor: Actor) -> bool:
    return actor.account.startswith("person ") and not actor.is_same(row.proposed_by, row.proposed_account)


class Given(TypedDict, total=False):
    """A change of a request, or the `result` in a tool's place. None leaves a part as it is."""

    args: Any
    result: Any
    instruction: str | None
    message: str | None


def decide(ref: SessionRef, pause: str, go: str, *, actor: Actor, **given: Unpack[Given]) -> None:
    """Lets an agent go on: `continue`, `step` to its next step, or `apply` what someone else has proposed. What is given is
    changed first. With a `result`, the tool doesn't run, and this is what the agent gets from it.

    Raises NotAllowed; Conflict if someone else decided, or the time is over; Invalid for what it can't be, with its `field`;
    Held if the tool needs a second person, who then finds the change on the session's page."""
    actor.check_sees(ref)
    actor.check_may("operate", ref.source, ref.app_name)
    row = next((each for each in _open(ref) if each.id.hex == pause), None)
    if row is None:
        raise Conflict(_decided_already(ref, pause))
    if go not in ("continue", "step", "apply"):
        raise Invalid(_("Continue, or step to the next stop."))
    changes = [] if go == "apply" else _changes(ref, row, given, actor)
    by = actor.name
    if go == "apply":
        if not row.proposed or not _is_second(row, actor):
            raise NotAllowed(_("This needs a second person: its author can't apply it."))
        old = json.loads(row.request)
        changes = [{"what": what, "old": old.get(what), "new": new} for what, new in json.loads(row.proposed).items()]
        by = f"{row.proposed_by}, {actor.name}"
    elif changes and row.kind == TOOL and actor is not SYSTEM and _needs_second(ref, row):
        raise _proposed(ref, row, {changes[0]["what"]: changes[0]["new"]}, actor)
    decision = {"go": "continue" if go == "apply" else go, **{each["what"]: each["new"] for each in changes}}
    fields = {"decision": json.dumps(decision), "decided_by": by, "decided": time.time()}
    with transaction.atomic():
        texts = {
            f"{side}_{each['what']}": _text(row, each["what"], each[side], ref)
            for each in changes
            for side in ("old", "new")
            if each[side] is not None
        }
        record("step-continued", by, ref=ref, **{row.kind: row.name}, **texts)
        if (
            not Pause.objects.waiting()
            .filter(pk=row.pk)
            .update(**fields, changed=json.dumps(changes) if changes else "")
        ):
            raise Conflict(_decided_already(ref, pause))
    _tell(ref)


def _changes(ref: SessionRef, row: Pause, given: Given, actor: Actor) -> list[dict[str, Any]]:
    """Returns what someone changes of a request. Raises Invalid."""
    request, changes = json.loads(row.request), []
    for what, text in (("instruction", given.get("instruction")), ("message", given.get("message"))):
        if text is None or request[what] is None:
            continue
        if len(text) > TEXT_LENGTH:
            raise Invalid(_("This can have up to %(n)s characters.") % {"n": TEXT_LENGTH}, field=what)
        if (new := typed_words(text, request[what], actor, ref.app_name)) != request[what]:
            changes.append({"what": what, "old": request[what], "new": new})
    if (args := given.get("args")) is not None and (old := request["args"]) is not None:
        _check_object("args", args, _("The arguments must be a JSON object."))
        new = typed_value(args, _value(row, "args", old, ref, actor), old, actor, ref.app_name)
        if not same(new, old):
            changes.append({"what": "args", "old": old, "new": new})
    if (result := given.get("result")) is not None and row.kind == TOOL:
        _check_object("result", result, _("The result must be a JSON object."))
        check_unmasked(result, actor, ref.app_name)
        if changes:
            words = _("With a result, the tool doesn't run. Change the arguments, or give a result.")
            raise Invalid(words, field="result")
        changes.append({"what": "result", "old": None, "new": result})
    return changes


def _check_object(field: str, value: Any, words: str) -> None:
    if not isinstance(value, dict):
        raise Invalid(words, field=field)
    if len(dumps(value)) > TEXT_LENGTH:
        raise Invalid(_("This can have up to %(n)s characters.") % {"n": TEXT_LENGTH}, field=field)


def _proposed(ref: SessionRef, row: Pause, new: Mapping[str, Any], actor: Actor) -> Held:
    """Keeps other arguments, or a result, until a second person applies them, and returns the error to raise."""
    fields = {"proposed": json.dumps(new), "proposed_by": actor.name, "proposed_account": actor.account}
    with transaction.atomic():
        record("proposed", actor.name, ref=ref, tools=[row.name])
        if not Pause.objects.waiting().filter(pk=row.pk, proposed="").update(**fields):
            raise Conflict(_("Someone has proposed a change already."))
    _tell(ref)
    words = _("%(tools)s: needs a second person. Another operator has to apply the change on this page.")
    return Held(words % {"tools": row.name}, tools=[row.name])


def _decided_already(ref: SessionRef, pause: str) -> str:
    row = Pause.objects.filter(where=registry.identity(ref.source), id=pause).first() if _is_id(pause) else None
    if row and row.decided_by:
        return _("%(name)s has let the agent go on already. Nothing was changed.") % {"name": row.decided_by}
    return _("The agent doesn't pause here any longer. Nothing was changed.")


def _is_id(text: str) -> bool:
    try:
        return bool(uuid.UUID(hex=text))
    except ValueError:
        return False


def _text(row: Pause, what: str, value: Any, ref: SessionRef) -> str:
    seen = _value(row, what, value, ref, PEOPLE)
    return dumps(seen) if what in _PARTS else str(seen)


# --- What was changed -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Changed:
    """A change that someone made before the agent went on: of an instruction, a message or args; or a result, which has no
    `old` one, because the tool didn't run."""

    what: str
    old: Any
    new: Any
    by: str
    at: float
    call: str = ""  # of the tool


def changed(ref: SessionRef, events: Sequence[EventView], *, actor: Actor) -> dict[str, list[Changed]]:
    """Returns what people changed, by the id of the event: those of a tool's call, whose arguments are the old ones, and of
    its response, or that with a model's answer. Other events are left out."""
    actor.check_sees(ref)
    by_call, by_pause = defaultdict[str, list[str]](list), defaultdict[uuid.UUID, list[str]](list)
    for event in events:
        for part in (*event.description.calls, *event.description.responses):
            by_call[part.id].append(event.id)
        if _is_id(noted := str(as_object(event.data.get("custom_metadata")).get(NOTE) or "")):
            by_pause[uuid.UUID(hex=noted)].append(event.id)
    by_call.pop("", None)
    if not (by_call or by_pause):
        return {}
    rows = Pause.objects.filter(where=registry.identity(ref.source), digest=digest_of(*ref[1:])).exclude(changed="")
    result: dict[str, list[Changed]] = {}
    for row in rows.filter(Q(kind=TOOL, call__in=by_call) | Q(kind=MODEL, pk__in=by_pause)).order_by("decided"):
        for change in of_pause(row, ref, actor=actor):
            for event_id in by_call[row.call] if row.kind == TOOL else by_pause[row.pk]:
                result.setdefault(event_id, []).append(change)
    return result


def of_pause(row: Pause, ref: SessionRef, *, actor: Actor) -> list[Changed]:
    """Returns what someone changed in a pause of a session."""
    actor.check_sees(ref)
    result = []
    for each in json.loads(row.changed):
        old, new = (_value(row, each["what"], each[side], ref, actor) for side in ("old", "new"))
        result.append(Changed(each["what"], old, new, row.decided_by, row.decided, row.call))
    return result


# --- Breakpoints ------------------------------------------------------------------------------------------------------


def of(ref: SessionRef, *, actor: Actor) -> list[Breakpoint]:
    """Returns the breakpoints of a session and of its app."""
    actor.check_sees(ref)
    rows = list(Breakpoint.objects.about(registry.identity(ref.source), ref.app_name, digest_of(*ref[1:])))
    for row in rows:
        row.name, row.condition = (_words(text, ref, actor) for text in (row.name, row.condition))
    return rows


def add(
    ref: SessionRef, kind: str, *, name: str = "", condition: str = "", of_app: bool = False, actor: Actor
) -> Breakpoint:
    """Sets a breakpoint in a session, or for all of its app: before a model is called, of an agent if it has a `name`;
    before a tool is; or when a condition on state becomes true. Raises NotAllowed, and Invalid, with its `field`."""
    actor.check_sees(ref)
    actor.check_may("operate", ref.source, ref.app_name)
    if not settings.BREAKPOINTS:
        raise AgentError(
            _("This adkweb has no breakpoints. To allow them, set ADKWEB_BREAKPOINTS=true on its machine.")
        )
    name, condition = name.strip(), condition.strip()
    if kind not in KINDS:
        raise Invalid(_("Choose where the agent pauses."), field="kind")
    if kind == STATE:
        name = ""
        state_condition.read(condition)
    else:
        condition = ""
    if len(name) > NAME_LENGTH:
        raise Invalid(_("A name can have up to %(n)s characters.") % {"n": NAME_LENGTH}, field="name")
    check_unmasked([name, condition], actor, ref.app_name)
    where, digest = registry.identity(ref.source), "" if of_app else digest_of(*ref[1:])
    rows = Breakpoint.objects.filter(where=where, app_name=ref.app_name, digest=digest)
    if rows.count() >= Breakpoint.MOST:
        raise Invalid(_("There can be up to %(n)s breakpoints.") % {"n": Breakpoint.MOST})
    with transaction.atomic():
        row, made = rows.get_or_create(
            where=where,
            app_name=ref.app_name,
            digest=digest,
            kind=kind,
            name=name,
            condition=condition,
            defaults={"names": "" if of_app else json.dumps(ref[1:]), "made_by": actor.name, "made": time.time()},
        )
        if made:
            _record("breakpoint-set", row, ref, actor)
    broadcast.tell("queued", ref)
    return row


def remove(ref: SessionRef, number: int, *, actor: Actor) -> None:
    """Removes a breakpoint of a session or of its app. Raises NotAllowed, NotFound."""
    actor.check_sees(ref)
    actor.check_may("operate", ref.source, ref.app_name)
    rows = Breakpoint.objects.about(registry.identity(ref.source), ref.app_name, digest_of(*ref[1:]))
    if (row := rows.filter(pk=number).first()) is None:
        raise NotFound(_("This breakpoint was removed already."))
    with transaction.atomic():
        _record("breakpoint-removed", row, ref, actor)
        row.delete()
    broadcast.tell("queued", ref)


def _record(act: str, row: Breakpoint, ref: SessionRef, actor: Actor) -> None:
    about: dict[str, Any] = {"ref": ref} if row.digest else {"source": ref.source, "app_name": ref.app_name}
    record(act, actor.name, **about | {row.kind: row.name or row.condition or "*"})
