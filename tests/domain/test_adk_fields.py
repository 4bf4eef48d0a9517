"""An event that google-adk could not load is refused with the path of its first fault, however many faults it has."""

from typing import Any

import pytest

from sessions_app.domain.adk_fields import check_fields
from sessions_app.domain.errors import Invalid
from tests.costs import takes_less

SECONDS = 0.5  # a tenth here; ten thousand faults that are all told take seconds
MANY = 100_000
UNKNOWN = "ADK doesn't recognise this field"
TYPE = "ADK expects a different type"


def deep(levels: int) -> Any:
    value: Any = []
    for _level in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("newer", [False, True])
@pytest.mark.parametrize(
    ("event", "problem"),
    [
        ({"content": {"parts": [1] * MANY}}, f"content.parts[0]: {TYPE} (Part)"),
        ({"content": {"parts": [*[{"text": "a"}] * MANY, 1]}}, f"content.parts[{MANY}]: {TYPE} (Part)"),
        ({"content": {"parts": [[[{}] * MANY]]}}, f"content.parts[0]: {TYPE} (Part)"),
        ({"content": {"parts": deep(1_000)}}, "nested deeper than 150 levels"),
        ({"content": [{"a": n} for n in range(MANY)]}, f"content: {TYPE} (Content)"),
        ({"long_running_tool_ids": [1] * MANY}, f"long_running_tool_ids[0]: {TYPE} (str)"),
        (
            {"actions": {"artifact_delta": {f"a{n}": "" for n in range(MANY)}}},
            f"actions.artifact_delta.a0: {TYPE} (int)",
        ),
        ({"actions": {"route": [{}] * MANY}}, f"actions.route[0]: {TYPE} (bool, int, str)"),
        ({"actions": {"compaction": {}}}, "actions.compaction.compacted_content: missing"),
        ({"cache_metadata": {"fingerprint": "", "contents_count": -1}}, f"cache_metadata.contents_count: {TYPE} (int)"),
        ({"timestamp": 1e308}, f"timestamp: {TYPE} (float)"),
        ({"timestamp": float("nan")}, f"timestamp: {TYPE} (float)"),
        ({"author": "\ud83d", "branch": 5}, f"branch: {TYPE} (str)"),
        ({"content": "\ud83d"}, f"content: {TYPE} (Content)"),
    ],
)
def test_the_first_fault_is_told_and_what_follows_costs_next_to_nothing(
    event: dict[str, Any], problem: str, newer: bool
) -> None:
    def check() -> None:
        with pytest.raises(Invalid) as caught:
            check_fields(event, newer=newer)
        assert caught.value.message == problem

    assert takes_less(SECONDS, check)


@pytest.mark.parametrize(
    ("event", "path"),
    [
        ({"content": {f"x{n}": 1 for n in range(MANY)}}, "content.x0"),
        ({"content": {"parts": [{"txt": 1}] * MANY}}, "content.parts[0].txt"),
        (
            {"content": {"parts": [{f"x{n}" + "y" * 1_000: n for n in range(MANY)}]}},
            f"content.parts[0].x0{'y' * 1_000}",
        ),
        ({"actions": {"a.b": {}}}, "actions.a.b"),
        ({"actions": {"\ud83d": {}}}, "actions.?"),
    ],
)
def test_a_field_that_is_not_known_is_refused_but_not_from_a_newer_program(event: dict[str, Any], path: str) -> None:
    def check() -> None:
        with pytest.raises(Invalid, match=UNKNOWN) as caught:
            check_fields(event)
        assert caught.value.message.startswith(f"{path}: ")
        check_fields(event, newer=True)

    assert takes_less(SECONDS, check)


def test_what_people_store_is_not_looked_at() -> None:
    values = [float("nan"), 10**400, "\ud83d", deep(1_000), {f"k{n}": [n] for n in range(MANY)}]
    event = {"actions": {"state_delta": {"a": values}}, "custom_metadata": {"b": values}, "output": values}
    assert takes_less(SECONDS / 10, lambda: check_fields({**event, "new": values}))
