"""Tells what became of an edit: which turn loaded it, and when its keys were next given to a model or written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from ...access.actor import Actor
from ...agent_view import agent_files
from ...domain.errors import Behind
from ...domain.positions import Seq
from ...domain.session_ref import SessionRef
from ...domain.state import STORED, Change
from ...history.key_history import next_writes
from ...history.written import Written
from ...reads import timeline
from ...reads.event_views import EventView
from ...search import first_reads, outline
from ...search.first_reads import Readers
from ..html.render import page
from ..html.targets import actor

MOST: Final = 12  # keys
_AGENTS: Final = 3  # whose instruction has a key


@dataclass(frozen=True, slots=True)
class KeyDelivery:
    """The way of one key: who `loaded` it, the first event of each agent whose instruction has it, and its next write."""

    change: Change
    loaded: Readers
    rendered: Sequence[EventView]
    written: Written | None


@require_GET
def delivery(request: HttpRequest, event_id: str, **names: str) -> HttpResponse:
    """Renders what became of an edit, as far as it is known by now."""
    who = actor(request)
    edit = timeline.event(SessionRef(**names), event_id, actor=who)
    changes = [change for change in edit.changes if change.scope in STORED]
    keys = [] if edit.seq is None else _keys(edit, edit.seq, changes[:MOST], who)
    seqs = [view.seq for each in keys for view in each.rendered if view.ref == edit.ref]
    context = {
        "event": edit,
        "keys": keys,
        "more": len(changes) - len(keys),
        "numbers": outline.numbers_of(edit.ref, seqs, actor=who),
    }
    return page(request, "session/event/_delivery.html", context)


def _keys(edit: EventView, seq: Seq, changes: Sequence[Change], who: Actor) -> list[KeyDelivery]:
    scopes = {change.scope for change in changes}
    loaded = {scope: first_reads.readers(edit.ref, seq, edit.timestamp, scope, actor=who) for scope in sorted(scopes)}
    agents = agent_files.readers(edit.ref, actor=who)
    written = _written(edit.ref, [change.key for change in changes], seq, who)
    first: dict[tuple[Readers, str], EventView | None] = {}
    for scope in scopes:
        for agent in {name for each in changes if each.scope == scope for name in agents.get(each.key, [])[:_AGENTS]}:
            first[loaded[scope], agent] = _first_of(loaded[scope], agent, who)
    return [
        KeyDelivery(
            change,
            loaded[change.scope],
            [event for name in agents.get(change.key, [])[:_AGENTS] if (event := first[loaded[change.scope], name])],
            written.get(change.key),
        )
        for change in changes
    ]


def _first_of(loaded: Readers, agent: str, who: Actor) -> EventView | None:
    """Returns an agent's first event in the session that loaded an edit first, from that turn on."""
    if loaded.first is None:
        return None
    rows = timeline.events_after(loaded.first.ref, Seq(loaded.first.seq - 1), author=agent, limit=1, actor=who).rows
    return rows[0] if rows else None


def _written(ref: SessionRef, keys: Sequence[str], seq: Seq, who: Actor) -> Mapping[str, Written]:
    try:
        return next_writes(ref, keys, seq, actor=who)
    except Behind:  # the history is still being read; who opens the event again is told
        return {}
