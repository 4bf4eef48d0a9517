"""`adkweb answer ID … [SOURCE …]`: answers what an agent asks, and prints what the agent does then."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ...access.actor import TERMINAL
from ...domain.json_values import loads
from ...running import answers
from ...running.answers import Given
from ...search.inbox import ID_PREFIX, read_id
from ._running import NOT_REACHED, REFUSED, add_agents, add_first, add_python, first_of, follow, reaching, use_agents


class Command(BaseCommand):
    """Starts the agent if needed, and waits until it is done."""

    help = (
        "Answer calls that wait; `adkweb inbox --json` has their ids. Those of one request go out in one message. Exit "
        "code: 0, or 1 if the answer was refused, 2 if the source or the agent can't be reached or the ids are of several "
        "requests, 3 if the agent failed or it's unknown whether it got the answer."
    )
    requires_system_checks = ()  # they load every page and route, which takes longer than the work

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Defines ID … [SOURCE …] --approve|--decline|--response JSON [--payload JSON] [--interim] [--state JSON]
        [--expected JSON] [--reason TEXT] [--agents] [--python]"""
        parser.add_argument("words", nargs="+", metavar="ID|SOURCE", help="the ids of calls, then sources")
        how = parser.add_mutually_exclusive_group(required=True)
        how.add_argument("--approve", action="store_true", help="confirm the tool")
        how.add_argument("--decline", action="store_true", help="don't let the tool run")
        how.add_argument("--response", metavar="JSON", help="the answer, or the result of a long-running tool")
        parser.add_argument("--payload", metavar="JSON", help="goes with --approve, instead of the agent's own payload")
        parser.add_argument(
            "--interim", action="store_true", help="goes with --response: the tool still waits for its final result"
        )
        add_first(parser)
        add_agents(parser)
        add_python(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Sends the answers and follows the run."""
        ids = [word for word in options["words"] if word.startswith(ID_PREFIX)]
        sources = [word for word in options["words"] if not word.startswith(ID_PREFIX)]
        use_agents(options)
        with reaching(sources):
            calls, given = [read_id(each) for each in ids], _given(options)
            if len({(ref, event) for ref, event, _call in calls}) != 1:
                raise CommandError("Give the ids of one request: nothing was sent.", returncode=NOT_REACHED)
            ref, event, _call = calls[0]
            job = answers.answer(
                ref, event, {call: given for _ref, _event, call in calls}, first=first_of(options), actor=TERMINAL
            )
            follow(self, ref, job)


def _given(options: dict[str, Any]) -> Given:
    if options["response"] is not None:
        if options["payload"] is not None:
            raise CommandError("--payload doesn't go with --response.", returncode=REFUSED)
        return Given(value=loads(options["response"]), interim=options["interim"])
    payload = None if options["payload"] is None else loads(options["payload"])
    return Given(confirmed=options["approve"], value=payload, interim=options["interim"])
