"""An agent for the public cases: its tools note each time that they run, and its model is as strict as the real ones."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator
from pathlib import Path

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.tools import BaseTool, FunctionTool, LongRunningFunctionTool, ToolContext
from google.genai import types

HOLD = Path(__file__).with_name("hold")  # a file: while it is there, what can be held doesn't end


class Strict(BaseLlm):
    """Calls the tools that the user names, those with a plus between them at once, and then says “Done.”; with “slowly”, it
    is held in the middle of that. With `step`, it calls that tool instead. As real models do, it refuses a request in which
    a call has no result."""

    model: str = "strict"
    step: str = ""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Calls the next tools, or says that it is done."""
        parts = [part for content in llm_request.contents for part in content.parts or []]
        made = [part.function_call.id for part in parts if part.function_call]
        results = [part.function_response.id for part in parts if part.function_response]
        if sorted(map(str, made)) != sorted(map(str, results)):
            raise ValueError("400 INVALID_ARGUMENT: function response parts aren't equal to function call parts")
        words: list[str] = []
        for part in parts:
            if part.text and not part.text.startswith(("For context", "[")):
                words = self.step.split() or part.text.split()
            elif words and part.function_response and part.function_response.name in words[0].split("+"):
                words[0] = "+".join({*words[0].split("+")} - {part.function_response.name})
                words = words if words[0] else words[1:]
        if words and words[0] != "slowly":
            names = words[0].split("+")
            calls = [types.Part(function_call=types.FunctionCall(name=name, args={})) for name in names]
            yield LlmResponse(content=types.Content(role="model", parts=calls))
            return
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="Do")]), partial=True)
        while words and HOLD.exists():
            await asyncio.sleep(0.02)
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="Done.")]))


def note(name: str, context: ToolContext) -> str:
    """Notes that a tool runs, and in which process."""
    with Path(__file__).with_name("ran").open("a") as file:
        file.write(f"{context.session.id} {name} {os.getpid()}\n")
    return f"{name} has run"


def pay(tool_context: ToolContext) -> str:
    """Needs somebody's confirmation."""
    return note("pay", tool_context)


def send(tool_context: ToolContext) -> str:
    """Needs somebody's confirmation."""
    return note("send", tool_context)


def plan(tool_context: ToolContext) -> str:
    """Needs somebody's confirmation."""
    return note("plan", tool_context)


def execute(tool_context: ToolContext) -> str:
    """Needs somebody's confirmation."""
    return note("execute", tool_context)


def sign(tool_context: ToolContext) -> str:
    """Asks for a confirmation itself."""
    if tool_context.tool_confirmation:
        return note("sign", tool_context)
    tool_context.request_confirmation(hint="Sign it?")
    return "asked"


def ask(tool_context: ToolContext) -> dict[str, str]:
    """Asks somebody whose answer takes days."""
    return {"status": note("ask", tool_context)}


def order(tool_context: ToolContext) -> dict[str, str]:
    """Orders something that takes days."""
    return {"status": note("order", tool_context)}


def look(tool_context: ToolContext) -> dict[str, object]:
    """Returns the state that the tool sees."""
    note("look", tool_context)
    return tool_context.state.to_dict()


async def wait(tool_context: ToolContext) -> str:
    """Can be held."""
    note("wait", tool_context)
    while HOLD.exists():
        await asyncio.sleep(0.02)
    return "waited"


def block(tool_context: ToolContext) -> str:
    """Blocks the whole process if it is held."""
    note("block", tool_context)
    while HOLD.exists():
        time.sleep(0.02)
    return "blocked"


class Erase(BaseTool):
    """Says that it needs a confirmation, and doesn't look itself whether it got one."""

    async def check_require_confirmation(self, args: object, tool_context: object) -> bool:
        """Returns that it does."""
        return True

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(name=self.name, description=self.description)

    async def run_async(self, *, args: object, tool_context: ToolContext) -> str:
        """Erases."""
        return note("erase", tool_context)


root_agent = LlmAgent(
    name="office",
    model=Strict(),
    tools=[
        *(look, wait, block, sign, Erase(name="erase", description="Erases everything.")),
        *(FunctionTool(each, require_confirmation=True) for each in (pay, send)),
        *(LongRunningFunctionTool(each) for each in (ask, order)),
    ],
)
