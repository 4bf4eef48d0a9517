"""The exported model takes what was seen, and whatever keys and strings are called, it only declares fields."""

from __future__ import annotations

import ast
import builtins
import warnings
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.domain.key_schema import KeySchema, is_learnt, learn, model_of
from sessions_app.domain.state import scope_of
from tests.domain.test_key_schema import VALUES, told

HOSTILE = [
    "__import__('os').system('x')",
    "a\nimport os\nos.abort()\n#",
    '"""\nimport os\n"""',
    "'); raise SystemExit  # ",
    "x = Field(); print('x')",
    "\\",
    "{x}",
    "\u202e\u2066",
    "class",
    "None",
    "1st",
    "_private",
    "__dunder__x",
    "card-number",
    "card_number",
    "card number",
    "단계",
    "ﬁ",
    "int",
    "Field",
    "str",
    "model_config",
    "model_fields",
    " ",
    "user:",
    "user:tier",
    "app:tier",
    "tier",
    "x" * 200,
]
CLASSES = {"app": "AppState", "user": "UserState", "session": "SessionState"}


def learnt(states: list[dict[str, Any]]) -> dict[str, KeySchema]:
    """Learns states, each as the delta of an event."""
    schemas: dict[str, KeySchema] = {}
    for state in states:
        learn(schemas, told(state))
    return schemas


def only_declares(text: str) -> None:
    """Checks that a module imports typing and pydantic, and that its classes have fields of literals and nothing else."""
    imports = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom):
            imports.append(node.module)
        elif isinstance(node, ast.ClassDef):
            assert [ast.unparse(base) for base in node.bases] == ["BaseModel"]
            docstring, *fields = node.body
            assert isinstance(docstring, ast.Expr)
            for field in fields:
                assert isinstance(field, ast.AnnAssign), ast.unparse(field)
                assert isinstance(field.value, ast.Call)
                assert ast.unparse(field.value.func) == "Field"
                assert not field.value.args
                assert all(isinstance(each.value, ast.Constant) for each in field.value.keywords)
                assert not any(isinstance(each, ast.Call) for each in ast.walk(field.annotation))
        else:
            assert isinstance(node, ast.Expr | ast.Assign), ast.unparse(node)
            assert isinstance(node.value, ast.Constant)
    assert imports == ["typing", "pydantic"]


def models(text: str) -> dict[str, Any]:
    """Runs the module, which may not even warn."""
    only_declares(text)
    names: dict[str, Any] = {"__name__": "exported"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(compile(text, "exported.py", "exec", dont_inherit=True), names)
    return names


def takes(names: dict[str, Any], state: dict[str, Any]) -> None:
    """Checks that the models take a state, and give its own keys back."""
    dumped: dict[str, Any] = {}
    for scope, name in CLASSES.items():
        if any(scope_of(key)[0] == scope for key in state if is_learnt(key)):
            dumped |= names[name].model_validate(state).model_dump(by_alias=True)
    for key, value in state.items():
        if is_learnt(key) and value == value:
            assert dumped[key] == value
            assert isinstance(dumped[key], bool) == isinstance(value, bool)


@given(st.lists(st.dictionaries(st.sampled_from(HOSTILE) | st.text(max_size=8), VALUES, max_size=6), max_size=12))
def test_a_model_takes_every_state_that_was_seen(states: list[dict[str, Any]]) -> None:
    names = models(model_of("booking", learnt(states)))
    for state in states:
        takes(names, state)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_keys_strings_and_apps_are_only_data(text: str) -> None:
    some = [{text: short, "step": short} for short in (text[:40], "pay") for _time in range(5)]
    names = models(model_of(text, learnt([dict.fromkeys(HOSTILE, number) for number in range(3)] + some)))
    assert names["APP"] == text
    takes(names, {text: "pay", "step": text[:40]})


def test_no_field_hides_what_pydantic_python_or_the_module_needs() -> None:
    keys = {*dir(pydantic.BaseModel), *dir(builtins), "Any", "Literal", "BaseModel", "Field", "APP", "UserState"}
    state = dict.fromkeys(sorted(keys), 1)
    names = models(model_of("booking", learnt([state | {"zz": "a"}])))
    takes(names, {**state, "zz": "b"})


def test_the_types_are_those_that_were_seen() -> None:
    states = [{"step": "pay" if n % 2 else "book", "n": n, "user:tier": n / 2, "app:on": True} for n in range(6)]
    text = model_of("booking", learnt([*states, {"step": None, "list": [1], "map": {}, "note": "x" * 50}]))
    fields = [line.strip() for line in text.splitlines() if "= Field(" in line]
    assert fields == [
        "step: Literal['book', 'pay'] | None = Field(default=None)",
        "n: int | None = Field(default=None, description='0 to 5')",
        "list_: list[Any] | None = Field(default=None, alias='list')",
        "map: dict[str, Any] | None = Field(default=None)",
        "note: str | None = Field(default=None)",
        "tier: int | float | None = Field(default=None, alias='user:tier', description='0.0 to 2.5')",
        "on: bool | None = Field(default=None, alias='app:on')",
    ]
    with pytest.raises(pydantic.ValidationError):
        models(text)["SessionState"].model_validate({"step": "pya"})
    assert "class" not in model_of("booking", {})
