"""An agent for tests: its model calls the tool that the user names, then repeats what the tool said."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator
from importlib.util import find_spec

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.tools import FunctionTool, LongRunningFunctionTool, ToolContext
from google.genai import types

assert find_spec("launcher") is None, "an agent's own modules come before adkweb's"

print("helper is loaded")  # as agents do; this must not come before the port


class Echo(BaseLlm):
    """Takes each word of the user's for the name of a tool, and calls one after the other. After "…", it pauses. "add:3" is
    a call with a number."""

    model: str = "echo"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Calls the next tool, or says that it is done."""
        words: list[str] = []
        for part in (part for content in llm_request.contents for part in content.parts or []):
            if part.text and not part.text.startswith("For context"):
                words = part.text.rstrip("…").split()
            elif part.function_response and words and part.function_response.name == words[0].partition(":")[0]:
                words.pop(0)
        name, _, number = words[0].partition(":") if words else ("", "", "")
        call = types.FunctionCall(name=name, args={"n": int(number)} if number else {})
        part = types.Part(function_call=call) if words else types.Part(text="Done.")
        for text in ("Do", "ne.") if stream and part.text else ():
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]), partial=True)
        if "…" in str(llm_request.contents):
            await asyncio.sleep(1)
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def look(tool_context: ToolContext) -> dict[str, object]:
    """Returns the state that the tool sees, and the process that it runs in."""
    print("looking → 서울")
    return {"state": tool_context.state.to_dict(), "pid": os.getpid(), "environment": dict(os.environ)}


def count(tool_context: ToolContext) -> dict[str, object]:
    """Adds one to `counted`."""
    tool_context.state["counted"] = tool_context.state.get("counted", 0) + 1
    return {"counted": tool_context.state["counted"]}


def add(n: int = 0) -> dict[str, int]:
    """Returns what it got."""
    return {"result": n}


def shout() -> None:
    """Prints a long line, and many short ones."""
    print("x" * 100_000)
    for number in range(60):
        print(number)


async def pause(tool_context: ToolContext) -> str:
    """Sleeps for as long as the state says."""
    tool_context.state["app:paused"] = True
    await asyncio.sleep(tool_context.state.get("seconds", 30))
    return "slept"


def block() -> str:
    """Blocks the whole process."""
    time.sleep(30)
    return "blocked"


def pay() -> str:
    """Needs somebody's confirmation."""
    return "paid"


def ask() -> dict[str, str]:
    """Asks somebody whose answer takes days."""
    return {"status": "asked"}


root_agent = LlmAgent(
    name="helper",
    model=Echo(),
    tools=[
        *(look, count, add, shout, pause, block),
        FunctionTool(pay, require_confirmation=True),
        LongRunningFunctionTool(ask),
    ],
)
