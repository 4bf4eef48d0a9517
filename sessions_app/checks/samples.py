"""Reads the state of a bounded number of an app's newest sessions, of their users and of the app."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.db.backends.base.base import BaseDatabaseWrapper

from ..access.actor import Actor
from ..access.shown import shown_object
from ..domain.json_values import read_stored_or_none
from ..domain.session_ref import SessionRef, digest_of, own_session
from ..domain.state import State
from ..models import SearchOwner
from ..search.index import feed
from ..search.index.tables import ref_of
from ..search.sql import rows
from ..sources import database, dialect, registry
from ..sources.dialect import is_wanted, wanted

SESSIONS: Final = 200  # the newest ones
_SIZE: Final = 100_000  # bytes of a state that is looked into
_TOGETHER: Final = 2_000_000  # characters of all of them
_SOME: Final = 20  # states that are read at once
_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class OneState:
    """The state of a session, a user or an app, with bare keys. `state` is empty if it has more than _SIZE bytes.

    `ref` is a session that has it, the newest one that was read."""

    ref: SessionRef
    state: State
    bytes: int


@dataclass(slots=True)
class Sample:
    """The states that were read. Reading is bounded, so `sessions` may lack some of the newest ones.

    In the index, `number` is the source, `app` and `app_name` the app, `numbers` these sessions, and `share` how much
    of all it has.
    """

    source: str
    number: int = 0
    app: int = 0
    app_name: str = ""
    share: float = 1.0
    numbers: list[int] = field(default_factory=list)
    refs: list[SessionRef] = field(default_factory=list)
    active: list[float] = field(default_factory=list)  # when each of them was active last, in seconds
    sessions: list[OneState] = field(default_factory=list)
    users: list[OneState] = field(default_factory=list)
    apps: list[OneState] = field(default_factory=list)

    @property
    def newest(self) -> float:
        """Returns when the app was active last."""
        return self.active[0] if self.active else 0.0


def sample(source: str, app_name: str, *, actor: Actor) -> Sample:
    """Returns the states of an app that are checked. Raises NotFound, SourceError."""
    actor.check_sees(own_session(source, app_name))
    owner = SearchOwner.objects.filter(source__where=registry.identity(source), digest=digest_of(app_name, "")).first()
    looked_at = Sample(source, share=feed.share(source))
    with database.using(source) as db:
        read = _Reader(db, source, actor)
        if owner is not None:
            looked_at.number, looked_at.app, looked_at.app_name = owner.source_id, owner.pk, owner.app_name
            newest = rows(
                """SELECT s.id, s.names, s.last FROM sessions_app_searchsession AS s WHERE s.listed AND s.app_name = %s
                AND +s.app_owner_id = %s ORDER BY s.last DESC, s.id DESC LIMIT %s""",
                [owner.app_name, owner.pk, SESSIONS],
            )
            looked_at.numbers = [row[0] for row in newest]
            looked_at.refs = [ref_of(source, row[1]) for row in newest]
            looked_at.active = [row[2] for row in newest]
        own = own_session(source, app_name)
        looked_at.apps = list(read.states("app_states", ("app_name",), [own]))
        users = {ref[:3]: ref for ref in reversed(looked_at.refs)}  # of each user, the newest session
        looked_at.users = list(read.states("user_states", ("app_name", "user_id"), list(users.values())))
        looked_at.sessions = list(read.states("sessions", ("app_name", "user_id", "id"), looked_at.refs))
    return looked_at


class _Reader:
    """Reads states until they are too much together, or take too long."""

    def __init__(self, db: BaseDatabaseWrapper, source: str, actor: Actor) -> None:
        self._db, self._source, self._actor = db, source, actor
        self._left, self._until = _TOGETHER, time.monotonic() + _SECONDS

    def states(self, table: str, names: Sequence[str], refs: Sequence[SessionRef]) -> Iterator[OneState]:
        """Yields the states of these owners, in their order, if they exist."""
        scopes: Any = {"app_states": "app", "user_states": "user", "sessions": "session"}
        for start in range(0, len(refs), _SOME):
            if self._left <= 0 or time.monotonic() > self._until:
                return
            some = {ref[1 : 1 + len(names)]: ref for ref in refs[start : start + _SOME]}
            texts = self._texts(table, names, list(some))
            for each, ref in some.items():
                if each in texts:
                    size, text = texts[each]
                    self._left -= len(text or "")
                    state = shown_object(text, self._actor, ref.app_name, scopes[table], read_stored_or_none)
                    yield OneState(ref, state, size)

    def _texts(
        self, table: str, names: Sequence[str], some: Sequence[tuple[str, ...]]
    ) -> dict[tuple[str, ...], tuple[int, str | None]]:
        size = dialect.of(self._db).size("state")
        columns = ", ".join(f"s.{name}" for name in names)
        with self._db.cursor() as cursor:
            cursor.execute(
                f"""{wanted(names, len(some))}
                SELECT {columns}, {size}, CASE WHEN {size} <= {_SIZE} THEN CAST(s.state AS text) END
                FROM wanted CROSS JOIN {table} AS s WHERE {is_wanted("s", names)}""",
                [name for owner in some for name in owner],
            )
            return {tuple(row[: len(names)]): (row[-2] or 0, row[-1]) for row in cursor.fetchall()}
