"""`adkweb stop APP/USER/SESSION [SOURCE …]`: stops the agent that an adkweb on this database runs in a session, or whose
companion reports to it."""

import time
from argparse import ArgumentParser
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from ...access.actor import TERMINAL
from ...domain.errors import NotFound
from ...reads import at_work
from ...running import runs
from ._running import FAILED, NOT_REACHED, add_sources, reaching, session_named

_SECONDS: Final = 15.0


class Command(BaseCommand):
    """Asks the process that holds the run, or the companion, and waits until it has ended."""

    help = (
        "Stop an agent that adkweb runs, here or in another process, or whose companion reports that it runs. Tools of its "
        "current step may already have run. Exit code: 0, 2 if neither is so, 3 if it hasn't stopped after 15 s."
    )
    requires_system_checks = ()  # they load every page and route, which takes longer than the work

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Defines APP/USER/SESSION [SOURCE …]"""
        parser.add_argument("session", metavar="APP/USER/SESSION", help="the session in which the agent runs")
        add_sources(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Stops the run."""
        with reaching(options["source"]):
            ref = session_named(options["session"])
            try:
                runs.stop(ref, actor=TERMINAL)
            except NotFound as error:
                raise CommandError(error.message, returncode=NOT_REACHED) from error
            until = time.monotonic() + _SECONDS
            while at_work.of(ref, actor=TERMINAL).at_work:
                if time.monotonic() > until:
                    raise CommandError("The agent hasn't stopped yet: a tool may block it.", returncode=FAILED)
                time.sleep(0.1)
