"""Writes everything of one user of an app into one file: a zip with their sessions, their state and their artifacts.

    sessions.jsonl          as `adkweb export` writes them: their state, then each session with its events
    artifacts/0001-plan.pdf each version of each artifact that can be read here
    about.json              what is in it, titles and tags, and what is missing and why

Anything long is written as it is read, so that only a piece of it is in memory.
"""

import json
import re
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, BinaryIO, Final

from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..access.handles import shown_user
from ..access.shown import shown, shown_text, shown_words
from ..artifacts import contents, saved
from ..artifacts.contents import Unavailable
from ..artifacts.saved import Save
from ..artifacts.storages import USER
from ..domain.errors import Behind, Invalid, NotFound
from ..domain.session_ref import SessionRef
from ..models import Answer, Dismissal, Job, Pause, SessionTag, SessionTitle, TriedSession
from ..models.pages import in_pages
from ..running import breakpoints
from ..sources import registry
from ..transfer import exporting
from ..transfer.exporting import Filter
from ..transfer.formats import jsonl
from ..transfer.items import EventItem, Item, SessionItem, StateItem
from ..trying import replays
from .erasure_job import count_events

_UNSAFE: Final = re.compile(r"[^\w.-]+")
_NAME_LENGTH: Final = 60
_MOST_MISSING: Final = 1_000  # that are listed one by one

Moved = Callable[[int, int], None]
Seen = Callable[[str, Actor, str], str]  # what an actor may see of a text


@dataclass(slots=True)
class Bundle:
    """The numbers of a file: what is in it, and how many artifacts could not be read."""

    sessions: int = 0
    events: int = 0
    artifacts: int = 0
    missing: int = 0
    complete: bool = True


@dataclass(slots=True)
class _Writing:
    """A file that is being written, with the content of its `about.json`."""

    zip: zipfile.ZipFile
    source: str
    app_name: str
    user_id: str
    actor: Actor
    moved: Moved
    bundle: Bundle = field(default_factory=Bundle)
    artifacts: list[dict[str, Any]] = field(default_factory=list)
    missing: list[dict[str, Any]] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


def write(file: BinaryIO, source: str, app_name: str, user_id: str, *, actor: Actor, moved: Moved) -> Bundle:
    """Writes what the actor may see of a user. `moved` is called with the number of events written, and the total.

    Raises NotFound if there is no such user; Conflict, Invalid, SourceError.
    """
    if not actor.may_see(source, app_name):
        raise _no_user(source, app_name, user_id, actor)
    total = count_events(source, app_name, user_id)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as opened:
        writing = _Writing(opened, source, app_name, user_id, actor, moved)
        refs = _write_sessions(writing, total)
        files: set[tuple[str, str, int]] = set()
        for ref in refs:
            moved(writing.bundle.events, total)
            _write_artifacts(writing, ref, files, total)
        with opened.open("about.json", "w") as about:
            about.write(json.dumps(_about(writing), ensure_ascii=False, indent=2).encode("utf-8", "replace"))
    return writing.bundle


def _write_sessions(writing: _Writing, total: int) -> list[SessionRef]:
    refs: list[SessionRef] = []

    def told(items: Iterator[Item]) -> Iterator[Item]:
        for item in items:
            if isinstance(item, EventItem):
                writing.bundle.events += 1
                writing.moved(writing.bundle.events, total)
            elif isinstance(item, SessionItem):
                refs.append(SessionRef(writing.source, item.app, writing.user_id, item.session))
            yield item

    there = False
    with writing.zip.open("sessions.jsonl", "w", force_zip64=True) as file:
        for line in jsonl.write(told(_items(writing)), secrets=False):
            file.write(line)
            there = there or line.startswith(b'{"app"')
    writing.bundle.sessions = len(refs)
    if not (refs or there):
        raise _no_user(writing.source, writing.app_name, writing.user_id, writing.actor)
    return refs


def _no_user(source: str, app_name: str, user_id: str, actor: Actor) -> NotFound:
    name = shown_user(source, app_name, user_id, actor)
    return NotFound(_("There's no user “%(name)s” in this app.") % {"name": name})


def _items(writing: _Writing) -> Iterator[Item]:
    """Yields the user's state and sessions. The app's state is everyone's, so it is left out."""
    names = (writing.source, writing.app_name, writing.user_id)
    if state := exporting.user_state(*names, actor=writing.actor):
        yield state
    for item in exporting.items(writing.source, Filter(*names[1:]), actor=writing.actor):
        if not isinstance(item, StateItem):
            yield item


# --- Artifacts --------------------------------------------------------------------------------------------------------


def _write_artifacts(writing: _Writing, ref: SessionRef, files: set[tuple[str, str, int]], total: int) -> None:
    """Writes the artifacts of a session. Those that all sessions of the user share are written once."""
    try:
        for save in _saves(writing, ref):
            shared = save.name.startswith(USER)
            one = ("" if shared else ref.session_id, save.name, -1 if save.version is None else save.version)
            if one not in files:
                files.add(one)
                writing.moved(writing.bundle.events, total)
                _write_artifact(writing, ref, save)
    except (Behind, Invalid) as error:
        _note_unread(writing, ref, error.message)


def _saves(writing: _Writing, ref: SessionRef) -> Iterator[Save]:
    before = 0
    while True:
        page = saved.listing(ref, before, actor=writing.actor)
        if page.behind:
            _note_unread(writing, ref, "the newest events are not indexed yet")
        for artifact in page.rows:
            versions = saved.versions(ref, artifact.name, actor=writing.actor)
            if len(versions) >= saved.VERSIONS:
                _note_unread(writing, ref, f"only the newest {saved.VERSIONS} versions of an artifact are looked for")
            yield from versions
        if not page.older:
            return
        before = page.older


def _note_unread(writing: _Writing, ref: SessionRef, why: str) -> None:
    writing.bundle.complete = False
    if len(writing.unread) < _MOST_MISSING:
        writing.unread.append(f"{ref.session_id}: {why}")


def _write_artifact(writing: _Writing, ref: SessionRef, save: Save) -> None:
    row = {"session": ref.session_id, "name": save.name, "version": save.version, "event": save.event_id}
    try:
        with contents.opened(ref, save.name, save.version, actor=writing.actor) as (content, source):
            writing.bundle.artifacts += 1
            name = _UNSAFE.sub("_", content.file_name)[-_NAME_LENGTH:].lstrip(".")
            path = f"artifacts/{writing.bundle.artifacts:04}-{name or 'artifact'}"
            with writing.zip.open(path, "w", force_zip64=True) as file:
                at = 0
                while at < content.size and (piece := source.read(at, min(source.piece, content.size - at))):
                    file.write(piece)
                    at += len(piece)
            writing.artifacts.append({**row, "file": path, "type": content.mime_type, "size": at})
    except Unavailable as error:
        writing.bundle.missing += 1
        if len(writing.missing) < _MOST_MISSING:
            writing.missing.append({**row, "why": error.content.state, "storage": error.content.storage})


# --- What is in it ----------------------------------------------------------------------------------------------------


def _about(writing: _Writing) -> dict[str, Any]:
    numbers = asdict(writing.bundle)
    return {
        "adkweb": "user",
        "version": 1,
        "source": writing.source,
        "app": writing.app_name,
        "user": shown_user(writing.source, writing.app_name, writing.user_id, writing.actor),
        "made": time.time(),
        **{name: numbers[name] for name in ("sessions", "events", "complete")},
        "artifacts": writing.artifacts,
        "artifacts_that_cannot_be_read": writing.missing,
        "not_looked_through": writing.unread,
        "titles": _labels(writing, SessionTitle, "title"),
        "tags": _labels(writing, SessionTag, "tag"),
        "dismissals": _labels(writing, Dismissal, "reason"),
        "answers": _labels(writing, Answer, "response", _shown_part),
        "pauses": _pauses(writing),
        "replays": _labels(writing, TriedSession, "outcome", replays.shown_outcome),
        "unsent": _unsent(writing),
        "what_ifs": _what_ifs(writing),
    }


def _pauses(writing: _Writing) -> list[dict[str, Any]]:
    """Returns what people changed of what the user's agents were about to do."""
    begins = json.dumps([writing.app_name, writing.user_id])[:-1] + ","
    rows = Pause.objects.filter(where=registry.identity(writing.source), names__startswith=begins).exclude(changed="")
    refs = [(row, SessionRef(writing.source, *json.loads(row.names))) for row in in_pages(rows)]
    return [
        {"session": ref.session_id, "step": row.kind, **asdict(change)}
        for row, ref in refs
        if row.names.startswith(begins)  # SQLite compares without regard to case
        for change in breakpoints.of_pause(row, ref, actor=writing.actor)
    ]


def _unsent(writing: _Writing) -> list[dict[str, str]]:
    """Returns the messages to the user's agents that didn't reach them, as JSON, and what was proposed to be sent: those
    that did are among the events."""
    names = {"app_name": writing.app_name, "user_id": writing.user_id}
    rows = Job.objects.filter(kind__in=("run", "proposal"), where=registry.identity(writing.source), **names)
    tasks = [(row.session_id, json.loads(row.task)) for row in in_pages(rows)]
    said = [(session, (task.get("answer") or task.get("message") or task).get("parts")) for session, task in tasks]
    unsent = [(session, {"parts": parts}) for session, parts in said if parts]
    return [
        {
            "session": session,
            "message": shown_text(json.dumps({"content": message}), writing.actor, writing.app_name, "event"),
        }
        for session, message in unsent
    ]


def _what_ifs(writing: _Writing) -> list[dict[str, Any]]:
    """Returns what was tried with the user's sessions: what was different, and the events of each trial."""
    names = {"app_name": writing.app_name, "user_id": writing.user_id}
    jobs = Job.objects.filter(kind="whatif", where=registry.identity(writing.source), **names)

    def seen(event: dict[str, Any]) -> Any:
        return shown(event, writing.actor, writing.app_name, "event")

    tried = []
    for row in in_pages(jobs):
        change = json.loads(row.task)["change"]
        responses = [{"function_response": {"response": each}} for each in change["results"].values()]
        parts = [{"text": text} for text in (change["message"], *change["instructions"].values()) if text]
        made = seen({"actions": {"state_delta": change["state"]}, "content": {"parts": [*parts, *responses]}})
        trials = [[seen(each) for each in json.loads(trial.events)] for trial in row.trials.order_by("number")]
        tried.append({"session": row.session_id, "change": made, "trials": trials})
    return tried


def _shown_part(text: str, actor: Actor, app_name: str) -> str:
    return shown_text(text, actor, app_name, "event")


def _labels(writing: _Writing, model: Any, name: str, seen: Seen = shown_words) -> list[dict[str, str]]:
    """Returns the titles, the tags, the reasons or the answers (as JSON) that people gave to the user's sessions."""
    begins = json.dumps([writing.app_name, writing.user_id])[:-1] + ","
    rows = model.objects.filter(where=registry.identity(writing.source), names__startswith=begins)
    # SQLite compares without regard to case.
    return [
        {
            "session": json.loads(each.names)[-1],
            name: seen(getattr(each, name), writing.actor, writing.app_name),
        }
        for each in in_pages(rows)
        if each.names.startswith(begins)
    ]
