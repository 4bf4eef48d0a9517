"""What a request costs, measured in a process of its own: seconds of CPU, and megabytes of memory above what stood before.

Wall time would say how busy the machine is. The numbers are compared with the limits that no request may pass.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.support import warm
from tests.support.own import migrated

SECONDS: Final = 2.0
MEGABYTES: Final = 200.0
ROOT: Final = Path(__file__).resolve().parents[1]
APP, USER, SESSION = "booking", "ana", "s1"
OF_SESSION: Final = f"/s/store/{APP}/{USER}/{SESSION}/"
OF_API: Final = f"/api/apps/{APP}/users/{USER}/sessions/{SESSION}"
PAGES: Final = (
    "/",
    "/feed/",
    "/edits/",
    f"/a/store/{APP}/",
    f"/a/store/{APP}/sessions/",
    f"/a/store/{APP}/checks/",
    f"/u/store/{APP}/{USER}/",
    *(
        OF_SESSION + rest
        for rest in (
            "",
            "?at=e0",
            "?at=e0&show=changes",
            "?at=e0&show=event",
            "stats/",
            "?from=e0&to=e5",
            "range/?from=e0&to=e5",
            "strip/",
            "strip/?pin=k1&pin=user:k1&pin=k2&pin=n&pin=k3",
            "e/e0/",
            "e/e0/undo/",
            "e/e0/fork/",
            "restore/?to=e0",
            "rewind/?before=i1",
            "edit/?key=k1",
            "context/",
            "drift/?wait=no",
            "history/",
            "history/?key=k1",
            "history/?key=user:k1",
            "compare/?a=e0&b=now",
            f"compare/?with={SESSION}",
            "forks/",
            "trace/",
            "trace/?at=e0",
        )
    ),
)
READS: Final = (
    *(
        OF_API + rest + "?source=store"
        for rest in ("", "/events", "/state", "/events/e0/state", "/context", "/drift", "/standing")
    ),
    OF_API + "?newest=1000000&source=store",
    OF_API + "/events?limit=1000&source=store",
    f"/api/apps/{APP}/sessions?source=store",
    f"/sources/store/apps/{APP}/users/{USER}/sessions",
    f"/sources/store/apps/{APP}/users/{USER}/sessions/{SESSION}",
    "/api/edits?source=store",
)
ACTS: Final = (
    ("POST", OF_API + "/events?source=store", {"author": "agent", "actions": {"state_delta": {"z": 1}}}),
    ("PATCH", OF_API + "/state?source=store", {"set": {"z": 2}, "reason": "x"}),
    ("POST", OF_API + "/events/e0/undo?source=store", {"overwrite": True}),
    ("POST", OF_API + "/restore?source=store", {"to": "e0"}),
    ("POST", OF_API + "/rewind?source=store", {"before": "i1"}),
    ("POST", OF_API + "/events/e0/fork?source=store", {}),
)

Event = Mapping[str, Any] | str


def takes_less(seconds: float, run: Callable[[], object]) -> bool:
    """Tells whether a call takes less CPU than so many seconds, at least once in three times: a machine may be busy."""
    for _try in range(3):
        began = time.process_time()
        run()
        if time.process_time() - began < seconds:
            return True
    return False


@dataclass(frozen=True)
class Cost:
    """What a request cost, and what was answered."""

    address: str
    status: int
    seconds: float
    megabytes: float
    content: int

    @property
    def fits(self) -> bool:
        """Whether it stays within the limits."""
        return self.status < 500 and self.seconds <= SECONDS and self.megabytes <= MEGABYTES


def write(
    file: Path,
    events: Iterable[Event] = (),
    *,
    state: Mapping[str, Any] | None = None,
    user: Mapping[str, Any] | None = None,
    app: Mapping[str, Any] | None = None,
    sessions: Iterable[Mapping[str, Any]] = (),
) -> Path:
    """A database as ADK's SqliteSessionService makes it, whatever an agent may have written into it: past every check."""
    with closing(sqlite3.connect(file)) as db:
        db.executescript(
            """CREATE TABLE app_states (app_name TEXT PRIMARY KEY, state TEXT NOT NULL, update_time REAL NOT NULL);
            CREATE TABLE user_states (app_name TEXT NOT NULL, user_id TEXT NOT NULL, state TEXT NOT NULL,
                update_time REAL NOT NULL, PRIMARY KEY (app_name, user_id));
            CREATE TABLE sessions (app_name TEXT NOT NULL, user_id TEXT NOT NULL, id TEXT NOT NULL, state TEXT NOT NULL,
                create_time REAL NOT NULL, update_time REAL NOT NULL, PRIMARY KEY (app_name, user_id, id));
            CREATE TABLE events (id TEXT NOT NULL, app_name TEXT NOT NULL, user_id TEXT NOT NULL, session_id TEXT NOT NULL,
                invocation_id TEXT NOT NULL, timestamp REAL NOT NULL, event_data TEXT NOT NULL,
                PRIMARY KEY (app_name, user_id, session_id, id),
                FOREIGN KEY (app_name, user_id, session_id) REFERENCES sessions(app_name, user_id, id) ON DELETE CASCADE);"""
        )
        for number, own in enumerate([{} if state is None else state, *sessions]):
            name = SESSION if not number else f"other{number}"
            db.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, 1, 2)", [APP, USER, name, json.dumps(own)])
        if user is not None:
            db.execute("INSERT INTO user_states VALUES (?, ?, ?, 2)", [APP, USER, json.dumps(user)])
        if app is not None:
            db.execute("INSERT INTO app_states VALUES (?, ?, 2)", [APP, json.dumps(app)])
        for number, event in enumerate(events):
            fields = {"id": f"e{number}", "invocation_id": "i1", "author": "agent", "timestamp": 1_000.0 + number}
            text = event if isinstance(event, str) else json.dumps({**fields, "actions": {}, **event})
            row = [f"e{number}", APP, USER, SESSION, "i1", 1_000.0 + number, text]
            db.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        db.commit()
    return file


def parts(*given: Mapping[str, Any], **event: Any) -> dict[str, Any]:
    """An event of these parts."""
    return {"content": {"role": "model", "parts": list(given)}, **event}


def delta(**values: Any) -> dict[str, Any]:
    """An event that writes state."""
    return {"actions": {"state_delta": values}}


def measure(file: Path, *requests: str | tuple[str, str, Any], folder: Path | None = None) -> list[Cost]:
    """The cost of each request, in a process of its own, by somebody who signed in: an address, or a method, an address and
    a body (JSON for programs, a form for pages).
    """
    asked = [request if isinstance(request, tuple) else ("GET", request, None) for request in requests]
    with tempfile.TemporaryDirectory() as data:
        (given := Path(data) / "requests").write_text(json.dumps(asked))
        migrated(Path(data) / "adkweb.db")
        done = warm.run(
            [sys.executable, "-m", "tests.costs", str(file), str(given)],
            # As if no worker had it: tests/settings.py gives each its own folder in this one.
            env={**os.environ, "ADKWEB_DATA_DIR": data, "PYTHONPATH": str(ROOT), "PYTEST_XDIST_WORKER": ""},
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr[-4_000:]
    return [Cost(*json.loads(line)) for line in done.stdout.splitlines() if line.startswith("[")]


def _main(file: str, given: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    import django

    django.setup()
    from django.db import connections

    from sessions_app.access import tokens
    from sessions_app.access.actor import SYSTEM
    from sessions_app.domain.errors import Error
    from sessions_app.history.moments import state_now
    from sessions_app.sources import database, registry
    from tests.support.people import an_admin, as_admin  # its models need Django to be set up

    person = an_admin("maria")
    token = tokens.create("t", "admin", "*", by=as_admin("maria"))[1]
    with tempfile.TemporaryDirectory() as folder:
        small = write(Path(folder) / "small.db", [parts({"text": "Hello"}), delta(a=1)], state={"a": 1})
        for text in (str(small), file):
            for source in registry.add(text):
                database.open_source(source)
        _cost(person, token, "GET", OF_SESSION.replace("store", "small"), None)  # what is kept from then on
        from sessions_app.domain.session_ref import SessionRef

        for _try in range(5):  # until what time travel uses was read, once
            try:
                state_now(SessionRef("store", APP, USER, SESSION), actor=SYSTEM)
                break
            except Error:
                continue
        connections.close_all()
        for method, address, body in json.loads(Path(given).read_text()):
            sys.stdout.flush()
            if not (child := os.fork()):
                try:
                    print(json.dumps(_cost(person, token, method, address, body)), flush=True)
                finally:
                    os._exit(0)
            os.waitpid(child, 0)


def _cost(person: Any, token: str, method: str, address: str, body: Any) -> Sequence[Any]:
    from django.test import Client

    client = Client(raise_request_exception=False, SERVER_NAME="localhost")
    headers, options = {}, {}
    if address.startswith(("/api/", "/apps/", "/sources/")):
        headers["Authorization"] = f"Bearer {token}"
        options = {} if body is None else {"data": json.dumps(body), "content_type": "application/json"}
    else:
        client.force_login(person)
        if "/strip/" in address or "/range/" in address:  # which only a page asks for
            headers["HX-Request"] = "true"
        options = {} if body is None else {"data": body}
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before, began = _peak(), _seconds()
    response = (
        client.generic(method, address, headers=headers)
        if not options
        else getattr(client, method.lower())(address, headers=headers, **options)
    )
    content = asyncio.run(_length(response)) if response.streaming else len(response.content)
    return [address, response.status_code, _seconds() - began, _peak() - before, content]


async def _length(response: Any) -> int:
    """Of an answer that is read as a server reads it: piece by piece."""
    return sum([len(piece) async for piece in response])


def _seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _peak() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


if __name__ == "__main__":
    _main(*sys.argv[1:])
