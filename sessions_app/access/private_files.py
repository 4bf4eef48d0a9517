"""Files and folders of adkweb's own, which nobody else on this machine can read, whatever umask it was started with."""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_COMPANIONS: Final = ("-wal", "-shm", "-journal")  # what SQLite keeps beside a database, with the mode that this has
_OWN: Final = re.compile(r"secret-key|uploads|demo\.\d+|(adkweb|demo)\.db(-wal|-shm|-journal)?")


def keep_folder(folder: Path) -> None:
    """Makes a folder that only its owner can open, and closes one that is there, with adkweb's files in it.

    A folder in which other things lie, too, stays open to whoever needs them; only adkweb's files are closed then.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    names = os.listdir(folder)
    if all(_OWN.fullmatch(name) for name in names):
        _close(folder, 0o700)
    for name in filter(_OWN.fullmatch, names):
        path = folder / name
        _close(path, 0o700 if path.is_dir() else 0o600)


def keep_database(path: Path) -> None:
    """Makes the file of a SQLite database, empty and closed to others, and closes one that is there with its companions.

    A file that is there is not opened: to close it again would take this process's SQLite locks on it away.
    """
    with suppress(FileExistsError):
        new_file(path)
    for companion in ("", *_COMPANIONS):
        _close(Path(f"{path}{companion}"), 0o600)


def new_file(path: Path) -> None:
    """Makes an empty file that only its owner can read and write; raises FileExistsError."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def open_to_others(paths: list[Path]) -> Iterator[tuple[Path, int]]:
    """Those of the paths that others of this machine may read, write or enter, and their modes."""
    for path in paths:
        with suppress(OSError):
            mode = stat.S_IMODE(path.stat().st_mode)
            if os.name == "posix" and mode & OTHERS:
                yield path, mode


def own_files(folder: Path) -> list[Path]:
    """What lies in a folder and is adkweb's own."""
    with suppress(OSError):
        return sorted(folder / name for name in os.listdir(folder) if _OWN.fullmatch(name))
    return []


def _close(path: Path, mode: int) -> None:
    """Takes a file from others, if it is ours to do so."""
    with suppress(OSError):
        current = path.stat()
        if os.name == "posix" and current.st_mode & OTHERS and current.st_uid == os.geteuid():
            path.chmod(mode)
