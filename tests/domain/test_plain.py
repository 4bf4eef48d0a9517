"""Markdown as a line of plain words."""

from __future__ import annotations

import pytest

from sessions_app.domain.description import Part
from sessions_app.domain.plain import plain
from sessions_app.domain.summary import answer

TABLE = "| from | price |\n| --- | ---: |\n| Lisbon | **412.50** |\n| Porto | 455.75 |\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Which one?", "Which one?"),
        (
            "**Sold out**, _sorry_: see [the list](https://a.example) or `fares`",
            "Sold out, sorry: see the list or fares",
        ),
        ("## Fares\n\n- Lisbon\n- *Porto*\n1. Seoul", "Fares • Lisbon • Porto 1. Seoul"),
        ("> as you said\n---\n```python\ntotal = 2 * 3 * n\n```", "as you said total = 2 * 3 * n"),
        ("2**8 * 3, snake_case_name, __init__, a|b and a [1]", "2**8 * 3, snake_case_name, __init__, a|b and a [1]"),
        (f"Here:\n\n{TABLE}\nTake Porto.", "Here: table, 2 rows: Lisbon 412.50 · Porto 455.75. Take Porto."),
        ("a | b\n--|--\n1 | 2", "table, 1 row: 1 2."),
    ],
)
def test_markdown_is_read_as_words(text: str, line: str) -> None:
    assert plain(text) == line


def test_of_a_table_that_is_not_read_to_its_end_no_number_of_rows_is_said() -> None:
    assert plain(TABLE + "| Seoul | 1 |\n" * 1_000).startswith("table: Lisbon 412.50 · Porto 455.75 · Seoul 1")


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (
            {"flights": [{"id": "LH1181", "price": 497.0, "via": {"a": 1}}, {"id": "x"}]},
            "flights: 2, first LH1181 497.0",
        ),
        ({"result": [{"id": 7}, {"id": 8}, {"id": 9}]}, "3, first 7"),
        ({"total": 2, "rows": [{}, {}]}, "total: 2 · rows: 2"),
        ({"flight": "TP431", "seats": ["1A", "1B"]}, '{flight: "TP431", seats: ["1A", "1B"]}'),
    ],
)
def test_of_an_answer_with_a_list_of_objects_the_length_and_the_first_are_said(value: object, line: str) -> None:
    assert answer(Part("response", value, "search")) == line
