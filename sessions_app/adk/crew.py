"""Threads that do work which would make an event loop wait; they come when there is work and go when there is none."""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

T = TypeVar("T")

IDLE_SECONDS: Final = 5.0


class Crew:
    """At most `size` threads, for any number of loops and threads; each calls `leave` before it ends.

    Unlike a ThreadPoolExecutor's, an idle thread ends: what it holds, a connection, is given back.
    """

    def __init__(self, size: int, leave: Callable[[], None], name: str) -> None:
        self._size, self._leave, self._name = size, leave, name
        self._jobs: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._changed = threading.Condition()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._closing = False

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Has a thread do it."""
        future: Future[T] = Future()
        with self._changed:
            self._jobs.append((future, work))
            if len(self._jobs) > self._idle and len(self._threads) < self._size:
                thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._threads.add(thread)
                thread.start()
            else:
                self._changed.notify()
        return future

    def close(self) -> None:
        """Waits until all is done and every thread has left; the crew can be used again."""
        with self._changed:
            self._closing = True
            threads = list(self._threads)
            self._changed.notify_all()
        for thread in threads:
            thread.join()
        with self._changed:
            self._closing = False

    def _run(self) -> None:
        try:
            while (job := self._next()) is not None:
                future, work = job
                if not future.set_running_or_notify_cancel():
                    continue
                try:
                    future.set_result(work())
                except BaseException as error:  # whoever waits for it is told
                    future.set_exception(error)
                del job, future, work  # what it was about need not live as long as this thread
        finally:
            self._leave()

    def _next(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        """The next job; None when this thread is to leave."""
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._jobs or self._closing, IDLE_SECONDS)
            self._idle -= 1
            if self._jobs:
                return self._jobs.popleft()
            self._threads.discard(threading.current_thread())
            return None
