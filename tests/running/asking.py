"""Asks a server of agents as adkweb does, for tests."""

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx
import psutil

Event = dict[str, Any]


class Asking:
    """Asks a server. `session` is one that exists."""

    def __init__(self, url: str, headers: Mapping[str, str], session: tuple[str, str] = ("ana", "s1")) -> None:
        self.url, self.headers, (self.user, self.session) = url, headers, session

    @property
    def _where(self) -> str:
        return f"{self.url}/apps/helper/users/{self.user}/sessions/{self.session}"

    def create(self, **state: Any) -> None:
        """Creates the session."""
        httpx.post(self._where, json=state, headers=self.headers).raise_for_status()

    def stored(self) -> dict[str, Any]:
        """Returns the session as it is stored."""
        session: dict[str, Any] = httpx.get(self._where, headers=self.headers).json()
        return session

    def run(self, tools: str, heard: Callable[[Event], object] = lambda event: None) -> list[Event]:
        """Has the agent call these tools one after the other, and returns what it streams."""
        message = {"role": "user", "parts": [{"text": tools}]}
        asked = {"appName": "helper", "userId": self.user, "sessionId": self.session, "newMessage": message}
        streamed = []
        with httpx.stream("POST", f"{self.url}/run_sse", json=asked, headers=self.headers, timeout=30) as answer:
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


def gone(pid: int, seconds: float) -> bool:
    """Returns whether a process is gone after some seconds at most."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie":
        time.sleep(0.02)
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie"


def stored(agents: Path, session: str) -> list[Event]:
    """Returns the events of a session in the agent's own `.adk/session.db`."""
    with closing(sqlite3.connect(agents / "helper" / ".adk" / "session.db")) as file:
        rows = file.execute("SELECT event_data FROM events WHERE session_id = ? ORDER BY rowid", [session])
        return [json.loads(row[0]) for row in rows]
