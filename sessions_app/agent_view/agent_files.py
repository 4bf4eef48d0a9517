"""Reads the Python files of an agent, where its folder was opened. No link is followed, and little is read."""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from django.db import connections

from ..access.actor import Actor
from ..domain.session_ref import SessionRef
from ..sources import database, registry
from ..sources.finding import SESSION_FILE
from .agent_code import Code, Written

FILES: Final = 200
LARGEST: Final = 300_000  # bytes of a file
TOGETHER: Final = 600_000  # bytes of all files
ENTRIES: Final = 5_000  # files and folders that are looked at
_DEPTH: Final = 5
_SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})
_REMEMBERED: Final = 50  # folders whose files were looked through
_read_by: Final[dict[Path, tuple[int, dict[str, list[str]]]]] = {}  # by folder: a hash of its files, and their readers
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe does not hold up who opens it


def has_files(ref: SessionRef, *, actor: Actor) -> bool:
    """Tells whether the folder of a session's agent was opened."""
    actor.check_sees(ref)
    return _folder(ref.source) is not None


def instruction(ref: SessionRef, agent: str, *, actor: Actor) -> Written | None:
    """Returns an agent's instruction as the files of its folder have it now; None if none of them makes this agent."""
    actor.check_sees(ref)
    folder = _folder_of(ref)
    if folder is None or not agent:
        return None
    written = Code(folder.name, dict(_Reading().files(folder))).instruction(agent)
    if written is None:
        return None
    file = f"{folder.name}/{written.file}".encode("utf-8", "replace").decode()
    return Written(written.kind, file, written.line, written.text, written.others)


def readers(ref: SessionRef, *, actor: Actor) -> dict[str, list[str]]:
    """Returns the agents whose instruction has a key as a placeholder, by key, as the files have them now.

    The files are read each time, and looked through only when they have changed."""
    actor.check_sees(ref)
    folder = _folder_of(ref)
    if folder is None:
        return {}
    files = dict(_Reading().files(folder))
    state = hash(tuple(files.items()))
    before = _read_by.get(folder)
    if before is None or before[0] != state:
        if len(_read_by) == _REMEMBERED:
            _read_by.clear()
        before = _read_by[folder] = state, Code(folder.name, files).readers()
    return before[1]


def _folder_of(ref: SessionRef) -> Path | None:
    folder = _folder(ref.source)
    if folder is not None and folder.name != ref.app_name and _is_name(ref.app_name):
        folder = _below(folder, ref.app_name)
    return folder


def _folder(source: str) -> Path | None:
    """Returns the folder beside whose files `adk web` wrote a source, if it is in one that a person named."""
    database.get(source)
    file = connections.databases[source].get("ADKWEB", {}).get("path")
    if not file or Path(file).parts[-2:] != SESSION_FILE.parts:
        return None
    folder = Path(file).parent.parent
    named = any(folder.is_relative_to(each.resolve()) for each in registry.searched_folders)
    return folder if named else None


def _is_name(app: str) -> bool:
    return app not in ("", ".", "..") and not {"/", "\\", "\0"}.intersection(app)


def _below(folder: Path, app: str) -> Path:
    """Returns the folder of an app in a folder of agents, or that folder itself if there is none."""
    with suppress(OSError, ValueError):
        if stat.S_ISDIR(os.lstat(folder / app).st_mode):
            return folder / app
    return folder


class _Reading:
    """Reads the files of a folder, as many as may be read."""

    def __init__(self) -> None:
        self.entries, self.number, self.bytes = ENTRIES, FILES, TOGETHER

    def files(self, folder: Path) -> Iterator[tuple[str, str]]:
        """Yields the path and the text of each Python file: those of a folder before those below it."""
        try:
            inside = os.open(folder, _FOLDER)
        except (OSError, ValueError):
            return
        try:
            yield from self._within(inside, "", _DEPTH)
        finally:
            os.close(inside)

    def _within(self, inside: int, path: str, depth: int) -> Iterator[tuple[str, str]]:
        files, folders = self._names(inside)
        for name in files:
            text = self._text(name, inside)
            if text is not None:
                yield path + name, text
        for name in folders if depth else ():
            try:
                below = os.open(name, _FOLDER, dir_fd=inside)
            except OSError:
                continue
            try:
                yield from self._within(below, f"{path}{name}/", depth - 1)
            finally:
                os.close(below)

    def _names(self, inside: int) -> tuple[list[str], list[str]]:
        files, folders = [], []
        with suppress(OSError), os.scandir(inside) as entries:
            for entry in entries:
                self.entries -= 1
                if self.entries < 0:
                    break
                if entry.is_dir(follow_symlinks=False):
                    if entry.name[0] != "." and entry.name not in _SKIPPED:
                        folders.append(entry.name)
                elif entry.name.endswith(".py"):
                    files.append(entry.name)
        return sorted(files), sorted(folders)

    def _text(self, name: str, inside: int) -> str | None:
        if self.number <= 0:
            return None
        try:
            handle = os.open(name, _FILE, dir_fd=inside)
        except OSError:  # a link, among others
            return None
        with os.fdopen(handle, "rb") as file:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode) or about.st_size > min(LARGEST, self.bytes):
                return None
            self.number -= 1
            content = file.read(LARGEST)
            self.bytes -= len(content)
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError:
            return None
