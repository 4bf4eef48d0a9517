"""Makes a store of 2,000 sessions of the last two days in google-adk's own tables, one of which somebody looks for."""

from __future__ import annotations

import json
import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

SESSIONS: Final = 2_004
APPS: Final = ("booking", "support_desk", "concierge")
NEEDLE: Final = "booking failed: fare expired: quote Q-88213 is older than 15 min"
HALF_HOUR: Final = 1_800  # every turn begins so long after a whole hour before `now`: no range of hours cuts one

_TABLES = """CREATE TABLE app_states (app_name TEXT PRIMARY KEY, state TEXT NOT NULL, update_time REAL NOT NULL);
    CREATE TABLE user_states (app_name TEXT NOT NULL, user_id TEXT NOT NULL, state TEXT NOT NULL, update_time REAL NOT NULL,
        PRIMARY KEY (app_name, user_id));
    CREATE TABLE sessions (app_name TEXT NOT NULL, user_id TEXT NOT NULL, id TEXT NOT NULL, state TEXT NOT NULL,
        create_time REAL NOT NULL, update_time REAL NOT NULL, PRIMARY KEY (app_name, user_id, id));
    CREATE TABLE events (id TEXT NOT NULL, app_name TEXT NOT NULL, user_id TEXT NOT NULL, session_id TEXT NOT NULL,
        invocation_id TEXT NOT NULL, timestamp REAL NOT NULL, event_data TEXT NOT NULL,
        PRIMARY KEY (app_name, user_id, session_id, id),
        FOREIGN KEY (app_name, user_id, session_id) REFERENCES sessions(app_name, user_id, id) ON DELETE CASCADE)"""


def make(file: Path) -> None:
    """Makes the store, a SQLite file."""
    chance, now = random.Random(5), time.time()
    with closing(sqlite3.connect(file)) as db:
        db.executescript(_TABLES)
        for number in range(SESSIONS):
            app = APPS[number % 3]
            user = "nadia.garcia" if number == 1_200 else f"user{chance.randrange(300)}@example.com"
            at = now - (number * 48 // SESSIONS) * 3600 - HALF_HOUR
            names = app, user, f"{number:08x}-5e55-4000-8000-{chance.randrange(16**12):012x}"
            state = json.dumps({"booking_step": chance.choice(("search", "payment", "done"))})
            db.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)", [*names, state, at, at + 5])
            events = _events(number, at, chance)
            db.executemany(
                "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)",
                [(event["id"], *names, "i1", event["timestamp"], json.dumps(event)) for event in events],
            )
        db.commit()


def _events(number: int, at: float, chance: random.Random) -> Iterator[dict[str, Any]]:
    yield _event(1, "user", at, {"text": f"Find me a flight to {chance.choice(('Seoul', 'Oslo', 'Porto'))}"})
    yield _event(2, "billing", at + 1, {"function_call": {"name": "charge_card", "id": "c1", "args": {"seat": "12A"}}})
    fails = number % 50 == 0
    answer = {"error": NEEDLE if number == 1_200 else "card declined"} if fails else {"status": "paid"}
    response = {"function_response": {"name": "charge_card", "id": "c1", "response": answer}}
    yield _event(3, "billing", at + 2, response)
    yield {**_event(4, "billing", at + 5, {"text": "Done"}), "usage_metadata": {"total_token_count": 1000 + number % 7}}


def _event(number: int, author: str, at: float, part: dict[str, Any]) -> dict[str, Any]:
    return {"id": f"e{number}", "author": author, "timestamp": at, "content": {"parts": [part]}, "actions": {}}


def of_the_last_day(file: Path, now: float) -> dict[str, float]:
    """Counts by SQL what home shows of the last 24 hours: sessions, turns, failed turns, tokens."""
    one = "SELECT count(*) FROM events WHERE id = '{}' AND timestamp >= :since {}"
    with closing(sqlite3.connect(file)) as db:
        since = {"since": now - 86_400}
        turns = db.execute(one.format("e1", ""), since).fetchone()[0]
        failed = db.execute(one.format("e3", "AND event_data LIKE '%\"error\"%'"), since).fetchone()[0]
        tokens = db.execute(
            """SELECT sum(json_extract(event_data, '$.usage_metadata.total_token_count')) FROM events
            WHERE timestamp >= :since""",
            since,
        ).fetchone()[0]
    return {"turns": turns, "failed": failed, "tokens": tokens}


def begun(file: Path, since: float, until: float) -> int:
    """Counts by SQL the turns, each of a session of its own, that began in a range of time."""
    statement = "SELECT count(*) FROM events WHERE id = 'e1' AND timestamp >= ? AND timestamp < ?"
    with closing(sqlite3.connect(file)) as db:
        return int(db.execute(statement, [since, until]).fetchone()[0])
