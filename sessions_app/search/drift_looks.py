"""Looks for drift in the sessions that were active last, one after the other, and keeps which of them have drifted.

Nothing tells when somebody writes to ADK's tables directly. No page can look at many sessions either: for each, state
is read, and the last write of each key. So a thread looks a little at a time. What a page shows of a session, it looks
at again: a value may be repaired by now, or not be meant for everybody.
"""

import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from ..access.actor import SYSTEM, Actor
from ..domain.errors import Error, SourceError
from ..domain.session_ref import SessionRef
from ..domain.state import Change
from ..history import drift, moments
from ..models import DriftedSession, SearchSession, SearchSource
from ..reads.labels import said
from ..sources import database, registry
from ..writes.incomplete import is_incomplete
from .health import EVERYBODY, Of, owners_of
from .index import feed
from .index.tables import ref_of
from .sql import is_one_of, rows

MOST: Final = 2_000  # sessions of a round
ROUND_SECONDS: Final = 10.0  # from one round to the next, at least
_REST: Final = 20  # a look is followed by a rest of so many times what it took
_SHOWN: Final = 4  # sessions


@dataclass(frozen=True, slots=True)
class Drifted:
    """A session that has drifted: its title, one of the keys, how many there are, and since when it is known.

    `change.old` is what the events say, and `change.new` what is stored.
    """

    ref: SessionRef
    title: str
    change: Change
    keys: int
    since: float


class Looker:
    """Looks at the sessions of one source. For one thread; of several processes, the one that feeds the index looks."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._left: deque[tuple[int, int, SessionRef]] = deque()
        self._round = self._next = 0.0

    def look(self, seconds: float) -> None:
        """Looks at sessions for some seconds, unless it has to rest. Raises SourceError."""
        now = time.monotonic()
        until = now + seconds
        if not self._left and now >= self._round:
            self._round, self._left = now + ROUND_SECONDS, self._newest()
        while self._left and self._next <= now < until:
            self._look_at(*self._left.popleft())
            began, now = now, time.monotonic()
            self._next = now + (_REST * (now - began) if now > until else 0.0)

    def _newest(self) -> deque[tuple[int, int, SessionRef]]:
        """Returns the sessions that were active last, if this process feeds the index."""
        where = registry.identity(self.source)
        if not SearchSource.objects.filter(where=where, claim=feed.PROCESS, walks__gt=0).exists():
            return deque()
        newest = SearchSession.objects.filter(source__where=where, listed=True).order_by("-last", "-pk")[:MOST]
        columns = newest.values_list("pk", "app_owner", "names")
        return deque((number, app, ref_of(self.source, names)) for number, app, names in columns)

    def _look_at(self, number: int, app: int, ref: SessionRef) -> None:
        """Notes whether a session has drifted. If nobody can tell now, leaves it as it is noted."""
        try:
            drifted = bool(drifted_keys(ref, actor=SYSTEM))
        except SourceError:
            raise
        except Error:  # it is gone, too large, or still being read
            return
        if drifted:
            noted = {"app_owner_id": app, "since": time.time()}
            DriftedSession.objects.get_or_create(session_id=number, defaults=noted)
        else:
            DriftedSession.objects.filter(session_id=number).delete()


def drifted_keys(ref: SessionRef, *, actor: Actor) -> list[Change]:
    """Returns the keys of a session that have drifted, as far as that is seen quickly. Raises what state_now does."""
    if not database.is_numbered(ref.source):
        return []
    now = moments.state_now(ref, actor=actor)
    if is_incomplete(now.state.session):
        return []
    return [Change(name, said, now.state.get(name)) for name, said in drift.glance(now, actor=actor).items()]


def drifted(*, actor: Actor, of: Of = EVERYBODY) -> list[Drifted]:
    """Returns some sessions that have drifted, those that were noted last first."""
    return list(_drifted(actor, of))


def _drifted(actor: Actor, of: Of) -> Iterator[Drifted]:
    apps, user = owners_of(actor, of)
    values: list[Any] = []
    condition = is_one_of("d.app_owner_id", apps, values)
    if user:
        condition += " AND o.digest = %s"
        values.append(user)
    noted = rows(  # CROSS JOIN keeps SQLite from beginning with all sessions
        f"""SELECT d.since, w."where", s.names, s.title FROM sessions_app_driftedsession AS d
        CROSS JOIN sessions_app_searchsession AS s
        JOIN sessions_app_searchsource AS w ON w.id = s.source_id
        JOIN sessions_app_searchowner AS o ON o.id = s.user_owner_id
        WHERE s.id = d.session_id AND {condition} ORDER BY d.since DESC LIMIT %s""",
        [*values, _SHOWN],
    )
    aliases = registry.aliases()
    for since, where, names, title in noted:
        ref = ref_of(aliases[where], names)
        with suppress(Error):
            if keys := drifted_keys(ref, actor=actor):
                yield Drifted(ref, said(title, ref, actor) or ref.session_id, keys[0], len(keys), since)
