"""Does work in threads, so that no event loop has to wait.

Threads start when there is work and end when there is none.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

T = TypeVar("T")

IDLE_SECONDS: Final = 5.0


class Crew:
    """Up to `size` threads that work for any number of event loops and threads. Each calls `leave` before it ends.

    Unlike in a ThreadPoolExecutor, an idle thread ends after a while and gives back the connection that it holds. Up to
    `size`, there are never fewer threads at work than unfinished jobs.
    """

    def __init__(self, size: int, leave: Callable[[], None], name: str) -> None:
        self._size, self._leave, self._name = size, leave, name
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._undone = 0
        self._working = 0
        self._threads: set[threading.Thread] = set()

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Lets a thread do the work."""
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()  # no one can cancel work that may have started
        with self._lock:
            self._undone += 1
            if self._working < min(self._undone, self._size):
                self._working += 1
                thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._threads.add(thread)
                thread.start()
        self._jobs.put((future, work))
        return future

    def close(self) -> None:
        """Waits until all work is done and the threads have ended. The crew can be used again."""
        with self._lock:
            threads = list(self._threads)
        for _ in threads:
            self._jobs.put(None)
        for thread in threads:
            thread.join()

    def _run(self) -> None:
        try:
            while (job := self._next()) or not self._may_leave():
                if job:
                    self._do(*job)
        finally:
            self._leave()
            with self._lock:
                self._threads.discard(threading.current_thread())

    def _next(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        """Returns a job, or None after a while without one, or when `close` asks the thread to leave."""
        try:
            return self._jobs.get(timeout=IDLE_SECONDS)
        except Empty:
            return None

    def _may_leave(self) -> bool:
        with self._lock:
            if self._working <= self._undone:
                return False
            self._working -= 1
            return True

    def _do(self, future: Future[Any], work: Callable[[], Any]) -> None:
        answer, error = None, None
        try:
            answer = work()
        except BaseException as raised:  # the caller that waits for the answer gets it
            error = raised
        with self._lock:  # first: a caller that gets its answer may submit the next job at once
            self._undone -= 1
        if error is None:
            future.set_result(answer)
        else:
            future.set_exception(error)
            del error  # its traceback refers to this frame: a cycle
