"""Every promise of docs/guarantees.md names tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "guarantees.md"


def promises() -> dict[str, list[tuple[str, str, str]]]:
    """By promise, the tests that it names: shown file, name, and the file that the link leads to."""
    items = re.split(r"^- ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    link = re.compile(r"\[([\w/]+\.py)::(test_\w+)\]\(\.\./([\w/]+\.py)\)")
    return {re.split(r"\n  \[", item)[0]: link.findall(item) for item in items}


@cache
def functions_of(path: Path) -> frozenset[str]:
    """The test functions at the top of a file, or in its classes."""
    nodes = ast.walk(ast.parse(path.read_text()))
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def files_with(name: str) -> list[str]:
    """The files that have a test of this name."""
    files = (path for path in sorted((ROOT / "tests").rglob("test_*.py")) if name in functions_of(path))
    return [path.relative_to(ROOT).as_posix() for path in files]


def problems(promised: dict[str, list[tuple[str, str, str]]]) -> list[str]:
    """Promises that no test keeps, and tests that are not where the page says."""
    wrong = [f"no test keeps “{promise}”" for promise, tests in promised.items() if not tests]
    for shown, name, target in (test for tests in promised.values() for test in tests):
        if target != f"tests/{shown}":
            wrong.append(f"{shown}::{name} leads to {target}")
        elif not (ROOT / target).exists() or name not in functions_of(ROOT / target):
            wrong.append(f"{shown}::{name} is not there; it is in {files_with(name)}")
    return wrong


def test_every_promise_names_tests_that_exist() -> None:
    assert problems(promises()) == []


def test_each_promise_is_one_line() -> None:
    assert len(promises()) > 50
    assert [promise for promise in promises() if "\n" in promise or not promise.endswith(".")] == []


def test_no_test_is_named_for_two_promises() -> None:
    names = [name for tests in promises().values() for _shown, name, _target in tests]
    assert sorted(names) == sorted(set(names))


def test_a_test_that_is_gone_or_elsewhere_is_seen() -> None:
    here = "test_guarantees.py"
    name = "test_a_test_that_is_gone_or_elsewhere_is_seen"
    assert problems({"It is so.": [(here, name, f"tests/{here}")]}) == []
    assert problems({"It is so.": []}) == ["no test keeps “It is so.”"]
    gone = "test_gone_" + "with_the_wind"
    assert problems({"It is so.": [(here, gone, f"tests/{here}")]}) == [f"{here}::{gone} is not there; it is in []"]
    moved = ("test_docs.py", name, "tests/test_docs.py")
    assert problems({"It is so.": [moved]}) == [f"test_docs.py::{name} is not there; it is in ['tests/{here}']"]
    assert problems({"It is so.": [(here, name, "tests/test_docs.py")]}) == [
        f"{here}::{name} leads to tests/test_docs.py"
    ]
