"""`adkweb replay SOURCE`: runs stored sessions again with the agents' code of today, without their models and tools."""

import json
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from ...access.actor import TERMINAL
from ...domain.session_ref import SessionRef
from ...search import language
from ...trying import replaying
from ...trying.replaying import DIVERGED, SAME, UNDECIDED, Replayed
from ._index import up_to_date
from ._progress import progress
from ._running import add_python
from ._terminal import local_zone, plain, words
from .find import pointed, selected

_DIVERGED, _NOTHING, _UNDECIDED = 1, 2, 3  # exit codes
_LENGTH: Final = 200  # characters of a value that are shown


class Command(BaseCommand):
    """Replays the sessions of a source, and says which are no longer the same."""

    help = (
        "Run stored sessions again with the agents' code of today, without calling a model or running a tool. "
        "Exit code: 0, or 2 if nothing could be replayed."
    )
    requires_system_checks = ()  # they load every page and route, which takes longer than the work

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Defines SOURCE [--agents] [--python] [-q] [--against OLD NEW] [--run-code] [--fail-on-divergence]
        [--fail-on-undecided] [--json] [--junit]"""
        parser.add_argument("source", metavar="SOURCE", help="a folder, a SQLite file or a postgresql:// URL")
        parser.add_argument("--agents", metavar="FOLDER", help="the folder of the agents, if SOURCE is a database")
        parser.add_argument(
            "-q", "--query", default="", metavar="QUERY", help="only sessions that it selects, as in find"
        )
        parser.add_argument(
            "--against", nargs=2, metavar=("OLD", "NEW"), help="two folders of the same agents: shows what changed"
        )
        parser.add_argument(
            "--run-code",
            action="store_true",
            help="also run functions of workflows, and agents of your own classes, whatever they do",
        )
        parser.add_argument("--fail-on-divergence", action="store_true", help="exit code 1 if a session diverged")
        parser.add_argument("--fail-on-undecided", action="store_true", help="exit code 3 if a session is undecided")
        add_python(parser)
        parser.add_argument("--json", action="store_true", help="one JSON object per line")
        parser.add_argument("--junit", metavar="FILE", help="also write the outcomes as a JUnit report")

    def handle(self, *args: Any, **options: Any) -> None:
        """Prints a line for each session, and on standard error how many there are of each result."""
        query = language.parse(options["query"], now=time.time(), zone=local_zone())
        if query.problems:
            raise CommandError(
                "\n".join(pointed(options["query"], each) for each in query.problems), returncode=_NOTHING
            )
        settings.AGENT_PYTHON = options["python"]
        old, new = map(_folder, options["against"] or (None, options["agents"]))
        with up_to_date([options["source"]]):
            refs = sorted(
                (row.ref for row in selected(query)), key=lambda ref: ref[:2]
            )  # an app's process is kept for all
            before = self._replayed(refs, old, options) if options["against"] else []
            outcomes = self._replayed(refs, new, options)
        if before:
            changed = [(one, other) for one, other in zip(before, outcomes, strict=True) if _differ(one, other)]
            lines: Iterable[str] = (f"{one.result} → {_line(other)}" for one, other in changed)
        else:
            lines = (json.dumps(_as_json(each)) if options["json"] else _line(each) for each in outcomes)
        for line in lines:
            self.stdout.write(line)
        self.stdout.flush()
        if options["junit"]:
            _write_junit(Path(options["junit"]), options["source"], outcomes)
        counts = Counter(each.result for each in outcomes)
        self.stderr.write(", ".join(f"{counts[result]:,} {result}" for result in (SAME, DIVERGED, UNDECIDED)))
        self.stderr.write(
            "Not compared: what tools do, models, and instructions without a fingerprint.", lambda text: text
        )
        if not counts[SAME] + counts[DIVERGED]:
            raise CommandError("Nothing could be replayed.", returncode=_NOTHING)
        if counts[DIVERGED] and options["fail_on_divergence"]:
            raise CommandError("Sessions diverged.", returncode=_DIVERGED)
        if counts[UNDECIDED] and options["fail_on_undecided"]:
            raise CommandError("Sessions are undecided.", returncode=_UNDECIDED)

    def _replayed(self, refs: Sequence[SessionRef], folder: Path | None, options: dict[str, Any]) -> list[Replayed]:
        def told() -> Iterator[Replayed]:
            with progress("replaying", "sessions") as bar:
                bar.total(len(refs))
                for each in replaying.replays(refs, actor=TERMINAL, folder=folder, run_code=options["run_code"]):
                    bar.moved(1)
                    yield each

        return list(told())


def _folder(text: str | None) -> Path | None:
    if text is None:
        return None
    path = Path(text).expanduser().absolute()
    if not path.is_dir():
        raise CommandError(f"{plain(text)} isn't a folder.", returncode=_NOTHING)
    return path


def _differ(one: Replayed, other: Replayed) -> bool:
    return _as_json(one) != _as_json(other)


def _line(each: Replayed) -> str:
    """Returns an outcome on one line."""
    name = "/".join(words(part, 60) for part in each.ref[1:])
    return f"{each.result:<10} {name}{f'  {said}' if (said := _said(each)) else ''}"


def _said(each: Replayed) -> str:
    """Returns where a session diverged, why it is undecided, or what a replay didn't see."""
    if each.result == DIVERGED:
        of = " of ".join(filter(None, (each.what, each.tool or each.agent)))
        return f"{of} at event {words(each.event, 60)}: expected {_value(each.expected)}, got {_value(each.got)}"
    return words(each.why, 1_000) or (f"not compared: {', '.join(each.unseen)}" if each.unseen else "")


def _value(value: Any) -> str:
    return words(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), _LENGTH)


def _as_json(each: Replayed) -> dict[str, Any]:
    fields = ("result", "event", "what", "agent", "tool", "expected", "got", "why", "unseen")
    return {**each.ref._asdict(), **{name: getattr(each, name) for name in fields}}


def _write_junit(path: Path, source: str, outcomes: Sequence[Replayed]) -> None:
    """Writes a test case for each session: a failure if it diverged, skipped if it is undecided."""
    counts = Counter(each.result for each in outcomes)
    suite = ElementTree.Element(
        "testsuite",
        name=plain(source),
        tests=str(len(outcomes)),
        failures=str(counts[DIVERGED]),
        skipped=str(counts[UNDECIDED]),
    )
    for each in outcomes:
        names = {"classname": plain(each.ref.app_name), "name": plain(f"{each.ref.user_id}/{each.ref.session_id}")}
        case = ElementTree.SubElement(suite, "testcase", names)
        if each.result != SAME:
            tag = "failure" if each.result == DIVERGED else "skipped"
            ElementTree.SubElement(case, tag, message=_said(each))
    try:
        ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}", returncode=_NOTHING) from error
