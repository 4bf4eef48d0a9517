"""Waits for jobs of this process: a test ends no earlier, and leaves no thread to the next one."""

from __future__ import annotations

import threading


def settle(kind: str, seconds: float = 60) -> None:
    """Waits until no job of a kind is under way: "batch", "rule", "fork", "import"."""
    for thread in threading.enumerate():
        if thread.name == f"adkweb-{kind}":
            thread.join(seconds)
            assert not thread.is_alive(), f"{thread.name} still works after {seconds} s"
