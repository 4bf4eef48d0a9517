"""Keeps the newest digest of each day in a file beside adkweb's own data, so that rows missing at the end are noticed.

Each line of `audit-heads` is a day (UTC), the number of its last row and that row's digest. The line of today is
written again with every row, if the row that it names is still there. Otherwise it stays, and shows that rows were
removed; a new one follows. Publish the lines, or keep them elsewhere: someone who can alter the database and this file
can't alter those. A process writes a row's line after its commit, so a line never says more than the table.
"""

import fcntl
import logging
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from django.conf import settings
from django.db import DatabaseError
from django.utils.translation import gettext as _

from ...domain.errors import Invalid
from ...models import AuditRow, tables

log = logging.getLogger("adkweb.audit")

NAME: Final = "audit-heads"
_LINE: Final = re.compile(rb"(\d{4}-\d\d-\d\d) (\d{15}) ([0-9a-f]{64})\n")
_LENGTH: Final = 10 + 1 + 15 + 1 + 64 + 1
_told: "Head | None" = None  # the last head without its row that the log was told of


class Head(NamedTuple):
    """The last row of a day. `day` is empty for a line that cannot be read, and `number` is the line's then."""

    day: str
    number: int
    digest: str

    def __str__(self) -> str:
        return f"{self.day} {self.number:015d} {self.digest}"

    @classmethod
    def of(cls, at: float, number: int, digest: str) -> "Head":
        """Returns the head that a row makes for its day."""
        return cls(datetime.fromtimestamp(at, UTC).date().isoformat(), number, digest)


def file() -> Path:
    """Returns the path of the file."""
    return Path(settings.DATA_DIR) / NAME


def keep(at: float, number: int, digest: str) -> None:
    """Writes down a row that was committed. If that fails, the log says so: the row itself is kept."""
    head = Head.of(at, number, digest)
    try:
        before = _write(head)
    except (OSError, DatabaseError) as error:
        log.error("The audit's heads cannot be written (%s). Keep this line: %s", error, head)
    else:
        if before and before.day < head.day:
            log.info("the audit's head of a past day: %s", before)


def _write(head: Head) -> Head | None:
    """Writes a head over that of the same day, or after the others, and returns the last one before it.

    A line whose row is gone stays: the rows that follow it would hide what is missing."""
    global _told
    handle = os.open(file(), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        end = os.fstat(handle).st_size // _LENGTH * _LENGTH
        last = _head(os.pread(handle, _LENGTH, end - _LENGTH)) if end else None
        gone = last is not None and not _is_there(last)
        if last and gone and _told != last:
            _told = last
            log.critical("The audit was altered: row %d is gone or was replaced. Its head was: %s", last.number, last)
        if last and last.number >= head.number:
            return None  # another process was faster
        if last and last.day >= head.day:  # later: the clock was put back
            end, head = end if gone else end - _LENGTH, head._replace(day=last.day)
        os.pwrite(handle, f"{head}\n".encode(), end)
    finally:
        os.close(handle)
    return last


def _is_there(head: Head) -> bool:
    """Returns whether the table has the row of a head."""
    return AuditRow.objects.filter(number=head.number, digest=head.digest).exists()


def kept() -> Iterator[Head]:
    """Yields the heads, the oldest first."""
    try:
        content = file().read_bytes()
    except FileNotFoundError:
        return
    for start in range(0, len(content), _LENGTH):
        yield _head(content[start : start + _LENGTH]) or Head("", start // _LENGTH + 1, "")


def newest() -> Head | None:
    """Returns the last row as a head; None if nothing is recorded yet."""
    if tables.have_no_file():
        return None
    try:
        row = AuditRow.objects.order_by("-number").values_list("at", "number", "digest").first()
    except DatabaseError:
        if tables.are_missing():
            return None
        raise
    return Head.of(*row) if row else None


def read(line: str) -> Head:
    """Reads a head that was kept elsewhere. Raises Invalid."""
    head = _head(line.strip().encode("utf-8", "replace") + b"\n")
    if head is None or head.number < 1:
        raise Invalid(_("“%(line)s” isn't a line printed by `adkweb audit-head`.") % {"line": line[:200]})
    return head


def _head(line: bytes) -> Head | None:
    match = _LINE.fullmatch(line)
    return Head(match[1].decode(), int(match[2]), match[3].decode()) if match else None
