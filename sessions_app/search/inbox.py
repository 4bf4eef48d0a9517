"""The inbox: the calls that wait for an answer, in all sources."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from django.db.models import Q

from ..access.actor import Actor
from ..domain.errors import SourceError
from ..domain.pending import Asked, asked
from ..domain.positions import Seq
from ..domain.session_ref import SessionRef
from ..models import Event
from ..reads.event_views import EventView, measured, views
from ..reads.labels import said
from ..reads.lists import existing
from ..reads.paging import Page, read_cursor, write_cursor
from ..sources import database, registry
from . import tree
from .index.tables import ref_of
from .selecting import select
from .sql import rows

EVERY: Final = tree.Query(None)
PAGE: Final = 50
COUNTED: Final = 999  # calls; of more, a page says that there are more
_FROM: Final = """FROM sessions_app_searchpending AS p JOIN sessions_app_searchsession AS s ON s.id = p.session_id
    JOIN sessions_app_searchsource AS w ON w.id = s.source_id"""
_KEYS: Final = "p.at, p.session_id, p.number"


@dataclass(frozen=True, slots=True)
class Waiting:
    """A call that waits for an answer: domain/pending.Pending, with its session and what it asks. `asked` is None if the
    event can't be read now."""

    ref: SessionRef
    title: str
    kind: str
    tool: str
    since: float
    seq: Seq
    event_id: str
    call_id: str
    passed_over: bool
    asked: Asked | None = None


def waiting(
    query: tree.Query = EVERY,
    *,
    actor: Actor,
    passed_over: bool = False,
    cursor: str | None = None,
    limit: int = PAGE,
) -> Page[Waiting]:
    """Returns a page of the calls that wait in the sessions that a query selects, the oldest first; or of those that the
    user passed over. Raises Invalid for a cursor that isn't one."""
    selection = select(query, actor)
    values: list[Any] = [passed_over, *selection.values]
    beyond = ""
    if cursor:
        beyond = f"AND ({_KEYS}) > (%s, %s, %s)"
        values += read_cursor(cursor, float, int, int)
    stored = rows(
        f"""SELECT w."where", s.names, s.title, p.kind, n.value, p.at, p.seq, p.event, p.call, p.passed_over, {_KEYS}
        {_FROM} JOIN sessions_app_searchname AS n ON n.id = p.name_id
        WHERE p.passed_over = %s AND {selection.sql} {beyond} ORDER BY {_KEYS} LIMIT %s""",
        [*values, limit + 1],
    )
    aliases = registry.aliases()
    page = [
        Waiting(ref_of(aliases[where], names), title, kind, tool, at, Seq(seq), *rest[:3])
        for where, names, title, kind, tool, at, seq, *rest in stored[:limit]
    ]
    following = write_cursor(*stored[limit - 1][-3:]) if len(stored) > limit else None
    return Page(_with_events(page, actor), following)


def count(query: tree.Query = EVERY, *, actor: Actor) -> int:
    """Returns how many calls wait, at most COUNTED + 1."""
    selection = select(query, actor)
    some = f"SELECT 1 {_FROM} WHERE NOT p.passed_over AND {selection.sql} LIMIT %s"
    return int(rows(f"SELECT count(*) FROM ({some}) AS counted", [*selection.values, COUNTED + 1])[0][0])


def _with_events(page: Sequence[Waiting], actor: Actor) -> list[Waiting]:
    """Returns calls with what they ask, as far as the actor may see it, by one query of each source. Those whose session is
    gone are left out; those of a source that doesn't answer come without."""
    shown: dict[Waiting, Waiting] = {each: replace(each, title=said(each.title, each.ref, actor)) for each in page}
    for source in {each.ref.source for each in page}:
        some = [each for each in page if each.ref.source == source]
        with suppress(SourceError):
            titles = existing({each.ref for each in some}, actor=actor)
            events = _events(source, some, actor)
            for each in some:
                if each.ref in titles:
                    shown[each] = replace(each, title=titles[each.ref], asked=_asked(each, events))
                else:
                    del shown[each]
    return list(shown.values())


def _events(source: str, some: Sequence[Waiting], actor: Actor) -> dict[tuple[SessionRef, str], EventView]:
    wanted = Q(
        *(
            Q(app_name=app, user_id=user, session_id=name, id=event)
            for app, user, name, event in {_key(each) for each in some}
        ),
        _connector=Q.OR,
    )
    with database.using(source):
        asking, _more = views(measured(Event.objects.using(source)).filter(wanted), source, actor, len(some))
    return {(view.ref, view.id): view for view in asking}


def _key(each: Waiting) -> tuple[str, str, str, str]:
    return each.ref.app_name, each.ref.user_id, each.ref.session_id, each.event_id


def _asked(each: Waiting, events: dict[tuple[SessionRef, str], EventView]) -> Asked | None:
    view = events.get((each.ref, each.event_id))
    call = next((call for call in view.description.calls if call.id == each.call_id), None) if view else None
    return asked(call) if call else None
