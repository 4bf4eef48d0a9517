"""Keeps the index up to date with a source: reads each session that is new, or has new events.

history/ reads new events, once for everybody, and notes which sessions moved. A walk through all sessions from time to
time finds what events do not tell: sessions without any, and those that were deleted.
"""

import json
import os
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Final

from django.db import transaction
from django.db.models import Max

from ...domain.errors import Behind, Invalid
from ...domain.session_ref import SessionRef, digest_of
from ...history.index import build
from ...models import DueSession, Rule, SearchSession, SearchSource, Waiting, read_instant
from ...sources import database, dialect, registry
from .. import masked, word_tables
from ..values import comparable
from .read import (
    MOST,
    MOST_PIECES,
    Names,
    Read,
    Reading,
    Stored,
    beginnings,
    goes_on,
    has_more,
    read,
    rows_of,
    shared_states,
)
from .tables import Keeper, forget, forget_keys, forget_owners, forget_writes

SOME: Final = 200  # sessions that are read before they are stored
_CLAIM_SECONDS: Final = 15.0  # a process that is silent for so long has died
_REST: Final = 30  # a walk is followed by a rest of so many times what it took
_LEAST_REST: Final = 20.0  # seconds
_PAUSE: Final = 0.05  # of the time that a batch took; the agent needs the machine, too
_TOLD_SECONDS: Final = 0.5  # that reading new events may take at a time
_OTHERS_SECONDS: Final = 0.1  # between two looks at how far another process is
Moved = Callable[[int, int], None]
Around = Callable[[int, Collection[str]], AbstractContextManager[None]]

PROCESS = uuid.uuid4().hex  # of this process; a fork has another one


def _renew() -> None:
    global PROCESS
    PROCESS = uuid.uuid4().hex


os.register_at_fork(after_in_child=_renew)


class Feeder:
    """Feeds the index from one source. For one thread; of several processes, one feeds.

    What is stored after the first walk is stored `around`: it gets the number of the source, and what stands for the
    sessions."""

    def __init__(self, source: str, around: Around = lambda source, digests: nullcontext()) -> None:
        self.source = source
        self.claimed = 0  # the number of the source, while this process feeds
        self._around, self._is_whole = around, False
        self._keeper: Keeper | None = None
        self._walk_began = 0.0

    @property
    def _where(self) -> str:
        """The source as adkweb's own tables name it: another one, once another database answers by the same address."""
        return registry.identity(self.source)

    def version(self) -> str:
        """Returns a text that changes whenever another thread writes to the file, or anybody to PostgreSQL's server, and
        with the rules of masking."""
        with database.using(self.source) as db, db.cursor() as cursor:
            cursor.execute(dialect.of(db).version)
            return f"{cursor.fetchone()[0]} {masked.version()}"

    def feed(self, seconds: float = 0.5) -> bool:
        """Reads for some seconds. Returns whether there is more to read. Raises SourceError."""
        until = time.monotonic() + seconds
        at = _at(self._where)
        self.claimed, self._is_whole = 0, at.walks > 0
        if not _claim(at):
            return False
        self.claimed = at.pk
        if self._keeper is None or self._keeper.source.pk != at.pk:
            self._keeper = Keeper(at)
        try:
            behind = self._hear()
            if behind and not (at.walks or at.walked):
                return True  # the first walk comes to every session; it begins once history/ is done
            more, first = True, True  # however long hearing took, something is read
            while more and (first or time.monotonic() < until):
                first = False
                began = time.monotonic()
                more = self._step(at)
                time.sleep((time.monotonic() - began) * _PAUSE)
        except BaseException:
            self._keeper = None  # it may believe that something is stored that is not
            raise
        return more or behind

    def end(self) -> None:
        """Lets another process feed at once. Otherwise, it would wait until the claim has run out."""
        SearchSource.objects.filter(where=self._where, claim=PROCESS).update(claim="", claimed_until=0.0)

    def _hear(self) -> bool:
        """Has new events read, which notes the sessions that moved. Returns whether there are more."""
        try:
            build.catch_up(self.source, _TOLD_SECONDS)
        except Behind:
            return True
        except Invalid:  # events without any order: only the walk finds sessions
            pass
        return False

    def _step(self, at: SearchSource) -> bool:
        """Reads some sessions: first those that moved, then those that a walk comes to. Returns False if none is left."""
        moved = list(Waiting.objects.filter(where=self._where).order_by("pk").values_list("pk", "names")[:SOME])
        if moved and at.walks:
            self._read([json.loads(names) for names in dict.fromkeys(names for _pk, names in moved)])
            Waiting.objects.filter(pk__in=[pk for pk, _names in moved]).delete()
            return True
        if at.walked or not at.walks or time.time() >= at.due:
            self._walk(at)
            return True
        return False

    def _read(self, each: Iterable[Sequence[str]]) -> None:
        """Reads sessions again as far as they are new, and forgets those that are gone."""
        assert self._keeper is not None  # noqa: S101
        names: list[Names] = [(app, user, session) for app, user, session in each]
        stored = self._stored(names)
        with database.using(self.source) as db:
            rows = rows_of(db, names, began=True)
            fresh = beginnings(db, [each for each in rows if each not in stored])
        forget([stored[each].pk for each in names if each in stored and each not in rows])
        readings: list[Reading] = []
        pieces = events = 0
        for of, row in rows.items():
            reading = self._reading(row, stored.get(of), fresh.get(of))
            if not (reading and reading.is_news):
                continue
            readings.append(reading)
            pieces, events = pieces + reading.weight, events + reading.summary.events
            if pieces >= 4 * MOST_PIECES or events >= MOST:
                self._keep(readings)
                readings, pieces, events = [], 0, 0
        self._keep(readings)

    def _reading(self, row: Stored, stored: SearchSession | None, events: Sequence[Read] | None) -> Reading | None:
        """Reads a session; None if nothing in it is new."""
        ref = SessionRef(self.source, *row[:3])
        if stored:
            with database.using(self.source) as db:
                if row.updated == stored.updated and not has_more(db, ref, stored):
                    return None
                is_same = goes_on(db, ref, row, stored)
            if not is_same:
                forget([stored.pk])
                stored = None
        while True:
            with database.using(self.source) as db:
                reading = read(db, ref, row, stored, events)
            if not reading.more:
                return reading
            self._keep([reading])
            stored, events = self._stored([row[:3]])[row[:3]], None

    def _keep(self, readings: Sequence[Reading]) -> None:
        if readings and self._keeper:
            with database.using(self.source) as db:
                states = shared_states(db, {reading.ref[1:3] for reading in readings})
            shared = {owner: comparable(state) for owner, state in masked.shared(states).items()}
            digests = [digest_of(*reading.ref[1:]) for reading in readings]
            around = self._around(self._keeper.source.pk, digests) if self._is_whole else nullcontext()
            with transaction.atomic(), around:
                self._keeper.keep(readings, shared)
                note(self._where, (reading.ref for reading in readings))

    def _stored(self, names: Sequence[Names]) -> dict[Names, SearchSession]:
        assert self._keeper is not None  # noqa: S101
        digests = {digest_of(*each): each for each in names}
        rows = SearchSession.objects.filter(source=self._keeper.source, digest__in=digests)
        return {digests[row.digest]: row for row in rows}

    # --- The walk through all sessions ---

    def _walk(self, at: SearchSource) -> None:
        """Comes to the next sessions of the source, and after the last one, to those that may be gone."""
        self._walk_began = self._walk_began or time.monotonic()
        if not at.walked:
            at.total, at.done = self._count(), 0
        reached = json.loads(at.walked or '["", "", ""]')
        if len(reached) == 3:
            page = self._page(reached)
            self._read(self._changed(page))
            at.done += len(page)
            at.walked = json.dumps(page[-1][4:] if len(page) == SOME else [0])
        elif last := self._forget_gone(reached[0]):
            at.walked = json.dumps([last])
        else:
            at.walked, at.walks = "", at.walks + 1
            at.due = time.time() + max(_LEAST_REST, _REST * (time.monotonic() - self._walk_began))
            self._walk_began = 0.0
        SearchSource.objects.filter(pk=at.pk).update(
            walked=at.walked, walks=at.walks, done=at.done, total=at.total, due=at.due
        )

    def _count(self) -> int:
        with database.using(self.source) as db, db.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM sessions")
            return int(cursor.fetchone()[0])

    def _page(self, after: Sequence[str]) -> list[tuple[Any, ...]]:
        """Returns the names of the next sessions, when they were written to, and what is to be passed to go on."""
        with database.using(self.source) as db, db.cursor() as cursor:
            go_on, beyond, values = dialect.of(db).after(("app_name", "user_id", "id"), after)
            cursor.execute(
                f"""SELECT app_name, user_id, id, update_time, {go_on} FROM sessions
                WHERE {beyond} ORDER BY app_name, user_id, id LIMIT {SOME}""",
                values,
            )
            return list(cursor.fetchall())

    def _changed(self, page: list[tuple[Any, ...]]) -> list[Names]:
        """Returns those sessions of a page that are not stored as they are."""
        stored = self._stored([row[:3] for row in page])
        return [row[:3] for row in page if row[:3] not in stored or stored[row[:3]].updated != read_instant(row[3])]

    def _forget_gone(self, after: int) -> int | None:
        """Forgets those of the next stored sessions that were deleted. Returns the last one, or None after all of them."""
        assert self._keeper is not None  # noqa: S101
        rows = SearchSession.objects.filter(source=self._keeper.source, pk__gt=after).order_by("pk")
        some = list(rows.values_list("pk", "names")[:SOME])
        names: dict[int, Names] = {pk: tuple(json.loads(text)) for pk, text in some}
        with database.using(self.source) as db:
            there = rows_of(db, list(names.values()))
        forget([pk for pk, each in names.items() if each not in there])
        return some[-1][0] if len(some) == SOME else None


# --- How far a source is ----------------------------------------------------------------------------------------------


def _at(where: str) -> SearchSource:
    at, _ = SearchSource.objects.get_or_create(where=where, defaults={"version": masked.version()})
    if at.version != masked.version():
        clear(where)
        return _at(where)
    return at


def _claim(at: SearchSource) -> bool:
    """Claims the feeding of a source for this process. Returns False if another process is at it."""
    now = time.time()
    if at.claim == PROCESS and at.claimed_until > now + _CLAIM_SECONDS / 2:
        return True
    free = SearchSource.objects.filter(pk=at.pk).exclude(claimed_until__gt=now, claim__gt="")
    mine = SearchSource.objects.filter(pk=at.pk, claim=PROCESS)
    fields: dict[str, Any] = {"claim": PROCESS, "claimed_until": now + _CLAIM_SECONDS}
    return bool(mine.update(**fields) or free.update(**fields))


def clear(where: str) -> None:
    """Forgets all that is kept of a source."""
    source = SearchSource.objects.filter(where=where).first()
    if source is None:
        return
    forget_keys(source)
    forget_writes(source)
    sessions = SearchSession.objects.filter(source=source).order_by("pk")
    while numbers := list(sessions.values_list("pk", flat=True)[:SOME]):
        forget(numbers)
    with transaction.atomic():
        Waiting.objects.filter(where=where).delete()
        forget_owners(source)
        source.delete()
        if not SearchSource.objects.exists():
            word_tables.empty()


def rebuild(source: str, moved: Moved = lambda done, total: None) -> int:
    """Forgets all and reads it anew. Returns the number of sessions. Calls `moved` with how far it is."""
    where = registry.identity(source)
    clear(where)
    catch_up(source, moved)
    return SearchSession.objects.filter(source__where=where).count()


def catch_up(source: str, moved: Moved = lambda done, total: None) -> None:
    """Reads whatever is new, for a process that does not go on feeding. If another process feeds, waits for its first walk.

    Calls `moved` with how many sessions were read, and how many there are."""
    feeder = Feeder(source)
    try:
        while (more := feeder.feed(_TOLD_SECONDS)) or share(source) < 1:
            at = _at(registry.identity(source))
            moved(at.done, at.total)
            if not more:
                time.sleep(_OTHERS_SECONDS)
    finally:
        feeder.end()


def reaches(source: str, seconds: float, moved: Callable[[], None]) -> bool:
    """Waits until what adkweb and agents have written to a source by now can be found. Returns False if that takes longer
    than some seconds: a search may then miss sessions. Calls `moved` again and again.

    A session without events that an agent created is found only by the next walk. Raises SourceError.
    """
    until, where = time.monotonic() + seconds, registry.identity(source)
    with suppress(Behind, Invalid):  # Invalid: its events have no order, so that only the walk finds them
        build.catch_up(source, seconds)
        newest = Waiting.objects.filter(where=where).aggregate(newest=Max("pk"))["newest"] or 0
        while time.monotonic() <= until:
            if share(source) == 1 and not Waiting.objects.filter(where=where, pk__lte=newest).exists():
                return True
            moved()
            time.sleep(_OTHERS_SECONDS)
    return False


def share(source: str) -> float:
    """Returns how much of a source can be searched, from 0 to 1."""
    at = SearchSource.objects.filter(where=registry.identity(source), version=masked.version()).first()
    if at is None:
        return 0.0
    return 1.0 if at.walks else min(0.99, at.done / max(1, at.total))


# --- Sessions that were read again, for the rules that check them -----------------------------------------------------


def note(where: str, refs: Iterable[SessionRef]) -> None:
    """Notes those sessions of a source whose app has rules."""
    apps = {*Rule.objects.filter(where=where).values_list("digest", flat=True).distinct()}
    due = [DueSession(where=where, digest=digest_of(*ref[1:])) for ref in refs if digest_of(ref.app_name, "") in apps]
    DueSession.objects.bulk_create(due)
