"""docs/security.md has each requirement of the standard once, and names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "security.md"
# The numbers of the requirements of levels 1 and 2 of OWASP ASVS 5.0.0, in its order.
NUMBERS: Final = ROOT / "tests" / "asvs.txt"


def rows() -> list[tuple[list[str], str, str]]:
    """The numbers, the words and the tests of each row."""
    matches = re.findall(r"^\| ([\d., ]+) \| (.+) \| (.*) \|$", PAGE.read_text(), flags=re.MULTILINE)
    return [(numbers.split(", "), words, tests) for numbers, words, tests in matches]


def test_each_requirement_stands_in_one_row() -> None:
    numbers = [number for row, _words, _tests in rows() for number in row]
    assert sorted(numbers) == sorted(NUMBERS.read_text().split())


def test_each_row_answers_in_a_sentence() -> None:
    assert [numbers for numbers, words, _tests in rows() if not words.endswith(".")] == []


def test_each_test_that_a_row_names_exists() -> None:
    for numbers, _words, tests in rows():
        for shown, target in re.findall(r"\[([^\]]+)\]\(\.\./([^)]+)\)", tests):
            file, _colons, name = shown.partition("::")
            assert target == f"tests/{file}", numbers
            assert f"def {name}" in (ROOT / target).read_text(), (numbers, shown)
