"""Workers are given whole groups of tests, and long groups first."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.groups import GROUPS, group_of, turn_of

NAMES = [
    "tests/access/test_a.py::test_1",
    *(f"tests/api/test_limits.py::test_{number}" for number in range(6)),
    *(f"tests/browser/test_room.py::test_{number}[chromium]" for number in range(3)),
    *(f"tests/browser/test_search.py::test_{number}[a@b]" for number in range(3)),
    "tests/writes/test_a.py::test_1",
]


class Worker:
    """A worker as pytest-xdist knows it: it notes the tests that it is given."""

    shutting_down = False

    def __init__(self, name: str, names: list[str]) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.names = names
        self.given: list[str] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.given += [self.names[index] for index in indices]

    def shutdown(self) -> None:
        self.shutting_down = True


def given(pytestconfig: pytest.Config, names: list[str]) -> list[list[str]]:
    """Returns the tests that two workers are given at first, by the scheduler that these tests run with."""
    options = {"dist": "loadgroup", "tx": ["2*popen"]}
    config: Any = SimpleNamespace(option=SimpleNamespace(loadscopereorder=True), getvalue=options.get)
    scheduler = pytestconfig.hook.pytest_xdist_make_scheduler(config=config, log=None)
    workers = [Worker(name, names) for name in ("gw0", "gw1")]
    for worker in workers:
        scheduler.add_node(worker)
        scheduler.add_node_collection(worker, names)
    scheduler.schedule()
    return [worker.given for worker in workers]


def test_a_group_is_given_to_one_worker_and_long_groups_are_given_first(pytestconfig: pytest.Config) -> None:
    order = sorted(NAMES, key=turn_of)
    assert order.index(NAMES[7]) < order.index(NAMES[1]) < order.index(NAMES[0])
    first, second = given(pytestconfig, order)
    assert first == NAMES[7:13]
    assert second == NAMES[1:7]


def test_other_tests_are_given_to_whoever_is_free(pytestconfig: pytest.Config) -> None:
    first, second = given(pytestconfig, [NAMES[0], NAMES[-1]])
    assert (first, second) == ([NAMES[0]], [NAMES[-1]])


def test_every_group_has_tests(request: pytest.FixtureRequest) -> None:
    folder = request.config.rootpath / "tests"
    files = [file.relative_to(folder).as_posix() for file in folder.rglob("test_*.py")]
    assert {start for start in GROUPS if not any(file.startswith(start) for file in files)} == set()
    assert set(GROUPS.values()) == {group_of(f"tests/{file}") for file in files} - {""}
