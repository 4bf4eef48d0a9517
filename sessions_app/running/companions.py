"""Keeps what companions (adk/companion.py) report about the agents in their processes, and tells them what to stop.

A report is kept in the source that has the session. If several that are open have it, as a copy does, it is kept in those
whose newest events are of this invocation.
"""

import json
import time
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, Protocol

from django.db import transaction

from .. import broadcast
from ..access.actor import SYSTEM, Actor
from ..access.shown import shown_words
from ..domain.errors import Error
from ..domain.session_ref import SessionRef, digest_of
from ..models import AgentVersion, Pause, Report
from ..reads import newest, timeline
from ..sources import database, registry

_GLANCE: Final = 20  # events of a session in which an invocation is looked for


class Said(Protocol):
    """The report of a process about an invocation: api/companion.py."""

    invocation: str
    app_name: str
    user_id: str
    session_id: str
    since: float
    ended: float | None
    step: str
    name: str
    step_since: float
    adk: str
    version: str


def hear(process: str, at: float, said: Iterable[Said], *, account: str, apps: str) -> None:
    """Takes in what a process says about its invocations in the apps that a pattern names.

    As long as that process is heard of, no other one can say anything about them."""
    some = [each for each in said if fnmatchcase(each.app_name, apps)]
    rows: dict[tuple[str, str], list[Report]] = {}
    for row in Report.objects.filter(invocation__in={each.invocation for each in some}):
        rows.setdefault((row.names, row.invocation), []).append(row)
    missing = [each for each in some if (_names(each), each.invocation) not in rows]
    for each, refs in _sessions(missing):
        rows[_names(each), each.invocation] = [_row(ref, each) for ref in refs]
    sessions = {(row.where, row.digest) for each in missing for row in rows.get((_names(each), each.invocation), ())}
    changed = []
    with transaction.atomic():
        for each in some:
            for row in rows.get((_names(each), each.invocation), []):
                before = row.is_running, row.step, row.name
                if _note(row, each, process, at, account) and before != (row.is_running, row.step, row.name):
                    changed.append((row, before[0] != row.is_running))
        for session in sessions:
            Report.objects.forget_all_but_newest(*session)
        Report.objects.forget_old()
    for row, begins_or_ends in changed:
        if alias := registry.alias_of(row.where):
            ref = SessionRef(alias, *json.loads(row.names))
            if begins_or_ends:
                broadcast.tell("queued", ref)
            broadcast.tell("at work", ref)


def _note(row: Report, said: Said, process: str, at: float, account: str) -> bool:
    """Stores what a process says. Returns False if it isn't the one whose run this is.

    A page says since when something runs, so those times are by adkweb's clock. When it ended is by that of the process, as
    its events are."""
    now = time.time()
    ahead = at - now
    if row.is_running and (row.process, row.account) != (process, account):
        return False
    if not row.is_running:  # it begins, or goes on after an answer
        row.process, row.account, row.since, row.stopped_by = process, account, said.since - ahead, ""
        _note_version(row.where, said)
    row.beat, row.at, row.ended = now, said.ended or at, said.ended is not None
    row.step, row.name, row.step_since = said.step, said.name, said.step_since - ahead
    row.save()
    if row.ended:
        Pause.objects.filter(where=row.where, digest=row.digest, invocation=row.invocation).end()
    return True


def _note_version(where: str, said: Said) -> None:
    versions: dict[str, Any] = {"adk": said.adk, "version": said.version}
    if said.adk and not AgentVersion.objects.filter(where=where, app_name=said.app_name, **versions).exists():
        AgentVersion.objects.update_or_create(where=where, app_name=said.app_name, defaults=versions)


def version_of(source: str, app_name: str, *, actor: Actor) -> AgentVersion | None:
    """Returns what a companion said last about the version of an app's agent, as an operator of the app may see it; None for
    others."""
    if not actor.may("operate", source, app_name):
        return None
    said = AgentVersion.objects.filter(where=registry.identity(source), app_name=app_name).first()
    if said:
        said.adk, said.version = (shown_words(each, actor, app_name) for each in (said.adk, said.version))
    return said


def session_of(said: Said, process: str, *, account: str) -> SessionRef | None:
    """Returns the session in which a process reports that an invocation runs; None if it's in none, or another one's."""
    own = Report.objects.running().filter(process=process, account=account)
    row = own.filter(names=_names(said), invocation=said.invocation).order_by("-beat").first()
    alias = registry.alias_of(row.where) if row else None
    return SessionRef(alias, said.app_name, said.user_id, said.session_id) if alias else None


def to_stop(process: str, *, account: str) -> list[str]:
    """Returns the invocations of a process that someone has asked to stop, and that it still reports as running."""
    own = Report.objects.running().filter(process=process, account=account).exclude(stopped_by="")
    return list(dict.fromkeys(own.values_list("invocation", flat=True)))


def told() -> set[str]:
    """Returns the processes that have something to stop."""
    return set(Report.objects.running().exclude(stopped_by="").values_list("process", flat=True))


def _names(said: Said) -> str:
    return json.dumps([said.app_name, said.user_id, said.session_id])


def _row(ref: SessionRef, said: Said) -> Report:
    return Report(
        where=registry.identity(ref.source),
        digest=digest_of(*ref[1:]),
        names=_names(said),
        invocation=said.invocation,
        beat=0.0,
    )


def _sessions(said: Sequence[Said]) -> Iterable[tuple[Said, list[SessionRef]]]:
    """Yields each invocation with its session in every source that may be meant."""
    there: dict[tuple[str, ...], list[SessionRef]] = {}
    for source in database.opened() if said else ():
        refs = {SessionRef(source.alias, each.app_name, each.user_id, each.session_id) for each in said}
        try:
            for ref in newest.revisions(source.alias, refs, actor=SYSTEM):
                there.setdefault(ref[1:], []).append(ref)
        except Error:  # it is away
            continue
    for each in said:
        refs_ = there.get((each.app_name, each.user_id, each.session_id), [])
        yield each, refs_ if len(refs_) < 2 else [ref for ref in refs_ if _has(ref, each.invocation)]


def _has(ref: SessionRef, invocation: str) -> bool:
    events = timeline.events(ref, limit=_GLANCE, actor=SYSTEM).rows
    return any(view.invocation_id == invocation for view in events)
