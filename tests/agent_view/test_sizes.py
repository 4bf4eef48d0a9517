"""How large the parts of a request are."""

from __future__ import annotations

from typing import Any

import pytest

from sessions_app.agent_view.content import Content
from sessions_app.agent_view.sizes import sizes_of, tokens
from sessions_app.domain.content import prompt_tokens


def content(*parts: Any, index: int = 0, **more: Any) -> Content:
    return Content(index, "agent", "model", parts, (index,), index, **more)


def test_characters_are_counted_by_what_they_are() -> None:
    deep: Any = []
    for _level in range(5_000):
        deep = [deep]
    sizes = sizes_of(
        [
            content({"text": "x" * 10}, {"text": "why", "thought": True}, {"odd": 1}),
            content({"function_call": {"name": "find", "args": {"to": "일"}}}),
            content(
                {"function_response": {"name": "find", "response": {"n": 1}}}, {"function_response": {"response": deep}}
            ),
            content({"executable_code": {"code": "1+1"}}, {"code_execution_result": {"output": "2"}}),
            content({"text": "short"}, summary=True),
            content({"function_call": {"name": "pay"}}, quoted=True),
            content({"inline_data": {"data": "AAAA" * 10}}, {"file_data": {"file_uri": "gs://x"}}),
        ],
        lambda index: False,
    )
    assert sizes.parts == {
        "message": 10,
        "thought": 3,
        "other": 9,
        "call": len('find{"to":"일"}'),
        "response": len('find{"n":1}'),
        "code": 4,
        "summary": 5,
        "quoted": len("pay{}"),
    }
    assert (sizes.files, sizes.bytes) == (2, 30)
    assert sizes.characters == sum(sizes.parts.values())


def test_a_turn_begins_with_a_message_and_all_turns_make_the_whole() -> None:
    parts = [content({"text": "x" * n}, index=n) for n in range(1, 8)]
    parts.insert(5, content({"text": "told"}, index=5, quoted=True))
    sizes = sizes_of(parts, lambda index: index in (3, 5))
    assert [(turn.index, turn.characters) for turn in sizes.turns] == [(-1, 3), (3, 3 + 4), (5, 5 + 4 + 6 + 7)]
    assert sum(turn.characters for turn in sizes.turns) == sizes.characters


@pytest.mark.parametrize("told", [None, "many", True, -1, 0, 1e300, 2**80, [], {}])
def test_what_is_no_number_of_tokens_is_not_reported(told: Any) -> None:
    assert prompt_tokens({"usage_metadata": {"prompt_token_count": told}}) is None
    assert prompt_tokens({"usage_metadata": told}) is None
    assert prompt_tokens({"usage_metadata": {"prompt_token_count": 7}}) == 7


def test_four_characters_are_a_token() -> None:
    assert [tokens(n) for n in (0, 4, 10, 4_000)] == [0, 1, 2, 1_000]
