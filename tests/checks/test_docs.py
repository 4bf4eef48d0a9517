"""What docs/checks.md says of rules is so."""

import re
from pathlib import Path

import pytest

from sessions_app.checks import checking, rules
from sessions_app.search import state_condition

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "checks.md").read_text()
EXAMPLES = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)[0].splitlines()


@pytest.mark.parametrize("text", [*EXAMPLES, "cart.total exists cart.total >= 0"])
def test_every_rule_that_is_shown_is_one(text: str) -> None:
    assert text in PAGE
    assert state_condition.read(text)


def test_the_limits_are_those_that_are_told() -> None:
    limits = PAGE[PAGE.index("Every check finishes") :]
    most = (
        state_condition.MOST_CONDITIONS,
        state_condition.MOST_KEYS,
        state_condition.MOST_CHARACTERS,
        rules.MOST,
        checking.CHANGES,
    )
    assert tuple(int(each.replace(",", "")) for each in re.findall(r"[0-9,]*[0-9]", limits)[:5]) == most


def test_a_key_that_does_not_exist_is_as_told() -> None:
    assert not state_condition.broken(state_condition.read("cart.total >= 0"), {})
    assert state_condition.broken(state_condition.read("cart.total exists cart.total >= 0"), {})
