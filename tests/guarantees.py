"""Writes docs/guarantees.md from the marks on the tests, `@pytest.mark.guarantee("Writing", "…")`: `make docs`.

Tests that keep the same promise have the same sentence. The page has the sections in the order of `SECTIONS`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

TESTS: Final = Path(__file__).resolve().parent
PAGE: Final = TESTS.parent / "docs" / "guarantees.md"
SECTIONS: Final = ("Writing", "Agents", "Edits", "History", "Live pages", "Databases and files", "Safety")
HEAD: Final = """\
# Guarantees

These are adkweb's promises to the people and agents that use it. Below each promise are the tests that check it.
`make docs` generates this page from marks on the tests. For what adkweb doesn't promise, see “Known limits” in the
[changelog](../CHANGELOG.md).
"""


class Guarantee(NamedTuple):
    """A sentence that a test keeps."""

    section: str
    sentence: str
    file: str
    test: str


def guarantees_of(file: str, source: str) -> Iterator[Guarantee]:
    """The marks on the tests of a file, from top to bottom."""
    if "mark.guarantee" not in source:
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for each in node.decorator_list:
                if isinstance(each, ast.Call) and ast.unparse(each.func) == "pytest.mark.guarantee":
                    section, sentence = map(ast.literal_eval, each.args)
                    yield Guarantee(section, sentence, file, node.name)


def guarantees() -> list[Guarantee]:
    """Those of all tests, by file."""
    files = sorted(TESTS.rglob("test_*.py"))
    return [each for path in files for each in guarantees_of(path.relative_to(TESTS).as_posix(), path.read_text())]


def written() -> str:
    """The page as it should be."""
    promises: dict[tuple[str, str], list[str]] = {}
    for section, sentence, file, test in guarantees():
        promises.setdefault((section, sentence), []).append(f"[{file}::{test}](../tests/{file})")
    page = HEAD
    for heading in SECTIONS:
        page += f"\n## {heading}\n\n"
        for (section, sentence), tests in promises.items():
            if section == heading:
                page += f"- {sentence}\n  " + ",\n  ".join(tests) + "\n"
    return page


if __name__ == "__main__":
    PAGE.write_text(written())
