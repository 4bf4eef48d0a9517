"""A model that answers from a script: no key, no network, the same answer every time."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Any

from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.genai import types

# ADK hands an agent what its sibling agents did as a user message that starts with these words.
QUOTED = "For context:"


@dataclass
class Turn:
    """What the model is asked to answer, read from the request."""

    instruction: str = ""
    said: str = ""
    heard: str = ""
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, request: LlmRequest) -> "Turn":
        """Find the user's last words and what has happened since they were said."""
        turn = cls(instruction=str(request.config.system_instruction or ""))
        for content in request.contents:
            parts = content.parts or []
            texts = [part.text for part in parts if part.text and not part.thought]
            turn.answers = {
                str(part.function_response.name): part.function_response.response or {}
                for part in parts
                if part.function_response
            }
            if content.role == "user" and texts:
                if texts[0].startswith(QUOTED):
                    turn.heard += "\n".join(texts)
                else:
                    turn.said, turn.heard = "\n".join(texts), ""
        return turn

    def back_from(self, agent: str) -> bool:
        """Tell whether `agent` has handed the conversation back since the user spoke."""
        return f"[{agent}] called tool `transfer_to_agent`" in self.heard


WordsRule = Callable[[Turn, re.Match[str]], LlmResponse]
AnswerRule = Callable[[Turn, dict[str, Any]], LlmResponse]


class Script:
    """The lines of one agent: what it replies to which words and to which tool answer."""

    def __init__(self, otherwise: Callable[[Turn], LlmResponse]) -> None:
        """Start an empty script that falls back to `otherwise`."""
        self._otherwise = otherwise
        self._words: list[tuple[re.Pattern[str], WordsRule]] = []
        self._answers: dict[str, AnswerRule] = {}

    def said(self, pattern: str) -> Callable[[WordsRule], WordsRule]:
        """Register the reply to a user's words that match `pattern`; the first match wins."""

        def register(rule: WordsRule) -> WordsRule:
            self._words.append((re.compile(pattern, re.IGNORECASE), rule))
            return rule

        return register

    def answered(self, tool: str) -> Callable[[AnswerRule], AnswerRule]:
        """Register the reply to an answer of `tool`."""

        def register(rule: AnswerRule) -> AnswerRule:
            self._answers[tool] = rule
            return rule

        return register

    def reply(self, turn: Turn) -> LlmResponse:
        """Choose the reply to this turn."""
        for tool, answer in turn.answers.items():
            if tool in self._answers:
                return self._answers[tool](turn, answer)
        for pattern, rule in self._words:
            if found := pattern.search(turn.said):
                return rule(turn, found)
        return self._otherwise(turn)


class ScriptedModel(BaseLlm):
    """An ADK model whose answers come from a script."""

    model: str = "scripted-1"
    script: Script

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer with one complete response, after its words one by one if it is streamed."""
        response = self.script.reply(Turn.read(llm_request))
        for word in _words(response) if stream else ():
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=word)]), partial=True)
            await asyncio.sleep(0.05)
        if not response.error_code:
            response.model_version = f"{self.model}.0"
            response.usage_metadata = usage(llm_request, response)
            if not response.interrupted:
                response.finish_reason = types.FinishReason.STOP
        yield response


def _words(response: LlmResponse) -> list[str]:
    parts = (response.content and response.content.parts) or []
    return [word for part in parts if part.text and not part.thought for word in re.findall(r"\S+\s*", part.text)]


def usage(request: LlmRequest, response: LlmResponse) -> types.GenerateContentResponseUsageMetadata:
    """Count tokens as roughly four characters each."""
    prompt = len(str(request.config.system_instruction or "")) // 4 + sum(map(_tokens, request.contents))
    parts = (response.content and response.content.parts) or []
    thoughts = sum(_tokens(part) for part in parts if part.thought)
    answer = sum(_tokens(part) for part in parts if not part.thought)
    return types.GenerateContentResponseUsageMetadata(
        prompt_token_count=prompt,
        candidates_token_count=answer,
        thoughts_token_count=thoughts or None,
        total_token_count=prompt + thoughts + answer,
    )


def _tokens(piece: types.Content | types.Part) -> int:
    return len(piece.model_dump_json(exclude_none=True, exclude={"role"})) // 4


def reply(*parts: types.Part, thought: str = "") -> LlmResponse:
    """Reply with these parts, after an optional thought."""
    thoughts = [types.Part(text=thought, thought=True)] if thought else []
    return LlmResponse(content=types.Content(role="model", parts=[*thoughts, *parts]))


def say(text: str, thought: str = "") -> LlmResponse:
    """Reply with a text."""
    return reply(types.Part(text=text), thought=thought)


def call(tool: str, thought: str = "", **args: Any) -> LlmResponse:
    """Reply with one function call."""
    return reply(types.Part(function_call=types.FunctionCall(name=tool, args=args)), thought=thought)


def transfer(agent: str) -> LlmResponse:
    """Hand the conversation to another agent."""
    return call("transfer_to_agent", agent_name=agent)


def fail(code: str, message: str) -> LlmResponse:
    """Answer as a model service does when it refuses."""
    return LlmResponse(error_code=code, error_message=message)


def suggest(*phrases: str) -> Callable[[Turn], LlmResponse]:
    """Make the fallback of a script: say what it does know."""
    known = "\n".join(f"- {phrase}" for phrase in phrases)
    return lambda turn: say(f"I am a scripted demo and know only a few lines. Try one of these:\n{known}")
