"""adkweb's whole ASGI application on a port, in this process: it shows the sources that a test has opened."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

import uvicorn

from sessions_app.access import tokens
from sessions_app.access.tokens import ApiToken
from tests.servers import free_port
from tests.support.people import as_admin


class Serving:
    """adkweb on a port of its own; `stop` and `start` keep the port, as a restart does."""

    def __init__(self) -> None:
        self.port = free_port()
        self._server: uvicorn.Server | None = None
        self._thread = threading.Thread()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Returns when it answers."""
        from adkweb.asgi import application

        config = uvicorn.Config(
            application, port=self.port, lifespan="off", log_config=None, timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, name="serving", daemon=True)
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive(), "adkweb did not start"
            self._thread.join(0.01)
        return self

    def stop(self) -> None:
        """Returns when nobody answers any more; harmless where it does not run."""
        if self._server is not None:
            self._server.should_exit = True
            self._thread.join(20)
            assert not self._thread.is_alive(), "adkweb does not stop"
            self._server = None


@contextmanager
def token(permission: str = "admin", apps: str = "*") -> Iterator[str]:
    """A token that is there for everybody, and is taken away again."""
    made, text = tokens.create(f"agent {uuid.uuid4()}", permission, apps, by=as_admin("maria"))
    try:
        yield text
    finally:
        ApiToken.objects.filter(name=made.name).delete()
