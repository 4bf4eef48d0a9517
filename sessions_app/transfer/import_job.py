"""Imports items into a source: checks all of them first, then writes session by session, or only reports what it would
do.

A new session is written in batches, each in a transaction; until the last, its state marks it (writes/incomplete.py). A
marked session with the first events of the file continues after them. Other sessions stay; differences are reported.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Final

from ..access.actor import PEOPLE, SYSTEM, Actor
from ..access.audit.record import record
from ..access.handles import are_hidden, is_hidden_user
from ..access.shown import Kind, shown_change, shown_text
from ..domain import credentials
from ..domain.errors import AlreadyExists, Conflict, Invalid
from ..domain.masks import is_handle
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, Change, Scope, State, diff, full_key, same
from ..models import keeps_milliseconds
from ..sources import database
from ..writes.copies import ImportedEvent, ImportedSession, import_session, import_state
from . import exporting
from .items import EventItem, Fault, Item, Reader, SessionItem, StateItem, in_whole_milliseconds, text_without_secrets

LISTED: Final = 1_000  # of anything that is reported one by one
BATCH: Final = 500  # events in a transaction
_BATCH_LENGTH: Final = 2_000_000  # characters in a transaction, about

Open = Callable[[], AbstractContextManager[Reader]]  # opens what is imported, each time from its start
Told = Callable[[Reader], None]  # called after every item


@dataclass(slots=True)
class Counts:
    """The content of a file."""

    states: int = 0
    sessions: int = 0
    events: int = 0


@dataclass(slots=True)
class Skipped:
    """A session that was left as it is, and why."""

    ref: SessionRef
    why: str


@dataclass(slots=True)
class Differing:
    """Keys of an app's or a user's state whose values differ: `old` is the source's or ABSENT, `new` the file's."""

    app: str
    user: str | None
    changes: list[Change]


@dataclass(slots=True)
class Report:
    """The report of an import, done or previewed. `skipped` and `differing` have the first LISTED only."""

    new: int = 0
    resumed: int = 0
    same: int = 0
    events: int = 0  # written
    states_made: int = 0
    secrets: bool = True  # False if the file declares that it has no secrets of credentials
    skipped_count: int = 0
    differing_count: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    differing: list[Differing] = field(default_factory=list)


def check(read: Open, told: Told = lambda reader: None) -> Counts:
    """Reads and counts everything to be imported. Raises Fault, which says where something is wrong."""
    counts, ids = Counts(), _Ids()
    with read() as reader:
        for item in _items(reader, told):
            if isinstance(item, EventItem):
                counts.events += 1
                ids.add(item.id)
            else:
                _refuse_twice(read, ids, told)
                ids = _Ids()
                counts.sessions += isinstance(item, SessionItem)
                counts.states += isinstance(item, StateItem)
    _refuse_twice(read, ids, told)
    return counts


def bring(
    read: Open,
    into: str,
    *,
    actor: Actor,
    state: bool = False,
    preview: bool = False,
    told: Told = lambda reader: None,
) -> Report:
    """Imports what is read into a source. With `preview`, only reports what that would do.

    Existing state of apps and users changes only with `state`. Raises Fault, NotAllowed, SourceError; sessions written
    by then are complete, or the next import continues with them."""
    if not preview:
        record("imported", actor.name, source=into)
    with read() as reader:
        report = _Import(into, actor, state, preview).run(_items(reader, told))
        report.secrets = reader.secrets
        return report


def _items(reader: Reader, told: Told) -> Iterator[Item]:
    try:
        for item in reader:
            told(reader)
            if isinstance(item, SessionItem) and item.is_incomplete:
                raise Invalid("the session is only partly imported there: finish its import, or delete it, first")
            if isinstance(item, SessionItem) and item.is_hidden:
                raise Invalid(
                    "values were hidden when this file was shared, so it is only for reading:"
                    " ask for a file without “Hide values”"
                )
            yield item
    except Fault:
        raise
    except Invalid as error:
        raise Fault(error.message, place=reader.where) from error


class _Import:
    def __init__(self, into: str, actor: Actor, state: bool, preview: bool) -> None:
        self.into, self.actor = into, actor
        self.overwrite, self.preview = state, preview
        self.report = Report()

    def run(self, items: Iterator[Item]) -> Report:
        with database.using(self.into) as db:
            items = map(in_whole_milliseconds, items) if keeps_milliseconds(db) else items
        for item in items:
            if not isinstance(item, EventItem) and item.user:
                self.check_named(item.app, item.user)
            if isinstance(item, StateItem):
                self.state(item)
            elif isinstance(item, SessionItem):
                batches = _batches(islice(_events(items), item.events))
                try:
                    self.session(item, batches)
                except (AlreadyExists, Conflict) as error:
                    self.skip(item, error.message)
                for _left in batches:
                    pass
        return self.report

    def check_named(self, app_name: str, user_id: str) -> None:
        """Raises Invalid for a handle, and for an id that is hidden from the actor: they would learn its handle."""
        handle = is_handle(user_id) and are_hidden(self.into, app_name, PEOPLE)
        if handle or is_hidden_user(self.into, app_name, user_id, self.actor):
            raise Invalid(
                "ids of users are hidden here: a file that has handles, or ids that you may not see, stays out"
            )

    def state(self, item: StateItem) -> None:
        scope: Scope = "app" if item.user is None else "user"
        if (found := exporting.state(self.into, item, SYSTEM)) is None:
            self.report.states_made += 1
        else:
            item = _with_stored_secrets(item, found)
        if found is not None and (changes := self.differing(scope, found, item)):
            self.report.differing_count += 1
            if len(self.report.differing) < LISTED:
                self.report.differing.append(Differing(item.app, item.user, changes))
        if not self.preview:
            ref = SessionRef(self.into, item.app, item.user or "", "")
            import_state(ref, scope, item.state, actor=self.actor, updated=item.updated, overwrite=self.overwrite)

    def differing(self, scope: Scope, found: State, item: StateItem) -> list[Change]:
        """Returns the keys that differ for the actor: two values that are hidden from them look the same."""
        named = [Change(full_key(scope, c.key), c.old, c.new) for c in diff(found, item.state) if c.new is not ABSENT]
        seen = (shown_change(change, self.actor, item.app) for change in named)
        return [change for change in seen if not same(change.old, change.new)]

    def session(self, item: SessionItem, batches: Iterator[list[EventItem]]) -> None:
        """Imports a session. Raises Conflict if someone else writes to it in the meantime."""
        ref = SessionRef(self.into, item.app, item.user, item.session)
        found = exporting.head(ref, SYSTEM)
        if found is None:
            self.report.new += 1
            self.write(item, batches, 0, None)
        elif found.is_untouched and found.events > item.events:
            self.skip(item, "it is half-imported, with more events than the file has")
        elif found.is_untouched:
            last, rest = self.compare(ref, found, batches)
            if rest is None:
                self.skip(item, "it is half-imported, with other events than the file's")
            else:
                self.report.resumed += 1
                self.write(item, chain([rest], batches) if rest else batches, found.events, last)
        elif found.is_incomplete:
            self.skip(item, "it is partly imported, and someone has written to it since: delete it, and import again")
        elif why := self.difference(found, item):
            self.skip(item, why)
        elif self.compare(ref, found, batches)[1] is None:
            self.skip(item, "it is there with other events")
        else:
            self.report.same += 1

    def difference(self, found: SessionItem, item: SessionItem) -> str:
        """Returns why the rows of two sessions differ, or "" if they do not. Only the number of events is compared
        here."""
        if found.events != item.events:
            return f"it is there with other events: {found.events}, the file has {item.events}"
        if self.seen(found.state, item.app) != self.seen(item.state, item.app):
            return "it is there with another state"
        if (found.created, found.updated) != (item.created, item.updated):
            return "it is there with other times"
        # None if it was created before its source was adopted.
        if found.initial_state is not None and self.seen(found.initial_state, item.app) != self.seen(
            item.initial_state or "", item.app
        ):
            return "it is there with another initial state"
        return ""

    def seen(self, text: str, app_name: str, scope: Kind = "session") -> str:
        """Returns what the actor may see of a JSON text, so that a comparison reveals no more. A file may be without
        secrets."""
        return shown_text(text_without_secrets(text), self.actor, app_name, scope)

    def look_same(self, there: list[EventItem], given: list[EventItem], app_name: str) -> bool:
        """Returns whether stored events are those of the file, as the actor sees them."""
        as_seen = (
            [event._replace(text=self.seen(event.text, app_name, "event")) for event in events]
            for events in (there, given)
        )
        return there == given or next(as_seen) == next(as_seen)

    def compare(
        self, ref: SessionRef, found: SessionItem, batches: Iterator[list[EventItem]]
    ) -> tuple[str, list[EventItem] | None]:
        """Returns the id of the last stored event, and the rest of its batch, which is None if an event differs."""
        there, left, last = _stored_events(ref, found.events), found.events, ""
        while left:
            batch = next(batches)
            begin = batch[:left]
            if not self.look_same(list(islice(there, len(begin))), begin, ref.app_name):
                return last, None
            left -= len(begin)
            last = begin[-1].id
            if not left:
                return last, batch[len(begin) :]
        return last, []

    def write(self, item: SessionItem, batches: Iterable[list[EventItem]], there: int, after: str | None) -> None:
        """Writes the events that the source lacks. It has `there` events, and `after` is the id of the last, if any."""
        if self.preview:
            self.report.events += item.events - there
            return
        ref = SessionRef(self.into, item.app, item.user, item.session)
        session = ImportedSession(ref, item.created, item.updated, item.state, item.initial_state)
        for batch in chain(batches, [[]]):
            there += len(batch)
            last = there == item.events
            rows = [ImportedEvent(*event[:4]) for event in batch]
            import_session(session, rows, actor=self.actor, after=after, last=last)
            self.report.events += len(batch)
            if last:
                return
            after = batch[-1].id

    def skip(self, item: SessionItem, why: str) -> None:
        self.report.skipped_count += 1
        if len(self.report.skipped) < LISTED:
            self.report.skipped.append(Skipped(SessionRef(self.into, item.app, item.user, item.session), why))


def _with_stored_secrets(item: StateItem, stored: State) -> StateItem:
    """Returns a state with the stored value of each key for which the file has what an export without secrets
    leaves."""
    state = {
        key: stored[key] if key in stored and same(value, credentials.without(stored[key])) else value
        for key, value in item.state.items()
    }
    return item._replace(state=state)


def _events(items: Iterator[Item]) -> Iterator[EventItem]:
    for item in items:
        assert isinstance(item, EventItem)  # noqa: S101  readers make sure of it
        yield item


def _stored_events(ref: SessionRef, count: int) -> Iterator[EventItem]:
    place: Any = None
    while count:
        page, place = exporting.events(ref, place, count, SYSTEM)
        if not page:
            return
        count -= len(page)
        yield from page


def _batches(events: Iterator[EventItem]) -> Iterator[list[EventItem]]:
    batch: list[EventItem] = []
    length = 0
    for event in events:
        batch.append(event)
        length += len(event.text)
        if len(batch) == BATCH or length > _BATCH_LENGTH:
            yield batch
            batch, length = [], 0
    if batch:
        yield batch


class _Ids:
    """The ids of a session's events as hashes of eight bytes. `twice` returns the hashes that appear twice."""

    def __init__(self) -> None:
        self._buckets: dict[int, array[int]] = {}

    def add(self, event_id: str) -> None:
        number = hash(event_id)
        bucket = self._buckets.get(number & 255)
        if bucket is None:
            bucket = self._buckets[number & 255] = array("q")
        bucket.append(number)

    def twice(self) -> set[int]:
        found: set[int] = set()
        for bucket in self._buckets.values():
            if len(set(bucket)) < len(bucket):
                seen: set[int] = set()
                found |= {number for number in bucket if number in seen or seen.add(number)}  # type: ignore[func-returns-value]
        return found


def _refuse_twice(read: Open, ids: _Ids, told: Told) -> None:
    """Reads the file again if an id may appear twice in a session. Raises Fault, which says where, if one does."""
    if not (suspects := ids.twice()):
        return
    seen: set[str] = set()
    with read() as reader:
        for item in _items(reader, told):
            if not isinstance(item, EventItem):
                seen.clear()
            elif hash(item.id) in suspects:
                if item.id in seen:
                    raise Fault(f"event: the id {item.id} appears twice in its session", place=reader.where)
                seen.add(item.id)
