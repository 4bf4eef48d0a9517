"""Two adkweb processes get the same approvals at the same moments, and one is killed: no tool runs twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from sessions_app.jobs import runner
from sessions_app.models import Answer, Job
from tests.running.test_answers import asking, claims, paid
from tests.support import warm
from tests.support.at_work import until

ROOT = Path(__file__).parents[2]
ON = [("sqlite",) * 2, pytest.param("postgresql", "postgresql", marks=pytest.mark.long)]


class Rivals:
    """Other processes on this test's databases."""

    def __init__(self, own: str, address: str, agents: Path) -> None:
        self.environment = {**os.environ, "ADKWEB_DATABASE_URL": own, "DJANGO_SETTINGS_MODULE": "adkweb.settings"}
        self.order = {"source": address, "agents": str(agents)}

    def answer(self, *, times: int, calls: list[tuple[str, str, str]], dies: bool = False) -> list[list[str]]:
        order = {**self.order, "calls": calls, "at": time.time() + 5, "every": 0.5, "dies": dies}
        processes = [
            warm.Popen(
                [sys.executable, "-m", "tests.running.rival"],
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                forks_agents=True,
            )
            for _ in range(times)
        ]
        outputs = [process.communicate(json.dumps(order) + "\n", timeout=200)[0] for process in processes]
        return [json.loads(output) for output in outputs if output]


@pytest.fixture
def rivals(own: str, source: str, agents: Path) -> Rivals:
    """Other adkweb processes."""
    known: dict[str, Any] = connections.databases[source]
    path = known["ADKWEB"].get("path")
    server = "postgresql://{USER}:{PASSWORD}@{HOST}:{PORT}/{NAME}".format(**known)
    return Rivals(own, path or server, agents)


@pytest.mark.guarantee("Agents", "An answer is sent once, however many people answer at the same moment.")
@pytest.mark.parametrize(("own", "source"), ON, indirect=True)
@pytest.mark.parametrize("trials", [4, pytest.param(100, marks=pytest.mark.long)])
def test_of_two_processes_one_sends_the_answer(source: str, rivals: Rivals, trials: int) -> None:
    asked = [asking(source, f"s{number}") for number in range(trials)]
    outcomes = rivals.answer(times=2, calls=[(ref.session_id, event, call) for ref, event, call in asked])
    assert [sum(each == "done" for each in pair) for pair in zip(*outcomes, strict=True)] == [1] * trials
    assert [paid(ref) for ref, _event, _call in asked] == [1] * trials


@pytest.mark.parametrize(("own", "source"), ON, indirect=True)
def test_a_process_that_is_killed_before_it_sends_leaves_it_to_another(source: str, rivals: Rivals) -> None:
    ref, event, call = asking(source)
    assert rivals.answer(times=1, calls=[(ref.session_id, event, call)], dies=True) == []
    assert (Answer.objects.get().state, paid(ref)) == ("open", 0)
    assert runner.take_over() == 1
    until(lambda: not Job.objects.filter(state="waiting").exists())
    assert (claims(), paid(ref)) == (["sent"], 1)
