"""The example agent in a process of its own, as its developer runs it: google-adk's Runner on google-adk's services.

    python -m tests.browser.agent PLACE

PLACE is a SQLite file or a postgresql:// URL. Each line that it reads is one command, a JSON object with the id of a
`session`, and `create` (its first state), `say` (a turn of the Runner), `append` (events, given or as a number of them)
or `delete`; `pause` rests that long after each event, `held` after the first one until another line comes. It prints
{"stored": [session, event]} after each event that is stored, {"failed": …} for one that is not and is tried again, and
{"done": …} after each command.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Self

from tests.support import warm

ROOT: Final = Path(__file__).resolve().parents[2]
APP: Final = "booking"
USER: Final = "ana"
FLIGHT: Final = "Find me a flight from Lisbon to Seoul on 2026-12-01"
BOOK: Final = "Book the cheapest one"
PAY: Final = "Pay with the blue card"
PATIENCE: Final = 60.0


class Agent:
    """That process, told what to do from a test; `stored` are the events that it has stored so far, by session."""

    def __init__(self, place: str) -> None:
        self.stored: dict[str, list[str]] = defaultdict(list)
        self.failed = 0
        self.error = ""
        self._told = self._done = 0
        self._news = threading.Condition()
        self._process = warm.Popen(
            [sys.executable, "-m", "tests.browser.agent", place],
            cwd=ROOT,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},  # as an option, it would not be forked
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def begin(self, session: str, **command: Any) -> None:
        """Sends a command, and does not wait."""
        assert self._process.stdin
        self._told += 1
        self._process.stdin.write(json.dumps({"session": session, **command}) + "\n")
        self._process.stdin.flush()

    def go_on(self) -> None:
        """Lets an agent that is held go on."""
        assert self._process.stdin
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def do(self, session: str, **command: Any) -> list[str]:
        """Sends a command, waits for its end, and returns what it has stored."""
        before = len(self.stored[session])
        self.begin(session, **command)
        self.wait()
        return self.stored[session][before:]

    def wait(self) -> None:
        """Until everything that it was told is done."""
        self._until(lambda: self._done == self._told, "the end of what it was told")
        assert not self.error, self.error

    def wait_for(self, session: str, count: int) -> None:
        """Until so many events of a session are stored."""
        self._until(lambda: len(self.stored[session]) >= count, f"event {count} of {session}")

    def wait_for_failure(self) -> None:
        """Until its database has failed it once more."""
        before = self.failed
        self._until(lambda: self.failed > before, "a failure")

    def _until(self, reached: Callable[[], bool], what: str) -> None:
        with self._news:
            came = self._news.wait_for(lambda: reached() or self._process.poll() is not None, PATIENCE)
        assert came, f"the agent has not come to {what} in {PATIENCE:.0f} s"
        assert reached(), f"the agent has ended before {what}"

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            said = json.loads(line)
            with self._news:
                if "stored" in said:
                    session, event = said["stored"]
                    self.stored[session].append(event)
                self.failed += "failed" in said
                self._done += "done" in said
                self.error = said.get("error", self.error)
                self._news.notify_all()
        self._process.wait()
        with self._news:
            self._news.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:  # in the middle of something that nobody waits for any more
            self._process.kill()
            self._process.wait()
        self._reader.join()
        assert self._process.stdout
        self._process.stdout.close()


# --- In its own process -----------------------------------------------------------------------------------------------


def say(**words: Any) -> None:
    """One line to the test."""
    print(json.dumps(words), flush=True)


class Player:
    """Does what the commands say, one after the other."""

    def __init__(self, place: str) -> None:
        from google.adk.artifacts import InMemoryArtifactService
        from google.adk.runners import Runner
        from google.adk.sessions import DatabaseSessionService
        from google.adk.sessions.sqlite_session_service import SqliteSessionService

        sys.path.insert(0, str(ROOT / "examples" / "agents"))
        import booking  # type: ignore[import-not-found]

        self.pause, self.held = 0.0, False
        self.service: Any
        if "://" in place:
            url = place.replace("postgresql://", "postgresql+asyncpg://")
            self.service = DatabaseSessionService(url, pool_pre_ping=True)
        else:
            self.service = SqliteSessionService(place)
        self._append, self.service.append_event = self.service.append_event, self._told_append
        self.runner = Runner(
            app=booking.agent.app, session_service=self.service, artifact_service=InMemoryArtifactService()
        )

    async def _told_append(self, session: Any, event: Any) -> Any:
        stored = await self._append(session=session, event=event)
        say(stored=[session.id, stored.id])
        if self.held:
            self.held = False
            await asyncio.to_thread(sys.stdin.readline)
        await asyncio.sleep(self.pause)
        return stored

    async def play(self, session: str, pause: float = 0.0, held: bool = False, **command: Any) -> None:
        """One command."""
        from google.genai import types

        self.pause, self.held = pause, held
        names = {"app_name": APP, "user_id": USER, "session_id": session}
        if "create" in command:
            await self.service.create_session(**names, state=command["create"])
        elif "delete" in command:
            await self.service.delete_session(**names)
        elif "say" in command:
            said = types.Content(role="user", parts=[types.Part(text=command["say"])])
            async for _ in self.runner.run_async(user_id=USER, session_id=session, new_message=said):
                pass
        else:
            await self._append_all(names, command["append"])

    async def _append_all(self, names: dict[str, str], wanted: int | list[dict[str, Any]]) -> None:
        found = None
        events = [{"text": f"Message {n}"} for n in range(wanted)] if isinstance(wanted, int) else wanted
        for event in events:
            while True:
                try:
                    found = found or await self.service.get_session(**names)
                    await self.service.append_event(found, _event(**event))
                    break
                except Exception as error:
                    found = None
                    say(failed=f"{type(error).__name__}: {error}")
                    await asyncio.sleep(0.2)


def _event(
    text: str = "", author: str = APP, delta: dict[str, Any] | None = None, call: str = "", **fields: Any
) -> Any:
    from google.adk.events import Event, EventActions
    from google.genai import types

    role = "user" if author == "user" else "model"
    part = types.Part.from_function_call(name=call, args={}) if call else types.Part(text=text)
    content = types.Content(role=role, parts=[part]) if text or call else None
    given = {"invocation_id": f"e-{time.time()}", **fields}
    return Event(author=author, content=content, actions=EventActions(state_delta=delta or {}), **given)


async def main(place: str) -> None:
    """Until there are no more commands."""
    player = Player(place)
    while line := await asyncio.to_thread(sys.stdin.readline):
        command = json.loads(line)
        try:
            await player.play(**command)
        except Exception as error:
            say(done=line, error=repr(error))
        else:
            say(done=line)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
