"""An agent of any google-adk since 1.14, run by that version's own Python: `any_version.py make|go_on FORM PLACE`.

Prints one JSON object: what google-adk itself reads afterwards, and what its tool saw. Imports nothing of adkweb.
"""

import asyncio
import json
import sys
from importlib.metadata import version

from google.adk.agents import LlmAgent
from google.adk.events import Event, EventActions
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.adk.tools import ToolContext
from google.genai import types

NAME = {"app_name": "matrix", "user_id": "ana", "session_id": "s1"}
START = {"n": 0, "gone": "soon", "cfg": {"a": {"x": 1}}, "user:tier": "basic", "app:season": "winter"}
WRITES = [
    {"n": 1, "nothing": None, "cfg": {"a": {"y": 2}}, "user:tier": "gold", "user:prefs": {"x": 1}, "temp:t": 1},
    {
        "n": 2,
        "cfg": {"b": None, "c": [None, {"d": 1}]},
        "user:prefs": {"y": 2},
        "app:total": 7.5,
        "naïve ключ 👩‍👩‍👧": "né",
    },
    {"n": 3, "cfg": {"e": {"f": {}}}, "app:limits": {"day": {"eur": 10}}, "user:prefs": {"x": None}},
]
SEEN = ("n", "nothing", "cfg", "edited", "user:tier", "app:season", "user:prefs")
seen: list[dict[str, object]] = []
turn = iter(WRITES if sys.argv[1] == "make" else WRITES[2:])


def remember(tool_context: ToolContext) -> dict[str, object]:
    """Writes to every scope."""
    state = tool_context.state.to_dict()
    seen.append({key: state.get(key, "absent") for key in SEEN})
    for key, value in next(turn).items():
        tool_context.state[key] = value
    return {"status": "ок", "nested": [{"null": None}]}


class Script(BaseLlm):
    """Calls the tool, and then says so."""

    async def generate_content_async(self, llm_request, stream=False):  # type: ignore[no-untyped-def]  # as each version has it
        last = llm_request.contents[-1].parts[-1]
        if last.function_response:
            part = types.Part(text="Remembered: « 価格 » 👍")
        else:
            part = types.Part(function_call=types.FunctionCall(name="remember", args={}))
        yield LlmResponse(content=types.Content(role="model", parts=[part]), custom_metadata={"cost": {"eur": 0.1}})


def service(form: str, place: str):  # type: ignore[no-untyped-def]  # of whichever version
    if form == "sqlite":
        from google.adk.sessions.sqlite_session_service import SqliteSessionService

        return SqliteSessionService(place)
    from google.adk.sessions import DatabaseSessionService

    asynchronous = tuple(map(int, version("google-adk").split(".")[:2])) >= (1, 20)
    if form == "postgresql":
        return DatabaseSessionService(
            place.replace("postgresql://", "postgresql+asyncpg://" if asynchronous else "postgresql+psycopg://")
        )
    return DatabaseSessionService(f"sqlite{'+aiosqlite' if asynchronous else ''}:///{place}")


async def say(runner: Runner, text: str) -> None:
    message = types.Content(role="user", parts=[types.Part(text=text)])
    async for _event in runner.run_async(user_id=NAME["user_id"], session_id=NAME["session_id"], new_message=message):
        pass


async def main(what: str, form: str, place: str) -> None:
    sessions = service(form, place)
    agent = LlmAgent(name="helper", model=Script(model="script"), tools=[remember], output_key="answer")
    runner = Runner(app_name=NAME["app_name"], agent=agent, session_service=sessions)
    if what == "make":
        await sessions.create_session(**NAME, state=START)
        await say(runner, "Remember this")
        await say(runner, "And this: привет")
        session = await sessions.get_session(**NAME)
        picture = types.Part(inline_data=types.Blob(mime_type="image/png", data=bytes(range(256))))
        for fields in (
            {"content": types.Content(role="user", parts=[picture])},
            {"error_code": "500", "error_message": "broken", "custom_metadata": {"why": [None]}},
            {"actions": EventActions(state_delta={"n": 9, "gone": None}, artifact_delta={"a.png": 3})},
        ):
            await sessions.append_event(session, Event(author="helper", invocation_id="by-hand", **fields))
    else:
        await say(runner, "What is there now?")
        await sessions.create_session(app_name=NAME["app_name"], user_id="ben", session_id="s2")
    session = await service(form, place).get_session(**NAME)
    print(json.dumps({"state": session.state, "events": [event.id for event in session.events], "seen": seen}))


asyncio.run(main(*sys.argv[1:]))
