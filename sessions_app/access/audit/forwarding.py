"""Sends the rows of the audit elsewhere: in order, each at least once, by one process at a time.

    forward(Receiver("syslog", deliver, most=200))    # at intervals, in every process

Each receiver's progress is in adkweb's own database, so a restart loses nothing. Recording an act waits for no
receiver. A receiver that is away is tried again, less and less often; no row is ever given up.
"""

import json
import logging
import os
import socket
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from django.conf import settings
from django.db.models import QuerySet

from ...models import AuditReceiver, AuditRow
from . import record
from .record import row_text

log = logging.getLogger("adkweb.audit")

CLAIM_SECONDS: Final = 60.0  # longer than a delivery may take
MOST_WAIT: Final = 300.0  # seconds between two tries, at most


@dataclass(frozen=True, slots=True)
class Receiver:
    """A receiver of the audit. `deliver` gets `most` rows at once, and returns what went wrong, or "" if it has
    them."""

    name: str
    deliver: Callable[[Sequence[AuditRow]], str]
    most: int


@dataclass(frozen=True, slots=True)
class Backlog:
    """What a receiver lacks: how many rows, since when the oldest of them waits, and what went wrong last."""

    name: str
    lacks: int
    since: float
    message: str


def forward(receiver: Receiver) -> bool:
    """Sends the next rows, unless another process is doing so. Returns whether there may be more."""
    now = time.time()
    row, _made = AuditReceiver.objects.get_or_create(name=receiver.name)
    if max(row.due, row.claimed_until) > now:
        return False
    rows = list(_after(row.sent)[: receiver.most])
    if not rows:
        return False
    claim = uuid.uuid4().hex
    # A process that was faster has changed what is compared here.
    same = AuditReceiver.objects.filter(name=row.name, sent=row.sent, claim=row.claim, claimed_until=row.claimed_until)
    if not same.update(claim=claim, claimed_until=now + CLAIM_SECONDS):
        return True
    wrong = receiver.deliver(rows)
    _note(row, claim, rows[-1].number, wrong)
    return not wrong


def backlogs() -> list[Backlog]:
    """Returns the backlog of each receiver in the settings."""
    names = [name for name, value in (("syslog", settings.AUDIT_SYSLOG), ("webhook", settings.AUDIT_WEBHOOK)) if value]
    known = AuditReceiver.objects.in_bulk(names) if names else {}
    return [_backlog(name, known.get(name)) for name in names]


def _backlog(name: str, row: AuditReceiver | None) -> Backlog:
    sent = row.sent if row else 0
    first, last = _after(sent).first(), _after(sent).last()
    lacks = last.number - sent if last else 0
    return Backlog(name, lacks, first.at if first else 0.0, row.message if row else "")


def _after(number: int) -> QuerySet[AuditRow]:
    return AuditRow.objects.filter(number__gt=number).order_by("number")


def _note(row: AuditReceiver, claim: str, number: int, wrong: str) -> None:
    """Notes the outcome of a delivery, unless the claim was lost in the meantime: then another process has sent the
    rows again."""
    mine = AuditReceiver.objects.filter(name=row.name, claim=claim)
    if not wrong:
        mine.update(sent=number, claim="", claimed_until=0.0, tries=0, due=0.0, message="")
        if row.tries:
            log.info("the audit is sent to the %s again", row.name)
        return
    due = time.time() + min(MOST_WAIT, 2.0 ** min(row.tries + 1, 20))
    mine.update(claim="", claimed_until=0.0, tries=row.tries + 1, due=due, message=wrong)
    if not row.tries:
        log.warning("the audit cannot be sent to the %s, and is tried again: %s", row.name, wrong)


SECONDS: Final = 10.0  # for a connection, for sending, and for the receiver to close it
MOST: Final = 200  # rows that are sent at once
_LONGEST: Final = 60_000  # bytes of a row: a datagram holds no more
_CUT: Final = 200  # characters that are left of each text of a longer one
_PRIORITY: Final = 13 * 8 + 5  # facility "log audit", severity "notice"
_READ: Final = 4_096

Address = tuple[str, str, int]  # ("udp" or "tcp", host, port), ("unix", path, 0)


def deliver(address: Address, rows: Sequence[AuditRow]) -> str:
    """Sends rows, and returns what went wrong; "" if nothing did."""
    messages = [message(row) for row in rows]
    kind, where, port = address
    try:
        if kind == "tcp":
            _through(socket.create_connection((where, port), timeout=SECONDS), messages)
        elif kind == "udp":
            family, _type, protocol, _name, target = socket.getaddrinfo(where, port, type=socket.SOCK_DGRAM)[0]
            _datagrams(socket.socket(family, socket.SOCK_DGRAM, protocol), target, messages)
        else:
            _datagrams(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), where, messages)
    except (OSError, UnicodeError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def message(row: AuditRow) -> bytes:
    """Returns a row as a message of RFC 5424. It is one line of ASCII, whatever names are in it."""
    at = datetime.fromtimestamp(row.at, UTC).isoformat(timespec="microseconds")
    host = "".join(char for char in socket.gethostname() if "!" <= char <= "~")[:255] or "-"
    return f"<{_PRIORITY}>1 {at} {host} adkweb {os.getpid()} {row.act} - {_fitting(row_text(row))}".encode()


def _fitting(text: str) -> str:
    """Returns the JSON of a row, or of what is left of one that is too long: someone may have chosen long names."""
    if len(text) <= _LONGEST:
        return text
    fields: dict[str, Any] = json.loads(text)
    cut = {name: value[:_CUT] if isinstance(value, str) else value for name, value in fields.items()}
    return record.canonical({**cut, "cut": True})


def _through(connection: socket.socket, messages: Sequence[bytes]) -> None:
    """Sends messages through a connection, and waits until the receiver closes it."""
    with closing(connection):
        connection.sendall(b"".join(b"%d %s" % (len(each), each) for each in messages))
        connection.shutdown(socket.SHUT_WR)
        until = time.monotonic() + SECONDS
        while connection.recv(_READ):  # it need not say anything
            if time.monotonic() > until:
                raise TimeoutError("the receiver does not close the connection")


def _datagrams(handle: socket.socket, target: Any, messages: Sequence[bytes]) -> None:
    with closing(handle):
        handle.settimeout(SECONDS)
        handle.connect(target)
        for each in messages:
            handle.send(each)
        # Only the next call reports that no one listens at the port.
        if error := handle.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(error, os.strerror(error))
