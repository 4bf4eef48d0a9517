"""Writes of every kind through adkweb's doors, each of which can be sent again until it is acknowledged.

A client that is never told what came of a write sends it again, as `once`, an event's id or the state of what it asks for
allows. So in the end every write that was begun must be there, exactly once.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import httpx
from django.conf import settings
from django.urls import reverse

from sessions_app.domain.session_ref import SessionRef
from tests.live.pages import page_path

HELD: Final = "approved-*"  # keys that need a second person
LASTS: Final = 0.5  # seconds of an edit that takes itself back
BATCHED: Final = 8  # sessions of a batch
_FORM: Final = "f" * 32  # what a form and its cookie have in common
_OVER: Final = "Expired. "  # before the reason of an edit, in the event that takes it back

Step = Callable[[], None]


class InDoubt(Exception):
    """Nobody was told what came of it: it is to be sent again."""


@dataclass
class Door:
    """An address of adkweb, with what a program and a person show there."""

    address: str
    source: str
    token: str
    sign_in: str


@dataclass
class Round:
    """The writes to one app: those that were begun, acknowledged, in doubt, and those that adkweb does by itself later.

    A write is named by its session and by its reason, or by the id of an agent's event."""

    app: str
    begun: set[tuple[str, str]] = field(default_factory=set)
    written: set[tuple[str, str]] = field(default_factory=set)
    later: set[tuple[str, str]] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    batches: list[str] = field(default_factory=list)
    doubts: list[Step] = field(default_factory=list)


class Client:
    """Somebody who writes to one app."""

    def __init__(self, door: Door, of: Round) -> None:
        self.door, self.of = door, of
        cookies = {settings.SESSION_COOKIE_NAME: door.sign_in, settings.CSRF_COOKIE_NAME: _FORM}
        self.http = httpx.Client(base_url=door.address, verify=False, cookies=cookies, timeout=30)

    def work(self, steps: Iterator[Step], stop: threading.Event) -> None:
        """Takes step after step, until one of them is in doubt."""
        for step in steps:
            if stop.is_set():
                return
            try:
                step()
            except InDoubt:
                self.of.doubts.append(step)
                return

    def asked(self, method: str, path: str, *expected: int, **options: Any) -> httpx.Response:
        """Returns an answer. Raises InDoubt where there is none, or a database is away."""
        try:
            answer = self.http.request(method, path, **options)
        except httpx.TransportError as error:
            raise InDoubt from error
        if answer.status_code == 503:
            raise InDoubt
        assert answer.status_code in expected, (method, path, answer.status_code, answer.text[-2000:])
        return answer

    def program(self, method: str, path: str, *expected: int, body: Any = None) -> httpx.Response:
        """Asks as a program does, below the user of the app."""
        options = {"headers": {"Authorization": f"Bearer {self.door.token}"}, "params": {"source": self.door.source}}
        path = f"/api/apps/{self.of.app}/{path}"
        return self.asked(method, path, *expected, json=body, **options)

    def form(self, path: str, **fields: Any) -> httpx.Response:
        """Sends a form as a person does."""
        data = {**fields, "csrfmiddlewaretoken": _FORM}
        return self.asked("POST", path, 200, 302, 409, data=data, headers={"Origin": self.door.address})

    # --- Kinds of writes ---

    def sessions(self) -> None:
        """Makes the sessions that are written to, and waits until adkweb does."""
        for name in ("run", "edit", "timed", "held", *(f"b{n}" for n in range(BATCHED))):
            self.program("POST", "users/ana/sessions", 201, 409, body={"session_id": name})

    def agent(self) -> Iterator[Step]:
        """Appends events, which set a key of every scope."""
        for n in itertools.count():
            delta = {"n": n, "user:n": n, "app:n": n, f"app:k{n % 7}": None}
            event = {"id": f"e{n}", "author": "agent", "timestamp": time.time(), "actions": {"state_delta": delta}}
            yield lambda event=event: self._append(event)  # type: ignore[misc]

    def _append(self, event: dict[str, Any]) -> None:
        self.of.begun.add(("run", event["id"]))
        self.program("POST", "users/ana/sessions/run/events", 200, 201, body=event)
        self.of.written.add(("run", event["id"]))

    def editor(self) -> Iterator[Step]:
        """Edits state."""
        for n in itertools.count():
            yield lambda n=n: self._edit("edit", f"edit {n}", {f"k{n % 7}": n, "user:k": n})  # type: ignore[misc]

    def timed(self) -> Iterator[Step]:
        """Edits state for a moment."""
        for n in itertools.count():
            yield lambda n=n: self._timed(n)  # type: ignore[misc]
            time.sleep(0.02)

    def _timed(self, n: int) -> None:
        self._edit("timed", f"timed {n}", {f"t{n}": n}, lasts=LASTS)
        self.of.later.add(("timed", f"{_OVER}timed {n}"))

    def _edit(self, session: str, reason: str, values: dict[str, Any], **more: Any) -> str:
        """Edits state. Returns the proposal that it became, or nothing."""
        self.of.begun.add((session, reason))
        body = {"set": values, "reason": reason, "once": f"{self.of.app} {reason}", **more}
        answer = self.program("PATCH", f"users/ana/sessions/{session}/state", 200, 201, 403, body=body)
        if answer.status_code == 403:
            return str(answer.json()["proposal"])
        self.of.written.add((session, reason))
        return ""

    def two_people(self) -> Iterator[Step]:
        """Proposes edits, and applies them as another person."""
        for n in itertools.count():
            yield lambda n=n: self._propose(n)  # type: ignore[misc]

    def _propose(self, n: int) -> None:
        reason = f"held {n}"
        waiting = self._edit("held", reason, {f"approved-{n}": n})
        if waiting:
            self.form(reverse("proposal", args=[waiting]), action="apply")  # refused if it was applied before
            if self.program("GET", f"proposals/{waiting}", 200).json()["state"] != "applied":
                raise InDoubt
        self.of.written.add(("held", reason))

    def admin(self) -> Iterator[Step]:
        """Makes and deletes sessions: what is deleted stands in the audit."""
        for n in itertools.count():
            yield lambda n=n: self._delete(f"gone{n}")  # type: ignore[misc]
            time.sleep(0.02)

    def _delete(self, name: str) -> None:
        self.program("POST", "users/ana/sessions", 201, 409, body={"session_id": name})
        self.program("DELETE", f"users/ana/sessions/{name}", 204, 404)
        self.of.deleted.add(name)

    def batcher(self) -> Iterator[Step]:
        """Edits some sessions at once. A batch that was not begun for sure is left alone."""
        for n in itertools.count():
            made: list[str] = []
            yield lambda n=n, made=made: self._batch(n, made)  # type: ignore[misc]

    def _batch(self, n: int, made: list[str]) -> None:
        reason, names = f"batch {n}", [f"b{number}" for number in range(BATCHED)]
        if not made:
            refs = [SessionRef(self.door.source, self.of.app, "ana", name) for name in names]
            fields = {"act": "edit", "ref": [page_path(ref) for ref in refs]}
            made.append(self.form(reverse("chosen"), **fields).headers["Location"])
            self.of.begun |= {(name, reason) for name in names}
        row = {"key-0": f"b{n}", "value-0": str(n), "operation-0": "set", "rows": "0"}
        self.form(made[0], action="try", reason=reason, **row)  # refused once it is being done, or was
        if self.form(made[0], action="do").status_code != 302:  # its dry run has not ended
            raise InDoubt
        self.of.batches.append(made[0])
        self.of.later |= {(name, reason) for name in names}

    def go_on(self) -> None:
        """Goes on with batches that stopped, as a person does who sees that."""
        for address in self.of.batches:
            self.form(address, action="do")
