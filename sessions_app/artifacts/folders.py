"""Reads and deletes what google-adk's FileArtifactService keeps in a folder, nothing outside of it: no link is
followed.

A version is `apps/<app>/users/<user>/sessions/<session>/artifacts/<name>/versions/<version>/<end of the name>`, beside
a `metadata.json`. What all sessions of a user share is in `users/<user>/artifacts/`. Releases of google-adk before 2.13
had no `apps/<app>`; a folder `.adk/artifacts` belongs to one agent, so such files are known to be its own.
"""

import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, ClassVar, Final

from ..domain.json_values import as_object
from ..domain.session_ref import SessionRef
from ..sources.finding import short
from .storages import MOST_VERSIONS, USER, Fault, File, Unreadable

_METADATA: Final = "metadata.json"
_MOST_METADATA: Final = 64_000  # bytes
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # opening a pipe must not block
_CHANGED_SECONDS: Final = 60.0  # a file that is this much newer than its metadata was changed since
_PIECE: Final = 256 * 1024
_RESERVED: Final = frozenset({"apps", "users", "sessions", "artifacts", "versions"})  # within a name that has slashes


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder with artifacts. With `own`, all of them are one agent's. What is below `base` is not followed if it is a
    link."""

    base: Path
    below: tuple[str, ...] = ()
    own: bool = False
    far: ClassVar[bool] = False

    @property
    def path(self) -> Path:
        """Returns the whole path."""
        return self.base.joinpath(*self.below)

    @property
    def address(self) -> str:
        """Returns the path, for people to read."""
        return short(self.path)

    @contextmanager
    def opened(self, ref: SessionRef, name: str, version: int) -> Iterator[File]:
        """Opens a version of an artifact. Raises Unreadable."""
        parts = _parts(name)
        with (
            _entered(self, ref, name, (*parts, "versions", str(version))) as inside,
            _handle(parts[-1], inside) as handle,
        ):
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode):
                raise Unreadable("missing")
            metadata, saved = _metadata(inside)
            changed = bool(saved) and about.st_mtime > saved + _CHANGED_SECONDS
            etag = f'"{about.st_ino:x}-{about.st_mtime_ns:x}-{about.st_size:x}"'
            yield File(
                about.st_size,
                about.st_mtime,
                metadata,
                etag,
                lambda offset, length: os.pread(handle, length, offset),
                _PIECE,
                changed,
            )

    def versions(self, ref: SessionRef, name: str) -> list[int]:
        """Returns the versions of an artifact, the newest first, MOST_VERSIONS at most. Raises Unreadable."""
        try:
            with _entered(self, ref, name, (*_parts(name), "versions")) as inside, os.scandir(inside) as entries:
                numbers = []
                for entry in entries:
                    if entry.name.isascii() and entry.name.isdigit() and len(entry.name) < 10:
                        numbers.append(int(entry.name))
                    if len(numbers) == MOST_VERSIONS:
                        break
                return sorted(numbers, reverse=True)
        except OSError as error:
            raise Unreadable(_fault(error)) from error

    def remove(self, ref: SessionRef, *, whole: bool = False) -> int:
        """Deletes the artifacts of a session; if `whole`, all of its user. Returns how many files. Raises Unreadable.

        Links are not followed: a link to a folder stays."""
        gone = 0
        ref = ref._replace(session_id="any") if whole else ref
        for way in _ways(self, ref, USER if whole else ""):
            with suppress(Unreadable):
                inside = _walk(self.base, (*self.below, *way[:-1]))
                try:
                    gone += sum(_removed(name, inside) for name in (("sessions", way[-1]) if whole else way[-1:]))
                finally:
                    os.close(inside)
        return gone


def _removed(name: str, inside: int) -> int:
    """Deletes a folder in an open one with everything in it. Returns the number of files. Raises Unreadable."""
    try:
        os.close(_open(name, inside, _FOLDER))
        files = sum(len(names) for _top, _folders, names, _handle in os.fwalk(name, dir_fd=inside))
        shutil.rmtree(name, dir_fd=inside)
    except Unreadable:
        return 0
    except OSError as error:
        raise Unreadable(_fault(error)) from error
    return files


def _parts(name: str) -> tuple[str, ...]:
    """Returns an artifact's name as folders, as google-adk reads it: ("images", "photo.png"). Raises Unreadable for one
    that it refuses to save."""
    short = name.removeprefix(USER).strip()
    windows = PureWindowsPath(short)
    path = PurePosixPath(windows.as_posix() if "\\" in short else short)
    if windows.root or windows.drive or path.is_absolute() or ".." in {*windows.parts, *path.parts}:
        raise Unreadable("name")
    return path.parts or ("artifact",)


def _ways(folder: Folder, ref: SessionRef, name: str) -> Iterator[tuple[str, ...]]:
    """Yields the folders in which an artifact may be. Raises Unreadable for a session that google-adk saves nothing
    for."""
    app, user, session = map(_steps, ref[1:])
    shared = ("artifacts",) if name.startswith(USER) else ("sessions", *session, "artifacts")
    yield ("apps", *app, "users", *user, *shared)
    if folder.own:
        yield ("users", *user, *shared)


def _steps(name: str) -> tuple[str, ...]:
    """Returns the name of an app, a user or a session as folders: a name with slashes is several."""
    segments = name.replace("\\", "/").split("/")
    windows = PureWindowsPath(name)
    out = bool(windows.root or windows.drive or ".." in segments)
    if out or not name.strip() or (len(segments) > 1 and _RESERVED.intersection(map(str.casefold, segments))):
        raise Unreadable("name")
    return PurePosixPath(name).parts


@contextmanager
def _entered(folder: Folder, ref: SessionRef, name: str, inner: tuple[str, ...]) -> Iterator[int]:
    """Opens a folder of an artifact, step by step, so that no step can be a link."""
    fault: Fault = "missing"
    for way in _ways(folder, ref, name):
        try:
            inside = _walk(folder.base, (*folder.below, *way, *inner))
        except Unreadable as error:
            fault = error.fault if fault == "missing" else fault
            continue
        try:
            yield inside
        finally:
            os.close(inside)
        return
    raise Unreadable(fault)


def _walk(base: Path, steps: tuple[str, ...]) -> int:
    try:
        inside = os.open(base, _FOLDER & ~os.O_NOFOLLOW)  # a person named it
    except OSError as error:
        raise Unreadable(_fault(error)) from error
    for step in steps:
        try:
            following = _open(step, inside, _FOLDER)
        finally:
            os.close(inside)
        inside = following
    return inside


def _open(step: str, inside: int, flags: int) -> int:
    try:
        return os.open(step, flags, dir_fd=inside)
    except (UnicodeError, ValueError) as error:  # half of a surrogate pair; U+0000
        raise Unreadable("name") from error
    except OSError as error:
        with suppress(OSError):
            if stat.S_ISLNK(os.stat(step, dir_fd=inside, follow_symlinks=False).st_mode):
                raise Unreadable("link") from error
        raise Unreadable(_fault(error)) from error


def _fault(error: OSError) -> Fault:
    return "denied" if isinstance(error, PermissionError) else "missing"


@contextmanager
def _handle(step: str, inside: int) -> Iterator[int]:
    handle = _open(step, inside, _FILE)
    try:
        yield handle
    finally:
        os.close(handle)


def _metadata(inside: int) -> tuple[dict[str, Any], float]:
    """Returns what google-adk wrote beside a version, and when; nothing if it isn't such a file."""
    with suppress(Unreadable, OSError, ValueError, RecursionError), _handle(_METADATA, inside) as handle:
        about = os.fstat(handle)
        if stat.S_ISREG(about.st_mode) and about.st_size <= _MOST_METADATA:
            return as_object(json.loads(os.pread(handle, _MOST_METADATA, 0))), about.st_mtime
    return {}, 0.0
