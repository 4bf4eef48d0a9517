"""An agent of a class of its own, whose code nothing can hold back."""

from collections.abc import AsyncGenerator

from google.adk.agents import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event
from google.genai import types


class Own(BaseAgent):
    """Says hello."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        content = types.Content(role="model", parts=[types.Part(text="Hello!")])
        yield Event(author=self.name, invocation_id=ctx.invocation_id, content=content)


root_agent = Own(name="own")
