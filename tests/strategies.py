"""What may be stored, as hypothesis strategies: JSON values, keys, deltas and events, as hostile as they can be."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from sessions_app.domain.adk_fields import ACTION_FIELDS
from sessions_app.domain.edit_note import NOTES
from sessions_app.writes.incomplete import MARK

MANY = settings(max_examples=4 * settings().max_examples)  # of what takes a millisecond

TEXTS = (
    "",
    " ",
    "a/b/../c",
    "..",
    "50%",
    "%s %(x)s {x}",
    "line\nbreak\r\n\ttab",
    "\u2028\u2029\x7f\x01",
    "‏שלום עליכם",
    "مرحبا ‮gnorw eht yaw",
    "👩‍👩‍👧‍👦🏳️‍🌈",
    "e\u0301 is not \u00e9",
    "𝕬𝖓𝖙𝖎𝖖𝖚𝖆",
    "'; DROP TABLE sessions; --",
    '"quoted" \\ back\\\\slash',
    "<script>alert(1)</script>",
    "\\u0000",
    "null",
)
KEYS = (
    *TEXTS,
    "plain",
    "a.b[0]",
    "$",
    "app",
    "APP:x",
    " app:x",
    "app:",
    "user:",
    "app:x",
    "user:x",
    "temp:x",
    "app:user:x",
    "user:app:x",
    "user:temp:x",
    "__session_metadata__",
)

text = st.sampled_from(TEXTS) | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
# Hypothesis also tries strings that it sees in the code, and adkweb keeps these to itself.
keys = (st.sampled_from(KEYS) | text).filter(lambda key: key not in (MARK, *NOTES))

integers = st.one_of(
    st.integers(),
    st.integers(min_value=-(10**60), max_value=10**60),
    st.sampled_from([2**53 + 1, -(2**63) - 1, 2**64, 10**400, -(10**4299)]),
)
# The last three are what a database that keeps digits or halves bits gets wrong.
floats = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(
    [0.1 + 0.2, -0.0, 1e16, 123456789012345680.0, 1e23, 5e-324, 1.7976931348623157e308]
)
scalars = st.none() | st.booleans() | integers | floats | text


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4)


json_values: st.SearchStrategy[Any] = st.recursive(scalars, _containers, max_leaves=12)
states = st.dictionaries(keys, json_values, max_size=6)  # also: deltas; keys with prefix


def nested(levels: int) -> Any:
    """A list in a list in a list."""
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


# --- Events -----------------------------------------------------------------------------------------------------------

# Every name that adkweb looks at, with any JSON under it: what another program or version may have stored.
EVENT_FIELDS = [
    "id",
    "invocation_id",
    "author",
    "timestamp",
    "branch",
    "content",
    "actions",
    "partial",
    "turn_complete",
    "interrupted",
    "error_code",
    "error_message",
    "custom_metadata",
    "usage_metadata",
    "long_running_tool_ids",
    "input_transcription",
    "output_transcription",
    "output",
    "node_info",
]
PART_FIELDS = [
    "text",
    "thought",
    "function_call",
    "function_response",
    "executable_code",
    "code_execution_result",
    "inline_data",
    "file_data",
]
INNER_FIELDS = [
    "id",
    "name",
    "args",
    "response",
    "parts",
    "error",
    "code",
    "language",
    "outcome",
    "output",
    "mime_type",
    "display_name",
    "file_uri",
]


def _some(names: list[str], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(st.sampled_from(names), values, max_size=5)


_inner = json_values | _some(INNER_FIELDS, json_values | _some(INNER_FIELDS, json_values))
_parts = st.lists(json_values | _some(PART_FIELDS, _inner), max_size=4)
hostile_events: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(EVENT_FIELDS, json_values),
        "content": json_values | st.fixed_dictionaries({"parts": _parts | json_values}),
        "actions": json_values | _some(sorted(ACTION_FIELDS), json_values | states),
        "custom_metadata": json_values
        | st.fixed_dictionaries({"adkweb": json_values | _some(["removed"], json_values)}),
        "usage_metadata": json_values | st.fixed_dictionaries({"total_token_count": json_values}),
    },
)

# Events that are stored; every field that adkweb checks is right, and unknown ones hold anything.
events: st.SearchStrategy[dict[str, Any]] = st.builds(
    lambda known, unknown, actions: {**unknown, **known, "actions": actions},
    st.fixed_dictionaries(
        {"author": text},
        optional={
            "id": st.uuids().map(str),
            "invocation_id": text,
            "timestamp": st.floats(0, 4e9) | st.integers(0, 4 * 10**9),
            "content": st.fixed_dictionaries({"role": text, "parts": st.lists(st.fixed_dictionaries({"text": text}))}),
            "custom_metadata": states,
            "branch": st.none() | text,
        },
    ),
    st.dictionaries(text.map(lambda name: f"x_{name}"), json_values, max_size=3),
    st.fixed_dictionaries(
        {"state_delta": states},
        optional={"agent_state": st.none() | states, "artifact_delta": st.dictionaries(text, st.integers(0, 99))},
    ),
)
