"""The four parts of `make test-long`, each of which runs alone: `make test-long-crash`.

A test marked `long` belongs to the part of its file. A test with random examples belongs to `random`, where it gets more of
them than in `make test`.
"""

from __future__ import annotations

import inspect
import re
import zlib
from collections.abc import Collection, Iterable
from typing import Any, Final

import pytest

NAMES: Final = ("browser", "agents", "crash", "random")
# By the beginning of a file's name under tests/. The rest is about what agents of every version and format write.
PARTS: Final = {
    "browser/": "browser",
    **dict.fromkeys(("batches/test_ten_thousand.py", "sources/test_adoption.py", "transfer/", "writes/"), "crash"),
    "test_benchmarks.py": "agents",
    **dict.fromkeys(("api/", "test_", "web/"), "random"),
    "": "agents",
}

# These folders are built on reads, writes, history and search, whose own tests `make test` runs on every database.
ON_ONE_DATABASE: Final = (
    *("adk/", "agent_view/", "api/", "artifacts/", "audit/", "batches/", "checks/", "edits/", "jobs/"),
    *("live/test_sockets.py", "privacy/", "search/saved/", "transfer/", "web/"),
)
CROSSING: Final = ("sources/test_own_backups.py", "transfer/")  # what goes from one database to another
_DATABASE: Final = re.compile(r"\b(sqlite|postgresql)\b(?!-database)")


def part_of(name: str) -> str:
    """Returns the part of a file's long tests: "crash" for "tests/writes/test_kills.py"."""
    return next(part for start, part in PARTS.items() if name.removeprefix("tests/").startswith(start))


def has_random_examples(item: pytest.Item) -> bool:
    """Tells whether Hypothesis makes the examples of a test."""
    test = inspect.unwrap(getattr(item, "obj", lambda: None))
    return item.get_closest_marker("hypothesis") is not None or getattr(test, "is_hypothesis_test", False)


def on_the_other_database(names: Collection[str]) -> set[str]:
    """Returns the tests that `make test` leaves out, as it runs the same ones on another database.

    Of `test_it[sqlite]` and `test_it[postgresql]` it runs one, in folders on ON_ONE_DATABASE: which one depends on the name,
    so each folder has both. Of those with two databases, adkweb's own and an agent's, it runs those where both are alike."""
    all_of_them, others = set(names), set[str]()
    for name in names:
        test, _, values = name.partition("[")
        is_on_one = test.removeprefix("tests/").startswith(ON_ONE_DATABASE)
        databases = _DATABASE.findall(values)
        is_crossing = len(databases) > 1 and test.removeprefix("tests/").startswith(CROSSING)
        if databases and not is_crossing and (is_on_one or len(set(databases)) > 1):
            forms = [("sqlite", "postgresql")[zlib.crc32(test.encode()) % 2]] if is_on_one else ["sqlite", "postgresql"]
            kept = {f"{test}[{_DATABASE.sub(form, values)}" for form in forms}
            if name not in kept and kept <= all_of_them:
                others.add(name)
    return others


def assign(items: Collection[pytest.Item]) -> None:
    """Marks what is left to `make test-long`, and each test with its part: `-m "part(name='crash')"` selects it."""
    others = on_the_other_database([item.nodeid for item in items if not item.get_closest_marker("long")])
    for item in items:
        if item.nodeid in others:
            item.add_marker(pytest.mark.long)
        _assign(item)


def _assign(item: pytest.Item) -> None:
    if has_random_examples(item):
        item.add_marker(pytest.mark.part(name="random"))
    elif item.get_closest_marker("long"):
        item.add_marker(pytest.mark.part(name=part_of(item.nodeid)))


def long_but(values: Iterable[Any], *kept: Any) -> list[Any]:
    """The parameters of a test of which `make test` tries only some; `make test-long` tries the others, too.

    `long_but(PLACES, "home", "session")`
    """
    values = list(values)
    assert all(value in values for value in kept)
    return [value if value in kept else pytest.param(value, marks=pytest.mark.long) for value in values]


def in_two_parts(kept: Collection[str], all_of_them: Collection[str]) -> pytest.MarkDecorator:
    """Gives a test `names`: those that `make test` tries, and, in `make test-long`, the others."""
    others = [name for name in all_of_them if name not in kept]
    assert len(others) + len(kept) == len(all_of_them)
    parts = [pytest.param(list(kept), id="each kind"), pytest.param(others, marks=pytest.mark.long, id="all others")]
    return pytest.mark.parametrize("names", parts)
