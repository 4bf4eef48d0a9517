"""Every process collects the same tests, as the workers of one run must."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.long  # 24 s
def test_names_of_tests_depend_on_neither_clock_nor_hashes_nor_time_zone(request: pytest.FixtureRequest) -> None:
    collected = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"],
        cwd=ROOT,
        env={key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
        | {"PYTHONHASHSEED": "1", "TZ": "Pacific/Chatham"},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    there = set(collected.stdout.splitlines())
    here = {item.nodeid for item in request.session.items}
    assert here <= there, sorted(here - there)
