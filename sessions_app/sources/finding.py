"""Finds databases: the files and folders that a person names, and session.db files in agents' folders."""

import logging
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from django.utils.translation import gettext as _

from ..domain.errors import SourceError

log = logging.getLogger("adkweb.sources")
DEPTH: Final = 4  # levels of folders that are searched for SESSION_FILE
SESSION_FILE: Final = Path(".adk/session.db")  # what `adk web` writes beside an agent
_SKIPPED: Final = {"node_modules", "__pycache__", ".git", ".venv", "venv"}
_unreadable: set[str] = set()  # the errors of folders that cannot be read: each is logged once


def find(folder: Path, depth: int = DEPTH, top: Path | None = None) -> Iterator[Path]:
    """Yields every SESSION_FILE in a folder and at most `depth` levels below it.

    Does not follow links that lead out of the folder: adkweb would open, and write to, a file elsewhere that no one
    named."""
    top = top or folder
    names: list[str] = []
    agent = False
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name == SESSION_FILE.parts[0]:
                    agent = True
                elif (
                    depth
                    and entry.name[0] != "."
                    and entry.name not in _SKIPPED
                    and entry.is_dir(follow_symlinks=False)
                ):
                    names.append(entry.name)
    except OSError as error:
        if str(error) not in _unreadable:
            _unreadable.add(str(error))
            log.warning("%s", error)
    if agent and (folder / SESSION_FILE).is_file() and not _leads_out(folder, top):
        yield folder / SESSION_FILE
    for name in sorted(names):
        yield from find(folder / name, depth - 1, top)


def _leads_out(folder: Path, top: Path) -> bool:
    """Returns whether a folder's SESSION_FILE is a link to a file that is not below the folder `top`."""
    file = folder / SESSION_FILE
    linked = file.is_symlink() or file.parent.is_symlink()
    return linked and not file.resolve().is_relative_to(top.resolve())


def existing_file(path: Path) -> Path:
    """Returns the path if there is a file. Otherwise raises SourceError, which says what to do."""
    if path.is_dir():
        raise SourceError(_("%(path)s is a folder, not a file.") % {"path": path})
    if not path.exists():
        raise SourceError(
            _("No such file or folder: %(path)s. To create a new database there, run: adkweb create %(path)s")
            % {"path": in_shell(short(path))}
        )
    return path


def in_shell(where: str) -> str:
    """Quotes a path or URL, if that is needed, so that it can be pasted into a shell: 'agents/my sessions.db'."""
    home = "~/" if where.startswith("~/") else ""
    return home + shlex.quote(where.removeprefix(home))


def short(path: Path) -> str:
    """Returns a path as a person would write it: relative to the current folder, or starting with ~/."""
    for base, sign in ((Path.cwd(), ""), (Path.home(), "~/")):
        if path.is_relative_to(base):
            return sign + str(path.relative_to(base))
    return str(path)
