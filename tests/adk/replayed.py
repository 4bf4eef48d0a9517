"""Agents of every kind, with models that say what a test has written down, and their recorded sessions."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from typing import Any

from google.adk.agents import LlmAgent, RunConfig
from google.adk.agents.run_config import StreamingMode
from google.adk.apps import App
from google.adk.artifacts import InMemoryArtifactService
from google.adk.events import Event
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, InMemorySessionService
from google.genai import types

asked: list[str] = []  # what models have said
NAMES = {"app_name": "shop", "user_id": "ana", "session_id": "s1"}


def call(name: str, **args: Any) -> types.Part:
    """A model's call of a tool."""
    return types.Part(function_call=types.FunctionCall(name=name, args=args))


class Says(BaseLlm):
    """A model that says one thing after the other: texts, calls, several parts, an LlmResponse or an exception."""

    model: str = "says"
    script: list[Any]
    said: int = 0

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Says the next thing; when streaming, a text in two pieces first."""
        assert self.said < len(self.script), "the model has nothing more to say"
        said = self.script[self.said]
        self.said += 1
        asked.append(str(said))
        if isinstance(said, Exception):
            raise said
        if isinstance(said, LlmResponse):
            yield said
            return
        parts = [types.Part(text=each) if isinstance(each, str) else each for each in _listed(said)]
        if stream and parts[0].text:
            for piece in (parts[0].text[:2], parts[0].text[2:]):
                yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=piece)]), partial=True)
        usage = types.GenerateContentResponseUsageMetadata(total_token_count=7)
        yield LlmResponse(content=types.Content(role="model", parts=parts), usage_metadata=usage)


def _listed(said: Any) -> list[Any]:
    return said if isinstance(said, list) else [said]


def agent(name: str, *script: Any, **given: Any) -> LlmAgent:
    """An agent whose model says these things."""
    return LlmAgent(name=name, model=Says(script=list(script)), description=name, **given)


Message = str | Callable[[Sequence[Event]], types.Content]


def answer(name: str, response: dict[str, Any]) -> Callable[[Sequence[Event]], types.Content]:
    """A message that answers the newest call of this name."""

    def content(events: Sequence[Event]) -> types.Content:
        calls = [each for event in events for each in event.get_function_calls() if each.name == name]
        said = types.FunctionResponse(id=calls[-1].id, name=name, response=response)
        return types.Content(role="user", parts=[types.Part(function_response=said)])

    return content


async def record(
    app: Any,
    *messages: Message | Event,
    service: BaseSessionService | None = None,
    state: dict[str, Any] | None = None,
    streaming: bool = False,
) -> dict[str, Any]:
    """A session of an agent, as JSON. An Event among the messages is appended; an agent's errors are left out."""
    service = service or InMemorySessionService()
    app = app if isinstance(app, App) else App(name="shop", root_agent=app)
    runner = Runner(app=app, app_name="shop", session_service=service, artifact_service=InMemoryArtifactService())
    await service.create_session(**NAMES, state=state)
    for message in messages:
        session = await service.get_session(**NAMES)
        assert session is not None
        if isinstance(message, Event):
            await service.append_event(session, message)
            continue
        content = (
            types.Content(role="user", parts=[types.Part(text=message)])
            if isinstance(message, str)
            else message(session.events)
        )
        config = RunConfig(streaming_mode=StreamingMode.SSE if streaming else StreamingMode.NONE)
        with suppress(RuntimeError):
            async with aclosing(
                runner.run_async(user_id="ana", session_id="s1", new_message=content, run_config=config)
            ) as events:
                async for _event in events:
                    pass
    session = await service.get_session(**NAMES)
    assert session is not None
    return {**json.loads(session.model_dump_json(by_alias=True)), "state": state or {}}
