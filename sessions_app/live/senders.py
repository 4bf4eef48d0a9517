"""Sends the audit to the receivers that the settings name, and messages to webhooks.

Each has a thread in each process; each message is sent by one of them.
"""

from collections.abc import Callable, Sequence
from functools import partial

from django.conf import settings

from ..access.audit import forwarding
from ..access.audit.forwarding import Receiver
from ..access.audit.record import row_text
from ..jobs.ticker import Ticker
from ..models import AuditRow
from ..search.saved import sending, webhooks


class Sender(Ticker):
    """The thread that looks for something to send every few seconds. `send` returns whether there is more."""

    def __init__(self, name: str, send: Callable[[], bool], seconds: float) -> None:
        super().__init__(name, seconds)
        self._send = send

    def tick(self) -> float | None:
        """Sends what there is."""
        return 0.0 if self._send() else None


def senders() -> list[Sender]:
    """Returns the threads of a process."""
    audit = [Sender(f"audit-{each.name}", partial(forwarding.forward, each), seconds=1.0) for each in receivers()]
    return [*audit, Sender("webhooks", webhooks.send_next, seconds=2.0)]


def receivers() -> list[Receiver]:
    """Returns the receivers of the audit that the settings name."""
    named = []
    if settings.AUDIT_SYSLOG:
        named.append(Receiver("syslog", partial(forwarding.deliver, settings.AUDIT_SYSLOG), forwarding.MOST))
    if settings.AUDIT_WEBHOOK:
        named.append(Receiver("webhook", _post, 1))
    return named


def _post(rows: Sequence[AuditRow]) -> str:
    """Posts one row."""
    (row,) = rows
    secret = settings.AUDIT_WEBHOOK_SECRET
    _status, wrong = sending.deliver(settings.AUDIT_WEBHOOK, row_text(row).encode(), secret, str(row.number))
    return wrong
