"""Runs a recorded session again with an agent's code of today, without its models and its tools.

    recording = json.loads(Path("seoul-trip.json").read_text())
    outcome = await Replay(recording).run(root_agent)
    assert outcome.result == "same", outcome

Each message of the user is sent again. What the models said, and what the tools returned, comes from the recording. So
everything else runs as it is today: callbacks, transfers, the order of agents, confirmations, `output_key`. The events
that this makes are compared with the recorded ones, and the first difference is reported.

Not seen are changes of what doesn't run: the body of a tool, a prompt, a model. Where the companion has noted it, `unseen`
says that an agent's instruction has changed. Functions of a workflow and agents of
other classes have effects that nothing can hold back, so they need `run_code=True`.
"""

import asyncio
import copy
import inspect
import json
import sys
import uuid
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from math import inf
from typing import Any, Final, cast

from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, RunConfig, SequentialAgent
from google.adk.apps import App
from google.adk.artifacts import InMemoryArtifactService
from google.adk.events import Event, EventActions
from google.adk.memory import InMemoryMemoryService
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService, Session
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.exit_loop_tool import exit_loop
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from google.adk.tools.transfer_to_agent_tool import transfer_to_agent
from google.genai import types

from . import fingerprints

SAME: Final = "same"
DIVERGED: Final = "diverged"
UNDECIDED: Final = "undecided"

AGENT, TOOL, ARGUMENTS, TRANSFER = "agent", "tool", "arguments", "transfer"
STATE, TEXT, ERROR = "state", "text", "error"

_STOPPED: Final = "INVOCATION_ABORTED"  # the error code of the event by which google-adk ends a run that was stopped
_CONFIRMATION: Final = "adk_request_confirmation"
_CREDENTIAL: Final = "adk_request_credential"
_INPUT: Final = "adk_request_input"
_ASKING: Final = (_CONFIRMATION, _CREDENTIAL, _INPUT)
_AGENTS: Final = (LlmAgent, LoopAgent, ParallelAgent, SequentialAgent)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a replay has shown. `result` is SAME, DIVERGED or UNDECIDED.

    `event` is the id of the recorded event where a divergence starts, `what` is one of agent, tool, arguments, state, text,
    transfer and error, and `expected` is what was recorded. `why` says why it is undecided. `unseen` names what a replay
    doesn't compare in this session: tools of toolsets, and instructions of which it is known that they differ.
    """

    result: str
    event: str = ""
    what: str = ""
    agent: str = ""
    tool: str = ""
    expected: Any = None
    got: Any = None
    why: str = ""
    unseen: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.result == DIVERGED:
            where = f"event {self.event}, {self.what} of {' and '.join(filter(None, (self.agent, self.tool)))}"
            return f"{where}: expected {_short(self.expected)}, got {_short(self.got)}"
        return f"undecided: {self.why}" if self.why else self.result


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 200 else f"{text[:199]}…"


class _End(Exception):
    """Ends a turn of which the recording has no more, or that has diverged."""


# --- The recording ----------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Turn:
    """A message of the user, and the recorded events of the agents that answered it."""

    message: Event
    events: list[Event] = field(default_factory=list)
    was_stopped: bool = False
    interrupted: bool = False  # by an event that someone else wrote

    @property
    def failure(self) -> Exception | None:
        """Returns the error that ended the turn, if one did, as another of the same name."""
        return _raised(next(reversed(self.events), self.message))

    def said_by(self, author: str, branch: str | None) -> list[Event]:
        """Returns what an agent said in a branch."""
        return [each for each in self.events if (each.author, each.branch) == (author, branch)]


def _raised(event: Event) -> Exception | None:
    """Returns the error that an event says was raised, as another of the same name. What a model refuses isn't raised."""
    if not event.error_code or event.content or event.error_code in _REFUSALS:
        return None
    return cast(Exception, type(event.error_code.replace("\0", ""), (Exception,), {})(event.error_message))


_REFUSALS: Final = {"UNKNOWN_ERROR"} | {
    each.name for reasons in (types.FinishReason, types.BlockedReason) for each in reasons
}


def _steps(events: Sequence[Event]) -> list[Turn | Event]:
    """Returns the turns, and between them what was written without an agent: edits, rewinds, summaries."""
    steps: list[Turn | Event] = []
    turns: dict[str, Turn] = {}
    turn: Turn | None = None
    for event in events:
        parts = event.content.parts if event.content else None
        turn = turns.get(event.invocation_id) if event.invocation_id else turn  # an agent of one's own may leave it out
        if event.author == "user" and parts and not event.actions.rewind_before_invocation_id:
            turns[event.invocation_id] = turn = Turn(event)
            steps.append(turn)
        elif event.author == "user" or turn is None or event.actions.compaction:
            steps.append(event)
        elif event.error_code == _STOPPED:
            turn.was_stopped = True
        else:
            later = [] if steps[-1] is turn else steps[steps.index(turn) + 1 :]
            turn.interrupted |= any(not (isinstance(each, Event) and each.actions.compaction) for each in later)
            turn.events.append(event)
    return steps


# --- The replay -------------------------------------------------------------------------------------------------------

_asked: ContextVar[tuple[Any, str | None]] = ContextVar("asked")  # the agent that asks a model, and its branch


class _Recorded(BaseLlm):
    """Says what a model said when the session was recorded."""

    replay: Any = None

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        yield self.replay.next_response(*_asked.get())


class _Offered(BaseTool):
    """A tool of a toolset, which is only known by the calls of the recording."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, description="")

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(name=self.name, description="")


class _Tools(BaseToolset):
    """Stands for a toolset, which would have to ask a server for its tools."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self._tools: list[BaseTool] = [_Offered(name) for name in names]

    async def get_tools(self, readonly_context: Any = None) -> list[BaseTool]:
        return self._tools

    async def close(self) -> None:
        return None


class _Artifacts(InMemoryArtifactService):
    """Keeps what is saved in a replay, and notes what else is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self._missing: list[str] = []

    @property
    def missing(self) -> list[str]:
        """Returns the names of the files that were asked for, and that the recording doesn't have."""
        return self._missing

    async def load_artifact(self, *, filename: str, **names: Any) -> types.Part | None:
        loaded = await super().load_artifact(filename=filename, **names)
        if loaded is None:
            self._missing.append(filename)
        return loaded


class Replay(BasePlugin):
    """An ADK plugin that runs a recorded session again, without models and tools. Use it for one session.

    `recording` is a session as google-adk writes it in JSON, or a dict of it; but its `state` is that before the first
    event. Keys of app and user have their prefix. It may also have a list `unknown`: keys whose value then isn't known.
    """

    def __init__(self, recording: str | bytes | Mapping[str, Any]) -> None:
        super().__init__(name=f"adkweb replay {uuid.uuid4().hex[:8]}")
        self._given = given = recording if isinstance(recording, Mapping) else json.loads(recording)
        self._app_name: str = given.get("appName") or given.get("app_name") or "replay"
        self._user_id: str = given.get("userId") or given.get("user_id") or "user"
        self._session_id: str = given.get("id") or "session"
        self._state: dict[str, Any] = dict(given.get("state") or {})
        self._unknown: frozenset[str] = frozenset(given.get("unknown") or ())
        # From JSON, so that google-adk reads the bytes of files and thoughts.
        self._events = [Event.model_validate_json(json.dumps(each)) for each in given.get("events", [])]
        self._steps = _steps(self._events)
        self._spoken = next(
            (each.id for each in self._events if each.input_transcription or each.output_transcription), ""
        )
        self._sessions: InMemorySessionService = InMemorySessionService()
        self._artifacts = _Artifacts()
        self._turn = Turn(Event(author="user"))
        self._between: Session | None = None  # the session, as long as no agent runs: each copy of it takes its length
        self._counts: Counter[tuple[str, str | None]] = Counter()  # events that each agent has made in each branch
        self._fed: set[str] = set()  # ids of recorded events that a model or a tool was given
        self._ids: dict[str, str] = {}  # today's ids of the recorded questions
        self._invocations: dict[str, str] = {}
        self._swapped: dict[tuple[int, str], tuple[Any, Any]] = {}  # what is swapped, and what it was before
        self._done: set[str] = set()  # ids of recorded events whose state and actions were set again
        self._of_callbacks: frozenset[str] = frozenset()  # keys of the state that tools don't write
        self._doubtful: set[str] = set()  # keys that were set as a tool's, and that a callback has written then
        self._unseen: dict[str, None] = {}
        self._run_code = False
        self._end: Outcome | None = None  # why the turn ended before the agent had ended it

    def check(self, agent: Any, *, run_code: bool = False) -> None:
        """Raises AssertionError if an agent doesn't do what was recorded. For a test."""
        outcome = asyncio.run(self.run(agent, run_code=run_code))
        if outcome.result != SAME:
            raise AssertionError(str(outcome))

    async def run(self, agent: Any, *, run_code: bool = False) -> Outcome:
        """Returns the outcome for an agent, an App or a workflow. What it was given is restored afterwards.

        With `run_code`, functions of a workflow and agents of other classes run, whatever they do."""
        root = agent.root_agent if isinstance(agent, App) else agent
        code = [] if run_code else [str(each.name) for each in tree(root) if not is_held_back(each)]
        if code:
            return Outcome(UNDECIDED, agent=code[0], why=f"{code[0]} {ONLY_WITH_RUN_CODE}")
        if self._spoken:
            return Outcome(UNDECIDED, self._spoken, why="it was spoken, and sound isn't sent again")
        self._run_code = run_code
        try:
            self._swap_tools(root)
            outcome = await self._run(agent)
        finally:
            for (_id, name), (thing, value) in self._swapped.items():
                if value is ABSENT:
                    vars(thing).pop(name, None)
                else:
                    setattr(thing, name, value)
            self._swapped.clear()
        return await self._without_doubt(outcome, agent) if outcome.result == DIVERGED and self._doubtful else outcome

    async def _without_doubt(self, outcome: Outcome, agent: Any) -> Outcome:
        """Returns the outcome if an after_tool_callback, and not the tool, wrote what differs, unless that ends sooner: the
        recording doesn't say which it was."""
        again = Replay(self._given)
        again._of_callbacks = self._of_callbacks | self._doubtful
        other = await again.run(agent, run_code=self._run_code)
        numbers = {event.get("id"): number for number, event in enumerate(self._given["events"])}
        return max((other, outcome), key=lambda each: numbers.get(each.event, inf))

    async def _run(self, agent: Any) -> Outcome:
        runner = await self._begin(agent)
        for step in self._steps:
            if isinstance(step, Event):
                await self._append(step)
            elif outcome := await self._replay(runner, step):
                return outcome
        if not any(isinstance(each, Turn) for each in self._steps):
            return Outcome(UNDECIDED, why="nobody has written to the agent in this session")
        return Outcome(SAME, unseen=tuple(self._unseen))

    async def _begin(self, agent: Any) -> Runner:
        """Makes the session as it was before its first event, and returns what runs the agent in it."""
        app = agent if isinstance(agent, App) else App(name="replay", root_agent=agent)
        plugins = [self, *(each for each in app.plugins if not _is_companion(each))]
        changed = {"plugins": plugins, "events_compaction_config": None, "context_cache_config": None}
        await self._sessions.create_session(
            app_name=self._app_name,
            user_id=self._user_id,
            session_id=self._session_id,
            state=copy.deepcopy(self._state),
        )
        return Runner(
            app=app.model_copy(update=changed),
            app_name=self._app_name,
            session_service=self._sessions,
            artifact_service=self._artifacts,
            memory_service=InMemoryMemoryService(),
        )

    async def _append(self, event: Event) -> None:
        """Writes an event that no agent made."""
        if self._between is None:
            self._between = await self._session()
        written = event.model_copy(deep=True)
        if before := written.actions.rewind_before_invocation_id:
            written.actions.rewind_before_invocation_id = self._invocations.get(before, before)
        await self._sessions.append_event(self._between, written)

    async def _session(self) -> Session:
        """Returns a copy of the session as it is now."""
        names = {"app_name": self._app_name, "user_id": self._user_id, "session_id": self._session_id}
        return cast(Session, await self._sessions.get_session(**names, config=None))

    async def _replay(self, runner: Runner, turn: Turn) -> Outcome | None:
        """Runs a turn again. Returns an outcome unless it is the same."""
        if turn.interrupted:
            return Outcome(UNDECIDED, turn.message.id, why="someone else wrote to the session while the agent ran")
        self._turn = turn
        # The recording doesn't say how many calls of a model its run was allowed.
        made, error = await self._made(runner, run_config=RunConfig(max_llm_calls=sys.maxsize - 1))
        if error and not self._end and not self._ended_early() and not turn.failure:
            made = made[:-1] if made and made[-1].error_code else made
            after = self._next(made)
            self._end = Outcome(DIVERGED, after.id, ERROR, after.author, "", _summary(after), error_at_bottom(error))
        self._note_ids(made)
        outcome = self._compared(made) or self._end
        return self._unless_unknown(outcome) if outcome and outcome.result != SAME else None

    async def _made(self, runner: Runner, **options: Any) -> tuple[list[Event], Exception | None]:
        """Sends the message of the turn. Returns the events that come of it, and the error that ended it."""
        message, made = self._turn.message, list[Event]()
        self._end = self._between = None
        self._counts.clear()
        running = runner.run_async(
            user_id=self._user_id,
            session_id=self._session_id,
            new_message=self._message(message),
            state_delta=copy.deepcopy(message.actions.state_delta) or None,
            **options,
        )
        try:
            async with aclosing(running):
                async for event in running:
                    if self._end:
                        break
                    if not event.partial:
                        made.append(event.model_copy(deep=True))
                        self._counts[event.author, event.branch] += 1
        except Exception as error:
            return made, error
        return made, None

    def _unless_unknown(self, outcome: Outcome) -> Outcome:
        """Returns the outcome; an undecided one if it is about a key whose value wasn't known."""
        if outcome.what in (STATE, ERROR):
            for key in sorted(self._unknown):
                if key in (outcome.expected or ()) or key in (outcome.got or ()):
                    why = f"the value of {key} before this session isn't known"
                    return replace(outcome, result=UNDECIDED, expected=None, got=None, why=why)
        return outcome

    def _next(self, made: Sequence[Event]) -> Event:
        """Returns the first recorded event that wasn't made, or the last one."""
        events = [self._turn.message, *self._turn.events]
        return events[min(len(made) + 1, len(events) - 1)]

    def _message(self, message: Event) -> types.Content:
        """Returns a message with today's ids of the questions that it answers."""
        content = cast(types.Content, message.content).model_copy(deep=True)
        for part in content.parts or []:
            if part.function_response and part.function_response.id:
                part.function_response.id = self._ids.get(part.function_response.id, part.function_response.id)
        return content

    def _note_ids(self, made: Sequence[Event]) -> None:
        """Notes which of today's ids stand for the recorded ones."""
        before, now = _questions(self._turn.events), _questions(made)
        for about, ids in before.items():
            self._ids |= dict(zip(ids, now.get(about, []), strict=False))
        for event in made[:1]:
            self._invocations.setdefault(self._turn.message.invocation_id, event.invocation_id)

    def _ended_early(self) -> bool:
        """Returns whether the recorded turn has no end: it was stopped, or failed."""
        events = self._turn.events
        return self._turn.was_stopped or not events or not events[-1].is_final_response()

    # --- In the place of models and tools ---

    async def before_agent_callback(self, *, agent: Any, callback_context: Any) -> None:
        """Ends the replay at an agent that would run code."""
        if not self._run_code and (code := _runs_code(agent)):
            raise self._stopped(
                Outcome(UNDECIDED, self._turn.message.id, agent=agent.name, why=f"{code} {ONLY_WITH_RUN_CODE}")
            )

    async def before_model_callback(self, *, callback_context: Any, llm_request: LlmRequest) -> None:
        """Gives the agent a model that says what was recorded."""
        context = callback_context._invocation_context
        agent = context.agent
        _asked.set((agent, context.branch))
        self._swap(agent, "model", _Recorded(model=llm_request.model or "replay", replay=self))

    def next_response(self, agent: Any, branch: str | None) -> LlmResponse:
        """Returns what a model said at this place. Ends the turn if the recording has nothing of that kind here."""
        author = str(agent.name)
        events, number = self._turn.said_by(author, branch), self._counts[author, branch]
        if number < len(events) and _is_said(events[number]):
            event = events[number]
            if event is events[-1] and (raised := _raised(event)):
                raise raised
            self._fed.add(event.id)
            noted = (event.custom_metadata or {}).get(fingerprints.NOTE)
            if noted and noted != fingerprints.of(agent):
                self._unseen[f"the instruction of {author}, which differs from the recorded one"] = None
            fields = {name: getattr(event, name) for name in LlmResponse.model_fields if name != "custom_metadata"}
            return LlmResponse(**copy.deepcopy(fields))
        asks = f"a call of the model of {author}"
        if number >= len(events) and self._turn.failure:  # google-adk says of another agent that it failed
            raise self._turn.failure
        if number < len(events):
            raise self._diverged(events[number].id, AGENT, author, _summary(events[number]), asks)
        if self._ended_early():
            raise self._stopped(Outcome(SAME))
        made = sum(count for (_author, each), count in self._counts.items() if each == branch)
        if rest := [each for each in self._turn.events if each.branch == branch][made:]:
            raise self._diverged(rest[0].id, AGENT, author, rest[0].author, asks)
        raise self._diverged(self._turn.events[-1].id, AGENT, author, "the end of the turn", asks)

    def _stopped(self, outcome: Outcome) -> _End:
        """Returns what ends the turn. The first outcome counts: a callback of the agent may catch this and continue."""
        self._end = self._end or outcome
        return _End()

    def _diverged(self, event: str, what: str, agent: str, expected: Any, got: Any, tool: str = "") -> _End:
        return self._stopped(Outcome(DIVERGED, event, what, agent, tool, expected, got))

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Has a tool return what was recorded."""
        call_id = tool_context.function_call_id or ""
        if type(tool) is BaseTool:  # google-adk puts one in the place of a tool that isn't there
            for _event, response in self._responses(call_id):
                if "no tool with that name" in str(response.response):  # it wasn't there before, either
                    return copy.deepcopy(response.response)
            raise self._diverged(
                self._event_of(call_id), TOOL, tool_context.agent_name, tool.name, "no such tool", tool.name
            )
        if not is_of_adk(tool):

            async def recorded(*, args: dict[str, Any], tool_context: ToolContext) -> Any:
                return self._result(tool, args, tool_context)

            self._swap(tool, "run_async", recorded)
        return None

    def _event_of(self, call_id: str) -> str:
        """Returns the id of the recorded event with a call."""
        calls = ((event.id, call.id) for event in self._turn.events for call in event.get_function_calls())
        return next((event_id for event_id, each in calls if each == call_id), self._turn.message.id)

    def _responses(self, call_id: str) -> list[tuple[Event, types.FunctionResponse]]:
        each = [(event, response) for event in self._turn.events for response in event.get_function_responses()]
        return [(event, response) for event, response in each if response.id == call_id]

    def _result(self, tool: BaseTool, args: dict[str, Any], context: ToolContext) -> Any:
        """Returns what a tool returned, and does what it did to state and actions. Ends the turn if that wasn't recorded, or
        if the tool wouldn't take these arguments."""
        call_id, agent = context.function_call_id or "", context.agent_name
        call = self._event_of(call_id)
        if problem := _misfit(tool, args):
            raise self._diverged(call, ARGUMENTS, agent, args, problem, tool.name)
        responses = [each for each in self._responses(call_id) if f"{call_id} {each[0].id}" not in self._fed]
        if not responses and self._turn.failure:
            raise self._turn.failure
        if not responses and self._ended_early():
            raise self._stopped(Outcome(SAME))
        if not responses and tool.is_long_running:
            return None
        if not responses:
            raise self._stopped(
                Outcome(UNDECIDED, call, agent=agent, tool=tool.name, why="the result of this call isn't recorded")
            )
        event, response = responses[0]
        if context.tool_confirmation is None and "requires confirmation" in str(response.response):
            # google-adk asked for it before it ran the tool.
            raise self._diverged(event.id, TOOL, agent, "a confirmation", "no confirmation", tool.name)
        self._fed |= {f"{call_id} {event.id}", event.id}
        self._do_again(event.actions, context, call_id, is_first=event.id not in self._done)
        self._done.add(event.id)
        return returned(response)

    def _do_again(self, recorded: EventActions, context: ToolContext, call_id: str, *, is_first: bool) -> None:
        """Does what a tool did beside returning something. What several tools did is recorded together, and done once."""
        actions = context.actions
        if is_first:
            for key, value in copy.deepcopy(recorded.state_delta).items():
                if key not in actions.state_delta and key not in self._of_callbacks:  # else a callback writes it
                    context.state[key] = value
            actions.artifact_delta |= recorded.artifact_delta
            for name in ("escalate", "skip_summarization", "transfer_to_agent"):
                if getattr(recorded, name):
                    setattr(actions, name, getattr(recorded, name))
        if asked := recorded.requested_tool_confirmations.get(call_id):
            context.request_confirmation(hint=asked.hint, payload=copy.deepcopy(asked.payload))
        if config := recorded.requested_auth_configs.get(call_id):
            context.request_credential(config.model_copy(deep=True))

    def _swap(self, thing: Any, name: str, value: Any) -> None:
        """Sets an attribute until the replay ends."""
        self._swapped.setdefault((id(thing), name), (thing, vars(thing).get(name, ABSENT)))
        setattr(thing, name, value)

    def _swap_tools(self, root: Any) -> None:
        """Puts tools of the recorded names in the place of toolsets."""
        called: dict[str, dict[str, None]] = defaultdict(dict)
        for turn in self._steps:
            for event in turn.events if isinstance(turn, Turn) else ():
                called[event.author] |= dict.fromkeys(call.name or "" for call in event.get_function_calls())
        for agent in tree(root):
            toolsets = [each for each in getattr(agent, "tools", ()) if isinstance(each, BaseToolset)]
            if toolsets:
                plain = [each for each in agent.tools if not isinstance(each, BaseToolset)]
                known = {getattr(each, "name", "") or getattr(each, "__name__", "") for each in plain}
                names = [each for each in called[agent.name] if each not in known and each not in _ASKING]
                self._swap(agent, "tools", [*plain, _Tools([each for each in names if each != "transfer_to_agent"])])
                for each in toolsets:
                    self._unseen[f"the tools of {type(each).__name__} of {agent.name}"] = None

    # --- The comparison ---

    def _compared(self, made: Sequence[Event]) -> Outcome | None:
        """Returns the first difference between the recorded events of the turn and those made today, by branch."""
        was, now = _by_branch(self._turn.events), _by_branch(made)
        differences: list[tuple[float, Outcome]] = []
        for branch in {**was, **now}:
            for one, other in zip_longest(was.get(branch, []), now.get(branch, [])):
                if other is None and self._end:
                    if self._end.result == SAME:
                        why = "the run ended early, and not everything before that can be made again"
                        differences.append((one.timestamp, Outcome(UNDECIDED, one.id, agent=one.author, why=why)))
                    break
                if outcome := self._difference(one, other):
                    differences.append((one.timestamp if one else inf, outcome))
                    break
        return min(differences, key=lambda each: each[0])[1] if differences else None

    def _difference(self, was: Event | None, now: Event | None) -> Outcome | None:
        """Returns the difference between a recorded event and that of today; None if there is none."""
        if was is None and self._ended_early():
            return None
        if was is None or now is None:
            event = cast(Event, was or now)
            last = was or next(reversed(self._turn.events), self._turn.message)
            tool = next((call.name or "" for call in event.get_function_calls()), "")
            summaries = (was and _summary(was), now and _summary(now))
            return Outcome(DIVERGED, last.id, _kind_of(event), event.author, tool, *summaries)
        before, after = _comparable(was), _comparable(now)
        for what, names in _COMPARED:
            for name in names:
                if not _is_same(before[name], after[name]):
                    return self._outcome(what, name, was, before.get(name), after.get(name))
        return None

    def _outcome(self, what: str, name: str, was: Event, before: Any, after: Any) -> Outcome:
        if name in ("content", "calls", "arguments", "responses", "error") and was.id in self._fed:
            callback = "after_tool_callback" if name == "responses" else "after_model_callback"
            why = f"the {callback} of {was.author} changes what it gets, and the recording only has the result"
            return Outcome(UNDECIDED, was.id, what, was.author, why=why)
        if self._artifacts.missing:
            why = f"the agent reads the artifact {self._artifacts.missing[0]}, which the recording doesn't have"
            return Outcome(UNDECIDED, was.id, what, was.author, why=why)
        if what == STATE and was.id in self._done:
            self._doubtful |= {key for key in before if key in after and not _is_same(before[key], after[key])}
        tools = [each.name or "" for each in was.get_function_calls()]
        tools += [each.name or "" for each in was.get_function_responses()]
        tool = tools[0] if len(tools) == 1 else ""
        if isinstance(before, dict) and isinstance(after, dict):
            keys = [key for key in {**before, **after} if not _is_same(before.get(key, ABSENT), after.get(key, ABSENT))]
            before, after = ({key: each[key] for key in keys if key in each} for each in (before, after))
        return Outcome(DIVERGED, was.id, what, was.author, tool, before, after)


ABSENT: Final = object()


def _is_same(one: Any, other: Any) -> bool:
    """Compares JSON, in which true isn't 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def error_at_bottom(error: BaseException) -> str:
    """Returns the error that is at the bottom of what google-adk raises."""
    while isinstance(cause := getattr(error, "error", None), Exception):
        error = cause
    return f"{type(error).__name__}: {error}"


def tree(root: Any) -> Iterator[Any]:
    """Yields an agent or a node, and all below it."""
    yield root
    graph = getattr(root, "graph", None)
    for each in [*getattr(root, "sub_agents", ()), *(graph.nodes if graph else ())]:
        yield from tree(each)


ONLY_WITH_RUN_CODE: Final = "runs code of its own, which only run_code allows"


def is_held_back(node: Any) -> bool:
    """Returns whether nothing of an agent or a node runs unless a plugin lets it: functions of a workflow ask no plugin."""
    if isinstance(node, BaseAgent):
        return type(node).run_async.__module__.startswith("google.adk.")
    return type(node).__module__.startswith("google.adk.workflow.") and type(node).__name__ in _GRAPHS


_GRAPHS: Final = {"Workflow", "JoinNode", "BaseNode", "_StartNode", "StartNode"}


def _runs_code(agent: Any) -> str:
    """Returns the name of what an agent would run, "" if only models and tools do its work."""
    executor = getattr(agent, "code_executor", None)
    if executor and type(executor).__name__ != "BuiltInCodeExecutor":  # the model runs that one
        return f"the code executor of {agent.name}"
    is_known = isinstance(agent, _AGENTS) and type(agent)._run_async_impl.__module__.startswith("google.adk.agents.")
    return "" if is_known else str(agent.name)


def _is_companion(plugin: BasePlugin) -> bool:
    return f"{type(plugin).__module__}.{type(plugin).__name__}" == "sessions_app.adk.companion.Companion"


def is_of_adk(tool: BaseTool) -> bool:
    """Returns whether a tool only steers agents, and so runs as it is."""
    if isinstance(tool, FunctionTool):
        is_input = tool.name == _INPUT and tool.func.__module__.startswith("google.adk.")
        return is_input or tool.func in (exit_loop, transfer_to_agent)
    return type(tool).__name__ in _STEERING and type(tool).__module__.startswith("google.adk.")


_STEERING: Final = {"SetModelResponseTool", "NodeTool", "_SingleTurnAgentTool", "RequestTaskTool", "FinishTaskTool"}


def _is_said(event: Event) -> bool:
    """Returns whether a model can have said this."""
    if event.get_function_responses():
        return False
    calls = event.get_function_calls()
    if calls and all(call.name in (_CONFIRMATION, _CREDENTIAL) for call in calls):
        return False
    return bool(event.content and event.content.parts) or bool(event.error_code)


def _misfit(tool: BaseTool, args: Mapping[str, Any]) -> str:
    """Returns why a tool doesn't take these arguments; "" if it does."""
    if isinstance(tool, FunctionTool):
        try:
            parameters = inspect.signature(tool.func).parameters.values()
        except (TypeError, ValueError):
            return ""
        named = {each.name: each for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)}
        needed = [name for name, each in named.items() if each.default is each.empty]
        ignored = {*getattr(tool, "_ignore_params", ()), "tool_context", "input_stream"}
        takes_all = any(each.kind is each.VAR_KEYWORD for each in parameters)
    else:
        declared = tool._get_declaration()
        schema = (declared and (declared.parameters_json_schema or declared.parameters)) or {}
        schema = schema.model_dump(exclude_none=True) if isinstance(schema, types.Schema) else schema
        named, needed, ignored = schema.get("properties") or {}, schema.get("required") or [], set()
        takes_all = not named
    missing = [name for name in needed if name not in args and name not in ignored]
    unknown = [] if takes_all else [name for name in args if name not in named]
    problems = [f"{name} is missing" for name in missing] + [f"{name} is unknown" for name in unknown]
    return ", ".join(problems)


def returned(response: types.FunctionResponse) -> Any:
    """Returns what a tool returned, as far as its response shows it."""
    value: Any = copy.deepcopy(response.response or {})
    for number, part in enumerate(response.parts or ()):
        if part.inline_data and part.inline_data.data:
            blob = types.Blob(data=part.inline_data.data, mime_type=part.inline_data.mime_type)
            value[f"part {number}"] = types.Part(inline_data=blob)
        elif part.file_data:
            data = types.FileData(file_uri=part.file_data.file_uri, mime_type=part.file_data.mime_type)
            value[f"part {number}"] = types.Part(file_data=data)
    return value


def _questions(events: Sequence[Event]) -> dict[tuple[str, str], list[str]]:
    """Returns the ids of the calls by which google-adk asks, by what they ask about."""
    asked: dict[tuple[str, str], list[str]] = defaultdict(list)
    for event in events:
        for call in event.get_function_calls():
            if call.name in _ASKING and call.id:
                asked[call.name, _about(call)].append(call.id)
    return asked


def _about(call: types.FunctionCall) -> str:
    """Returns what a call asks about; "" if that is new each time."""
    args = call.args or {}
    if call.name == _CONFIRMATION:
        original = args.get("originalFunctionCall")
        return str(original.get("id", "")) if isinstance(original, Mapping) else ""
    return str(args.get("functionCallId", "")) if call.name == _CREDENTIAL else str(args.get("message", ""))


def _by_branch(events: Sequence[Event]) -> dict[str | None, list[Event]]:
    branches: dict[str | None, list[Event]] = defaultdict(list)
    for event in sorted(events, key=lambda each: each.timestamp):
        branches[event.branch].append(event)
    return branches


_COMPARED: Final = (
    (AGENT, ("author",)),
    (TRANSFER, ("transfer",)),
    (TOOL, ("calls",)),
    (ARGUMENTS, ("arguments",)),
    (ERROR, ("error",)),
    (TOOL, ("asked", "responses")),
    (STATE, ("state",)),
    (TEXT, ("content", "output")),
    (AGENT, ("escalate", "path", "artifacts")),
)


def _comparable(event: Event) -> dict[str, Any]:
    """Returns what is compared of an event, as JSON: ids that are new each time are what they ask about."""
    calls, responses = event.get_function_calls(), event.get_function_responses()
    actions = event.actions.model_dump(mode="json", exclude_none=True)
    parts = event.content.model_dump(mode="json", exclude_none=True).get("parts", []) if event.content else []
    said = [{name: each for name, each in part.items() if name != "thought_signature"} for part in parts]
    said = [part for part in said if "function_call" not in part and "function_response" not in part]
    return {
        "author": event.author,
        "transfer": event.actions.transfer_to_agent,
        "calls": [call.name for call in calls],
        "arguments": [_arguments(call) for call in calls],
        "error": event.error_code and [event.error_code, event.error_message],
        "asked": [*actions.get("requested_tool_confirmations", {}), *actions.get("requested_auth_configs", {})],
        "responses": [
            {"id": each.id, "name": each.name, **each.model_dump(mode="json", include={"response", "parts"})}
            for each in responses
        ],
        "state": actions.get("state_delta", {}),
        "content": said,
        "output": event.model_dump(mode="json", include={"output"}).get("output"),
        "escalate": bool(event.actions.escalate),
        "path": event.node_info.path,
        "artifacts": sorted(event.actions.artifact_delta),
    }


def _arguments(call: types.FunctionCall) -> Any:
    args = call.args or {}
    if call.name == _INPUT:
        return {name: value for name, value in args.items() if name != "interruptId"}
    return [_about(call), args.get("toolConfirmation")] if call.name in _ASKING else [args, call.id]


def _summary(event: Event) -> Any:
    """Returns what an event says, in short."""
    calls = {call.name or "": call.args or {} for call in event.get_function_calls()}
    text = "".join(part.text or "" for part in event.content.parts or []) if event.content else ""
    return (
        calls
        or text
        or event.actions.state_delta
        or event.actions.transfer_to_agent
        or event.error_message
        or "nothing"
    )


def _kind_of(event: Event) -> str:
    if event.actions.transfer_to_agent:
        return TRANSFER
    if event.error_code:
        return ERROR
    if event.get_function_calls() or event.get_function_responses():
        return TOOL
    return TEXT if event.content else STATE if event.actions.state_delta else AGENT
