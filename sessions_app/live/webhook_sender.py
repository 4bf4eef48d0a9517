"""Sends what webhooks are to be told. There is one thread in each process; each delivery is sent by one of them."""

import logging
import threading
from typing import Final

from django.db import DatabaseError, connections

from ..saved import webhooks

log = logging.getLogger("adkweb.webhooks")

LOOK_SECONDS: Final = 2.0


class WebhookSender(threading.Thread):
    """The thread that looks every LOOK_SECONDS for a delivery that is due."""

    def __init__(self) -> None:
        super().__init__(name="adkweb-webhooks", daemon=True)
        self._ended = threading.Event()

    def end(self) -> None:
        """Stops the thread after its current work."""
        self._ended.set()

    def run(self) -> None:
        """Works until the server stops."""
        while not self._ended.is_set():
            more = False
            try:
                more = webhooks.send_next()
            except DatabaseError as error:  # of adkweb's own database
                log.warning("webhooks wait: %s", error)
                connections["default"].close_if_unusable_or_obsolete()
            except Exception:
                log.exception("sending webhooks")
            self._ended.wait(0.0 if more else LOOK_SECONDS)
        connections.close_all()
