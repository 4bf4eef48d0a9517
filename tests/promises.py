"""Lists every test, a promise, with its file and where it runs: `.venv/bin/python -m tests.promises`.

    tests/writes/test_crash.py  test_a_writer_killed_a_hundred_times_leaves_whole_appends_only  test-long, test-long-crash
    tests/reads/test_lookups.py  test_a_session_is_found_by_its_id  test, test-long, test-long-agents

The second runs in `make test` with some of its parameters only. Two lists, of before and after a change, are compared with
`diff`. No line may be missing afterwards, and a promise that `make test` kept has `test` in its line still, or another that
keeps it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


class Gathered:
    """Notes where the tests that pytest collects run."""

    def __init__(self) -> None:
        self.runs: dict[tuple[str, str], set[str]] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Notes each test function once, whatever its parameters."""
        for item in session.items:
            file, _colons, name = item.nodeid.partition("::")
            where = self.runs.setdefault((file, name.partition("[")[0]), set())
            where.add("test-long" if item.get_closest_marker("long") else "test")
            where.update(f"test-long-{part.kwargs['name']}" for part in item.iter_markers("part"))


def main() -> None:
    """Prints a line for each promise."""
    gathered = Gathered()
    silent = ["-o", "addopts=", "-p", "no:terminal", "-p", "no:cacheprovider"]
    code = pytest.main(["--collect-only", *silent, str(ROOT)], [gathered])
    for (file, name), where in sorted(gathered.runs.items()):
        print(f"{file}  {name}  {', '.join(sorted(where))}")
    sys.exit(code)


if __name__ == "__main__":
    main()
