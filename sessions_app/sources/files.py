"""The files of SQLite sources: which file is at a path now, and whether it was written to."""

import os
from pathlib import Path

from django.db import connections

from .urls import File


def file_of(alias: str) -> object:
    """Returns which file a SQLite source is now, and how it is opened; None for a server."""
    database = connections.databases[alias]
    path, how = database["ADKWEB"].get("path"), database["NAME"]
    # If SQLite treats a file as immutable, it doesn't notice that someone writes to it after all.
    return path and (file_at(path), how, content_of(path) if "immutable=1" in how else None)


def choose_mode(alias: str) -> None:
    """Decides how the file of a source is opened, if it is one: a file at rest that is only read is opened as
    immutable.

    SQLite keeps files beside one with a write-ahead log even while it only reads. In a folder that can't be written, it
    can't create them, but doesn't need them while the log is empty, as it is when no one has the file open."""
    database = connections.databases[alias]
    config = database["ADKWEB"]
    if config["read_only"] and "path" in config:
        path = Path(config["path"])
        database["NAME"] = File(path, read_only=True, immutable=config["immutable"] or _rests(path)).uri


def _rests(path: Path) -> bool:
    if os.access(path.parent, os.W_OK) or _size(f"{path}-wal")[0]:
        return False
    try:
        with open(path, "rb") as file:
            return file.read(20)[18:] == b"\2\2"  # this marks a file with a write-ahead log
    except OSError:
        return False  # opening it reports what is wrong


def file_at(path: str) -> tuple[int, int]:
    """Returns the file at a path, as (device, inode); (-2, -2) if there is none."""
    try:
        entry = os.stat(path)
    except OSError:
        return -2, -2  # it will be opened again, which reports that it is gone
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
