"""Record the demo store: the agents of `agents/`, run by ADK's own Runner into ADK's own SQLite store."""

import argparse
import asyncio
import contextlib
import json
import logging
import random
import shutil
import sqlite3
import subprocess
import sys
import uuid
import warnings
import zlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import aiosqlite
from google.adk.apps import App
from google.adk.artifacts import FileArtifactService
from google.adk.cli.utils.agent_loader import AgentLoader
from google.adk.events import Event
from google.adk.models import LlmResponse
from google.adk.platform import time as platform_time
from google.adk.platform import uuid as platform_uuid
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools import BaseTool, ToolContext
from google.genai import types

HERE = Path(__file__).resolve().parent
SEED = 20261120


@dataclass(frozen=True)
class Say:
    """A user's message with an attachment, or with state that the client sends along."""

    text: str
    attached: types.Part | None = None
    state: dict[str, Any] | None = None


@dataclass(frozen=True)
class Answer:
    """A person's answer to the open call of a tool."""

    tool: str
    make: Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True)
class Rewind:
    """Undo the conversation from the user's n-th message on."""

    message: int


@dataclass(frozen=True)
class Visit:
    """One sitting of a user at a session; the first one creates it.

    One `apart` shares neither ids nor waits with the others, so that adding it to a recording changes none of theirs.
    """

    at: str
    app: str
    user: str
    session: str
    steps: list[str | Say | Answer | Rewind] = field(default_factory=list)
    state: dict[str, Any] | None = None
    apart: bool = False


class Clock:
    """The clock of ADK, of the models and tools, and of the database. It moves on a little whenever it is read."""

    def __init__(self) -> None:
        """Start at the epoch."""
        self._now = 0.0
        self.random = random.Random(SEED)  # how long what happens takes

    def __call__(self) -> float:
        """Read the clock."""
        return self.wait(0.001, 0.01)

    def set(self, moment: str) -> None:
        """Put the clock to a moment in UTC."""
        self._now = datetime.fromisoformat(f"{moment}:00+00:00").timestamp()

    def wait(self, least: float, most: float) -> float:
        """Let between `least` and `most` seconds pass."""
        self._now = round(self._now + self.random.uniform(least, most), 3)
        return self._now


class Store(SqliteSessionService):
    """ADK's own store, whose SQLite has the demo's clock: adkweb's trigger reads it when an event is stored."""

    def __init__(self, path: Path, clock: Clock) -> None:
        """Store into the file at `path`."""
        super().__init__(str(path))
        self._clock = clock

    @contextlib.asynccontextmanager
    async def _get_db_connection(self) -> AsyncIterator[aiosqlite.Connection]:
        async with super()._get_db_connection() as db:
            # The trigger asks for julianday('now').
            await db.create_function("julianday", 1, lambda _now: self._clock() / 86_400 + 2_440_587.5)
            yield db


class ToolsTakeTime(BasePlugin):
    """Lets time pass while a tool works, which in the demo it does at once."""

    def __init__(self, clock: Clock) -> None:
        """Let it pass on this clock."""
        super().__init__(name="tools_take_time")
        self._clock = clock

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> None:
        """Pass the time of one call."""
        if tool.name == "hold_exact_seat":  # it says that it timed out after 30 s
            self._clock.wait(30, 30.1)
        elif tool.name not in ("transfer_to_agent", "exit_loop"):
            self._clock.wait(0.2, 1.6)


def models_take_time(clock: Clock) -> None:
    """Let time pass while a model answers, which in the demo it does at once."""
    from booking.scripted_model import ScriptedModel  # importable once the loader has put `agents/` on the path

    answer = ScriptedModel.generate_content_async

    async def answer_later(*args: Any, **kwargs: Any) -> AsyncIterator[LlmResponse]:
        clock.wait(0.6, 3.4)
        async for response in answer(*args, **kwargs):
            yield response

    ScriptedModel.generate_content_async = answer_later


def files_of(path: Path) -> Path:
    """Return the folder of the artifacts that are recorded beside a store."""
    return path.with_name(f"{path.stem}-artifacts")


def forget_places(files: Path) -> None:
    """Leave out of what ADK notes of each artifact where and when it was recorded."""
    for note in files.rglob("metadata.json"):
        kept = json.loads(note.read_text("utf-8"))
        for name in ("canonicalUri", "canonical_uri", "createTime", "create_time"):
            kept.pop(name, None)
        note.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")


def new_id(source: random.Random) -> str:
    """Return the next id."""
    return str(uuid.UUID(int=source.getrandbits(128), version=4))


class Recorder:
    """Plays visits through the Runner."""

    def __init__(self, path: Path) -> None:
        """Record into the store at `path`."""
        loader = AgentLoader(str(HERE / "agents"))
        files = FileArtifactService(files_of(path))
        self._clock = Clock()
        self._sessions = Store(path, self._clock)
        self._runners: dict[str, Runner] = {}
        for name in loader.list_agents():
            loaded = loader.load_agent(name)
            app = loaded if isinstance(loaded, App) else App(name=name, root_agent=loaded)
            app.plugins.append(ToolsTakeTime(self._clock))
            self._runners[name] = Runner(app=app, session_service=self._sessions, artifact_service=files)
        models_take_time(self._clock)

    async def record(self, visits: list[Visit]) -> None:
        """Play the visits in order of time, the same way in every recording."""
        shared = random.Random(SEED), self._clock.random
        platform_time.set_time_provider(self._clock)
        for visit in sorted(visits, key=lambda visit: visit.at):
            ids, self._clock.random = (random.Random(visit.session),) * 2 if visit.apart else shared
            platform_uuid.set_id_provider(partial(new_id, ids))
            self._clock.set(visit.at)
            if not await self._events(visit):
                await self._create(visit)
            for step in visit.steps:
                await self._play(visit, step)
                self._clock.wait(8, 90)

    async def _create(self, visit: Visit) -> None:
        await self._sessions.create_session(
            app_name=visit.app, user_id=visit.user, session_id=visit.session, state=visit.state
        )

    async def _events(self, visit: Visit) -> list[Event]:
        session = await self._sessions.get_session(app_name=visit.app, user_id=visit.user, session_id=visit.session)
        return session.events if session else []

    async def _play(self, visit: Visit, step: str | Say | Answer | Rewind) -> None:
        from booking.tools import CheckInError  # importable once the loader has put `agents/` on the path

        runner = self._runners[visit.app]
        place: dict[str, Any] = {"user_id": visit.user, "session_id": visit.session}
        events = await self._events(visit)
        match step:
            case Rewind(message):
                said = [event for event in events if event.author == "user" and event.content]
                await runner.rewind_async(**place, rewind_before_invocation_id=said[message - 1].invocation_id)
                return
            case Answer(tool, make):
                calls = [call for event in events for call in event.get_function_calls() if call.name == tool]
                answer = types.FunctionResponse(id=calls[-1].id, name=tool, response=make(calls[-1].args or {}))
                parts, state = [types.Part(function_response=answer)], None
            case Say(text, attached, state):
                parts = [types.Part(text=text), *([attached] if attached else [])]
            case text:
                parts, state = [types.Part(text=text)], None
        # The seat map of the demo is down, and a step gets lost: ADK stores a failure as an event, then raises it.
        with contextlib.suppress(ConnectionError, CheckInError):
            async for _ in runner.run_async(
                **place, new_message=types.Content(role="user", parts=parts), state_delta=state
            ):
                pass


def sign_in(args: dict[str, Any]) -> dict[str, Any]:
    """Answer a request for credentials with a token, as the client does after the user has signed in."""
    config = dict(args["authConfig"])
    return {**config, "exchangedAuthCredential": {"authType": "oauth2", "oauth2": {"accessToken": "demo-access-token"}}}


def confirm(yes: bool) -> Answer:
    """Answer a request for confirmation."""
    return Answer("adk_request_confirmation", lambda args: {"confirmed": yes})


def approve(by: str) -> Answer:
    """Answer a request for approval."""
    return Answer("request_approval", lambda args: {"status": "approved", "approver": by, "amount": args["amount"]})


def visits() -> list[Visit]:
    """Return what the demo's users did in November 2026."""
    from booking.documents import picture  # importable once the loader has put `agents/` on the path

    return [
        Visit(
            "2026-11-14T08:58", "booking", "ana", "seoul-trip",
            [
                "Hi! I am planning a trip with my sister.",
                "Find me a flight from Lisbon to Seoul on 2026-12-01",
                "Do I need a visa?",
                "What is that in won?",
                "I always want an aisle seat",
                "Book the cheapest one",
                "Pay with the amber card",
                "Try the blue Visa",
            ],
            state={
                "__session_metadata__": {"displayName": "Seoul trip"},
                "needs_visa": False,
                "passport": {"country": "PT", "valid_until": "2031-05-02"},
                "user:name": "Ana",
                "user:tier": "silver",
                "app:version": "1.4.0",
            },
        ),
        Visit(
            "2026-11-16T19:21", "booking", "ana", "seoul-trip",
            [
                Say("Show me my boarding pass", state={"channel": "mobile", "user:tier": "gold"}),
                "Which neighbourhood should we stay in?",
                "Shorter please",
                "Once more, shorter please",
                "Put the flight in my calendar",
                Answer("adk_request_credential", sign_in),
            ],
        ),
        Visit(
            "2026-11-20T07:40", "booking", "ana", "seoul-trip",
            [
                "Watch the fare for my sister until it is under 400 EUR",
                "Compare Lisbon and Porto to Seoul on 2026-12-01",
                "Which one is better for her?",
                "Thanks!",
            ],
        ),
        Visit(
            "2026-11-15T12:03", "booking", "지우", "busan-jeju",
            [
                "안녕하세요",
                "부산에서 제주로 가는 2026-12-24 항공편 찾아줘",
                "예약해 줘",
                "Call this trip 제주 겨울 여행 🍊",
            ],
            state={"user:name": "지우", "user:tier": "bronze", "user:seat": "window"},
        ),
        Visit(
            "2026-11-17T16:10", "booking", "omar@example.com", "oslo-weekend",
            [
                "Call this trip Oslo weekend",
                "Find a flight from Oslo to Lisbon on 2026-12-11",
                "Book TP761",
                Rewind(3),
                "Book the cheapest one",
                "Cancel it",
                confirm(False),
                "Cancel it after all",
                confirm(True),
            ],
            state={"user:name": "Omar"},
        ),
        Visit(
            "2026-11-18T09:30", "booking", "omar@example.com", "board-meeting",
            [
                "Flight from Madrid to Lisbon on 2026-11-26, please",
                "Book IB3107",
                "Pay on the company account",
            ],
            state={"cost_center": "4711", "trip": {"reason": "board meeting", "nights": 2, "hotel": None}},
        ),
        Visit("2026-11-19T08:05", "booking", "omar@example.com", "board-meeting", [approve("dana@example.com")]),
        Visit(
            "2026-11-20T08:12", "booking", "omar@example.com", "team-offsite",
            [
                "Find a flight from Porto to Seoul on 2027-03-02",
                "Book the cheapest one",
                "Pay on the company account",
            ],
            state={"cost_center": "4711"},
        ),
        Visit(
            "2026-11-19T21:47", "booking", "ana", "madrid-return",
            ["Flight from Madrid to Lisbon on 2026-11-29", "Reserve seat 12A"],
        ),
        Visit(
            "2026-11-17T10:20", "support", "ana", "maleta-perdida",
            [
                Say(
                    "¡Hola! ¿Dónde está mi maleta? Es esta, en el vuelo TP431 🧳",
                    types.Part.from_bytes(data=picture("maleta"), mime_type="image/png"),
                ),
                "Apareció, ¡muchas gracias!",
            ],
            state={"user:plan": "premium"},
        ),
        Visit(
            "2026-11-18T13:33", "support", "지우", "seat-change",
            ["창가 좌석으로 바꾸고 싶어요 ✈️", "What can you do?"],
        ),
        Visit(
            "2026-11-19T17:55", "support", "omar@example.com", "refund",
            [
                Say(
                    "أريد استرداد ثمن التذكرة من فضلك 🙏",
                    types.Part.from_uri(file_uri="https://files.example.com/ticket.pdf", mime_type="application/pdf"),
                )
            ],
            state={"__session_metadata__": {"displayName": "استرداد 💳"}},
        ),
        Visit("2026-11-20T08:30", "support", "ana", "draft", state={"source": "help page", "ticket": None}),
        # The session that the demo opens on: a search after paying takes the step back, so that a later turn fails.
        Visit(
            "2026-11-20T09:05", "booking", "ana", "december-trip",
            [
                "Find me a flight from Lisbon to Seoul on 2026-12-01",
                "Book the cheapest one",
                "Pay with the blue card",
                "What would a flight from Porto to Seoul on 2026-12-01 cost?",
                "Show me my boarding pass",
            ],
            state={"__session_metadata__": {"displayName": "December trip"}},
        ),
        *waiting(),
    ]  # fmt: skip


def waiting() -> list[Visit]:
    """Return what waits for a person: each kind of question, beside the approval that `team-offsite` waits for."""

    def booked(flight: str, start: str, end: str, date: str, price: float) -> dict[str, Any]:
        booking = {"flight": flight, "from": start, "to": end, "date": date, "price": price}
        booking |= {"reference": f"{zlib.crc32(flight.encode()) % 16**6:06X}", "seat": "window", "status": "confirmed"}
        return {"booking": booking, "booking_step": "confirm", "channel": "web"}

    return [
        Visit(
            "2026-11-18T15:20", "booking", "sofia@example.com", "family-visit",
            ["Cancel my booking", "Wait! First, note that I always want a window seat"],
            state=booked("IB3107", "MAD", "LIS", "2026-12-19", 74.9),
            apart=True,
        ),
        Visit(
            "2026-11-18T19:05", "claims", "mateo@example.com", "late-flight",
            ["My flight TP761 was five hours late, and there were two of us. What do we get?"],
            state={"user:name": "Mateo"},
            apart=True,
        ),
        Visit(
            "2026-11-19T20:48", "booking", "noah@example.com", "porto-in-march",
            ["I can't travel. Cancel my booking, please"],
            state=booked("LH1181", "OPO", "ICN", "2027-03-09", 497.0),
            apart=True,
        ),
        Visit(
            "2026-11-20T06:52", "booking", "유나", "conference",
            ["The conference was called off, so please cancel the flight"],
            state=booked("KE1001", "PUS", "CJU", "2026-12-03", 38.0),
            apart=True,
        ),
        Visit(
            "2026-11-20T08:30", "booking", "lena@example.com", "sister-visit",
            ["How do I get this flight into my calendar?", "Put it in my calendar"],
            state=booked("D82771", "OSL", "LIS", "2026-12-21", 96.4),
            apart=True,
        ),
        Visit(
            "2026-11-20T08:47", "support", "hana@example.com", "name-on-ticket",
            ["There is a typo in my name on the ticket"],
            apart=True,
        ),
        Visit(
            "2026-11-20T08:58", "support", "mateo@example.com", "cancelled-by-airline",
            ["You cancelled our flight! I want a refund of 148.00 EUR for booking 5D21A0"],
            apart=True,
        ),
    ]  # fmt: skip


def main() -> None:
    """Record the demo again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", nargs="?", type=Path, default=HERE / "demo.db", help="the SQLite file to write")
    path = parser.parse_args().path
    path.unlink(missing_ok=True)
    shutil.rmtree(files_of(path), ignore_errors=True)
    # adkweb makes and adopts the empty database, so that the initial state of every session in it is known.
    for command in ("create", "adopt"):
        subprocess.run([sys.executable, HERE.parent / "manage.py", command, path], check=True, stdout=sys.stderr)
    # ADK warns about its experimental parts and logs the failure that this demo is meant to show.
    warnings.simplefilter("ignore")
    logging.getLogger("google_adk").setLevel(logging.CRITICAL)
    recorder = Recorder(path)
    asyncio.run(recorder.record(visits()))
    forget_places(files_of(path))
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.execute("DELETE FROM adkweb_source")  # every copy of the demo is a source of its own
        file.commit()
        file.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
    print(f"{path}: {path.stat().st_size // 1024} kB", file=sys.stderr)


if __name__ == "__main__":
    main()
