"""Which sessions of a source have new events, whoever wrote them, at a cost that does not grow with what is stored."""

import time
from typing import Any, Final

from ..domain.positions import Seq
from ..domain.session_ref import SessionRef
from ..sources import database
from . import newest

LOOK_BACK: Final = 1_000  # numbers before the newest that may still be committing when a tail begins
PATIENCE_SECONDS: Final = 60.0  # for a number that was taken; after that its transaction was surely rolled back


class Tail:
    """A seq in a source's append order that moves on with it; for one thread.

    On PostgreSQL a number taken is not a number committed, and a later one can become visible first: numbers that were
    passed over are asked for until they appear or their time is up. On SQLite the rowid has no such holes, but a deleted
    session's may be given again.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._sqlite = database.get(source).vendor == "sqlite"
        self._version: Any = None
        self._seq = newest.newest_seq(source)
        self._holes: dict[Seq, float] = {}  # number → until when it is waited for
        if not self._sqlite:
            start = Seq(max(0, self._seq - LOOK_BACK))
            self._note_holes(start, {seq for seq, _ref in newest.appended(source, start)})

    def moved(self) -> set[SessionRef] | None:
        """The sessions with events that were not there the last time; None where nothing at all was written."""
        if self._sqlite:
            version = newest.data_version(self._source)
            if version == self._version:
                return None
            self._version = version
        now = time.monotonic()
        self._holes = {seq: until for seq, until in self._holes.items() if until > now}
        rows = newest.appended(self._source, self._seq, self._holes)
        if not rows:
            if self._sqlite:
                self._seq = min(self._seq, newest.newest_seq(self._source))
            return set() if self._sqlite else None
        if len(rows) >= newest.APPENDED:
            self._version = None  # there are more
        numbers = {seq for seq, _ref in rows}
        self._holes = {seq: until for seq, until in self._holes.items() if seq not in numbers}
        start, self._seq = self._seq, max(self._seq, max(numbers))
        if not self._sqlite:
            self._note_holes(start, numbers)
        return {ref for _seq, ref in rows}

    def _note_holes(self, start: Seq, visible: set[Seq]) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        numbers = map(Seq, range(max(start, self._seq - LOOK_BACK) + 1, self._seq + 1))
        holes = {**self._holes, **{seq: until for seq in numbers if seq not in visible}}
        self._holes = dict(list(holes.items())[-LOOK_BACK:])
