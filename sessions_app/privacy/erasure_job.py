"""Erases a user of an app in the background: session by session, then their state, and what adkweb itself stores about
them.

An erasure is a job (jobs/). If its process dies, another one continues. Each session is deleted in one transaction,
with a pause after it so that agents aren't held up. A session on hold stays, and so does the user's state then. A
session with a running agent is tried again for a while, and then stays, too; the report says so.
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from ..access.actor import SYSTEM, Actor
from ..artifacts import contents
from ..artifacts.folders import Folder
from ..artifacts.storages import Unreadable
from ..domain.errors import Behind, Conflict, Error, NotFound
from ..domain.session_ref import SessionRef
from ..edits import queue
from ..history.index import build
from ..jobs import runner
from ..jobs.lease import Progress
from ..models import Event
from ..sources import database
from ..transfer import exporting
from ..transfer.exporting import Filter
from ..writes.sessions import delete_session, delete_user_state, forget_deleted, is_on_hold
from . import own_rows, remains
from .remains import Remains

SHOWN: Final = 100  # sessions that stay, in a report
ROUNDS: Final = 8  # through the user's sessions: an agent may start new ones in the meantime
BUSY_SECONDS: Final = 30.0  # for which sessions with a running agent are tried again
_LOOK_AGAIN: Final = 1.0
_PAUSE: Final = 0.5  # of the time that deleting a session took
_HISTORY_SECONDS: Final = 20.0

Note = Callable[["Report"], None]


@dataclass(slots=True)
class Report:
    """A report of what was removed for a user, and of what remains.

    `kept` are the ids of sessions that stay, each with why: `hold`, `busy`, or a message. `begun` is the session that
    is being deleted, with its events, so that a process that continues counts it."""

    sessions: int = 0
    events: int = 0
    artifacts: int = 0
    state: bool = False
    rows: dict[str, int] = field(default_factory=dict)
    kept: list[list[str]] = field(default_factory=list)
    more_kept: int = 0
    notes: bool = False  # in the source, of sessions that were deleted
    history_left: bool = False
    begun: list[Any] = field(default_factory=list)
    remains: Remains = field(default_factory=Remains)

    @classmethod
    def read(cls, text: str) -> "Report":
        """Returns a report from the JSON that a job keeps."""
        report = json.loads(text or "{}")
        return cls(**{**report, "remains": Remains(**report.get("remains", {}))})

    def text(self) -> str:
        """Returns the JSON that a job keeps."""
        return json.dumps(asdict(self))


def refs_of(source: str, app_name: str, user_id: str) -> Iterator[SessionRef]:
    """Yields the sessions of a user by id, page by page."""
    return exporting.refs(source, Filter(app_name, user_id))


def erase(user: SessionRef, report: Report, *, actor: Actor, beat: runner.Beat, note: Note) -> None:
    """Erases a user, whom a ref without a session names. `note` stores the report whenever it has changed.

    Raises NotAllowed, SourceError, Lost; the same call continues."""
    names = user[:3]
    total = report.sessions + sum(1 for _ref in refs_of(*names))
    _end_begun(report)
    kept: dict[str, str] = {}
    until = time.monotonic() + BUSY_SECONDS
    for _round in range(ROUNDS):
        kept, deleted, busy = {}, 0, False
        for ref in refs_of(*names):
            actor.check_may("admin", ref.source, ref.app_name)
            beat(Progress(report.sessions, max(total, report.sessions + 1), "erasing"))
            why = _delete(ref, report, actor, note)
            if why:
                kept[ref.session_id] = why
                busy = busy or why == "busy"
            else:
                deleted += 1
        if not kept and not report.state:
            report.state = delete_user_state(*names, actor=actor)
            note(report)
        if busy and time.monotonic() < until:
            time.sleep(_LOOK_AGAIN)
        elif not deleted:
            break
    listed = list(kept.items())
    report.kept, report.more_kept = [list(each) for each in listed[:SHOWN]], max(0, len(listed) - SHOWN)
    if not kept:
        report.artifacts += _delete_files(user, whole=True)
    _forget(names, report, set(kept))
    report.remains = remains.look(*names, actor=actor)


def _delete(ref: SessionRef, report: Report, actor: Actor, note: Note) -> str:
    """Deletes a session with its artifacts. Returns why it stays; empty if it was deleted."""
    if is_on_hold(ref):
        return "hold"
    began = time.monotonic()
    try:
        if not queue.is_idle(ref):
            return "busy"
        report.begun = [*ref, count_events(*ref)]
        note(report)
        delete_session(ref, actor=actor)
    except NotFound:
        pass  # the agent was faster
    except Conflict as error:  # put on hold just now
        report.begun = []
        return error.message
    _end_begun(report)
    note(report)
    time.sleep((time.monotonic() - began) * _PAUSE)
    return ""


def _end_begun(report: Report) -> None:
    """Counts the session whose deletion was noted before, if it is gone, and deletes what is stored about it
    elsewhere."""
    if report.begun:
        ref, events = SessionRef(*report.begun[:4]), report.begun[4]
        if not any(True for _ref in exporting.refs(ref.source, Filter(*ref[1:]))):
            report.artifacts += _delete_files(ref)
            own_rows.forget_session(ref)
            report.sessions += 1
            report.events += events
        report.begun = []


def _delete_files(ref: SessionRef, *, whole: bool = False) -> int:
    """Deletes the artifacts of a session, or all that are left of its user. Returns how many files."""
    files = 0
    for storage in contents.storages_of(ref.source):
        try:
            files += storage.remove(ref, whole=whole) if isinstance(storage, Folder) else 0
        except Unreadable:
            continue
    return files


def _forget(names: tuple[str, str, str], report: Report, kept: set[str]) -> None:
    """Deletes what adkweb stores about the user."""
    source, app_name, user_id = names
    if not kept:
        report.notes = not _forget_notes(source, app_name, user_id)
        try:  # or later reading would add it again
            build.catch_up(source, _HISTORY_SECONDS)
        except (Behind, Error):
            report.history_left = True
    for name, count in own_rows.forget_user(source, app_name, user_id, kept).items():
        report.rows[name] = report.rows.get(name, 0) + count


def _forget_notes(source: str, app_name: str, user_id: str) -> bool:
    """Removes the user's id from adkweb's notes in the source. Returns False without permission to change them."""
    try:
        forget_deleted(source, app_name, user_id, actor=SYSTEM)
    except Error:
        return False
    return True


def count_events(source: str, app_name: str, user_id: str, session_id: str | None = None) -> int:
    """Returns the number of events of a user, or of one of their sessions. Raises SourceError."""
    names = {"app_name": app_name, "user_id": user_id}
    if session_id is not None:
        names["session_id"] = session_id
    with database.using(source):
        return Event.objects.using(source).filter(**names).count()
