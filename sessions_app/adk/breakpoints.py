"""Pauses an agent before it calls a model or a tool, where someone set a breakpoint in adkweb.

Before each such step, adkweb is asked whether the agent pauses there. If so, it gets the request or the arguments, and the
step waits until a person decides, or the time is over. Once adkweb has said that no breakpoint is about the run, it isn't
asked again until it tells of a newer one. Nothing here blocks the event loop, and whatever goes wrong, the
agent goes on as if there were no breakpoint. This file imports the standard library and google-adk only: launcher.py loads
it in the interpreter of the agents.
"""

import asyncio
import json
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.genai import types

ASK_SECONDS: Final = 3.0  # that adkweb may take to say whether the agent pauses
REST_SECONDS: Final = 15.0  # in which adkweb isn't asked, once it didn't answer
TEXT_LENGTH: Final = 50_000  # characters of an instruction or a message
PART_LENGTH: Final = 5_000  # of any other part of a conversation
MOST_LENGTH: Final = 100_000  # of a conversation, of arguments, and of the values of state
MOST_TOOLS: Final = 200
MOST_RUNS: Final = 1_000

Step = dict[str, Any]
Decision = dict[str, Any]


class Channel:
    """Carries what a process asks to adkweb, and decisions back. A subclass says how to `send`. `newest` is the number of
    the newest breakpoint that adkweb has told of."""

    newest: int | None = None

    def __init__(self) -> None:
        self._awaited: dict[str, tuple[asyncio.AbstractEventLoop, asyncio.Future[Decision], str]] = {}

    def reaches(self, invocation: str) -> bool:
        """Returns whether adkweb is to be asked about a run."""
        raise NotImplementedError

    async def send(self, step: Step) -> dict[str, Any]:
        """Returns what adkweb answers. Raises whatever goes wrong."""
        raise NotImplementedError

    def awaits(self, number: str, invocation: str = "") -> "asyncio.Future[Decision]":
        """Returns what will be the answer, or the decision, with a number."""
        loop = asyncio.get_running_loop()
        self._awaited[number] = loop, loop.create_future(), invocation
        return self._awaited[number][1]

    def forget(self, number: str) -> None:
        """Awaits it no longer."""
        self._awaited.pop(number, None)

    def decide(self, number: str, decision: Decision) -> None:
        """Takes in an answer or a decision, from any thread."""
        loop, future, _invocation = self._awaited.get(number, (None, None, ""))
        if loop and future:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(lambda: None if future.done() else future.set_result(decision))

    def pauses(self, invocation: str = "") -> list[str]:
        """Returns the numbers of the pauses of an invocation, or of all."""
        return [number for number, each in [*self._awaited.items()] if each[2] and invocation in ("", each[2])]


@dataclass(eq=False)
class _Run:
    """An invocation: whether it pauses at its next step, the keys of state that adkweb wants to know, and the breakpoints
    whose condition was met at the last step. One of its steps pauses at a time. It isn't asked about until `rests_until`,
    nor while the newest breakpoint is that in `none`: then none is about it."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    steps: bool = False
    keys: list[str] = field(default_factory=list)
    met: list[int] = field(default_factory=list)
    changed: dict[str, str] = field(default_factory=dict)  # by agent: the pause in which a request was changed
    rests_until: float = 0.0
    none: int | None = None


class Breakpoints(BasePlugin):
    """An ADK plugin that pauses agents where adkweb says so, for as long as it says so at most."""

    def __init__(self, channel: Channel, name: str = "adkweb breakpoints") -> None:
        super().__init__(name=name)
        self.channel = channel
        self._runs: dict[str, _Run] = {}

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> LlmResponse | None:
        """Pauses before a model is called, and changes the request as someone decided."""
        about = ("model", str(llm_request.model or ""), "")
        decision = await self._decision(callback_context, about, lambda: request_of(llm_request))
        with suppress(Exception):
            if decision.get("go") == "stop":
                return LlmResponse(error_code="INVOCATION_ABORTED", error_message=decision.get("why"))
            if change(llm_request, decision):
                run = self._run(callback_context.invocation_id)
                run.changed[callback_context.agent_name] = decision["pause"]
        return None

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
        """Notes in the event which pause changed its request."""
        with suppress(Exception):
            run = self._runs.get(callback_context.invocation_id)
            if run and (pause := run.changed.get(callback_context.agent_name)):
                llm_response.custom_metadata = {**(llm_response.custom_metadata or {}), "adkweb_pause": pause}
                if not llm_response.partial:
                    del run.changed[callback_context.agent_name]

    async def before_tool_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any
    ) -> dict[str, Any] | None:
        """Pauses before a tool is called, and changes its arguments as someone decided; or doesn't call it, and returns what
        someone gave as its result."""
        about = ("tool", str(tool.name), str(tool_context.function_call_id or ""))
        decision = await self._decision(tool_context, about, lambda: arguments_of(tool, tool_args))
        with suppress(Exception):
            if decision.get("go") in ("stop", "refuse"):
                return {"error": str(decision.get("why") or "The run was stopped before this tool was called.")}
            if isinstance(result := decision.get("result"), dict):
                return result
            if isinstance(args := decision.get("args"), dict):
                tool_args.clear()
                tool_args.update(args)
        return None

    async def after_run_callback(self, *, invocation_context: Any) -> None:
        """Forgets a run."""
        self._runs.pop(invocation_context.invocation_id, None)

    async def on_run_error_callback(self, *, invocation_context: Any, **_: Any) -> None:
        """Forgets a run that failed."""
        self._runs.pop(invocation_context.invocation_id, None)

    def _run(self, invocation: str) -> _Run:
        if invocation not in self._runs and len(self._runs) >= MOST_RUNS:
            del self._runs[next(iter(self._runs))]
        return self._runs.setdefault(invocation, _Run())

    async def _decision(self, context: Any, about: tuple[str, str, str], describe: Callable[[], Any]) -> Decision:
        """Returns the decision about a step; an empty one if the agent doesn't pause there, or anything goes wrong."""
        try:
            if not self.channel.reaches(context.invocation_id):
                return {}
            run = self._run(context.invocation_id)
            if run.none is not None and run.none == self.channel.newest:
                return {}
            async with run.lock:
                if time.monotonic() < run.rests_until or getattr(context, "is_aborted", False) is True:
                    return {}
                try:
                    return await self._pause(run, context, about, describe)
                except Exception:  # adkweb is away, or says something strange
                    run.rests_until = time.monotonic() + REST_SECONDS
        except Exception:  # noqa: S110 - whatever it is, the agent goes on
            pass
        return {}

    async def _pause(
        self, run: _Run, context: Any, about: tuple[str, str, str], describe: Callable[[], Any]
    ) -> Decision:
        session = context.session
        step = {
            "invocation": context.invocation_id,
            "app_name": session.app_name,
            "user_id": session.user_id,
            "session_id": session.id,
            "agent": context.agent_name,
            **dict(zip(("kind", "name", "call"), about, strict=True)),
            "steps": run.steps,
            "met": run.met,
            "keys": run.keys,
            "state": state_of(context, run.keys),
        }
        answer = await self._ask(step)
        if keys := answer.get("keys"):
            run.keys = keys
            step |= {"keys": keys, "state": state_of(context, keys)}
            answer = await self._ask(step)
        run.met, run.none = answer.get("met", []), answer.get("none")
        if not answer.get("pauses"):
            return {}
        run.steps = False
        decision = await self._wait(step, describe)
        run.steps = decision.get("go") == "step"
        return decision

    async def _wait(self, step: Step, describe: Callable[[], Any]) -> Decision:
        """Waits for a person's decision, or until the time is over. Then adkweb says what that means; if it's away, a tool
        that needs a second person is refused."""
        number = uuid.uuid4().hex
        awaited = self.channel.awaits(number, step["invocation"])
        try:
            answer = await self._ask({**step, "pause": number, "request": describe()})
            if not (seconds := answer.get("seconds")):
                return {}
            await asyncio.wait({awaited}, timeout=seconds)
            decision: Decision = {"go": "away"}
            if awaited.done():
                decision = awaited.result()
            else:
                with suppress(Exception):
                    decision = (await self._ask({**step, "pause": number, "over": True}))["decision"]
            if decision.get("go") == "away" and (why := answer.get("refusal")):
                return {"go": "refuse", "why": why}
            return {**decision, "pause": number}
        finally:
            self.channel.forget(number)

    async def _ask(self, step: Step) -> dict[str, Any]:
        return await asyncio.wait_for(self.channel.send(step), ASK_SECONDS)


# --- What a step is about ---------------------------------------------------------------------------------------------


def state_of(context: Any, keys: list[str]) -> dict[str, Any]:
    """Returns the values of some keys of the merged state, as far as they are JSON and not too long."""
    if not keys:
        return {}
    state = context.state.to_dict() if hasattr(context.state, "to_dict") else dict(context.state)
    some = {}
    for key in keys:
        with suppress(TypeError, ValueError, RecursionError):
            if key in state and len(json.dumps(state[key], allow_nan=False)) <= MOST_LENGTH:
                some[key] = state[key]
    return some


def arguments_of(tool: Any, args: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a call. Such that are too long, or no JSON, are described, and can't be changed."""
    with suppress(TypeError, ValueError, RecursionError):
        if len(json.dumps(args, allow_nan=False)) <= MOST_LENGTH:
            return {"args": args, "description": str(tool.description or "")[:PART_LENGTH]}
    return {"cut": _cut(repr(args), PART_LENGTH)}


def request_of(request: Any) -> dict[str, Any]:
    """Returns what a model is asked: its instruction, its tools, and the end of the conversation. `instruction` and
    `message`, the last text of the user, are as long as they are, or None if they can't be changed."""
    instruction = request.config.system_instruction
    contents, length = [], 0
    for content in reversed(request.contents):
        parts = [_part(part) for part in content.parts or []]
        length += len(json.dumps(parts, default=str))
        if length > MOST_LENGTH:
            break
        contents.append({"role": content.role, "parts": parts})
    text = _last_text(request.contents)[1]
    return {
        "instruction": instruction if isinstance(instruction, str) and len(instruction) <= TEXT_LENGTH else None,
        "begins": _cut(instruction, PART_LENGTH) if isinstance(instruction, str) else "",
        "message": text if text is not None and len(text) <= TEXT_LENGTH else None,
        "contents": contents[::-1],
        "left_out": len(request.contents) - len(contents),
        "tools": [
            {"name": str(name), "description": str(getattr(tool, "description", "") or "")[:PART_LENGTH]}
            for name, tool in [*request.tools_dict.items()][:MOST_TOOLS]
        ],
    }


def _part(part: Any) -> dict[str, Any]:
    if part.text is not None:
        return {"text": _cut(part.text, PART_LENGTH), **({"thought": True} if part.thought else {})}
    for name, value in (("functionCall", part.function_call), ("functionResponse", part.function_response)):
        if value is not None:
            of = value.args if name == "functionCall" else value.response
            field_ = "args" if name == "functionCall" else "response"
            with suppress(TypeError, ValueError, RecursionError):
                if len(json.dumps(of, allow_nan=False)) <= PART_LENGTH:
                    return {name: {"id": value.id, "name": value.name, field_: of}}
            return {name: {"id": value.id, "name": value.name, field_: {"…": _cut(repr(of), PART_LENGTH)}}}
    if part.inline_data is not None:
        return {"file": str(part.inline_data.mime_type or "")}
    return {"file": str(part.file_data.mime_type or "") if part.file_data is not None else ""}


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[:length] + "…"


def _last_text(contents: list[Any]) -> tuple[tuple[int, int], str | None]:
    """Returns where the last text of the user is, and that text."""
    for number in range(len(contents) - 1, -1, -1):
        parts = contents[number].parts or [] if contents[number].role == "user" else []
        for nth in range(len(parts) - 1, -1, -1):
            if parts[nth].text and not parts[nth].thought:
                return (number, nth), parts[nth].text
    return (0, 0), None


def change(request: Any, decision: Decision) -> bool:
    """Changes a request as someone decided, for this call alone. Returns whether it did."""
    instruction, message = decision.get("instruction"), decision.get("message")
    if isinstance(instruction, str):
        request.config.system_instruction = instruction
    if isinstance(message, str):
        (number, nth), text = _last_text(request.contents)
        if text is not None:
            old = request.contents[number]
            parts = [*old.parts[:nth], types.Part(text=message), *old.parts[nth + 1 :]]
            request.contents[number] = types.Content(role=old.role, parts=parts)
    return isinstance(instruction, str) or isinstance(message, str)
