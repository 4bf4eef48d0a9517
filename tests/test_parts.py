"""Every long test belongs to exactly one part of `make test-long`, and `make` runs each part alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.parts import NAMES, ON_ONE_DATABASE, PARTS, on_the_other_database

ROOT = Path(__file__).resolve().parent.parent


def test_the_tests_of_this_run_belong_to_one_part_at_most(request: pytest.FixtureRequest) -> None:
    for item in request.session.items:
        parts = [part.kwargs["name"] for part in item.iter_markers("part")]
        assert len(parts) <= 1, item.nodeid
        assert parts or not item.get_closest_marker("long"), item.nodeid


def test_what_is_built_on_the_reads_runs_on_one_database_and_each_folder_on_both() -> None:
    names = [f"tests/web/test_{n}.py::test_it[wide-{form}]" for n in range(20) for form in ("sqlite", "postgresql")]
    others = on_the_other_database(names)
    assert len(others) == 20
    assert {name.partition("[")[0] for name in others} == {name.partition("[")[0] for name in names}
    assert {name.rpartition("-")[2] for name in others} == {"sqlite]", "postgresql]"}


def test_adkwebs_own_database_and_an_agents_are_alike_unless_something_crosses_from_one_to_the_other() -> None:
    pairs = ["sqlite-sqlite", "sqlite-postgresql", "postgresql-sqlite", "postgresql-postgresql"]
    names = [f"tests/search/test_it.py::test_it[{pair}]" for pair in pairs]
    assert on_the_other_database(names) == set(names[1:3])
    assert not on_the_other_database([f"tests/transfer/test_it.py::test_it[{pair}]" for pair in pairs])
    assert not on_the_other_database(names[:3])  # nothing is left out for what is not there


@pytest.mark.parametrize(
    "values",
    [("sqlite",), ("postgresql",), ("sqlite-database", "postgresql"), ("sqlite-postgresql", "postgresql-sqlite")],
)
def test_a_test_without_a_twin_is_left_out_on_no_database(values: tuple[str, ...]) -> None:
    assert not on_the_other_database([f"tests/web/test_it.py::test_it[{each}]" for each in values])
    both = [f"tests/writes/test_it.py::test_it[{form}]" for form in ("sqlite", "postgresql")]  # reads and writes
    assert not on_the_other_database(both)


def test_folders_that_run_on_one_database_exist() -> None:
    assert all((ROOT / "tests" / start).exists() for start in ON_ONE_DATABASE)


def test_make_runs_each_part_alone_and_all_together() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^PARTS := (.*)$", makefile, re.MULTILINE)[1].split() == list(NAMES)  # type: ignore[index]
    assert set(PARTS.values()) == set(NAMES)
    for name in NAMES:
        assert f"test-long-{name}" in (ROOT / "CONTRIBUTING.md").read_text()
