"""Follows a source event by event: first its newest ones, then those that are new, each as a view."""

from collections.abc import Iterator
from dataclasses import dataclass

from ..access.actor import Actor
from ..domain.session_ref import SessionRef
from ..sources import database
from ..sources.dialect import SEQ, SEQ_IN_SESSION
from ..sources.registry import Source
from .deltas import add_changes
from .event_views import EventView, events_of, ordered, views
from .lists import app_names
from .tail import PAGE, EventName, Rowids, Transactions, names
from .weights import LARGE


@dataclass(frozen=True, slots=True)
class Only:
    """Selects the events of an app, a user, a session; None selects all of them."""

    app: str | None = None
    user: str | None = None
    session: str | None = None

    def matches(self, ref: SessionRef) -> bool:
        """Tells whether the events of this session are selected."""
        return all(wanted in (None, name) for wanted, name in zip(self._names(), ref[1:], strict=True))

    def where(self) -> tuple[str, list[str]]:
        """Returns a condition over `events` as SQL, with its values."""
        columns = ("app_name", "user_id", "session_id")
        given = {column: name for column, name in zip(columns, self._names(), strict=True) if name is not None}
        return " AND ".join(f"{column} = %s" for column in given) or "TRUE", list(given.values())

    def _names(self) -> tuple[str | None, str | None, str | None]:
        return self.app, self.user, self.session


class Following:
    """Follows the events of a source that the actor may see. For one thread.

    Begins at the start of the file with `whole`, otherwise now. Raises SourceError while the source is away; the next
    call continues where this one ended."""

    def __init__(self, source: Source, only: Only, *, actor: Actor, whole: bool = False) -> None:
        self.source = source
        self._only = only
        self._actor = actor
        self._shown: set[EventName] = set()  # shown by `newest`, but possibly new as well
        # `Tail` gives up on missing numbers after a while, which is fine for a page: it then reads its sessions again.
        # Here, nothing is read again, so PostgreSQL is followed by transactions.
        sqlite = source.vendor == "sqlite"
        self._tail = Rowids(source.alias, whole=whole) if sqlite else Transactions(source.alias)

    def newest(self, number: int) -> list[EventView]:
        """Returns the newest events, in append order."""
        where, values = self._only.where()
        order = _order(self.source, one_session=len(values) == 3)
        if not self._actor.sees_all_of(self.source.alias):
            seen = app_names(self.source.alias, actor=self._actor)
            where, values = f"{where} AND app_name IN ({', '.join(['%s'] * len(seen)) or 'NULL'})", [*values, *seen]
        shown = names(self.source.alias, f"WHERE {where} ORDER BY {order} LIMIT %s", [*values, number])[::-1]
        self._shown = set(shown)
        return list(self._views(shown))

    def more(self) -> Iterator[EventView]:
        """Yields what is new since the last time, in append order."""
        for page in self._tail.new() or ():
            yield from self._views([n for n in page if n not in self._shown and self._selects(n.ref)])

    def _selects(self, ref: SessionRef) -> bool:
        return self._only.matches(ref) and self._actor.may_see(ref.source, ref.app_name)

    def _views(self, wanted: list[EventName]) -> Iterator[EventView]:
        for start in range(0, len(wanted), PAGE):
            yield from self._page(wanted[start : start + PAGE])

    def _page(self, page: list[EventName]) -> Iterator[EventView]:
        """Yields events that are read at once, or half by half if they weigh too much for that."""
        by_session: dict[SessionRef, list[str]] = {}
        for name in page:
            by_session.setdefault(name.ref, []).append(name.id)
        by_name: dict[EventName, EventView] = {}
        left, half = LARGE, len(page) // 2
        for ref, ids in by_session.items():
            by_id, more = self._of_session(ref, ids, left)
            if half and (more or left <= 0):
                yield from self._page(page[:half])
                yield from self._page(page[half:])
                return
            by_name |= by_id
            left -= sum(view.weight for view in by_id.values())
        yield from (by_name[name] for name in page if name in by_name)  # the others were deleted meanwhile

    def _of_session(self, ref: SessionRef, ids: list[str], most: int) -> tuple[dict[EventName, EventView], bool]:
        with database.using(ref.source):
            rows = ordered(events_of(ref).filter(id__in=ids), ref.source, newest=False)
            some, more = views(rows, ref.source, self._actor, len(ids), most, ref)
            by_id = {view.id: view for view in some}
            page = [by_id[event_id] for event_id in ids if event_id in by_id]
            if page and not more:
                add_changes(ref, page, self._actor)
        return {EventName(ref, view.id): view for view in page}, more


def _order(source: Source, *, one_session: bool) -> str:
    """Returns the order with the newest event first, exactly as the index for it has it."""
    if source.vendor == "postgresql":
        database.get(source.alias)
        if not database.is_adopted(source.alias):
            return "timestamp DESC, id DESC"
    return f"{(SEQ_IN_SESSION if one_session else SEQ)[source.vendor]} DESC"
