"""Instruction templates are filled in exactly as google-adk fills them in."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.utils.instructions_utils import inject_session_state
from hypothesis import example, given
from hypothesis import strategies as st

from sessions_app.agent_view.instructions import pieces, rendered
from sessions_app.domain.state import ABSENT
from tests.strategies import MANY, json_values

ARTIFACTS = {"notes.md": "Bring a coat.", "empty": "", "a b": "{name}"}


def adks(template: str, state: dict[str, Any]) -> str | None:
    """What google-adk makes of it; None for an error."""

    async def load_artifact(*, filename: str, **_names: str) -> str | None:
        return ARTIFACTS.get(filename)

    session = SimpleNamespace(app_name="a", user_id="u", id="s", state=state)
    invocation = SimpleNamespace(session=session, artifact_service=SimpleNamespace(load_artifact=load_artifact))
    context = cast(ReadonlyContext, SimpleNamespace(_invocation_context=invocation, agent_name="agent"))
    try:
        return asyncio.run(inject_session_state(template, context))
    except KeyError:
        return None


NAMES = ["name", "step", "日本", "_x", "x1", "a-b", "1x", "", " ", "a b", "class", "name?", "a:b:c", "ª"]
PREFIXES = ["", "app:", "user:", "temp:", "artifact.", "other:", ":", "APP:"]
WRAPPERS = [
    "{%s}",
    "{%s?}",
    "{{%s}}",
    "{ %s }",
    "{%s ?}",
    "${%s}",
    "\\{%s}",
    "{{{%s?}}",
    "{%s",
    "%s}",
    "{\n%s\t}",
    "{}",
]

placeholders = st.builds(
    lambda wrapper, prefix, name: wrapper.replace("%s", prefix + name),
    st.sampled_from(WRAPPERS),
    st.sampled_from(PREFIXES),
    st.sampled_from([*NAMES, *ARTIFACTS]),
)
templates = st.lists(placeholders | st.text("ab{}$\\?: .", max_size=6), max_size=6).map("".join)
states = st.dictionaries(
    st.builds(str.__add__, st.sampled_from(PREFIXES), st.sampled_from(NAMES)), json_values, max_size=8
)


@MANY
@given(template=templates, state=states)
@example(template="{name} {user:tier?} {app:x}", state={"name": None, "app:x": [1, {"a": True}]})
@example(template="{artifact.notes.md} {artifact.gone?}", state={})
def test_a_template_reads_as_google_adk_makes_it(template: str, state: dict[str, Any]) -> None:
    found = pieces(template, state, ARTIFACTS.get)
    assert "".join(piece.written for piece in found) == template
    assert rendered(found) == adks(template, state)


def test_each_placeholder_says_what_it_is() -> None:
    found = pieces("Hi {user:name}, {step?} {gone} {artifact.a?}{x y}", {"user:name": "Ana"})
    assert [(p.kind, p.name, p.optional, p.shown) for p in found if p.kind != "text"] == [
        ("key", "user:name", False, "Ana"),
        ("key", "step", True, ""),
        ("key", "gone", False, None),
        ("artifact", "a", True, ""),
    ]
    assert found[1].value == "Ana"
    assert found[3].value is ABSENT
    assert found[-1].written == "{x y}"


@pytest.mark.parametrize(("template", "shown"), [("", ""), ("no braces", "no braces"), ("{gone}", None)])
def test_a_whole_template_is_a_text_or_an_error(template: str, shown: str | None) -> None:
    assert rendered(pieces(template, {})) == shown
