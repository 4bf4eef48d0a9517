"""Finds which sessions are forks of which: the note at the end of each fork names its origin, and the index of history/
finds the notes."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ..access.actor import SYSTEM, Actor
from ..access.shown import shown_words
from ..domain.edit_note import edit_of
from ..domain.errors import NotFound
from ..domain.event import Event
from ..domain.json_values import as_object
from ..domain.positions import Seq
from ..domain.session_ref import SessionRef
from ..history.edit_log import events_at
from ..history.index import build, query
from ..reads import timeline, whole_session
from ..reads.event_views import EventView, events_of, view_of
from ..sources import database

NAMESPACE: Final = uuid.UUID("6d1d4f43-5f0c-4a4e-9a43-7b6b3f6f0c51")  # of the ids that are made from the names of forks
_SHOWN: Final = 500  # forks of a tree


@dataclass(frozen=True, slots=True)
class Fork:
    """A session that is a fork: of which session, at which event, since when, who wanted it, and why."""

    ref: SessionRef
    origin: SessionRef
    event_id: str
    seq: Seq | None
    created: float
    actor: str
    reason: str


@dataclass(frozen=True, slots=True)
class Node:
    """A session in a fork tree. `fork` is None for the root; `there` says whether the session still exists.

    `level` is 1 for the root, 2 for its forks, and so on."""

    ref: SessionRef
    fork: Fork | None
    there: bool
    level: int = 1
    forks: list["Node"] = field(default_factory=list)


def origin(ref: SessionRef, *, actor: Actor) -> Fork | None:
    """Returns the origin of a fork; None if the session is not a fork, or has no note of it. Raises SourceError."""
    actor.check_sees(ref)
    note = _note_of(ref)
    return note_in(ref, note.data, actor) if note else None


def _note_of(ref: SessionRef) -> EventView | None:
    # It names a user, whose id may be hidden: as it is stored, it leads to the session.
    with database.using(ref.source):
        row = events_of(ref).filter(id=note_id(ref)).first()
        return view_of(ref, row, SYSTEM) if row else None


def parting(fork: SessionRef, of: SessionRef, *, actor: Actor) -> tuple[Seq, Seq] | None:
    """Returns the seq of the last event that a fork has from its origin, there, and that of its note, behind the
    copies.

    None if it is no fork of that session, or events have no numbers. Raises SourceError."""
    noted = origin(fork, actor=actor)
    if noted is None or noted.origin != of or not database.is_numbered(of.source):
        return None
    note = _note_of(fork)
    try:
        last = timeline.event(of, noted.event_id, actor=actor).seq
    except NotFound:
        return None
    return None if last is None or note is None or note.seq is None else (last, note.seq)


def forks_of(ref: SessionRef, *, actor: Actor) -> list[Fork]:
    """Returns the forks of a session, the oldest first, at most _SHOWN; none if the source is not adopted. Raises
    Behind."""
    actor.check_sees(ref)
    return _forks([ref], actor)


def tree(ref: SessionRef, *, actor: Actor) -> Node:
    """Returns the fork tree that a session belongs to, from its root down, with at most _SHOWN sessions."""
    actor.check_sees(ref)
    top, fork, seen = ref, origin(ref, actor=actor), {ref}
    while fork is not None and fork.origin not in seen:
        top = fork.origin
        seen.add(top)
        fork = origin(top, actor=actor)
    root = Node(top, None, whole_session.read_head(top, actor=actor) is not None)
    nodes, level = {top: root}, [top]
    while level and len(nodes) < _SHOWN:
        forks = [each for each in _forks(level, actor) if each.ref not in nodes]
        level = []
        for each in forks[: _SHOWN - len(nodes)]:
            nodes[each.ref] = Node(each.ref, each, there=True, level=nodes[each.origin].level + 1)
            nodes[each.origin].forks.append(nodes[each.ref])
            level.append(each.ref)
    return root


def listed(root: Node) -> list[Node]:
    """Returns the sessions of a tree as a list, each followed by its forks, at any depth."""
    nodes, left = [], [root]
    while left:
        nodes.append(node := left.pop())
        left += reversed(node.forks)
    return nodes


def _forks(origins: Sequence[SessionRef], actor: Actor) -> list[Fork]:
    """Returns the forks of these sessions of one source, the oldest first. Raises Behind."""
    source = origins[0].source
    if not database.has_order(source):
        return []
    build.catch_up(source)
    with database.using(source):
        rows = events_at(source, query.forks(origins, _SHOWN))
        views = [view_of(SessionRef(source, row.app_name, row.user_id, row.session_id), row, SYSTEM) for row in rows]
    forks = []
    for view in views:
        # A copy of a note, which a session may be imported with, says nothing about the session that it is in.
        fork = note_in(view.ref, view.data, actor) if view.id == note_id(view.ref) else None
        forks += [fork] if fork and fork.origin in origins else []
    return sorted(forks, key=lambda fork: (fork.created, fork.ref))


def note_in(ref: SessionRef, event: Event, actor: Actor) -> Fork | None:
    """Returns the fork that an event of a session, as it is stored, notes; None if the event isn't such a note."""
    noted = edit_of(event)
    of = as_object(noted.get("forked"))
    user, session, at, seq = (of.get(each) for each in ("user", "session", "event", "seq"))
    if not (isinstance(user, str) and isinstance(session, str) and isinstance(at, str)):
        return None
    return Fork(
        ref,
        ref._replace(user_id=user, session_id=session),
        at,
        Seq(seq) if isinstance(seq, int) else None,
        float(event["timestamp"]),
        str(noted.get("actor", "")),
        shown_words(str(noted.get("reason", "")), actor, ref.app_name),
    )


def note_id(ref: SessionRef) -> str:
    """Returns the id of the event that notes a session's origin. It is computed from the session's names, but not from
    the user's: someone who sees it could try hidden ids."""
    return str(uuid.uuid5(NAMESPACE, ascii([ref.app_name, ref.session_id])))
