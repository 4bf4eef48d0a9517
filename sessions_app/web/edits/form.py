"""The form that edits the state of a session, an app or a user: what it shows, and what it does.

form = EditForm(target=target, person=maria, zone=zone, rows=new_rows(["user:tier"], target.state))
form = EditForm.of(request, target=target, person=maria, zone=zone)
written = form.apply()                            # or None: then the form says why
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import cached_property
from typing import Any, Final, TypeVar

from django.contrib.auth.models import AbstractBaseUser
from django.forms import HiddenInput
from django.urls import reverse
from django.utils.formats import number_format
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ...access import approval, roles
from ...access.actor import Actor
from ...domain.errors import Conflict, Error, Held, Invalid
from ...domain.invocations import Running
from ...domain.json_values import dumps
from ...domain.positions import Seq
from ...domain.state import ABSENT, UNKNOWN, Scope, same
from ...edits import edit, expiry, queue
from ...edits.edit import Entry
from ...edits.queue import Queued
from ...http.problems import status_of
from ...reads import lists, timeline
from ...reads.deltas import last_writer
from ...reads.event_views import EventView
from ...search import outline
from ...search.selecting import query_of
from ...search.sharing import Active, Sharing, sharing
from ...sources.errors import best_effort, shown
from ...writes.append import Appended
from ...writes.incomplete import is_incomplete
from ..forms import Form, Text
from ..html.state_panel import Target
from .rows import StateForm, kept, note_habits, other_keys

T = TypeVar("T")

TAKING_BACK: Final = ("undoes", "restores")  # what an edit may come from, in its note and in the form
LASTS: Final = (900, 3600, 4 * 3600, 86400, 7 * 86400)  # seconds; offered in the form
STAYS, AT = "stays", "until"  # what else the form offers: no end, or a time that is typed


class EndForm(Form):
    """When an edit takes itself back: after some seconds, at a time in the reader's zone, or never."""

    lasts = Text()
    until = Text(attrs={"type": "datetime-local"})
    offered_ends: Final = [(str(each), each) for each in LASTS]

    def __init__(self, data: Mapping[str, Any] | None = None, *, zone: tzinfo, **options: Any) -> None:
        super().__init__(data, **options)
        self._zone = zone

    @property
    def end(self) -> dict[str, float]:
        """Reads when the edit ends; {} if it stays. Raises Invalid."""
        chosen = self.data.get("lasts", STAYS)
        try:
            if chosen == AT:
                typed = datetime.fromisoformat(self.data.get("until", ""))
                typed = typed if typed.tzinfo else typed.replace(tzinfo=self._zone)
                return {"until": typed.timestamp()}
            return {} if chosen in ("", STAYS) else {"lasts": float(int(chosen))}
        except (ValueError, OverflowError):
            raise Invalid(_("Choose when this edit expires.")) from None


class EditForm(StateForm, EndForm):
    """The form of one edit. `of` is what the edit comes from and when it ends, as its note has it (`edit.edit_state`).

    Of an undo or a restore, the keys in `unknown` stay as they are, because nobody knows their value then; `more` keys do
    not fit. `status` is the one of the answer, and `preview` the event as it would be written.
    """

    queued = Text(widget=HiddenInput)
    undoes = Text(widget=HiddenInput)
    restores = Text(widget=HiddenInput)

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        target: Target,
        person: AbstractBaseUser,
        zone: tzinfo,
        of: Mapping[str, Any] | None = None,
        initial: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        of = of or {}
        given = {name: of[name] for name in TAKING_BACK if name in of} | dict(initial or {})
        if "lasts" in of:
            given["lasts"] = str(int(of["lasts"]))
        elif AT in of:
            given |= {"lasts": AT, "until": datetime.fromtimestamp(of[AT], zone).strftime("%Y-%m-%dT%H:%M")}
        super().__init__(data, zone=zone, initial=given, **options)
        self.target = target
        self.unknown: Sequence[str] = ()
        self.more = 0
        self.status, self.preview = 200, ""
        self.action = self.data.get("action", "apply")
        self._person, self._who = person, roles.actor_of(person)

    # --- What it does ---

    @property
    def keeps_theirs(self) -> bool:
        """Tells whether it writes nothing, because in each conflict the value of the other was chosen."""
        return not self.rows and any(v == "theirs" for name, v in self.data.items() if name.startswith("choice-"))

    def apply(self) -> Appended | None:
        """Writes the edit. Returns None if it was refused, or would end an invocation: then the form offers a choice."""
        if self.action == "apply" and self.entries() is not None and self.held:
            self.status = 409
            return None
        return self._dismissed(self._send(self.target.apply))

    def queue(self) -> tuple[Queued, Queued] | None:
        """Queues the edit, and applies it at once if nothing runs any more. Returns it as it was queued, and as it is then;
        None if it was refused."""

        def queue_edit(entries: Sequence[Entry], _who: Actor, reason: str, once: str, of: Mapping[str, Any]) -> Queued:
            return queue.queue_edit(self.target.ref, entries, person=self._person, reason=reason, once=once, of=of)

        queued = self._dismissed(self._send(queue_edit))
        if queued is None:
            return None
        queue.apply_due([self.target.ref])
        return queued, queue.get(queued.id, actor=self._who)

    def look(self) -> None:
        """Shows the event as it would be written."""

        def text(entries: Sequence[Entry], who: Actor, reason: str, _once: str, of: Mapping[str, Any]) -> str:
            only = None if self.target.kind == "session" else self.target.kind
            return dumps(edit.state_event(entries, who, reason, only, of=of)[0], indent=2)

        self.preview = self._send(text) or ""

    def note_conflicts(self, entries: Iterable[Entry], current: Mapping[str, Any]) -> None:
        """Notes in the rows what was written meanwhile. Sent again, the form is compared with these values."""
        for row, entry in zip((row for row in self.rows if row.taken), entries, strict=True):
            now = current.get(row.key, ABSENT)
            row.conflict = not same(now, entry.seen)
            if row.conflict:
                row.current, row.writer = now, last_writer(self.target.ref, row.key, actor=self._who)
                row.seen = "" if now is ABSENT else kept(now)

    def _send(self, do: Callable[[Sequence[Entry], Actor, str, str, Mapping[str, Any]], T]) -> T | None:
        """Does something with the edit. What is refused comes back in the form, filled in. Raises Held."""
        entries = self.entries()
        if entries is None:
            self.status = 400
            return None
        try:
            return do(entries, self._who, self.cleaned_data["reason"], self.cleaned_data["once"], self._note())
        except Held:
            raise
        except Error as error:
            self.error, self.status = shown(error, self._who), status_of(error)
            if isinstance(error, Conflict) and "current" in error.detail:
                self.note_conflicts(entries, error.detail["current"])
        return None

    def _note(self) -> dict[str, Any]:
        """Returns what the note says beside who and why: an event that exists, a time to come. Raises Invalid, NotFound."""
        of = self.taken_back if self.target.kind == "session" else {}
        if len(of) > 1:
            raise Invalid(_("An edit can undo an event or restore a moment, but not both."))
        for event_id in of.values():
            timeline.event(self.target.ref, event_id, actor=self._who)
        end = self.end
        expiry.resolved(end)
        return {**of, **end}

    def _dismissed(self, written: T | None) -> T | None:
        """Once it is written, dismisses the queued edit that it was opened from."""
        if written is not None and self.cleaned_data["queued"]:
            with best_effort("the end of a queued edit"):  # or somebody has dealt with its outcome already
                queue.dismiss(self.cleaned_data["queued"], self._person)
        return written

    # --- What it shows beside its rows ---

    @cached_property
    def taken_back(self) -> dict[str, str]:
        """Returns the event that it undoes or restores, by which of the two."""
        return {name: event_id for name in TAKING_BACK if (event_id := self[name].value())}

    @cached_property
    def past(self) -> EventView | None:
        """Returns the event that it undoes or restores."""
        with suppress(Error):  # it may be gone; sending the form reports that
            return next((timeline.event(self.target.ref, id, actor=self._who) for id in self.taken_back.values()), None)
        return None

    @cached_property
    def numbers(self) -> Mapping[Seq, int]:
        """Returns the number of that event in its session."""
        with suppress(Error):
            return outline.numbers_of(self.target.ref, [self.past.seq if self.past else None], actor=self._who)
        return {}

    @cached_property
    def held(self) -> Running | None:
        """Returns the invocation that applying now would end. None for an app or a user: no agent runs in adkweb's own
        sessions."""
        with suppress(Error):  # the form comes back filled in, whatever happened
            return queue.held(self.target.ref, actor=self._who) if self.target.kind == "session" else None
        return None

    @property
    def is_incomplete(self) -> bool:
        """Tells whether the session is being copied or imported."""
        return is_incomplete(self.target.state)

    @property
    def second(self) -> list[str]:
        """Returns the keys that need a second person."""
        return approval.held_keys(*self.target.ref[:2], [row.key for row in self.rows])

    @property
    def changed(self) -> bool:
        """Tells whether it holds something that a person typed or chose, beside what it was opened with."""
        return not self.taken_back and super().changed

    @property
    def conflict(self) -> bool:
        """Tells whether a choice is open in one of the rows."""
        return any(row.conflict for row in self.rows)

    @property
    def compact(self) -> int:
        """Returns how many rows have no editor."""
        return sum(row.compact for row in self.rows)

    @property
    def other_keys(self) -> list[str]:
        """Returns the keys that are offered beside those of the form."""
        return other_keys(self.target.state, self.rows)

    @property
    def reached(self) -> "list[Reach]":
        """Returns the sessions that share state with this edit."""
        wanted = {*(row.scope for row in self.rows), self.target.kind}
        return [_reach(self.target, scope, self._who) for scope in ("user", "app") if scope in wanted]

    def note_rows(self) -> None:
        """Notes in the rows what is unusual about their values, and what the event that is undone had written."""
        note_habits(self.rows, self.target.ref, self._who)
        for row in self.rows:
            if row.conflict and self.past and "undoes" in self.taken_back:
                wrote = self.past.description
                row.wrote = ABSENT if row.key in wrote.removed else wrote.delta.get(row.key, UNKNOWN)


@dataclass(frozen=True, slots=True)
class Reach:
    """The sessions that an edit of a scope reaches, how many they are in words, and the address that lists them. `named` are
    some of those that run or wait, each with what it is called."""

    sharing: Sharing
    words: str
    address: str
    named: list[tuple[Active, str]]


def _reach(target: Target, scope: Scope, who: Actor) -> Reach:
    query = query_of(target.ref.source, target.ref.app_name, target.ref.user_id if scope == "user" else "", actor=who)
    address = f"{reverse('search')}?{urlencode({'q': query.encode('utf-8', 'replace')})}"
    shared = sharing(target.ref, scope, actor=who)
    titles = lists.titles([each.ref for each in shared.named], actor=who)
    return Reach(shared, _words(scope, shared), address, [(each, titles[each.ref]) for each in shared.named])


def _words(scope: Scope, shared: Sharing) -> str:
    if scope == "user" and shared.more:
        words = _("More than %(n)s sessions share this user's state.")
    elif shared.more:
        words = _("More than %(n)s sessions share this app's state.")
    elif scope == "user":
        words = ngettext(
            "%(n)s session shares this user's state.", "%(n)s sessions share this user's state.", shared.sessions
        )
    else:
        words = ngettext(
            "%(n)s session shares this app's state.", "%(n)s sessions share this app's state.", shared.sessions
        )
    return words % {"n": number_format(shared.sessions, force_grouping=True)}
