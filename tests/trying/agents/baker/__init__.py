"""A baker whose model does what the user says, and whose tools act on the world: they write a file."""

import asyncio
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LLMRegistry, LlmRequest, LlmResponse
from google.adk.tools import ToolContext
from google.genai import types


class Obeys(BaseLlm):
    """A model that bakes what it hears, says what it got and which size and model it has."""

    model: str = "obeys"

    @classmethod
    def supported_models(cls) -> list[str]:
        """The names of models of this kind."""
        return ["obeys.*"]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Says the next thing."""
        last = (llm_request.contents[-1].parts or [])[-1]
        if last.text == "wait":
            await asyncio.sleep(60)
        if last.text == "leave":
            os._exit(3)
        if last.function_response:
            size = str(llm_request.config.system_instruction).partition("size is ")[2].partition(".")[0]
            part = types.Part(text=f"{last.function_response.response} in {size} by {llm_request.model}")
        else:
            part = types.Part(function_call=types.FunctionCall(name="bake", args={"what": last.text}))
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=10, candidates_token_count=2, total_token_count=12
        )
        content = types.Content(role="model", parts=[part])
        yield LlmResponse(content=content, usage_metadata=usage, model_version=llm_request.model)


LLMRegistry.register(Obeys)


def bake(what: str, tool_context: ToolContext) -> dict[str, Any]:
    """Leaves a trace in the world."""
    Path(os.environ["BAKED"]).write_text(what)
    tool_context.state["user:baked"] = what
    return {"baked": what}


root_agent = LlmAgent(name="baker", model=Obeys(), tools=[bake], instruction="The size is {size?}.", output_key="said")
