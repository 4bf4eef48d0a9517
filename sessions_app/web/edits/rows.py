"""The rows of a form that edits state: its keys, each with the value that the person saw. What such forms share."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from django.forms import HiddenInput
from django.utils.translation import gettext as _

from ...access.actor import Actor
from ...domain.errors import Invalid
from ...domain.event import new_id
from ...domain.json_values import KEY_LENGTH, dumps, kind, loads
from ...domain.key_schema import KeySchema, misfits
from ...domain.session_ref import SessionRef
from ...domain.state import ABSENT, UNKNOWN, Scope, State, scope_of
from ...edits.edit import Entry
from ...edits.undo import Step
from ...reads.deltas import Writer
from ...reads.views import SessionView
from ...search.schemas import schemas_of
from ..forms import Form, Text

STRING, JSON = "string", "json"  # two of the types of the switch; the others are "number", "boolean" and "null"

OFFERED: Final = 1_000  # other keys whose names are offered
HELD: Final = 3  # values of a key in many sessions that are named
MOST: Final = 800  # keys of one form: six fields each are as many as a request may have


@dataclass(slots=True)
class FormRow:
    """A key of the form. `seen` is JSON, or empty if the key did not exist when the form was opened.

    `type` is one of the switch, or empty if it is not known. Of a string, `text` is the value itself; otherwise, it is JSON.
    A `compact` row has no editor: it is `taken` or not. `wrote` is the value that the event to be undone had set.
    `misfits` and `options` are what `note_habits` says."""

    key: str
    operation: str
    text: str
    seen: str
    type: str = ""
    error: str = ""
    current: Any = None
    conflict: bool = False
    writer: Writer | None = None
    compact: bool = False
    taken: bool = True
    wrote: Any = UNKNOWN
    misfits: list[str] = field(default_factory=list)  # what is unusual about the value, in words
    options: list[str] = field(default_factory=list)  # the few strings that the key has been
    held: list[tuple[Any, int]] = field(default_factory=list)  # of many sessions: values now, and in how many

    @property
    def scope(self) -> Scope:
        """Returns the scope of the key, for its colour."""
        return scope_of(self.key)[0]

    @property
    def escaped(self) -> str:
        """Returns the key as JSON if no page can hold it as it is: with U+0000 or half of a surrogate pair; else ""."""
        return "" if fits_page(self.key) else json.dumps(self.key)

    @property
    def plain(self) -> bool:
        """Tells whether the text is a string as it is, without quotes."""
        return self.type == STRING

    @property
    def original(self) -> str:
        """Returns `seen` as the text of this row would be, to show a difference from it."""
        saw = self._saw() if self.seen else ""
        return saw if self.plain and isinstance(saw, str) else dumps(saw, indent=2) if self.seen else ""

    @property
    def changed(self) -> bool:
        """Tells whether the row holds something that a person typed or chose."""
        becomes_text = bool(self.seen) and self.plain and not isinstance(self._saw(), str)
        return self.operation != "set" or self.text != self.original or becomes_text

    @property
    def json(self) -> str:
        """Returns the text as JSON."""
        return dumps(self.text) if self.plain else self.text

    @property
    def may_be_empty(self) -> bool:
        """Tells whether an empty field is a value: the empty string, for a key that is there."""
        return self.plain and bool(self.seen)

    @property
    def may_be_string(self) -> bool:
        """Tells whether the text is not JSON and may be meant as a string."""
        return self.operation == "set" and not self.plain and self.text.strip()[:1] not in ("", *'[]{}"')

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
            return ABSENT if self.operation == "remove" else json.loads(self.json)
        except (ValueError, RecursionError):
            return self.text

    def entry(self) -> Entry:
        """Returns the edit that this row asks for. Raises Invalid."""
        seen = self._saw()
        if self.operation == "remove":
            return Entry(self.key, ABSENT, seen)
        if self.operation not in ("set", "null"):
            raise Invalid(_("There's no operation “%(name)s”.") % {"name": self.operation})
        return Entry(self.key, None if self.operation == "null" else self.typed(), seen)

    def typed(self) -> Any:
        """Returns the value in the field. Raises Invalid."""
        if self.plain:
            if self.text or self.may_be_empty:
                return self.text
            raise Invalid(_("A value is missing. For empty text, choose “string”."))
        if not self.text.strip():
            raise Invalid(_("A value is missing."))
        return loads(self.text)

    def _saw(self) -> Any:
        try:
            return json.loads(self.seen) if self.seen else ABSENT
        except (ValueError, RecursionError):
            return loads(self.seen)  # raises Invalid


def fits_page(key: str) -> bool:
    """Tells whether a browser sends a key back as it is."""
    return "\0" not in key and key.encode("utf-8", "replace").decode() == key


def named(keys: Iterable[str], state: State) -> list[str]:
    """Returns the keys that an address names: half of a surrogate pair stands there as a question mark."""
    meant = {key.encode("utf-8", "replace").decode(): key for key in state if not key.isascii()}
    return [key if key in state else meant.get(key, key) for key in dict.fromkeys(keys)]


def kept(value: Any) -> str:
    """Returns a value as `seen`: ASCII that any browser sends back unchanged, even NaN and half of a surrogate pair."""
    return json.dumps(value)


def new_row(key: str, state: Mapping[str, Any]) -> FormRow:
    """Returns a row for a key with its current value, or an empty row for a new key."""
    return asked_row(Entry(key, state[key], state[key])) if key in state else FormRow(key, "set", "", "")


def new_rows(keys: Collection[str], state: Mapping[str, Any]) -> list[FormRow]:
    """Returns a row for each key. Raises Invalid if there are more than MOST."""
    if len(keys) > MOST:
        raise too_many()
    return [new_row(key, state) for key in keys]


def asked_row(entry: Entry) -> FormRow:
    """Returns a row that is filled in with the entry's value, in the type that it has."""
    seen = "" if entry.seen is ABSENT else kept(entry.seen)
    if entry.value is ABSENT:
        return FormRow(entry.key, "remove", "", seen)
    if is_plain(entry.value):
        return FormRow(entry.key, "set", entry.value, seen, STRING)
    name = kind(entry.value)
    return FormRow(entry.key, "set", dumps(entry.value, indent=2), seen, JSON if name == STRING else type_named(name))


def type_named(name: str) -> str:
    """Returns the type of the switch for a JSON type: "json" for "array" and "object"."""
    return JSON if name in ("array", "object") else name


def is_plain(value: Any) -> bool:
    """Tells whether a value is a string that a text field of a browser sends back unchanged."""
    return isinstance(value, str) and fits_page(value) and "\r" not in value


def step_row(step: Step, *, compact: bool) -> FormRow:
    """Returns a row for a key that is put back. If somebody has written it since, the row asks which value to keep."""
    row = asked_row(step.entry)
    if compact:
        row.compact, row.text, row.type = True, row.json, ""
    if step.contested:
        row.conflict, row.current, row.wrote = True, step.now, step.wrote
    return row


def too_many() -> Invalid:
    """Returns the error of a form with too many keys."""
    return Invalid(_("An edit can have up to %(number)s keys.") % {"number": MOST})


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
        text, as_string = data.get(f"value-{number}", "").replace("\r\n", "\n"), data.get("as-string") == number
        rows.append(
            FormRow(
                _key(data, number),
                data.get(f"operation-{number}", "set"),
                text.strip() if as_string else text,
                data.get(f"seen-{number}", ""),
                STRING if as_string else data.get(f"type-{number}", ""),
                compact=number in compact,
                taken=number not in compact or f"take-{number}" in data,
            )
        )
    return rows


def _key(data: Mapping[str, str], number: str) -> str:
    try:
        return str(json.loads(data[f"escaped-{number}"]))
    except (KeyError, ValueError, RecursionError):
        return data.get(f"key-{number}", "")


class StateForm(Form):
    """A form with keys of state as rows: as it was opened, or as it was sent."""

    once = Text(widget=HiddenInput)
    reason = Text()

    def __init__(self, data: Mapping[str, Any] | None = None, *, rows: Iterable[FormRow] = (), **options: Any) -> None:
        options["initial"] = {"once": new_id(), **options.get("initial", {})}
        super().__init__(data, **options)
        self.rows = list(rows) if data is None else posted_rows(data)
        self.error = ""

    @property
    def asks_for_rows(self) -> bool:
        """Tells whether a button was pressed that adds a row, takes one away, or makes its text a string."""
        sent = self.data.get("new-key") or {"drop", "as-string"} & self.data.keys()
        return bool(sent) or self.data.get("action") == "add"

    @property
    def changed(self) -> bool:
        """Tells whether it holds something that a person typed or chose."""
        return bool(self.data.get("reason")) or any(row.changed for row in self.rows)

    def add_row(self, state: Mapping[str, Any]) -> None:
        """Adds a row for the key that was named, with its value in a state."""
        key = self.data.get("new-key", "")
        if key and any(row.key == key for row in self.rows):
            self.error = _("%(key)s is already in this edit.") % {"key": key}
        elif key and len(self.rows) == MOST:
            self.error = too_many().message
        elif key:
            self.rows.append(new_row(key, state))

    def entries(self) -> list[Entry] | None:
        """Returns the entries of the rows that are taken. If the form is not valid, it says why, and this returns None."""
        if not Form.is_valid(self):
            self.error = str(next(iter(self.errors.values()))[0])
            return None
        asked = []
        for row in self.rows:
            try:
                if row.taken:
                    asked.append(row.entry())
            except Invalid as error:
                row.error = error.message
        return None if any(row.error for row in self.rows) else asked


# --- What its keys have been: a warning, and values that were seen ----------------------------------------------------


class CheckForm(Form):
    """One key with the value that is being typed."""

    key = Text()
    operation = Text()
    value = Text()
    seen = Text()
    type = Text()

    @property
    def row(self) -> FormRow:
        """Returns the row that was sent."""
        key, operation, text, seen, kind = (self.data.get(name, "") for name in self.fields)
        return FormRow(key, operation or "set", text, seen, kind)


def note_habits(rows: Sequence[FormRow], ref: SessionRef, who: Actor) -> None:
    """Notes in each row of a form what is unusual about its value, if somebody changed it, and which strings were seen.

    A row that is still empty begins in the type that its key has been."""
    known = schemas_of(ref.source, ref.app_name, [row.key for row in rows], actor=who)
    for row in rows:
        schema = known.get(row.key)
        if schema is None or row.compact:
            continue
        row.options = schema.options
        if not row.type and not row.text:
            row.type = usual_type(schema)
        if row.changed and row.operation != "remove":
            try:
                value = None if row.operation == "null" else row.typed()
            except Invalid:  # the form says so itself
                continue
            row.misfits = misfits(row.key, schema, value)


def note_current(rows: Sequence[FormRow], views: Sequence[SessionView]) -> None:
    """Notes in each row the values that its key has in these sessions, the most frequent first, and the type that all of
    them have, if the row is still empty."""
    for row in rows:
        values = [view.state.get(row.key) for view in views]
        counted = Counter("" if value is ABSENT else kept(value) for value in values if value is not UNKNOWN)
        row.held = [(json.loads(text) if text else ABSENT, number) for text, number in counted.most_common(HELD)]
        if not row.type and not row.text:
            types = {kind(value) for value in values if value not in (ABSENT, UNKNOWN, None)}
            row.type = type_named(types.pop()) if len(types) == 1 else ""


def usual_type(schema: KeySchema) -> str:
    """Returns the type that a key has mostly been, as the form names it; null does not count, if there is another."""
    seen = {name: number for name, number in schema.types.items() if name != "null"}
    return type_named(max(seen, key=lambda name: seen[name])) if seen else ""
