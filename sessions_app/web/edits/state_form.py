"""The form that edits state: several keys, each with the value that the person saw."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any, Final, Literal

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.formats import number_format
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from ...access.actor import Actor
from ...domain.errors import Invalid
from ...domain.json_values import KEY_LENGTH, dumps, kind, loads
from ...domain.key_schema import KeySchema, misfits
from ...domain.session_ref import SessionRef
from ...domain.state import ABSENT, UNKNOWN, Scope, State, scope_of
from ...edits import expiry
from ...edits.edit import Entry
from ...edits.undo import Step
from ...reads import lists, timeline
from ...reads.deltas import Writer
from ...reads.views import SessionView
from ...search.schemas import schemas_of
from ...search.selecting import query_of
from ...search.sharing import Active, Sharing, sharing
from ..html.render import page
from ..html.state_panel import Target
from ..request import actor
from ..search.params import zone_of

Operation = Literal["set", "null", "remove"]

STRING, JSON = "string", "json"  # two of the types of the switch; the others are "number", "boolean" and "null"

OFFERED: Final = 1_000  # other keys whose names are offered
MOST: Final = 800  # keys of one form: six fields each are as many as a request may have


@dataclass(slots=True)
class FormRow:
    """A key of the form. `seen` is JSON, or empty if the key did not exist when the form was opened.

    `type` is one of the switch, or empty if it is not known. Of a string, `text` is the value itself; otherwise, it is JSON.
    A `compact` row has no editor: it is `taken` or not. `wrote` is the value that the event to be undone had set.
    `misfits` and `options` are what habits.py says."""

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
            raise Invalid(_("There is no operation “%(name)s”.") % {"name": self.operation})
        return Entry(self.key, None if self.operation == "null" else self.typed(), seen)

    def typed(self) -> Any:
        """Returns the value in the field. Raises Invalid."""
        if self.plain:
            if self.text or self.may_be_empty:
                return self.text
            raise Invalid(_("A value is missing. For an empty text, choose “string”."))
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


def entries(rows: Iterable[FormRow]) -> list[Entry] | None:
    """Returns the entries of the rows that are taken. If a row is not valid, notes the error in it and returns None."""
    asked = []
    for row in rows:
        if not row.taken:
            continue
        try:
            asked.append(row.entry())
        except Invalid as error:
            row.error = error.message
    return None if any(row.error for row in rows) else asked


# --- What its note says: what it takes back, and when it ends --------------------------------------------------------


TAKING_BACK: Final = ("undoes", "restores")  # what an edit may come from, in its note and in the form
LASTS: Final = (900, 3600, 4 * 3600, 86400, 7 * 86400)  # seconds; offered in the form
STAYS, AT = "stays", "until"  # what else the form offers: no end, or a time that is typed


def taken_back(request: HttpRequest) -> dict[str, str]:
    """Reads what the edit undoes or restores."""
    return {name: request.POST[name] for name in TAKING_BACK if request.POST.get(name)}


def end_of(request: HttpRequest) -> dict[str, float]:
    """Reads when the edit ends: after seconds, or at a time in the reader's zone. Raises Invalid."""
    chosen = request.POST.get("lasts", STAYS)
    try:
        if chosen == AT:
            typed = datetime.fromisoformat(request.POST.get("until", ""))
            typed = typed if typed.tzinfo else typed.replace(tzinfo=zone_of(request))
            return {"until": typed.timestamp()}
        return {} if chosen in ("", STAYS) else {"lasts": float(int(chosen))}
    except (ValueError, OverflowError):
        raise Invalid(_("Choose when this edit ends.")) from None


def note_of(request: HttpRequest, target: Target) -> dict[str, Any]:
    """Reads what the note says beside who and why: an event that exists, a time to come. Raises Invalid, NotFound."""
    of = taken_back(request) if target.kind == "session" else {}
    if len(of) > 1:
        raise Invalid(_("An edit undoes an event or restores a moment, not both."))
    for event_id in of.values():
        timeline.event(target.ref, event_id, actor=actor(request))
    ends = end_of(request)
    expiry.resolved(ends)
    return {**of, **ends}


def typed_end(request: HttpRequest, of: dict[str, Any]) -> dict[str, Any]:
    """Returns what the fields for the end hold: what was sent, or what a queued edit says."""
    lasts, until = request.POST.get("lasts", ""), request.POST.get("until", "")
    if "lasts" in of:
        lasts = str(int(of["lasts"]))
    elif AT in of:
        lasts, until = AT, datetime.fromtimestamp(of[AT], zone_of(request)).strftime("%Y-%m-%dT%H:%M")
    return {"lasts": lasts, "until": until, "offered_ends": [(str(each), each) for each in LASTS]}


# --- What its keys have been: a warning, and values that were seen ----------------------------------------------------


@require_POST
def check(request: HttpRequest, source: str, app_name: str) -> HttpResponse:
    """Says what is unusual about the value of one key, while it is typed."""
    given = request.POST
    key, text, seen, type_ = (given.get(name, "") for name in ("key", "value", "seen", "type"))
    row = FormRow(key, given.get("operation", "set"), text, seen, type_)
    note_habits([row], SessionRef(source, app_name, "", ""), actor(request))
    return page(request, "edits/edit/_misfits.html", {"row": row})


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


def note_types(rows: Sequence[FormRow], views: Sequence[SessionView]) -> None:
    """Notes in each row that is still empty the type that its key has in all of these sessions, if it is one."""
    for row in rows:
        if not row.type and not row.text:
            values = [view.state.get(row.key) for view in views]
            types = {kind(value) for value in values if value not in (ABSENT, UNKNOWN, None)}
            row.type = type_named(types.pop()) if len(types) == 1 else ""


def usual_type(schema: KeySchema) -> str:
    """Returns the type that a key has mostly been, as the form names it; null does not count, if there is another."""
    seen = {name: number for name, number in schema.types.items() if name != "null"}
    return type_named(max(seen, key=lambda name: seen[name])) if seen else ""


# --- Whom an edit of shared state reaches -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reach:
    """The sessions that an edit of a scope reaches, how many they are in words, and the address that lists them. `named` are
    some of those that run or wait, each with what it is called."""

    sharing: Sharing
    words: str
    address: str
    named: list[tuple[Active, str]]


def reached(target: Target, scopes: Iterable[Scope], who: Actor) -> list[Reach]:
    """Returns what an edit reaches that has keys of these scopes, or is one of an app's or a user's state."""
    wanted = {*scopes, target.kind}
    return [_reach(target, scope, who) for scope in ("user", "app") if scope in wanted]


def _reach(target: Target, scope: Scope, who: Actor) -> Reach:
    query = query_of(target.ref.source, target.ref.app_name, target.ref.user_id if scope == "user" else "", actor=who)
    address = f"{reverse('search')}?{urlencode({'q': query.encode('utf-8', 'replace')})}"
    told = sharing(target.ref, scope, actor=who)
    titles = lists.titles([each.ref for each in told.named], actor=who)
    return Reach(told, _words(scope, told), address, [(each, titles[each.ref]) for each in told.named])


def _words(scope: Scope, told: Sharing) -> str:
    if scope == "user" and told.more:
        words = _("More than %(n)s sessions share this user's state.")
    elif told.more:
        words = _("More than %(n)s sessions share this app's state.")
    elif scope == "user":
        words = ngettext(
            "%(n)s session shares this user's state.", "%(n)s sessions share this user's state.", told.sessions
        )
    else:
        words = ngettext(
            "%(n)s session shares this app's state.", "%(n)s sessions share this app's state.", told.sessions
        )
    return words % {"n": number_format(told.sessions, force_grouping=True)}
