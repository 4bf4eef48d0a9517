"""Adopts a database in a background thread while its pages are read: starts when its owner asks, and resumes after an
interruption."""

import logging
import threading
import time
from dataclasses import dataclass
from typing import Final

from django.db import DatabaseError, connections
from django.utils import translation
from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..access.audit.record import record
from ..domain.errors import Conflict, Error, Invalid
from . import adoption, database
from .steps import Progress

log = logging.getLogger("adkweb.sources")

_EVENTS_A_SECOND: Final = 20_000  # measured beside an agent that writes, on two cores
_COUNTED: Final = 100_000
_RETRY_SECONDS: Final = 300.0  # after a failure, before it continues automatically


@dataclass(frozen=True, slots=True)
class Plan:
    """The cost of adopting a database: roughly how many events it has, roughly how many seconds it takes, and the
    missing steps."""

    events: int
    seconds: float
    steps: list[str]


@dataclass(frozen=True, slots=True)
class Adoption:
    """The progress of adopting: `share` runs from 0 to 1; `seconds_left` is None until it can be estimated.

    `problem` says why it stopped. It is empty while adopting runs."""

    share: float = 0.0
    seconds_left: float | None = None
    problem: str = ""

    @property
    def works(self) -> bool:
        """Returns whether it is running: no problem has stopped it."""
        return not self.problem


def plan(alias: str) -> Plan:
    """Estimates what adopting would add to a database, and how long it would take.

    Uses the server's own estimate of the number of rows. Where the server has none yet, it counts them, up to _COUNTED.
    """
    with database.using(alias) as db, db.cursor() as cursor:
        cursor.execute(
            """SELECT CASE WHEN reltuples > 0 THEN reltuples::bigint
                ELSE (SELECT count(*) FROM (SELECT 1 FROM events LIMIT %s) AS some_events) END
            FROM pg_class WHERE oid = 'events'::regclass""",
            [_COUNTED],
        )
        (events,) = cursor.fetchone()
        return Plan(events, 1 + events / _EVENTS_A_SECOND, adoption.missing(alias))


def start(alias: str, actor: Actor, *, agreed: bool = False) -> None:
    """Starts to adopt a database, or resumes it. If adkweb doesn't know its version of ADK's schema, it has to be
    `agreed` to first.

    Raises Conflict while it is running, Invalid if nothing is left to do, NotAllowed, NotFound, SourceError."""
    actor.check_runs_everything()
    opened = database.get(alias)
    unknown = not database.is_agreed(alias)
    if unknown and not agreed:
        raise Invalid(_("First, confirm that adkweb may write to this schema version."))
    if unknown and not database.is_read_only(alias):
        record("adopted", actor.name, source=alias, version=database.newer(alias))
        database.agree(alias)
    actor.check_may_write(alias)
    if database.keeps_creations(alias):
        if unknown:
            return
        raise Invalid(_("This database is already adopted."))
    record("adopted", actor.name, source=alias)
    log.info("%s started to adopt %s", actor.name, opened.where)
    _start(alias)


def of(alias: str) -> Adoption | None:
    """Returns how far this process has adopted a database; None if it is not adopting it."""
    thread = _threads.get(alias)
    return thread.adoption if thread else None


def go_on() -> None:
    """Resumes adopting in databases that are open. Also adds indexes that another program dropped."""
    for source in database.opened():
        thread = _threads.get(source.alias)
        rests = thread and (thread.adoption.works or time.monotonic() - thread.ended < _RETRY_SECONDS)
        locked = source.alias in database.locked_files  # when it was opened: it is adopted later
        if rests or database.why_shown(source.alias) or not (locked or database.is_begun(source.alias)):
            continue
        try:
            with database.using(source.alias):
                released = not locked and not adoption.inspect(source.alias).begun
                lacking = set(adoption.missing(source.alias))
            if not released and lacking - _left_out.get(source.alias, set()):
                _start(source.alias)
        except (Error, DatabaseError) as error:
            log.debug("%s: %s", source.alias, error)


def wait(alias: str) -> None:
    """Waits until adopting ends."""
    if thread := _threads.get(alias):
        thread.join()


_lock = threading.Lock()
_threads: dict[str, "_Thread"] = {}
_left_out: dict[str, set[str]] = {}  # by alias, the indexes that take too long to build in a SQLite file


def _start(alias: str) -> None:
    with _lock:
        thread = _threads.get(alias)
        if thread and thread.is_alive():
            raise Conflict(_("This database is already being adopted."))
        _threads[alias] = _Thread(alias)
        _threads[alias].start()


class _Thread(threading.Thread):
    def __init__(self, alias: str) -> None:
        super().__init__(name=f"adkweb-adopt-{alias}", daemon=True)
        self.adoption = Adoption()
        self.ended = 0.0
        self._alias = alias
        self._language = translation.get_language()
        self._began = time.monotonic()
        self._first: float | None = None  # the share at the start: an earlier run may have done a part

    def run(self) -> None:
        """Adopts the database, until everything is added or something prevents it."""
        with translation.override(self._language):
            problem = self._adopt()
        connections.close_all()
        self.ended = time.monotonic()
        if problem:
            log.warning("adopting %s: %s", self._alias, problem)
            self.adoption = Adoption(self.adoption.share, problem=problem)
            return
        log.info("adopted %s in %.0f s", self._alias, self.ended - self._began)
        with _lock:
            _threads.pop(self._alias, None)

    def _adopt(self) -> str:
        """Returns what prevented it, or nothing."""
        try:
            database.adopt_open(self._alias, self._moved)
            _left_out[self._alias] = set(adoption.missing(self._alias))
        except Error as error:
            return error.message
        except Exception:
            log.exception("adopting %s", self._alias)
            return _("Something went wrong. See the log for details.")
        return ""

    def _moved(self, progress: Progress) -> None:
        if self._first is None:
            self._first, self._began = progress.share, time.monotonic()
        done = progress.share - self._first
        seconds = (time.monotonic() - self._began) * (1 - progress.share) / done if done > 0.05 else None
        self.adoption = Adoption(progress.share, seconds)
