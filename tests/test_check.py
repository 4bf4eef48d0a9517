"""`make check FILE=…` runs the tests that belong to a file."""

from __future__ import annotations

import pytest

from tests.check import ROOT, belonging


@pytest.mark.parametrize(
    ("file", "tests"),
    [
        ("sessions_app/domain/state.py", ["tests/domain/test_state.py"]),
        ("sessions_app/edits/queue.py", ["tests/edits/test_queue.py"]),
        ("sessions_app/writes/append.py", ["tests/writes"]),
        ("sessions_app/transfer/formats/adk_go.py", ["tests/transfer/test_adk_go.py"]),
        ("sessions_app/management/commands/tail.py", ["tests/management/test_tail.py"]),
        ("sessions_app/access/audit/record.py", ["tests/audit"]),
        ("sessions_app/web/search/params.py", ["tests/web"]),
        ("sessions_app/access/shown.py", ["tests/web/test_shown.py"]),
        ("sessions_app/access/tokens.py", ["tests/api/test_tokens.py", "tests/web/test_tokens.py"]),
        ("tests/edits/test_undo.py", ["tests/edits/test_undo.py"]),
        ("tests/browser/seed.py", ["tests/browser"]),
        ("adkweb/asgi.py", ["tests/test_architecture.py", "tests/test_docs.py"]),
        ("sessions_app/models.py", ["tests/test_architecture.py", "tests/test_docs.py"]),
    ],
)
def test_the_tests_of_a_file_are_those_of_its_name_else_of_its_folder(file: str, tests: list[str]) -> None:
    assert belonging(file) == tests
    assert belonging(str(ROOT / file)) == tests
    assert all((ROOT / each).exists() for each in tests)
