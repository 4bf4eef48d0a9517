"""The form that edits state: several keys, each with the value that the person saw."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, Literal

from django.utils.translation import gettext as _

from ...domain.json_values import KEY_LENGTH, dumps, loads
from ...domain.state import ABSENT, UNKNOWN, Scope, State, scope_of
from ...edits.edit import Entry
from ...edits.undo import Step
from ...errors import Invalid
from ...reads.deltas import Writer

Operation = Literal["set", "null", "remove"]

OFFERED: Final = 1_000  # other keys whose names are offered
MOST: Final = 800  # keys of one form: six fields each are as many as a request may have


@dataclass(slots=True)
class FormRow:
    """A key of the form. `seen` is JSON, or empty if the key did not exist when the form was opened.

    A `compact` row has no editor: it is `taken` or not. `wrote` is the value that the event to be undone had set.
    `misfits` and `options` are what habits.py says."""

    key: str
    operation: str
    text: str
    seen: str
    error: str = ""
    current: Any = None
    conflict: bool = False
    writer: Writer | None = None
    compact: bool = False
    taken: bool = True
    wrote: Any = UNKNOWN
    misfits: list[str] = field(default_factory=list)  # what is unusual about the value, in words
    options: list[str] = field(default_factory=list)  # the few strings that the key has been

    @property
    def scope(self) -> Scope:
        """Returns the scope of the key, for its colour."""
        return scope_of(self.key)[0]

    @property
    def seen_pretty(self) -> str:
        """Returns `seen` indented, to show a difference from it."""
        return dumps(self._saw(), indent=2) if self.seen else ""

    @property
    def changed(self) -> bool:
        """Tells whether the row holds something that a person typed or chose."""
        return self.operation != "set" or self.text != self.seen_pretty

    @property
    def may_be_string(self) -> bool:
        """Tells whether the text is not JSON and may be meant as a string."""
        return self.operation == "set" and self.text.strip()[:1] not in ("", *'[]{}"')

    @property
    def offered(self) -> list[tuple[str, str]]:
        """Returns the strings that the key has been, each with its JSON."""
        return [(text, dumps(text)) for text in self.options]

    @property
    def saw(self) -> Any:
        """Returns the value that the person saw, for a row without an editor."""
        try:
            return self._saw()
        except Invalid:  # no browser of ours sends this; `entry` reports it
            return UNKNOWN

    @property
    def value(self) -> Any:
        """Returns the value that a row without an editor writes."""
        try:
            return ABSENT if self.operation == "remove" else json.loads(self.text)
        except (ValueError, RecursionError):
            return self.text

    def entry(self) -> Entry:
        """Returns the edit that this row asks for. Raises Invalid."""
        seen = self._saw()
        if self.operation == "remove":
            return Entry(self.key, ABSENT, seen)
        if self.operation not in ("set", "null"):
            raise Invalid(_("There is no operation “%(name)s”.") % {"name": self.operation})
        return Entry(self.key, None if self.operation == "null" else loads(self.text), seen)

    def _saw(self) -> Any:
        try:
            return json.loads(self.seen) if self.seen else ABSENT
        except (ValueError, RecursionError):
            return loads(self.seen)  # raises Invalid


def kept(value: Any) -> str:
    """Returns a value as `seen`: ASCII that any browser sends back unchanged, even NaN and half of a surrogate pair."""
    return json.dumps(value)


def new_row(key: str, state: Mapping[str, Any]) -> FormRow:
    """Returns a row for a key with its current value, or an empty row for a new key."""
    if key not in state:
        return FormRow(key, "set", "", "")
    return FormRow(key, "set", dumps(state[key], indent=2), kept(state[key]))


def asked_row(entry: Entry) -> FormRow:
    """Returns a row for an edit that was requested before, filled in with what was typed."""
    seen = "" if entry.seen is ABSENT else kept(entry.seen)
    if entry.value is ABSENT:
        return FormRow(entry.key, "remove", "", seen)
    return FormRow(entry.key, "set", dumps(entry.value, indent=2), seen)


def step_row(step: Step, *, compact: bool) -> FormRow:
    """Returns a row for a key that is put back. If somebody has written it since, the row asks which value to keep."""
    row = asked_row(step.entry)
    row.compact = compact
    if step.contested:
        row.conflict, row.current, row.wrote = True, step.now, step.wrote
    return row


def too_many() -> Invalid:
    """Returns the error of a form with too many keys."""
    return Invalid(_("A form can have %(number)s keys.") % {"number": MOST})


def other_keys(state: State, rows: Iterable[FormRow]) -> list[str]:
    """Returns the keys of a state that are not in the form yet, those that a form can name; at most OFFERED."""
    fitting = (key for key in sorted(state.keys() - {row.key for row in rows}) if len(key) <= KEY_LENGTH)
    return list(islice(fitting, OFFERED))


def posted_rows(data: Mapping[str, str]) -> list[FormRow]:
    """Returns the rows that were sent, except those that the person dropped or in which they kept the other's value.

    Raises Invalid if there are more than MOST."""
    rows = []
    compact = set(data.get("compact", "").split())
    numbers = dict.fromkeys(data.get("rows", "").split())
    if len(numbers) > MOST:
        raise too_many()
    for number in numbers:
        if data.get(f"choice-{number}") == "theirs" or data.get("drop") == number:
            continue
        text = data.get(f"value-{number}", "").replace("\r\n", "\n")
        rows.append(
            FormRow(
                data.get(f"key-{number}", ""),
                data.get(f"operation-{number}", "set"),
                dumps(text.strip()) if data.get("as-string") == number else text,
                data.get(f"seen-{number}", ""),
                compact=number in compact,
                taken=number not in compact or f"take-{number}" in data,
            )
        )
    return rows


def entries(rows: Iterable[FormRow]) -> list[Entry] | None:
    """Returns the entries of the rows that are taken. If a row is not valid, notes the error in it and returns None."""
    asked = []
    for row in rows:
        if not row.taken:
            continue
        try:
            asked.append(row.entry())
        except Invalid as error:
            row.error = error.message if row.text.strip() or row.operation != "set" else _("A value is missing.")
    return None if any(row.error for row in rows) else asked
