"""`adkweb say APP/USER/SESSION TEXT [SOURCE …]`: sends a message to an agent, and prints its reply."""

import mimetypes
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ...access.actor import TERMINAL
from ...running import files, runs
from ._running import (
    REFUSED,
    add_agents,
    add_first,
    add_python,
    add_sources,
    first_of,
    follow,
    reaching,
    session_named,
    use_agents,
)


class Command(BaseCommand):
    """Starts the agent if needed, and waits until it is done."""

    help = (
        "Send a message to an agent as the session's user, and print what the agent does. Exit code: 0, or 1 if it was "
        "refused, 2 if the source or the agent can't be reached, 3 if the agent failed."
    )
    requires_system_checks = ()  # they load every page and route, which takes longer than the work

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Defines APP/USER/SESSION TEXT [SOURCE …] [--file PATH] [--state JSON] [--expected JSON] [--reason TEXT]
        [--agents] [--python]"""
        parser.add_argument("session", metavar="APP/USER/SESSION", help="the session that it is about")
        parser.add_argument("text", metavar="TEXT", help="the message")
        add_sources(parser)
        parser.add_argument(
            "--file", action="append", default=[], metavar="PATH", help="goes with it, up to five times"
        )
        add_first(parser)
        add_agents(parser)
        add_python(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Sends the message and follows the run."""
        use_agents(options)
        with reaching(options["source"]):
            ref = session_named(options["session"])
            attached = [_part(Path(path)) for path in options["file"]]
            follow(
                self, ref, runs.say(ref, options["text"], attached=attached, first=first_of(options), actor=TERMINAL)
            )


def _part(path: Path) -> dict[str, Any]:
    try:
        return files.part(path.name, path.read_bytes(), mimetypes.guess_type(path.name)[0] or "")
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}", returncode=REFUSED) from error
