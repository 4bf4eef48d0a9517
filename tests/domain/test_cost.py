"""What an event's model used, and what that costs."""

from typing import Any

import pytest

from sessions_app.domain.cost import Cost, Usage, cost_of, price_of, usage_of

PRICES = {"flash": (0.3, 2.5), "pro-*": (1.0, 10.0), "pro-2*": (2.0, 20.0)}


@pytest.mark.parametrize(
    ("told", "used"),
    [
        (
            {"prompt_token_count": 7, "candidates_token_count": 2, "thoughts_token_count": 3, "total_token_count": 12},
            (7, 5),
        ),
        ({"prompt_token_count": 7, "tool_use_prompt_token_count": 4, "total_token_count": 11}, (11, 0)),
        ({"total_token_count": 9}, (9, 0)),  # nothing else is told: the cheaper kind
        ({"candidates_token_count": 9, "total_token_count": 3}, (0, 9)),
        ({"prompt_token_count": 10**30}, (100, 0)),
        ({"prompt_token_count": -5, "candidates_token_count": "9", "total_token_count": True}, None),
        ({}, None),
        ("many", None),
    ],
)
def test_what_an_event_says_that_its_model_used(told: Any, used: tuple[int, int] | None) -> None:
    usage = usage_of({"model_version": "flash", "usage_metadata": told}, most=100)
    assert usage == (used and Usage("flash", *used))


def test_a_price_is_that_of_the_name_or_of_its_longest_beginning() -> None:
    names = ("flash", "flash-lite", "pro-1", "pro-25", "pro", "")
    assert [price_of(name, PRICES) for name in names] == [(0.3, 2.5), None, (1.0, 10.0), (2.0, 20.0), None, None]


def test_what_models_cost_together_and_which_have_no_price() -> None:
    used = [Usage("flash", 1_000_000, 200_000), Usage("pro-1", 500_000, 0), Usage("other", 1, 1), Usage("", 1, 0)]
    assert cost_of(used, PRICES) == Cost(pytest.approx(0.3 + 0.5 + 0.5), ("", "other"))
