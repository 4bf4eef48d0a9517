"""Holds what the commands share that touch a running agent: which session is meant, and following a run to its end."""

import json
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from ...access.actor import TERMINAL
from ...domain.errors import AgentError, Error, NotFound, SourceError
from ...domain.json_values import loads
from ...domain.session_ref import SessionRef
from ...domain.state import UNKNOWN
from ...edits.edit import Entry
from ...jobs.lease import WAITING
from ...models import Job
from ...reads import at_work, timeline, views
from ...reads.changes import Only
from ...running import children, runs
from ...running.first import First
from ...sources import database, registry
from ._sources import named_sources
from ._terminal import lines, plain, silence_logs
from .tail import Line

REFUSED, NOT_REACHED, FAILED = 1, 2, 3  # exit codes
_LOOK_SECONDS: Final = 0.1
_LEAVING_SECONDS: Final = 4.0


def add_sources(parser: ArgumentParser) -> None:
    """Defines [SOURCE …]"""
    parser.add_argument(
        "source",
        nargs="*",
        metavar="SOURCE",
        help="a folder, a SQLite file or a postgresql:// URL; by default, those of ADKWEB_SOURCES",
    )


def add_agents(parser: ArgumentParser) -> None:
    """Defines [--agents]"""
    parser.add_argument(
        "--agents",
        action="append",
        default=[],
        metavar="SOURCE=FOLDER",
        help="the folder of the agents that write a source, so that adkweb can start them",
    )


def add_python(parser: ArgumentParser) -> None:
    """Defines [--python]"""
    parser.add_argument(
        "--python",
        metavar="PATH",
        default=settings.AGENT_PYTHON,
        help="the Python that runs agents (the .venv next to them)",
    )


def use_agents(options: Mapping[str, Any]) -> None:
    """Reads --agents and --python. Raises CommandError."""
    settings.AGENTS = {**settings.AGENTS, **_agents_named(options["agents"])}
    settings.AGENT_PYTHON = options.get("python", settings.AGENT_PYTHON)


def add_first(parser: ArgumentParser) -> None:
    """Defines [--state] [--expected] [--reason]"""
    parser.add_argument("--state", metavar="JSON", help="an object with keys to set first, by an edit")
    parser.add_argument(
        "--expected",
        metavar="JSON",
        help="an object with values that keys of --state must still have, or nothing is sent",
    )
    parser.add_argument("--reason", default="", metavar="TEXT", help="why the state is set")


def first_of(options: Mapping[str, Any]) -> First:
    """Reads --state, --expected and --reason. Raises CommandError, Invalid."""
    state, expected = _object(options, "state"), _object(options, "expected")
    if strange := expected.keys() - state.keys():
        raise CommandError(f"--expected: {plain(min(strange))} is not in --state.", returncode=REFUSED)
    return First([Entry(key, value, expected.get(key, UNKNOWN)) for key, value in state.items()], options["reason"])


def _object(options: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = {} if options[name] is None else loads(options[name])
    if not isinstance(value, dict):
        raise CommandError(f'--{name}: not an object like {{"user:tier": "gold"}}.', returncode=REFUSED)
    return value


def _agents_named(texts: Sequence[str]) -> dict[str, str]:
    """Reads `prod=/srv/agents`, any number of times. Raises CommandError."""
    named = {}
    for text in texts:
        source, equals, folder = text.partition("=")
        path = Path(folder).expanduser().absolute()
        if not (source and equals and path.is_dir()):
            raise CommandError(
                f"--agents {text}: not like prod=FOLDER, with a folder of agents that exists.", returncode=2
            )
        named[source] = str(path)
    return named


@contextmanager
def reaching(sources: Sequence[str]) -> Iterator[None]:
    """Opens sources, and lets their agents be started within its block. Raises CommandError for what goes wrong there."""
    silence_logs()
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    if settings.READ_ONLY:
        raise CommandError("ADKWEB_READ_ONLY is set: nothing is written.", returncode=NOT_REACHED)
    settings.RUN_AGENTS = settings.RUN_AGENTS is not False  # whoever runs a command is on this machine
    settings.BREAKPOINTS = settings.BREAKPOINTS is not False
    if not (sources or settings.SOURCES):
        raise CommandError("Name a source at the end, or set ADKWEB_SOURCES.", returncode=NOT_REACHED)
    try:
        call_command("migrate", verbosity=0, interactive=False)
        for source in named_sources(sources or settings.SOURCES):
            database.open_source(source)
        yield
    except (SourceError, AgentError) as error:
        raise CommandError(lines(error.message), returncode=NOT_REACHED) from error
    except Error as error:
        raise CommandError(lines(error.message), returncode=REFUSED) from error
    except DatabaseError as error:
        why = f"adkweb's own database (ADKWEB_DATABASE_URL) cannot be used: {error}"
        raise CommandError(why, returncode=NOT_REACHED) from error
    finally:
        try:
            with suppress(DatabaseError):
                children.await_others()
        finally:  # after Ctrl+C, too
            children.stop_all(_LEAVING_SECONDS)


def session_named(text: str) -> SessionRef:
    """Returns the session that `APP/USER/SESSION` names in one of the open sources. Raises CommandError."""
    app, *rest = text.split("/", 2)
    if len(rest) != 2:
        raise CommandError(f"{plain(text)}: not like APP/USER/SESSION.", returncode=REFUSED)
    meant = [ref for each in registry.listed() if _exists(ref := SessionRef(each.alias, app, *rest))]
    if not meant:
        raise CommandError(f"There's no session {plain(text)}.", returncode=REFUSED)
    if len(meant) > 1:
        names = ", ".join(plain(ref.source) for ref in meant)
        raise CommandError(f"Several sources have {plain(text)}: {names}. Name one of them.", returncode=REFUSED)
    return meant[0]


def _exists(ref: SessionRef) -> bool:
    try:
        views.session(ref, partly=True, actor=TERMINAL)
    except NotFound:
        return False
    return True


def follow(command: BaseCommand, ref: SessionRef, job: Job) -> None:
    """Prints the events of a run until it ends; Ctrl+C stops the agent. Raises CommandError for a run that failed."""
    line, shown, stopping, announced = Line(Only(*ref[1:]), several=False), "", False, 0.0
    while True:
        try:
            job.refresh_from_db()
            ended = job.state != WAITING
            for view in runs.events_of_run(ref, job, shown):
                command.stdout.write(line.of(view))
                shown = view.cursor
            command.stdout.flush()
            if ended:
                break
            work = at_work.of(ref, actor=TERMINAL).at_work
            if work and work.paused and work.step_since != announced:
                announced = work.step_since
                before = f"{work.name} is called" if work.step == "tool" else "the model is asked"
                command.stderr.write(plain(f"The agent pauses before {before}: let it continue on the session's page."))
            time.sleep(_LOOK_SECONDS)
        except KeyboardInterrupt:
            if stopping:
                raise
            stopping = True
            runs.stop(ref, actor=TERMINAL)
            command.stderr.write("Stopping the agent …")
    sent = json.loads(job.result or "{}").get("sent", False)
    if sent is False and not job.stopped_by:
        raise CommandError(lines(job.message), returncode=NOT_REACHED if job.state != "refused" else REFUSED)
    if job.message:
        raise CommandError(lines(job.message), returncode=FAILED)
    if timeline.status_of(ref, actor=TERMINAL).name == "waiting":
        command.stderr.write("The agent waits for an answer: adkweb inbox")
