"""Writes the schema of an app as pydantic models, one for each scope (pure).

Keys and strings are somebody's data: they get into the text as Python literals only. What names a field is made of letters,
digits and underscores; the key itself is its alias.
"""

import keyword
import re
from collections.abc import Mapping
from typing import Final

from .key_schema import KeySchema
from .state import STORED, Scope, scope_of

_HEAD: Final = '''"""The state of an app, as the events had it that adkweb has seen. A key that is not there is None.

Each model takes its own keys out of the whole state: UserState.model_validate(session.state.to_dict()).
"""

from typing import Any, Literal

from pydantic import BaseModel, Field
'''
_CLASSES: Final[dict[Scope, tuple[str, str]]] = {
    "app": ("AppState", "State that all users share."),
    "user": ("UserState", "State that all sessions of a user share."),
    "session": ("SessionState", "State of one session alone."),
}
_TYPES: Final = {"boolean": "bool", "array": "list[Any]", "object": "dict[str, Any]"}
_LENGTH: Final = 60  # characters of a field's name
# Names that the text itself uses, and those of pydantic's BaseModel: a field of such a name would hide it.
_TAKEN: Final = frozenset(
    re.findall(
        r"\w+",
        """Any Literal BaseModel Field bool dict int float str list APP AppState UserState SessionState construct copy
        from_orm json parse_file parse_obj parse_raw schema schema_json update_forward_refs validate fields""",
    )
)


def model_of(app_name: str, schemas: Mapping[str, KeySchema]) -> str:
    """Returns a Python module with a model for each scope that has keys."""
    parts = [_HEAD, f"\nAPP = {app_name!r}\n"]
    for scope in STORED:
        of_scope = {key: schema for key, schema in schemas.items() if scope_of(key)[0] == scope}
        if of_scope:
            parts.append(_class(scope, of_scope))
    return "".join(parts)


def _class(scope: Scope, schemas: Mapping[str, KeySchema]) -> str:
    name, what = _CLASSES[scope]
    lines = [f'\n\nclass {name}(BaseModel):\n    """{what}"""\n']
    taken: set[str] = set()
    for key, schema in schemas.items():
        field = _name(scope_of(key)[1], taken)
        taken.add(field)
        given = ["default=None"]
        if field != key:
            given.append(f"alias={key!r}")
        if schema.low is not None:
            given.append(f"description={f'{schema.low!r} to {schema.high!r}'!r}")
        lines.append(f"    {field}: {_type(schema)} = Field({', '.join(given)})")
    return "\n".join(lines) + "\n"


def _name(key: str, taken: set[str]) -> str:
    """Returns the name of a field: `card_number` for the key `card-number`, and `class_` for `class`."""
    name = re.sub(r"\W+", "_", key, flags=re.ASCII).strip("_")[:_LENGTH]
    if not name or name[0].isdigit() or name.startswith("model_"):  # pydantic keeps model_ for itself
        name = f"key_{name}".rstrip("_")
    if name in _TAKEN or keyword.iskeyword(name):
        name = f"{name}_"
    numbered, number = name, 1
    while numbered in taken:
        number += 1
        numbered = f"{name}_{number}"
    return numbered


def _type(schema: KeySchema) -> str:
    """Returns the type of a field: `Literal['pay', 'book'] | None`."""
    types = []
    if "string" in schema.types:
        types.append(f"Literal[{', '.join(map(repr, schema.options))}]" if schema.options else "str")
    if "number" in schema.types:
        types += ["int", "float"] if schema.fractions or schema.hidden else ["int"]
    types += [name for kind, name in _TYPES.items() if kind in schema.types]
    return " | ".join([*types, "None"]) if types or "null" in schema.types else "Any"
