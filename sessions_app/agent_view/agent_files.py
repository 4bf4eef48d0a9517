"""Reads the files of an agent, where its folder was opened. No link is followed, and little is read."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from ..access.actor import Actor
from ..domain.session_ref import SessionRef
from ..sources.agents import folder_of, is_folder, is_name
from .agent_code import Code, Unread, Written
from .agent_yaml import SUFFIXES, Configs
from .instructions import keys_in

FILES: Final = 200
LARGEST: Final = 300_000  # bytes of a file
TOGETHER: Final = 600_000  # bytes of all files
ENTRIES: Final = 5_000  # files and folders that are looked at
_DEPTH: Final = 5
_SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})
_REMEMBERED: Final = 50  # folders whose files were looked through
_read_by: Final[dict[Path, tuple[int, dict[str, list[str]]]]] = {}  # by folder: a hash of its files, and their readers
_PYTHON: Final = (".py",)
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # opening a pipe must not block


def has_files(ref: SessionRef, *, actor: Actor) -> bool:
    """Returns whether the folder of a session's agent was opened."""
    actor.check_sees(ref)
    return folder_of(ref.source) is not None


def instruction(ref: SessionRef, agent: str, *, actor: Actor) -> Written | None:
    """Returns an agent's instruction as the files of its folder have it now; None if none of them makes this agent."""
    actor.check_sees(ref)
    folder = _folder_of(ref)
    if folder is None or not agent:
        return None
    written = Code(folder.name, dict(_Reading(_PYTHON).files(folder))).instruction(agent)
    configs = _configs(folder)
    also = [each for name, each in configs.agents if name == agent]
    if written is not None:
        written = replace(written, others=written.others + len(also))
    elif also:
        written = replace(also[0], others=len(also) - 1)
    elif configs.faults:
        written = configs.faults[0]
    else:
        return None
    return replace(written, file=f"{folder.name}/{written.file}".encode("utf-8", "replace").decode())


def _configs(folder: Path) -> Configs:
    reading = _Reading(SUFFIXES)
    return Configs(dict(reading.files(folder)), reading.unread)


def readers(ref: SessionRef, *, actor: Actor) -> dict[str, list[str]]:
    """Returns the agents whose instruction has a key as a placeholder, by key, from the current files.

    The files are read each time, and parsed only when they have changed."""
    actor.check_sees(ref)
    folder = _folder_of(ref)
    if folder is None:
        return {}
    files, reading = dict(_Reading(_PYTHON).files(folder)), _Reading(SUFFIXES)
    configs = dict(reading.files(folder))
    state = hash((*files.items(), *configs.items()))
    before = _read_by.get(folder)
    if before is None or before[0] != state:
        if len(_read_by) == _REMEMBERED:
            _read_by.clear()
        readers = {key: set(agents) for key, agents in Code(folder.name, files).readers().items()}
        for agent, written in Configs(configs, reading.unread).agents:
            for key in keys_in(written.text) if written.kind == "text" else ():
                readers.setdefault(key, set()).add(agent)
        before = _read_by[folder] = state, {key: sorted(agents) for key, agents in readers.items()}
    return before[1]


def _folder_of(ref: SessionRef) -> Path | None:
    folder = folder_of(ref.source)
    if folder is not None and folder.name != ref.app_name and is_name(ref.app_name):
        folder = _below(folder, ref.app_name)
    return folder


def _below(folder: Path, app: str) -> Path:
    """Returns the folder of an app in a folder of agents, or that folder itself if there is none."""
    return folder / app if is_folder(folder / app) else folder


class _Reading:
    """Reads the files of a folder whose names end so, as many as may be read. `unread` has the reasons for the others,
    by path."""

    def __init__(self, suffixes: tuple[str, ...]) -> None:
        self.entries, self.number, self.bytes = ENTRIES, FILES, TOGETHER
        self.unread: dict[str, Unread] = {}
        self._suffixes = suffixes

    def files(self, folder: Path) -> Iterator[tuple[str, str]]:
        """Yields the path and the text of each file: those of a folder before those below it."""
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
            text, why = self._text(name, inside)
            if why:
                self.unread[path + name] = why
            else:
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
                elif entry.name.endswith(self._suffixes):
                    files.append(entry.name)
        return sorted(files), sorted(folders)

    def _text(self, name: str, inside: int) -> tuple[str, Unread | None]:
        """Returns the text of a file, or why it is not read."""
        if self.number <= 0:
            return "", "many"
        try:
            handle = os.open(name, _FILE, dir_fd=inside)
        except OSError as error:
            return "", "link" if error.errno == errno.ELOOP else "missing"
        with os.fdopen(handle, "rb") as file:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode):
                return "", "missing"
            if about.st_size > min(LARGEST, self.bytes):
                return "", "large"
            self.number -= 1
            content = file.read(LARGEST)
            self.bytes -= len(content)
        try:
            return content.decode("utf-8-sig"), None
        except UnicodeDecodeError:
            return "", "broken"
