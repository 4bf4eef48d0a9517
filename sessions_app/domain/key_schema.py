"""The schema of a key: what its values have been, as the events of all sessions wrote them (pure).

It is learnt, and nobody promised it: an agent may write anything else tomorrow.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, field, fields
from typing import Any, Final

from .description import Description
from .json_values import as_object, dumps, kind, read_stored_or_none
from .secrets import has_secret_name, secret_of
from .state import TEMP, scope_of

MOST_KEYS: Final = 2_000  # of an app
NAME_LENGTH: Final = 200  # characters of a key; a longer one is not learnt
MOST_TEXTS: Final = 12  # different strings that are kept of a key
SHORT: Final = 40  # characters of a string that is kept, and of a writer's name
MOST_WRITERS: Final = 8  # agents, and as many people
_ENOUGH: Final = 5  # events, before they say what is usual
_EXACT: Final = 2**53  # beyond, a float is no longer one number
_GREATEST: Final = 1.7e308
_TYPES: Final = {  # of most values; `kind` knows the others, and takes longer
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
    """The values of a key. {"step": "pay"} twice and {"step": 3} once: types {"string": 2, "number": 1}, texts {"pay": 2}.

    `texts` are empty if there are too `many` of them, or a long one. `users` has those that only one user wrote, with the
    user's number. `hidden` is a key of which only the types are kept: it seems to be a secret.
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
        """Adds what was learnt of a session, which is of the user with this number."""
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
        """Returns the strings of a key that has only a few, which come again and again, the most frequent first; else []."""
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
        """Tells whether enough numbers were seen to say between which they are."""
        return self.low is not None and self.types.get("number", 0) >= _ENOUGH


def is_plain(text: str) -> bool:
    """Tells whether every database and every program can hold a text: it has no U+0000, and no half of a surrogate pair."""
    if text.isascii() or "\0" in text:
        return "\0" not in text
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_learnt(key: str) -> bool:
    """Tells whether a key has a schema: not a `temp:` key, nor one that ADK or adkweb keeps for itself."""
    return 0 < len(key) <= NAME_LENGTH and not key.startswith((TEMP, "__")) and is_plain(key)


def learn(schemas: dict[str, KeySchema], told: Description) -> None:
    """Adds what an event wrote to the schemas of a session's keys."""
    if not told.delta:
        return
    gone, person = set(told.removed), str(told.edit.get("actor") or "")
    name = (person or told.author)[:SHORT]
    for key, value in told.delta.items():
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
    """Tells whether a key's name or one of its strings says that it is a secret."""
    return has_secret_name(scope_of(key)[1]) or any(map(secret_of, schema.texts))


def to_text(schema: KeySchema) -> str:
    """Returns a schema as JSON, without what is empty."""
    values = {each.name: getattr(schema, each.name) for each in fields(KeySchema)}
    return dumps({name: value for name, value in values.items() if value or (name in ("low", "high") and value == 0)})


def from_text(text: str) -> KeySchema:
    """Returns the schema that `to_text` made a text of."""
    return KeySchema(**as_object(read_stored_or_none(text)))
