"""The files of SQLite sources: which one is at a path now, and whether something was written to it."""

import os

from django.db import connections

from .registry import Source


def file_of(source: Source) -> tuple[int, int] | None:
    """Returns which file a SQLite source is just now, as device and inode; None for a server."""
    if source.vendor != "sqlite":
        return None
    return file_at(connections.databases[source.alias]["ADKWEB"]["path"])


def file_at(path: str) -> tuple[int, int]:
    """Returns which file is at a path, as device and inode."""
    try:
        entry = os.stat(path)
    except OSError:
        return -2, -2  # gone: it is opened anew, which says so
    return entry.st_dev, entry.st_ino


def content_of(path: str) -> object:
    """Returns what differs once something was written to a SQLite file, or to its log; None while nothing is in it."""
    if not _size(path)[0]:
        return None
    return file_at(path), _size(path), _size(f"{path}-wal")


def _size(path: str) -> tuple[int, int]:
    try:
        entry = os.stat(path)
    except OSError:
        return 0, 0
    return entry.st_size, entry.st_mtime_ns
