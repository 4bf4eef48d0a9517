"""How soon an agent that adkweb runs is there, and how soon the page shows what it says.

The agent's model says what time it is, 50 times. That is read by a program that holds the agent's own /run_sse, and in
the browser, where a MutationObserver notes when it is there. The difference is what adkweb adds. All clocks are this
machine's. Targets stand beside the figures.
"""

import json
import statistics
import time
from pathlib import Path

from django.core.management import call_command

from benchmarks import harness as bench
from benchmarks.harness import APP, USER, sized
from sessions_app.running import children
from sessions_app.running.client import Stream
from sessions_app.sources import registry

MESSAGES, STARTS = sized(50, 3), sized(5, 1)
NAMES = {"appName": APP, "userId": USER}
AGENT = f"""
import asyncio, time
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.genai import types

class Clock(BaseLlm):
    model: str = "clock"

    async def generate_content_async(self, llm_request, stream=False):
        content = types.Content(role="model", parts=[types.Part(text=str(time.time()))])
        yield LlmResponse(content=content, partial=True)
        await asyncio.sleep(0.1)
        yield LlmResponse(content=content)

root_agent = LlmAgent(name={APP!r}, model=Clock())
"""
OBSERVE = """
window.seen = [];
addEventListener("DOMContentLoaded", () => {
  const line = document.querySelector("#spoken");
  new MutationObserver(() => {
    if (line.lastChild.textContent && !line.hidden) seen.push([line.lastChild.textContent, Date.now()]);
  }).observe(line, { childList: true, subtree: true, characterData: true, attributes: true });
});
"""


def agents_in(folder: Path) -> Path:
    """Writes the folder of agents."""
    (folder / APP).mkdir(parents=True)
    (folder / APP / "__init__.py").write_text("from . import agent\n")
    (folder / APP / "agent.py").write_text(AGENT)
    return folder


def started(folder: Path) -> list[float]:
    """Milliseconds until a child is ready, each time."""
    taken = []
    for _ in range(STARTS):
        taken.append(bench.timed(lambda: children.of(folder, sessions=None, artifacts=None)))
        children.stop_all(5)
    return taken


def directly(folder: Path) -> list[float]:
    """Milliseconds from the model to a program that reads the agent's own stream."""
    child, late = children.of(folder, sessions=None, artifacts=None), []
    session = bench.Served(1, int(child.url.rpartition(":")[2]), dict(child.headers))
    session.ask("POST", f"/apps/{APP}/users/{USER}/sessions/direct", {})
    for _ in range(MESSAGES):
        message = {"newMessage": {"role": "user", "parts": [{"text": "What time is it?"}]}, "streaming": True}
        for event in Stream(child, NAMES | {"sessionId": "direct"} | message):
            if event.get("partial"):
                late.append((time.time() - float(event["content"]["parts"][0]["text"])) * 1000)
    children.stop_all(5)
    return late


def in_browser(folder: Path) -> list[float]:
    """Milliseconds from the model to the page."""
    with bench.adkweb(str(folder)) as served:
        program, api = served.again(bench.token()), f"/api/apps/{APP}/users/{USER}/sessions"
        program.ask("POST", api, {"session_id": "shown"})
        (source,) = registry.add(str(folder))
        late: list[float] = []
        with bench.chromium_at(served, f"/s/{source.alias}/{APP}/{USER}/shown/", OBSERVE) as page:
            for count in range(1, MESSAGES + 1):
                run = json.loads(program.ask("POST", f"{api}/shown/runs", {"text": "What time is it?"}))["id"]
                page.wait_for_function("count => new Set(seen.map(([text]) => text)).size >= count", arg=count)
                while json.loads(program.read(f"{api}/shown/runs/{run}"))["state"] == "waiting":
                    page.wait_for_timeout(20)
            first = dict(reversed(page.evaluate("seen")))
            late = [at - float(text) * 1000 for text, at in first.items()]
    return late


if __name__ == "__main__":
    with bench.benchmark("Running agents") as (folder, _server):
        agents = agents_in(folder / "agents")
        call_command("migrate", verbosity=0)  # the rows of children are in adkweb's own database
        bench.heading("A child, from nothing to ready", "", "starts", "ms", "target")
        taken = started(agents)
        bench.row("google-adk, a model without a key", len(taken), taken, "< 4,000")
        bench.heading("From the model's first word", "to", "messages", *bench.LATE, "target")
        direct = directly(agents)
        shown = in_browser(agents)
        bench.row("the agent's own stream", len(direct), *bench.late(direct), "")
        bench.row("the page", len(shown), *bench.late(shown), "")
        added = statistics.median(shown) - statistics.median(direct)
        bench.row("what adkweb adds, at the median", "", added, "", "", "< 30")
