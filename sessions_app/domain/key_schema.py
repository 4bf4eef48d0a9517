"""The schema of a key: the values that the events of all sessions wrote (pure).

It is learnt, not guaranteed: an agent may write anything else tomorrow.
"""

import keyword
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from .description import Description
from .json_values import as_object, dumps, kind, read_stored_or_none
from .secrets import has_secret_name, secret_of
from .state import STORED, TEMP, Scope, scope_of
from .translation import gettext as _
from .translation import ngettext

MOST_KEYS: Final = 2_000  # of an app
NAME_LENGTH: Final = 200  # characters of a key; longer keys are not learnt
MOST_TEXTS: Final = 12  # different strings kept for a key
SHORT: Final = 40  # characters of a string that is kept, and of a writer's name
MOST_WRITERS: Final = 8  # agents, and as many people
_ENOUGH: Final = 5  # events needed before anything counts as usual
_EXACT: Final = 2**53  # above this, a float is no longer exact
_GREATEST: Final = 1.7e308
_TYPES: Final = {  # for most values; `kind` knows the others, but is slower
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    type(None): "null",
    list: "array",
    dict: "object",
}

Number = int | float


@dataclass(slots=True)
class KeySchema:
    """The values of a key. {"step": "pay"} twice and {"step": 3} once: types {"string": 2, "number": 1}, texts {"pay":
    2}.

    `texts` are empty if there are too `many` of them, or a long one. `users` has those that only one user wrote, with
    the user's number. For a `hidden` key, which seems to be a secret, only the types are kept.
    """

    events: int = 0  # that wrote the key, or removed it
    removed: int = 0
    types: dict[str, int] = field(default_factory=dict)
    texts: dict[str, int] = field(default_factory=dict)
    users: dict[str, int] = field(default_factory=dict)
    many: bool = False
    low: Number | None = None
    high: Number | None = None
    fractions: bool = False
    agents: dict[str, int] = field(default_factory=dict)
    people: dict[str, int] = field(default_factory=dict)
    hidden: bool = False

    def add(self, value: Any) -> None:
        """Learns a value that an event wrote."""
        name = _TYPES.get(type(value)) or kind(value)
        types = self.types
        types[name] = types.get(name, 0) + 1
        if name == "string":
            if not self.many:
                self._add_text(value, 1)
        elif name == "number":
            self._add_number(value)

    def _add_text(self, text: str, events: int) -> None:
        if text in self.texts:
            self.texts[text] += events
        elif len(self.texts) < MOST_TEXTS and len(text) <= SHORT and is_plain(text):
            self.texts[text] = events
        else:
            self._drop_texts()

    def _drop_texts(self) -> None:
        self.many = True
        self.texts, self.users = {}, {}

    def _add_number(self, number: Number) -> None:
        if isinstance(number, float):
            if not math.isfinite(number):
                self.fractions = True
                return
            self.fractions = self.fractions or not number.is_integer() or abs(number) > _EXACT
        elif abs(number) > _EXACT:
            number = float(min(max(number, -_GREATEST), _GREATEST))
        self._widen(number)

    def _widen(self, number: Number) -> None:
        self.low = number if self.low is None or number < self.low else self.low
        self.high = number if self.high is None or number > self.high else self.high

    def merge(self, more: "KeySchema", user: int) -> None:
        """Adds what was learnt from a session of the user with this number."""
        self.events, self.removed = self.events + more.events, self.removed + more.removed
        for mine, others in ((self.types, more.types), (self.agents, more.agents), (self.people, more.people)):
            for name, events in others.items():
                if name in mine or mine is self.types or len(mine) < MOST_WRITERS:
                    mine[name] = mine.get(name, 0) + events
        self._merge_texts(more, user)
        for number in (more.low, more.high):
            if number is not None:
                self._widen(number)
        self.fractions = self.fractions or more.fractions

    def _merge_texts(self, more: "KeySchema", user: int) -> None:
        if more.many and not self.many:
            self._drop_texts()
        for text, events in more.texts.items():
            if self.many:
                return
            if text not in self.texts:
                self.users[text] = user
            elif self.users.get(text, user) != user:
                del self.users[text]
            self._add_text(text, events)

    def hide(self) -> None:
        """Forgets all values, and learns only types from now on."""
        self.hidden = True
        self._drop_texts()
        self.low = self.high = None

    def forget_users(self, users: Collection[int]) -> bool:
        """Forgets the strings that only one of these users wrote. Returns whether there was any."""
        theirs = [text for text, user in self.users.items() if user in users]
        for text in theirs:
            del self.users[text], self.texts[text]
        return bool(theirs)

    @property
    def values(self) -> int:
        """Returns how many events wrote a value."""
        return sum(self.types.values())

    @property
    def options(self) -> list[str]:
        """Returns the strings of a key that has only a few, often repeated ones, the most frequent first; otherwise
        []."""
        strings = self.types.get("string", 0)
        if self.many or strings < _ENOUGH or strings < 2 * len(self.texts):
            return []
        return self.seen

    @property
    def seen(self) -> list[str]:
        """Returns the strings that are kept, the most frequent first."""
        return sorted(self.texts, key=lambda text: (-self.texts[text], text))

    @property
    def has_range(self) -> bool:
        """Returns whether enough numbers were seen to give their range."""
        return self.low is not None and self.types.get("number", 0) >= _ENOUGH


def is_plain(text: str) -> bool:
    """Returns whether every database and program can hold a text: it has no U+0000 and no half of a surrogate pair."""
    if text.isascii() or "\0" in text:
        return "\0" not in text
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_learnt(key: str) -> bool:
    """Returns whether a key has a schema: not a `temp:` key, nor one that ADK or adkweb keeps for itself."""
    return 0 < len(key) <= NAME_LENGTH and not key.startswith((TEMP, "__")) and is_plain(key)


def learn(schemas: dict[str, KeySchema], description: Description) -> None:
    """Adds what an event wrote to the schemas of a session's keys."""
    if not description.delta:
        return
    gone, person = set(description.removed), str(description.edit.get("actor") or "")
    name = (person or description.author)[:SHORT]
    for key, value in description.delta.items():
        schema = schemas.get(key)
        if schema is None:
            if len(schemas) == MOST_KEYS or not is_learnt(key):
                continue
            schema = schemas[key] = KeySchema()
        schema.events += 1
        if gone and key in gone:
            schema.removed += 1
        else:
            schema.add(value)
        writers = schema.people if person else schema.agents
        if name in writers:
            writers[name] += 1
        elif name and len(writers) < MOST_WRITERS and is_plain(name):
            writers[name] = 1


def seems_secret(key: str, schema: KeySchema) -> bool:
    """Returns whether a key's name or one of its strings suggests a secret."""
    return has_secret_name(scope_of(key)[1]) or any(map(secret_of, schema.texts))


def to_text(schema: KeySchema) -> str:
    """Returns a schema as JSON, without what is empty."""
    values = {each.name: getattr(schema, each.name) for each in fields(KeySchema)}
    return dumps({name: value for name, value in values.items() if value or (name in ("low", "high") and value == 0)})


def from_text(text: str) -> KeySchema:
    """Returns the schema that `to_text` turned into a text."""
    return KeySchema(**as_object(read_stored_or_none(text)))


# --- As pydantic models, one for each scope ---------------------------------------------------------------------------

# Keys and strings are someone's data: they appear in the text only as Python literals. Field names consist of letters,
# digits and underscores; the key itself is the alias.
_HEAD: Final = '''"""The state of an app, as adkweb has seen it in events. A missing key is None.

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
_ANNOTATIONS: Final = {"boolean": "bool", "array": "list[Any]", "object": "dict[str, Any]"}
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
    types += [name for kind, name in _ANNOTATIONS.items() if kind in schema.types]
    return " | ".join([*types, "None"]) if types or "null" in schema.types else "Any"


# --- How a new value differs from what its key has been ---------------------------------------------------------------

_USUAL: Final = 0.02  # of the values; a rarer type doesn't count as a type of the key
_SHOWN: Final = 30  # characters of a string


def type_word(name: str) -> str:
    """Returns the word for a JSON type: “true/false” for a boolean."""
    return {
        "string": _("string"),
        "number": _("number"),
        "boolean": _("true/false"),
        "null": _("null"),
        "array": _("list"),
        "object": _("object"),
    }[name]


def range_words(low: Number, high: Number) -> str:
    """Returns a range of numbers in words: “0 to 40”, or “7” if it is one number."""
    return dumps(low) if low == high else _("%(low)s to %(high)s") % {"low": dumps(low), "high": dumps(high)}


def misfits(key: str, schema: KeySchema, value: Any) -> list[str]:
    """Returns what is unusual about a value: [“booking_step has been a string in 312 events; this is a number.”].

    It returns nothing if too little was seen to know what is usual.
    """
    name = kind(value)
    if not schema.values:
        return []
    if schema.types.get(name, 0) <= _USUAL * schema.values:
        return [_other_type(key, schema, name)]
    if name == "string" and schema.options and value not in schema.texts:
        options = ", ".join(f"“{text[:_SHOWN]}”" for text in schema.options)
        return [_("%(key)s has always been one of %(options)s.") % {"key": key, "options": options}]
    if name == "number" and schema.has_range:
        return _other_number(key, schema, value)
    return []


def _other_type(key: str, schema: KeySchema, name: str) -> str:
    usual = max(schema.types, key=lambda each: schema.types[each])
    events = schema.types[usual]
    words = ngettext(
        "%(key)s was of type %(usual)s in %(n)s event, but this value is of type %(type)s.",
        "%(key)s was of type %(usual)s in %(n)s events, but this value is of type %(type)s.",
        events,
    )
    return words % {"key": key, "usual": type_word(usual), "n": events, "type": type_word(name)}


def _other_number(key: str, schema: KeySchema, value: Number) -> list[str]:
    low, high = schema.low, schema.high
    if low is None or high is None:
        return []
    if not low <= value <= high:
        return [_("%(key)s has always been %(range)s.") % {"key": key, "range": range_words(low, high)}]
    if not schema.fractions and value != int(value):
        return [_("%(key)s has always been a whole number.") % {"key": key}]
    return []
