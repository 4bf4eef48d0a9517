"""Sends the audit to the receivers that the settings name. Each has a thread in each process; one of them sends."""

import logging
import threading
from collections.abc import Sequence
from functools import partial
from typing import Final

from django.conf import settings
from django.db import DatabaseError, connections

from ..audit import forwarding, syslog
from ..audit.forwarding import Receiver, Row
from ..saved import sending

log = logging.getLogger("adkweb.audit")

LOOK_SECONDS: Final = 1.0


def receivers() -> list[Receiver]:
    """Returns the receivers that the settings name."""
    named = []
    if settings.AUDIT_SYSLOG:
        named.append(Receiver("syslog", partial(syslog.deliver, settings.AUDIT_SYSLOG), syslog.MOST))
    if settings.AUDIT_WEBHOOK:
        named.append(Receiver("webhook", _post, 1))
    return named


def _post(rows: Sequence[Row]) -> str:
    """Posts one row."""
    (row,) = rows
    secret = settings.AUDIT_WEBHOOK_SECRET
    _status, wrong = sending.deliver(settings.AUDIT_WEBHOOK, row.text.encode(), secret, str(row.number))
    return wrong


class AuditSender(threading.Thread):
    """The thread that looks every LOOK_SECONDS for rows that a receiver lacks."""

    def __init__(self, receiver: Receiver) -> None:
        super().__init__(name=f"adkweb-audit-{receiver.name}", daemon=True)
        self._receiver = receiver
        self._ended = threading.Event()

    def end(self) -> None:
        """Stops the thread after its current work."""
        self._ended.set()

    def run(self) -> None:
        """Works until the server stops."""
        while not self._ended.is_set():
            more = False
            try:
                more = forwarding.forward(self._receiver)
            except DatabaseError as error:  # of adkweb's own database
                log.warning("sending the audit waits: %s", error)
                connections["default"].close_if_unusable_or_obsolete()
            except Exception:
                log.exception("sending the audit")
            self._ended.wait(0.0 if more else LOOK_SECONDS)
        connections.close_all()
