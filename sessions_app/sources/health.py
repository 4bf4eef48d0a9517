"""Checks what adkweb's own database and each source lack. Checks are shared, and no caller waits long.

Each runs in a thread of its own, at most one at a time per database. If a new check takes longer than PATIENCE_SECONDS,
callers get the last result, so a server that doesn't answer delays no one. Callers only wait for the first check of a
database.
"""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from django.conf import settings
from django.db import DatabaseError, connections
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ..domain.errors import Error, NotAllowed
from . import database, dialect, errors, registry, versions
from .dialect import Either
from .registry import Source

FRESH_SECONDS = 2.0  # for which a result is returned without another check
KEPT_SECONDS: Final = 60.0  # for which it is returned while another check is running
PATIENCE_SECONDS: Final = 0.02  # with the running checks
FIRST_SECONDS: Final = 1.0  # with the very first check of a database, from its start
SILENT_SECONDS: Final = 5.0  # after which a running check counts as unanswered

REACHABLE, SCHEMA, WRITABLE = "reachable", "schema", "writable"


@dataclass(frozen=True, slots=True)
class State:
    """The parts a database lacks, of REACHABLE, SCHEMA (its tables are known, and of this version) and WRITABLE; and
    why.

    The reason may name paths: only an admin may read it. `amiss`: this lack is not intended, as it is with --read-only.
    """

    lacks: tuple[str, ...] = ()
    why: str = ""
    amiss: bool = False

    @property
    def usable(self) -> bool:
        """Returns whether it can at least be read."""
        return not {REACHABLE, SCHEMA} & {*self.lacks}


@dataclass(frozen=True, slots=True)
class Readiness:
    """The state of adkweb's own database, and of each source by alias."""

    own: State
    sources: dict[str, State]

    @property
    def ready(self) -> bool:
        """Returns whether adkweb can work: pages need its own database, and one source that answers if there are
        any."""
        anything = not self.sources or any(state.usable for state in self.sources.values())
        return not self.own.lacks and anything

    @property
    def whole(self) -> bool:
        """Returns whether everything is as intended: every source can be read, and none is a standby by mistake."""
        return self.ready and all(state.usable and not state.amiss for state in self.sources.values())


class _Looks:
    """The checks of one database: the last result, and the running check."""

    def __init__(self, look: Callable[[], State]) -> None:
        self._look = look
        self._lock = threading.Lock()
        self._seen: tuple[float, State] | None = None
        self._began = 0.0
        self._ended = threading.Event()
        self._ended.set()

    def begin(self) -> None:
        """Starts a check, unless one is running or the last result is fresh."""
        with self._lock:
            now = time.monotonic()
            fresh = self._seen is not None and now - self._seen[0] < FRESH_SECONDS
            if fresh or not self._ended.is_set():
                return
            self._began = now
            self._ended.clear()
        threading.Thread(target=self._run, name="adkweb-ready", daemon=True).start()

    def state(self, until: float) -> State:
        """Returns the result of the running check, or the last one."""
        if self._seen is None:
            until = max(until, self._began + FIRST_SECONDS)
        self._ended.wait(max(0.0, until - time.monotonic()))
        now, seen, waiting = time.monotonic(), self._seen, not self._ended.is_set()
        if seen is None or (waiting and (now - self._began > SILENT_SECONDS or now - seen[0] > KEPT_SECONDS)):
            return State((REACHABLE,), _("the server didn't answer in time. adkweb retries on every request."))
        return seen[1]

    def _run(self) -> None:
        try:
            state = self._look()
        except (Error, DatabaseError) as error:
            own = isinstance(error, DatabaseError)
            state = State((REACHABLE,), errors.of_own(error) if own else str(error).strip())
        finally:
            connections.close_all()
        self._seen = time.monotonic(), state
        self._ended.set()


def look() -> Readiness:
    """Checks everything at once, and returns what is known within PATIENCE_SECONDS, or the last results."""
    sources = registry.listed()
    with _lock:
        for alias in _sources.keys() - {source.alias for source in sources}:
            del _sources[alias]
        looks = {each.alias: _sources.setdefault(each.alias, _Looks(partial(_source, each))) for each in sources}
    own = _own
    for each in (own, *looks.values()):
        each.begin()
    until = time.monotonic() + PATIENCE_SECONDS
    return Readiness(own.state(until), {alias: each.state(until) for alias, each in looks.items()})


def doubt() -> None:
    """Makes the next caller wait for a new check of adkweb's own database: it has just refused something."""
    global _own
    _own = _Looks(_own_database)


def forget() -> None:
    """Forgets the results, so that the next check is a new one."""
    global _own
    with _lock:
        _own = _Looks(_own_database)
        _sources.clear()


# --- What is looked at ------------------------------------------------------------------------------------------------


def _own_database() -> State:
    connection = connections["default"]
    if versions.why_refused(versions.applied()):
        return State(
            (SCHEMA,),
            _("adkweb's own database belongs to a different version of adkweb. Run adkweb doctor to see what to do."),
        )
    if waiting := len(versions.missing()):
        why = ngettext(
            "adkweb's own database is missing %(n)s migration. Restart adkweb to apply it.",
            "adkweb's own database is missing %(n)s migrations. Restart adkweb to apply them.",
            waiting,
        )
        return State((SCHEMA,), why % {"n": waiting})
    if dialect.of(connection).is_file and (state := _file(Path(str(connection.settings_dict["NAME"])))).lacks:
        return state
    try:
        with connection.cursor() as cursor:
            cursor.execute(_WRITE.on(connection))
    except DatabaseError as error:
        return State((WRITABLE,), errors.of_own(error))
    return State()


# The smallest writes that need no row of anyone's.
_WRITE: Final = Either(sqlite="PRAGMA user_version = 1", postgresql="SELECT pg_current_xact_id()")


def _source(source: Source) -> State:
    """Checks a source, and opens it if it isn't open yet."""
    try:
        with database.using(source.alias) as db, db.cursor() as cursor:
            cursor.execute("SELECT 1 FROM sessions LIMIT 1")
            if settings.READ_ONLY:
                return State((WRITABLE,), "--read-only")
            follows, may_write = False, True
            if source.dialect.has_rights:
                cursor.execute("SELECT pg_is_in_recovery(), has_table_privilege('events', 'INSERT')")
                follows, may_write = cursor.fetchone()
            if follows and not database.is_read_only(source.alias):
                why = _("this server is a read-only standby. Write to its primary server instead.")
                return State((WRITABLE,), why, amiss=True)
            if why := database.why_shown(source.alias):
                return State((WRITABLE,), why)
            if source.dialect.is_file:
                return _file(Path(db.settings_dict["ADKWEB"]["path"]))
            with database.writing(source.alias):
                return _server(may_write=may_write)
    except NotAllowed as error:
        return State((WRITABLE,), error.message)
    except Error as error:
        path = connections.databases.get(source.alias, {}).get("ADKWEB", {}).get("path")
        away = "alias" in error.detail or not (path is None or os.access(path, os.R_OK))
        return State((REACHABLE if away else SCHEMA,), error.message)


def _file(path: Path) -> State:
    """Returns whether a SQLite file may be written, and its folder, in which SQLite keeps files beside it."""
    if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        return State()
    return State(
        (WRITABLE,),
        f"{path}: " + _("adkweb doesn't have permission to write to this file. To open it read-only, use --read-only."),
    )


def _server(*, may_write: bool) -> State:
    return State() if may_write else State((WRITABLE,), _("this database user doesn't have permission to do that."))


_lock: Final = threading.Lock()
_own = _Looks(_own_database)
_sources: dict[str, _Looks] = {}
