"""Decides which agents adkweb may run, and how. Only the machine says what it may start: no page, route or token does.

An agent may be started if its folder was named: on the command line, in ADKWEB_SOURCES, or by --agents SOURCE=FOLDER. If an
admin gave its app the address of a server, that server runs it instead.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from django.conf import settings
from django.db import connections
from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..domain.errors import NotFound, SourceError
from ..models import AgentAddress
from . import adoption, database, demo, registry
from .finding import SESSION_FILE, in_shell

_AGENT: Final = re.compile(r"\b(root_agent|app)\b")  # what google-adk looks for in a package


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent that can be started: the `folder` of agents that `adk web` would get, and the source of its sessions."""

    folder: Path
    source: str


def folder_of(source: str) -> Path | None:
    """Returns the folder of agents, or of one agent, that writes a source, if it is in one that a person named; or the
    demo's."""
    database.get(source)
    if demo.is_demo(source):
        return demo.agents()
    if source in settings.AGENTS:
        return Path(settings.AGENTS[source])
    file = connections.databases[source].get("ADKWEB", {}).get("path")
    if not file or Path(file).parts[-2:] != SESSION_FILE.parts:
        return None
    folder = Path(file).parent.parent
    named = any(folder.is_relative_to(each.resolve()) for each in registry.searched_folders)
    return folder if named else None


def agent_of(source: str, app_name: str) -> Agent | None:
    """Returns the agent of an app, or None if adkweb knows no folder of it."""
    folder = folder_of(source)
    if folder is None or not is_name(app_name):
        return None
    if is_folder(folder / app_name):
        return Agent(folder, source)
    return Agent(folder.parent, source) if folder.name == app_name else None


def address_of(source: str, app_name: str) -> AgentAddress | None:
    """Returns where a server runs the agent of an app, if an admin said so."""
    return AgentAddress.objects.filter(where=registry.identity(source), app_name=app_name).first()


def why_not(source: str, app_name: str) -> str:
    """Returns why the agent of an app can't be run; "" if it can."""
    why = why_not_here(source, app_name)
    return why if why and address_of(source, app_name) is None else ""


def why_not_here(source: str, app_name: str) -> str:
    """Returns why adkweb can't start the agent of an app itself; "" if it can."""
    if not settings.RUN_AGENTS:
        return _("This adkweb doesn't start agents. To allow it, set ADKWEB_RUN_AGENTS=true on its machine.")
    if agent_of(source, app_name) is None:
        return _(
            "adkweb doesn't know what runs the agent “%(app)s”. Start adkweb with --agents %(source)s=FOLDER, or enter the "
            "address of the agent's server under Agents."
        ) % {"app": app_name, "source": in_shell(source)}
    return ""


def without_sessions() -> list[Path]:
    """Returns the folders of agents that have no sessions yet, in those that a person named."""
    if not settings.RUN_AGENTS:
        return []
    named = [agent for folder in registry.searched_folders for agent in _agents_in(folder)]
    return [folder for folder in named if not (folder / SESSION_FILE).exists()]


def _agents_in(folder: Path) -> Iterator[Path]:
    """Yields a folder if it is an agent's, else the folders in it that are: those that `adk web` lists."""
    with suppress(OSError):
        below = sorted(each for each in folder.iterdir() if each.name[0] not in "._" and is_folder(each))
        yield from [folder] if is_agent(folder) else filter(is_agent, below)


def is_agent(folder: Path) -> bool:
    """Returns whether a folder is an agent's: `adk web` lists every package, but shows only those with an agent."""
    if (folder / "agent.py").is_file() or (folder / "root_agent.yaml").is_file():
        return True
    with suppress(OSError):
        return bool(_AGENT.search((folder / "__init__.py").read_text(encoding="utf-8", errors="replace")))
    return False


def start_sessions(folder: Path, *, actor: Actor) -> str:
    """Makes the session database of an agent that has none, as google-adk would, and returns its alias.

    Raises NotAllowed, NotFound and SourceError."""
    actor.check_runs_everything()
    actor.check_may_write()
    if folder not in without_sessions():
        raise NotFound(_("There's no agent without sessions in this folder."))
    file = folder / SESSION_FILE
    try:
        file.parent.mkdir(exist_ok=True)
        file.touch()
    except OSError as error:
        why = _("%(path)s can't be created: %(error)s") % {"path": file, "error": error.strerror}
        raise SourceError(why) from error
    (source,) = registry.add(str(file))
    with database.connected(source):
        adoption.create(source.alias)
    return source.alias


def is_name(app: str) -> bool:
    """Returns whether the name of an app can be that of a folder."""
    return app not in ("", ".", "..") and not {"/", "\\", "\0"}.intersection(app)


def is_folder(path: Path) -> bool:
    """Returns whether there is a folder, which is not a link."""
    with suppress(OSError, ValueError):
        return stat.S_ISDIR(os.lstat(path).st_mode)
    return False
