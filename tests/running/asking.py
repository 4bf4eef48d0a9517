"""What tests say to a server of agents, as adkweb does."""

import json
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import httpx

Event = dict[str, Any]


class Asking:
    """Asks a server. `session` is one that exists."""

    def __init__(self, url: str, headers: Mapping[str, str], session: tuple[str, str] = ("ana", "s1")) -> None:
        self.http = httpx.Client(base_url=url, headers=headers, timeout=30)
        self.user, self.session = session

    def create(self, **state: Any) -> None:
        """Creates the session."""
        self.http.post(f"/apps/helper/users/{self.user}/sessions/{self.session}", json=state).raise_for_status()

    def events(self) -> list[Event]:
        """Returns the stored events."""
        events: list[Event] = self.http.get(f"/apps/helper/users/{self.user}/sessions/{self.session}").json()["events"]
        return events

    def run(self, tools: str, heard: Callable[[Event], object] = lambda event: None) -> list[Event]:
        """Has the agent call these tools one after the other, and returns what it streams."""
        message = {"role": "user", "parts": [{"text": tools}]}
        asked = {"appName": "helper", "userId": self.user, "sessionId": self.session, "newMessage": message}
        streamed = []
        with self.http.stream("POST", "/run_sse", json=asked) as answer:
            answer.raise_for_status()
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    streamed.append(json.loads(line.removeprefix("data: ")))
                    heard(streamed[-1])
        return streamed

    def begin(self, tool: str) -> None:
        """Has the agent call a tool, and returns when the tool is called."""
        called = threading.Event()

        def run() -> None:
            with suppress(httpx.HTTPError):  # it was ended
                self.run(tool, heard=lambda event: called.set())

        threading.Thread(target=run, daemon=True).start()
        assert called.wait(10)


def responses(events: list[Event], tool: str) -> list[Any]:
    """Returns what a tool has answered."""
    parts = [part for event in events for part in (event.get("content") or {}).get("parts") or []]
    said = [part.get("functionResponse") or {} for part in parts]
    return [each["response"] for each in said if each.get("name") == tool]
