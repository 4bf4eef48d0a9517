"""The benchmarks run to their end, a hundredth as large. What they print is for people: no figure is checked."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent
SUBJECTS: Final = sorted({path.stem for path in (ROOT / "benchmarks").glob("*.py")} - {"__init__", "harness"})
PATIENCE: Final = 600.0


@pytest.mark.parametrize("page", ["Makefile", "docs/performance.md"])
def test_make_runs_every_benchmark_and_the_docs_name_it(page: str) -> None:
    assert sorted(set(re.findall(r"benchmarks\.(\w+)", (ROOT / page).read_text()))) == SUBJECTS


@pytest.mark.long
@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_benchmark_runs_to_its_end(subject: str) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ADKWEB_", "PYTEST_"))}
    command = [sys.executable, "-m", f"benchmarks.{subject}"]
    done = subprocess.run(
        command, cwd=ROOT, env={**kept, "SIZE": "0.01"}, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    assert " s in all" in done.stdout
