"""A process that writes until it is killed, for test_crash.py.

Each line on stdin is one job; for each it forks a child, so that a round does not pay for starting Python. The child
writes, telling each thing done on stdout, and is killed: at a moment (`after` seconds from its first append) or at a
statement (`kill`: before or after the n-th).
"""

import itertools
import json
import os
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import django


def tell(**what: Any) -> None:
    """One line to the test; short enough to be written at once."""
    os.write(1, (json.dumps(what) + "\n").encode())


def work(job: dict[str, Any], ready: int) -> None:
    """What the child does."""
    from django.db import connections

    from sessions_app.sources import database, registry

    (source,) = registry.add(job["source"])
    database.open_source(source)
    operation = _operations(source.alias, job)
    if "threads" in job:
        _write_together(job, operation, ready)
    if "kill" not in job:
        for number in range(job["first"], 1_000_000):
            done = operation(number)
            tell(done=number, id=done.event["id"], revision=done.revision)
            if number == job["first"]:
                os.write(ready, b".")
    side, place = job["kill"]
    count = 0

    def at(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        nonlocal count
        count += 1
        if count == place and side == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = execute(sql, params, many, context)
        if count == place:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    if source.vendor == "sqlite":
        _at_statement(connections[source.alias].connection, side, place)
        operation(job["first"])
    else:
        with connections[source.alias].execute_wrapper(at):
            operation(job["first"])


def _at_statement(sqlite: sqlite3.Connection, side: str, place: int) -> None:
    """SQLite itself tells of each statement before it runs, BEGIN and COMMIT among them: after one is before the next."""
    count = 0

    def at(_sql: str) -> None:
        nonlocal count
        count += 1
        if count == place + (side == "after"):
            os.kill(os.getpid(), signal.SIGKILL)

    sqlite.set_trace_callback(at)


def _write_together(job: dict[str, Any], operation: Callable[[int], Any], ready: int) -> None:
    """Threads that write until the process is killed, each in its own numbers."""

    def write(first: int) -> None:
        for number in itertools.count(first):
            done = operation(number)
            tell(done=number, id=done.event["id"], revision=done.revision)

    threads = [threading.Thread(target=write, args=[first]) for first in job["threads"]]
    for thread in threads:
        thread.start()
    os.write(ready, b".")
    for thread in threads:
        thread.join()


def _operations(alias: str, job: dict[str, Any]) -> Callable[[int], Any]:
    from sessions_app.access.actor import Actor
    from sessions_app.domain.session_ref import SessionRef
    from sessions_app.domain.state import ABSENT
    from sessions_app.writes.append import append_event
    from sessions_app.writes.sessions import create_session, delete_session

    actor, ref = Actor.holding("victim", "admin"), SessionRef(alias, *job["key"])

    def append(number: int, expected: Any = None) -> Any:
        delta = {"n": number, "user:n": number, "app:n": number, f"k{number % 7}": number, f"app:k{number % 7}": None}
        event = {"id": f"e{number}", "timestamp": time.time(), "actions": {"state_delta": delta}}
        if number % 3 == 0:
            event["custom_metadata"] = {"adkweb": {"removed": [f"app:k{number % 7}"]}}
        return append_event(ref, event, actor=actor, origin="person", expected=expected)

    def create(_number: int) -> Any:
        state = {"n": 1, "user:made": 1, "app:made": 1}
        return create_session(alias, *job["key"][:2], session_id="made", state=state, actor=actor)

    named: dict[str, Callable[[int], Any]] = {
        "append": append,
        "append on a revision": lambda n: append(n, job["revision"]),
        "append on values": lambda n: append(n, {"n": 0, "user:n": 0, "app:n": 0, "app:none": ABSENT}),
        "create": create,
        "delete": lambda n: delete_session(ref, actor=actor),
    }
    return named[job["operation"]]


def _load() -> None:
    """Imports what each child would import again."""
    import psycopg  # noqa: F401

    import sessions_app.sources.database
    import sessions_app.writes.append
    import sessions_app.writes.sessions  # noqa: F401


def main() -> None:
    """Takes jobs until stdin ends."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    django.setup()
    _load()
    for line in sys.stdin:
        job = json.loads(line)
        ready, told = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                work(job, told)
            except BaseException as error:
                tell(error=repr(error))
                os._exit(1)
            os._exit(0)
        os.close(told)
        if "kill" not in job:
            os.read(ready, 1)
            time.sleep(job["after"])
            os.kill(child, signal.SIGKILL)
        os.close(ready)
        _child, status = os.waitpid(child, 0)
        tell(exit=os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
