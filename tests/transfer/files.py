"""Exports as bytes, imports from bytes, and a store worth exporting."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from django.db import connections

from sessions_app.access.actor import SYSTEM, Actor
from sessions_app.domain.session_ref import SessionRef
from sessions_app.transfer import FORMATS, exporting, import_job
from sessions_app.transfer.import_job import Open
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session
from tests.support.stored import execute

ANA = Actor.holding("ana", "admin")
Line = dict[str, Any]


def exported(source: str, form: str = "jsonl", **only: str) -> bytes:
    """A source as a file."""
    write, write_one = FORMATS[form].write, FORMATS[form].write_one
    if write_one and only.keys() >= {"app", "user", "session"}:
        return b"".join(write_one(SessionRef(source, only["app"], only["user"], only["session"]), SYSTEM, None, None))
    assert write
    return b"".join(write(exporting.items(source, exporting.Filter(**only), actor=SYSTEM)))


@contextmanager
def opening(file: bytes, form: str = "jsonl", strict: bool = False) -> Iterator[Open]:
    """What reads a file's bytes, again and again."""
    with tempfile.NamedTemporaryFile(suffix=FORMATS[form].suffix) as stored_file:
        stored_file.write(file)
        stored_file.flush()
        read = FORMATS[form].read
        assert read
        yield partial(read, stored_file.name, strict)


def checked(file: bytes, form: str = "jsonl", strict: bool = False) -> import_job.Counts:
    """What a file holds; raises its fault."""
    with opening(file, form, strict) as opened:
        return import_job.check(opened)


def imported(source: str, file: bytes, form: str = "jsonl", **options: Any) -> import_job.Report:
    """A file brought into a source, as the command does it."""
    with opening(file, form, connections[source].vendor == "postgresql") as opened:
        import_job.check(opened)
        return import_job.bring(opened, source, actor=ANA, **options)


def lines(file: bytes) -> list[Line]:
    """A file, line by line."""
    return [json.loads(line) for line in file.decode().split("\n")[:-1]]


def file_of(*given: Line) -> bytes:
    """A file of these lines, between a header and the end that belongs to them."""
    kinds = [line.get("type") for line in given]
    end = {"type": "end", **{f"{kind}s": kinds.count(kind) for kind in ("app", "user", "session", "event")}}
    return b"".join(json.dumps(line).encode() + b"\n" for line in ({"adkweb": "jsonl", "version": 1}, *given, end))


def session_line(session: str = "s1", events: int = 0, **other: Any) -> Line:
    """A session's."""
    row = {"app": "app", "user": "u", "session": session, "created": 1.0, "updated": 2.5, "state": {}}
    return {"type": "session", **row, "events": events, **other}


def event_line(event_id: str = "e1", **other: Any) -> Line:
    """An event's."""
    data = {"id": event_id, "invocation_id": "i", "author": "a", "timestamp": 2.5}
    return {"type": "event", "data": data, **other}


def drifted(ref: SessionRef, state: str) -> None:
    """Sets a session's own state past its events, as another program might."""
    execute(ref.source, "UPDATE sessions SET state = %s WHERE id = %s", [state, ref.session_id])


def furnish(source: str) -> None:
    """Initial state, state of every scope, removed keys, drift, an order that times do not tell, any text."""
    one = create_session(
        source,
        "app",
        "ana",
        actor=ANA,
        session_id="s1",
        state={"a": 1, "app:plan": "x", "user:lang": "한국어", "n": None},
    )
    for n in range(5):
        delta: dict[str, Any] = {"n": n, "user:n": n, "a": None, "big": 2**70 + n, "real": 0.1 + 0.2, "huge": 1e300}
        event = {
            "id": f"e{9 - n}",
            "timestamp": 1_700_000_000.1234567 - n,
            "author": "agent",
            "content": {"role": "model", "parts": [{"text": "👩‍👩‍👧‍👦 \u2028 \\u0000 \x01"}]},
            "actions": {"state_delta": delta, "artifact_delta": {"f": n}},
            "custom_metadata": {"adkweb": {"removed": ["a"]}},
            "x_unknown": {"z": [1.0, 1, -0.0, 5e-324, True, None], "a": {}},
        }
        append_event(one, event, actor=ANA, origin="person")
    two = create_session(source, "app", "Ána", actor=ANA, session_id="S2", state={})
    append_event(two, {"id": "e1", "timestamp": 5, "author": "user"}, actor=ANA)
    drifted(two, '{"drifted": true}')
    three = create_session(source, "Zoo", "ana", actor=ANA, session_id="👍", state={"user:x": [1]})
    append_event(three, {"id": "e1", "author": "user", "invocation_id": "i"}, actor=ANA)
    execute(source, "UPDATE sessions SET initial_state = NULL WHERE id = %s", ["👍"])
    execute(source, "UPDATE events SET invocation_id = 'other' WHERE session_id = %s", ["👍"])
    create_session(source, "Zoo", "ana", actor=ANA, session_id="empty")
