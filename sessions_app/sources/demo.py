"""The demo: which source is the copy of it that adkweb keeps beside its own files, and when it took place."""

import re
import sqlite3
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path
from typing import Final

from django.conf import settings
from django.db import connections

from . import registry

BEST: Final = ("booking", "ana", "december-trip")  # app, user and session with a real failure; see examples/record.py
# Of its events: the one that failed, the one that made it fail by writing booking_step, and the one before that.
FAILED: Final = "6c0c8a2d-8a9c-4535-8c07-fca4630157b4"
CHANGED: Final = "4c5bdc64-932e-4a06-93aa-f5948218a7d6"
BEFORE: Final = "6a588442-7fa2-47cf-9af9-967524d8202d"

WAITS: Final = ("booking", "noah@example.com", "porto-in-march")  # whose agent waits for a confirmation

PRICES: Final = {"scripted-1.0": (0.30, 2.50)}  # of its model, which is made up as well; see domain/cost.py

_MINUTES: Final = 4  # between its newest event and the copy
_TIME: Final = re.compile(r'(?<=timestamp":)( ?)(\d+\.\d+)')
_DATE: Final = re.compile(r"(?<!\d)20\d\d-\d\d-\d\d(?!\d)")
_TIMES: Final = (
    "UPDATE app_states SET update_time = moved(update_time), state = redated(state)",
    "UPDATE user_states SET update_time = moved(update_time), state = redated(state)",
    "UPDATE sessions SET create_time = moved(create_time), update_time = moved(update_time), state = redated(state),"
    " initial_state = redated(initial_state)",
    "UPDATE events SET timestamp = moved(timestamp), event_data = redated(event_data)",
    "UPDATE adkweb_written SET stamp = moved(stamp), at = moved(at)",
)


def file() -> Path:
    """Returns the path of the copy that can be edited, ~/.local/share/adkweb/demo.db; serve makes it."""
    return Path(settings.DATA_DIR) / "demo.db"


def artifacts() -> Path:
    """Returns the folder of the files that the agents of the demo saved; serve makes it, too."""
    return file().with_name("demo-artifacts")


def agents() -> Path:
    """Returns the folder of the agents that made the demo. They answer from a script, without a key."""
    return Path(settings.DEMO).with_name("agents")


def bring_to(now: float, path: Path) -> None:
    """Moves everything in a copy of the recording, so that its newest event happened minutes before `now`.

    Distances stay as they are. The days of flights that are spoken of move along, or else people would look for flights
    in the past. This must come before adkweb opens the copy: ids stay, and whatever knows an event's time would be wrong.
    """
    with closing(sqlite3.connect(path)) as file, file:
        (newest,) = file.execute("SELECT max(timestamp) FROM events").fetchone()
        seconds = int(now - _MINUTES * 60 - newest)
        days = timedelta(days=round(seconds / 86_400))

        def moved(moment: float) -> float:
            return round(moment + seconds, 6)

        def redated(text: str) -> str:
            text = _TIME.sub(lambda time: f"{time[1]}{moved(float(time[2]))}", text)
            return _DATE.sub(lambda day: str(date.fromisoformat(day[0]) + days), text)

        file.create_function("moved", 1, moved, deterministic=True)
        file.create_function("redated", 1, redated, deterministic=True)
        for change in _TIMES:
            file.execute(change)


def is_demo(alias: str) -> bool:
    """Returns whether a source is the demo. A demo.db elsewhere, such as ./demo.db, is someone's own."""
    config = connections.databases.get(alias, {}).get("ADKWEB", {})  # the alias in an address may not exist
    return bool(config.get("path") == str(file().resolve()))


def alias() -> str:
    """Returns the alias of the demo, or "" while it is not open."""
    with registry.lock:
        return next((alias for alias in registry.sources if is_demo(alias)), "")


def is_alone() -> bool:
    """Returns whether nothing but the demo is open, so that pages about all sources are about it."""
    with registry.lock:
        aliases = list(registry.sources)
    return bool(aliases) and all(is_demo(alias) for alias in aliases)
