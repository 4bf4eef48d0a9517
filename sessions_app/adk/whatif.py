"""Runs a recorded session again from one of its events, with something changed: the real agent continues there.

    change = {"at": "7ea3454f", "edit": {…}, "models": {"booking": "gemini-2.5-pro"}}
    ended = await WhatIf(recording, change, ask=ask, say=say).run_on(agent)

What comes before that event is what was recorded. If the event is in the middle of a turn, the agent runs from the turn's
message on, but its models and tools return what was recorded, as in a replay. After the event its models are called. Its
tools aren't run: a call that the recording has is answered from there, and for any other call `ask` decides.

Nothing of this is written anywhere: the session is in the memory of this process.
"""

import asyncio
import copy
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any, cast

from google.adk.apps import App
from google.adk.events import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.models.registry import LLMRegistry
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService, Session
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from .replay import ABSENT, ONLY_WITH_RUN_CODE, Replay, Turn, error_at_bottom, is_held_back, is_of_adk, returned, tree

RESULT, RUN, FAIL = "result", "run", "fail"  # what `ask` may answer with, each with its value

Ask = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class Impossible(Exception):
    """The agent can't continue at this event, and why."""


class NeedsCode(Impossible):
    """It can with `run_code`."""


class ToolFailed(Exception):
    """A tool that wasn't run, because it was to fail."""


class _Sessions(InMemorySessionService):
    """Keeps the session, and tells what is appended."""

    appended: Callable[[Session, Event], Awaitable[None]] | None = None

    async def append_event(self, session: Session, event: Event) -> Event:
        appended = await super().append_event(session, event)
        if self.appended and not event.partial:
            await self.appended(session, event)
        return appended


class WhatIf(Replay):
    """An ADK plugin that continues a recorded session at an event. Use it once, in a process that ends afterwards: what it
    changes in the agents stays.

    `change` has the event, `at`; and `message`, the text that the user says in the first turn that the agent runs;
    `results`, the responses of tools by the id of their call; `edit`, an event with a state delta that comes after `at`;
    `instructions` and `models` by the name of the agent; and with `later`, the later messages are sent, too.

    `say` gets each event from the turn's message on. `ask` gets a call that the recording doesn't know (`agent`, `tool`,
    `args`), and answers with `result`, `run` or `fail`. Raises Impossible if nothing comes after the event.
    """

    def __init__(
        self,
        recording: str | bytes | Mapping[str, Any],
        change: Mapping[str, Any],
        *,
        ask: Ask,
        say: Callable[[Event], None],
    ) -> None:
        super().__init__(recording)
        self._change, self._ask, self._say = change, ask, say
        self._sessions = _Sessions()
        self._used: set[str] = set()  # ids of recorded calls whose response was given
        self._asking = asyncio.Lock()
        self._first, self._recorded = self._turns()
        self._whole = self._turn
        self._edit_after: int | None = None  # the edit follows when the agents have made this many events

    @property
    def begins(self) -> str:
        """Returns the id of the recorded message from which the agent runs, "" for a new one."""
        message = self._first[0].message
        return message.id if message in self._events else ""

    async def run_on(self, agent: Any, *, run_code: bool = False) -> dict[str, Any]:
        """Runs the agent, and returns how that ended: `error`, "" if there was none; `unsent`, the number of later
        messages and answers that weren't sent, and the `state`. Raises Impossible."""
        root = agent.root_agent if isinstance(agent, App) else agent
        if code := [] if run_code else [str(each.name) for each in tree(root) if not is_held_back(each)]:
            raise NeedsCode(f"{code[0]} {ONLY_WITH_RUN_CODE}")
        self._run_code = run_code
        self._prepare(root)
        turns, fed = self._first, self._recorded
        runner = await self._begin(agent)
        for event in self._events:
            if event is turns[0].message:
                break
            await self._append(event)
        cast(_Sessions, self._sessions).appended = self._appended
        error, sent = "", 0
        for number, turn in enumerate(turns):
            if number and await self._is_unasked(turn):
                continue
            sent += 1
            if number == 0 and fed is None and self._change.get("edit"):
                await self._append(self._edit())
            self._whole, self._turn = turn, Turn(turn.message, fed or [] if number == 0 else [])
            self._edit_after = len(fed) if number == 0 and fed is not None and self._change.get("edit") else None
            error = await self._run_turn(runner)
            if error:
                break
        session = await self._session()
        return {"error": error, "unsent": len(turns) - sent, "state": session.state}

    # --- Where it continues ---

    def _turns(self) -> tuple[list[Turn], list[Event] | None]:
        """Returns the turns to run; and of the first one the events that come from the recording, None if the event is
        before it."""
        turns = [each for each in self._steps if isinstance(each, Turn)]
        at = next((each for each in self._events if each.id == self._change["at"]), None)
        if at is None:
            raise Impossible("the session doesn't have this event any longer")
        inside = next((each for each in turns if at is each.message or at in each.events), None)
        fed: list[Event] | None = None
        if inside and not (at is not inside.message and at is inside.events[-1] and _ends(at)):
            turns = turns[turns.index(inside) :]
            fed = self._fed_until(inside, at)
        else:
            later = [each for each in turns if self._events.index(each.message) > self._events.index(at)]
            message = self._change.get("message")
            new = Event(author="user", content=types.Content(role="user", parts=[types.Part(text=message)]))
            turns = later or ([Turn(new)] if message else [])
        if not turns:
            raise Impossible("nothing comes after this event: say what the user writes next")
        if message := self._change.get("message"):
            turns[0].message.content = _said_instead(cast(types.Content, turns[0].message.content), message)
        if not self._change.get("later"):
            turns = [turns[0], *takewhile(_is_answer, turns[1:])]
        return turns, fed

    def _fed_until(self, turn: Turn, at: Event) -> list[Event]:
        """Returns the events of a turn up to one of them, without the error that ended it: it is tried again."""
        if at is turn.message:
            return []
        if turn.interrupted:
            raise Impossible("someone else wrote to the session while the agent ran: start at the user's message")
        fed = copy.deepcopy(turn.events[: turn.events.index(at) + 1])
        while fed and fed[-1].error_code and not fed[-1].content:
            fed.pop()
        results = self._change.get("results", {})
        for event in fed:
            for response in event.get_function_responses():
                if response.id in results:
                    response.response = copy.deepcopy(results[response.id])
        return fed

    def _prepare(self, root: Any) -> None:
        agents = {str(each.name): each for each in tree(root)}
        for name, text in self._change.get("instructions", {}).items():
            if not hasattr(agents.get(name), "instruction"):
                raise Impossible(f"today there's no agent {name} with an instruction")
            agents[name].instruction = text
        for name, model in self._change.get("models", {}).items():
            if name not in agents:
                raise Impossible(f"today there's no agent {name}")
            try:
                LLMRegistry.new_llm(model)
            except Exception as error:  # whatever a kind of model raises
                raise Impossible(str(error)) from error

    def _edit(self) -> Event:
        return Event.model_validate_json(json.dumps(self._change["edit"]))

    # --- The run ---

    async def _run_turn(self, runner: Runner) -> str:
        """Runs a turn. Returns the error that ended it, "" if there was none."""
        made, error = await self._made(runner)
        if self._end and self._end.why.endswith(ONLY_WITH_RUN_CODE):
            raise NeedsCode(self._end.why)
        if self._end:
            return f"the agent of today doesn't get to this event: {self._end}"
        before, now = _calls_in(self._whole.events), _calls_in(made)
        for what, ids in before.items():
            self._ids |= dict(zip(ids, now.get(what, []), strict=False))
        return error_at_bottom(error) if error else ""

    async def _is_unasked(self, turn: Turn) -> bool:
        """Returns whether a message answers a call that wasn't made here."""
        calls = {call.id for event in (await self._session()).events for call in event.get_function_calls()}
        answers = [part.function_response for part in self._message(turn.message).parts or [] if part.function_response]
        return any(each.id not in calls for each in answers)

    async def _appended(self, session: Session, event: Event) -> None:
        """Says what was appended, and appends the edit where it belongs."""
        self._say(event)
        if self._edit_after is None or event.actions.rewind_before_invocation_id:
            return
        if event.author == "user" and self._edit_after > 0:
            return
        made = sum(self._counts.values()) + (event.author != "user")
        if made >= self._edit_after:
            self._edit_after = None
            await self._sessions.append_event(session, self._edit())

    # --- In the place of models and tools ---

    async def before_model_callback(self, *, callback_context: Any, llm_request: LlmRequest) -> None:
        """Gives the agent what was recorded, and after the event its own model, or another one."""
        context = callback_context._invocation_context
        agent = context.agent
        if self._counts[agent.name, context.branch] < len(self._turn.said_by(agent.name, context.branch)):
            await super().before_model_callback(callback_context=callback_context, llm_request=llm_request)
            return
        if (own := self._own(agent, "model")) is not ABSENT:
            agent.model = own
        if name := self._change.get("models", {}).get(agent.name):
            agent.model = name
        llm_request.model = agent.canonical_model.model

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Has a tool return what was recorded, or what is decided."""
        if self._responses(tool_context.function_call_id or ""):
            recorded = await super().before_tool_callback(tool=tool, tool_args=tool_args, tool_context=tool_context)
            if recorded is not None:
                return recorded
        if type(tool) is not BaseTool and not is_of_adk(tool):

            async def answered(*, args: dict[str, Any], tool_context: ToolContext) -> Any:
                if self._responses(tool_context.function_call_id or ""):
                    return self._result(tool, args, tool_context)
                return await self._answer(tool, args, tool_context)

            self._swap(tool, "run_async", answered)
        return None

    async def _answer(self, tool: BaseTool, args: dict[str, Any], context: ToolContext) -> Any:
        """Returns the result of a call that comes after the event."""
        if await tool.check_require_confirmation(args, context) and not getattr(
            context.tool_confirmation, "confirmed", False
        ):
            return await self._really(tool, args, context)  # which asks for the confirmation, and runs nothing
        if known := self._known(tool.name, args):
            event, response = known
            alone = len(event.get_function_responses()) == 1
            self._do_again(event.actions, context, response.id or "", is_first=alone or event.id not in self._done)
            self._done.add(event.id)
            return returned(response)
        async with self._asking:
            answer = await self._ask({"agent": context.agent_name, "tool": tool.name, "args": args})
        if RUN in answer:
            return await self._really(tool, args, context)
        if FAIL in answer:
            raise ToolFailed(answer[FAIL])
        return answer[RESULT]

    async def _really(self, tool: BaseTool, args: dict[str, Any], context: ToolContext) -> Any:
        own = self._own(tool, "run_async")
        if own is ABSENT:
            return await type(tool).run_async(tool, args=args, tool_context=context)
        return await own(args=args, tool_context=context)

    def _own(self, thing: Any, name: str) -> Any:
        """Returns an attribute as it was before it was swapped; ABSENT if the thing itself had none, or it never was."""
        return self._swapped.get((id(thing), name), (thing, ABSENT))[1]

    def _known(self, name: str, args: Mapping[str, Any]) -> tuple[Event, types.FunctionResponse] | None:
        """Returns the recorded response to a call of a tool with these arguments: the next one that wasn't given yet, or
        else the last one."""
        responses = [(event, each) for event in self._events for each in event.get_function_responses()]
        given = [each for each in responses if "requires confirmation" not in str(each[1].response)]
        by_id = {response.id: (event, response) for event, response in given}
        known = [by_id[call_id] for call_id in self._calls(name, args) if call_id in by_id]
        answer = next((each for each in known if each[1].id not in self._used), known[-1] if known else None)
        if answer:
            self._used.add(answer[1].id or "")
        return answer

    def _calls(self, name: str, args: Mapping[str, Any]) -> Sequence[str]:
        """Returns the ids of the recorded calls of a tool with these arguments, those after the event first."""
        before: list[str] = []
        after: list[str] = []
        ids = before
        for event in self._events:
            for call in event.get_function_calls():
                if call.name == name and _key(call.args) == _key(args):
                    ids.append(call.id or "")
            if event.id == self._change["at"]:
                ids = after
        return [*after, *before]


def _ends(event: Event) -> bool:
    """Returns whether an event ends its turn: what comes after it is the user's next message."""
    return event.is_final_response() and not event.error_code


def _is_answer(turn: Turn) -> bool:
    """Returns whether a message answers calls, and so continues the turn before it."""
    parts = turn.message.content.parts or [] if turn.message.content else []
    return any(part.function_response for part in parts) and not any(part.text for part in parts)


def _said_instead(content: types.Content, text: str) -> types.Content:
    """Returns a message with another text. Its files stay."""
    files = [each for each in content.parts or [] if each.text is None]
    return types.Content(role="user", parts=[types.Part(text=text), *files])


def _calls_in(events: Sequence[Event]) -> dict[str, list[str]]:
    """Returns the ids of calls by what they are. What asks about another call is as that one, whose id is new each time."""
    calls = [call for event in events for call in event.get_function_calls()]
    by_id = {call.id: call for call in calls}
    ids: dict[str, list[str]] = defaultdict(list)
    for call in calls:
        args = dict(call.args or {})
        if isinstance(original := args.get("originalFunctionCall"), Mapping):
            args = {"of": [original.get("name"), original.get("args")]}
        elif about := by_id.get(str(args.get("functionCallId"))):
            args = {"of": [about.name, about.args]}
        args.pop("interruptId", None)
        ids[f"{call.name} {_key(args)}"].append(call.id or "")
    return ids


def _key(args: Mapping[str, Any] | None) -> str:
    return json.dumps(args or {}, sort_keys=True, default=str)
