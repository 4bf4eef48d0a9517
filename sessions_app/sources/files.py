"""The files of SQLite sources: which file is at a path now, and whether it was written to."""

import os

from django.db import connections

from .registry import Source


def file_of(source: Source) -> tuple[int, int] | None:
    """Returns the file that a SQLite source is now, as (device, inode); None for a server."""
    if source.vendor != "sqlite":
        return None
    return file_at(connections.databases[source.alias]["ADKWEB"]["path"])


def file_at(path: str) -> tuple[int, int]:
    """Returns the file at a path, as (device, inode); (-2, -2) if there is none."""
    try:
        entry = os.stat(path)
    except OSError:
        return -2, -2  # it will be opened again, and that says that it is gone
    return entry.st_dev, entry.st_ino


def content_of(path: str) -> object:
    """Returns a value that changes whenever a SQLite file or its log is written to; None while the file is empty."""
    if not _size(path)[0]:
        return None
    return file_at(path), _size(path), _size(f"{path}-wal")


def _size(path: str) -> tuple[int, int]:
    try:
        entry = os.stat(path)
    except OSError:
        return 0, 0
    return entry.st_size, entry.st_mtime_ns
