"""Keeps adkweb's own files and folders closed to other users of this machine, whatever the umask."""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_COMPANIONS: Final = ("-wal", "-shm", "-journal")  # SQLite makes these beside a database, with the database's mode
_OWN: Final = re.compile(
    r"secret-key|audit-heads|uploads|exports|retained|output|demo-artifacts|demo\.\d+|(adkweb|demo)\.db(-wal|-shm|-journal)?"
)


def keep_folder(folder: Path) -> None:
    """Makes a folder that only its owner can open. If the folder exists, it and adkweb's files in it are closed.

    If there are other files in the folder, it stays open for those who need them, and only adkweb's files are closed.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    names = os.listdir(folder)
    if all(_OWN.fullmatch(name) for name in names):
        _close(folder, 0o700)
    for name in filter(_OWN.fullmatch, names):
        path = folder / name
        _close(path, 0o700 if path.is_dir() else 0o600)


def keep_database(path: Path) -> None:
    """Makes an empty file for a SQLite database, closed to others. An existing file is closed, with its companions.

    An existing file is not opened: closing its handle again would release this process's SQLite locks on it.
    """
    with suppress(FileExistsError):
        new_file(path)
    for companion in ("", *_COMPANIONS):
        _close(Path(f"{path}{companion}"), 0o600)


def new_file(path: Path) -> None:
    """Makes an empty file that only its owner can read and write. Raises FileExistsError."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def open_to_others(paths: list[Path]) -> Iterator[tuple[Path, int]]:
    """Yields the paths that other users of this machine may read, write or enter, with their modes."""
    for path in paths:
        with suppress(OSError):
            mode = stat.S_IMODE(path.stat().st_mode)
            if os.name == "posix" and mode & OTHERS:
                yield path, mode


def own_files(folder: Path) -> list[Path]:
    """Returns the files and folders in a folder that are adkweb's own."""
    with suppress(OSError):
        return sorted(folder / name for name in os.listdir(folder) if _OWN.fullmatch(name))
    return []


def _close(path: Path, mode: int) -> None:
    """Removes others' permissions, if this process owns the file."""
    with suppress(OSError):
        current = path.stat()
        if os.name == "posix" and current.st_mode & OTHERS and current.st_uid == os.geteuid():
            path.chmod(mode)
