"""Forks: copies a session, up to one of its events, into a new session, to try something else from there.

The copied events keep their ids (unique only within a session), order and times. Their origin is noted in
`custom_metadata.adkweb_origin`, beside adkweb's note: within the note, it would make every event an edit. Their `user:`
and `app:` keys move from the delta into `adkweb_origin.delta`: the fork did not write them, and a replay of all
sessions must count them once. The fork's own state is that of the moment, and its initial state that of the first
session, so that its events agree with what is stored. Values that were never recorded are left out. User and app state
is shared with the fork, and not changed.

The last event of a fork is an edit that names its origin, the event, who wanted it and why:
`custom_metadata.adkweb.forked`. Its id is computed from the fork's names, and the index of history/ leads from a
session to its forks, so the tree is found by key. Export and import carry it like any event. A fork of the fork gets no
copy of it, because it is about that session only, and because a fork that reuses a name would have two events with the
same id."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from ..access.actor import SYSTEM as MACHINE
from ..access.actor import Actor
from ..domain.edit_note import EDIT_PREFIX, ORIGIN, SYSTEM, edit_of
from ..domain.errors import AlreadyExists, Conflict, Error, Invalid, NotFound
from ..domain.event import ID_LENGTH, check_event, delta_of
from ..domain.json_values import as_object, check_name
from ..domain.positions import NO_SEQ, Seq
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, UNKNOWN, State, scope_of
from ..history import moments
from ..models import Event as EventRow
from ..reads import timeline, whole_session
from ..reads import views as reads_views
from ..reads.event_views import EventView, events_of, view_of
from ..sources import database
from ..writes.copies import ImportedEvent, ImportedSession, import_session
from ..writes.incomplete import is_untouched
from ..writes.sessions import delete_session
from . import edit as edits
from .fork_tree import note_id, note_in


def fork(
    ref: SessionRef,
    event_id: str,
    *,
    user_id: str,
    session_id: str,
    actor: Actor,
    reason: str = "",
    told: Callable[[int, int], None] = lambda copied, total: None,
) -> SessionRef:
    """Copies a session, up to and including an event, into a new session of a user. Resumes a fork that was
    interrupted.

    Calls `told` after each page with the number of events copied and their total. Raises AlreadyExists (also for an
    incomplete fork that can't continue because someone wrote to it), Conflict, Invalid, NotFound, NotAllowed, Behind,
    SourceError."""
    into = ref._replace(user_id=user_id, session_id=session_id)
    prepare(ref, event_id, into, actor, reason).run(actor, told)
    return into


@dataclass(frozen=True, slots=True)
class End:
    """Another end than the origin has: `events` that follow the copied ones, and the session's own state after them. If it
    `replaces` the event of the fork, that isn't copied, either."""

    events: Sequence[Mapping[str, Any]]
    state: State
    replaces: bool


def prepare(
    ref: SessionRef, event_id: str, into: SessionRef, actor: Actor, reason: str, end: End | None = None
) -> "Copying":
    """Finds what there is to copy, and checks that it can be copied. Writes nothing. Raises what `fork` does."""
    actor.check_may("admin", ref.source, ref.app_name)
    return Copying(ref, into, timeline.event(ref, event_id, actor=actor), edits.note([], actor, reason), end)


def count(ref: SessionRef, event_id: str, into: SessionRef, actor: Actor) -> tuple[int, int]:
    """Returns the number of events that a fork has now, and will have. Raises NotFound, SourceError."""
    event = timeline.event(ref, event_id, actor=actor)
    left_out = _notes(ref, into)
    with database.using(ref.source):
        return events_of(into).count(), _to_copy(ref, event.seq, left_out).count()


def take_away(into: SessionRef, actor: Actor) -> None:
    """Deletes an incomplete fork that can never be completed because its origin was deleted. Keeps it if someone wrote
    to it."""
    with suppress(Error):
        half = reads_views.session(into, actor=actor)
        with database.using(into.source):
            newest = [view_of(into, row, MACHINE) for row in events_of(into).order_by("-seq")[:1]]
        ours = [view for view in newest if ORIGIN in as_object(view.data.get("custom_metadata"))]
        if is_untouched(half.state.session) and ours:
            delete_session(into, actor=actor, revision=half.revision)


def name(ref: SessionRef, user_id: str, session_id: str, once: str) -> SessionRef:
    """Returns the ref of a fork. Without a chosen session id, it is a UUID, the same one for the same form. Raises
    Invalid."""
    made = edits.id_of(once, ["fork", *ref, user_id])
    return ref._replace(
        user_id=check_name(user_id, _("the user's id"), ID_LENGTH) or _raise_nameless(),
        session_id=check_name(session_id.strip() or made, _("the session's id"), ID_LENGTH),
    )


def _raise_nameless() -> str:
    raise Invalid(_("Enter a user for the session."), field="user_id")


class Copying:
    """A fork in progress: its origin, how much of it exists, and its final row."""

    def __init__(
        self, ref: SessionRef, into: SessionRef, event: EventView, who: dict[str, Any], end: End | None = None
    ) -> None:
        self.ref, self.into, self.event, self._end = ref, into, event, end
        state = moments.state_at(ref, event.id, actor=MACHINE).state.session
        whole = whole_session.stream(ref, actor=MACHINE)
        if whole is None:
            raise NotFound(_("There's no session “%(id)s”.") % {"id": ref.session_id})
        self._pages = whole[1]
        self._left_out = _notes(ref, into)
        with database.using(ref.source):
            self.total = _to_copy(ref, event.seq, self._left_out).count() - (end is not None and end.replaces)
            first = events_of(ref).order_by("seq").values_list("id", flat=True).first() or event.id
        before = moments.state_at(ref, first, before=True, actor=MACHINE).state.session
        # Removes unknown values from the copied events, so that the fork does not start with drift.
        state |= moments.written(ref, event, [name for name, value in state.items() if value is UNKNOWN], actor=MACHINE)
        state = state if end is None else dict(end.state)
        now = time.time()
        self._note = self._noted(who, now)
        self._session = ImportedSession(into, now, now, json.dumps(_known(state)), json.dumps(_known(before)), True)
        self.copied, self._after = self._there()

    def _noted(self, who: dict[str, Any], now: float) -> ImportedEvent:
        """Returns the event that names the fork's origin."""
        event_id = note_id(self.into)
        origin = {
            "user": self.ref.user_id,
            "session": self.ref.session_id,
            "event": self.event.id,
            "seq": self.event.seq,
        }
        event = check_event(
            {
                "id": event_id,
                "invocation_id": EDIT_PREFIX + event_id,
                "author": SYSTEM,
                "timestamp": now,
                "custom_metadata": {"adkweb": {"forked": origin, **who}},
            }
        )
        return ImportedEvent(event_id, event["invocation_id"], now, json.dumps(event))

    def run(self, actor: Actor, told: Callable[[int, int], None] = lambda copied, total: None) -> None:
        """Copies what has not been copied yet."""
        copied, after = self.copied, self._after
        try:
            for rows, last in self._batches(copied):
                import_session(self._session, rows, actor=actor, after=after, last=last)
                copied, after = copied + len(rows), rows[-1].id
                told(min(copied, self.total), self.total)
        except Conflict:
            self._there()  # explains more precisely why this fork can't continue
            raise
        except (NotFound, Invalid):
            take_away(self.into, actor)
            raise

    def _there(self) -> tuple[int, str | None]:
        """Returns how many events have been copied, and the id of the last one; None as the id if the fork does not
        exist yet."""
        try:
            there = reads_views.session(self.into, actor=MACHINE)
        except NotFound:
            return 0, None
        if not there.is_incomplete:
            words = _("There's already a session “%(id)s”.")
            raise AlreadyExists(words % {"id": self.into.session_id}, field="session_id")
        words = _(
            "The session “%(id)s” is incomplete, and someone else has written to it. Delete it, or choose another id."
        )
        taken = AlreadyExists(words % {"id": self.into.session_id}, field="session_id")
        if not is_untouched(there.state.session):
            raise taken
        with database.using(self.into.source):
            copied = list(events_of(self.into).order_by("-seq").values_list("id", flat=True)[:1])
            number = events_of(self.into).count()
            at = events_of(self.ref).filter(id__in=copied).values_list("seq", flat=True).first() or NO_SEQ
            if number and (not at or _to_copy(self.ref, at, self._left_out).count() != number):
                raise taken
        return number, copied[0] if copied else ""

    def _batches(self, copied: int) -> Iterator[tuple[list[ImportedEvent], bool]]:
        """Yields the events that have not been copied yet, and at the end the note."""
        passed = 0
        for page in self._pages:
            wanted = [row for row in page if row.seq is not None and row.seq <= (self.event.seq or 0)]
            if self._end and self._end.replaces:
                wanted = [row for row in wanted if row.id != self.event.id]
            rows = [_copied(self.ref, row, self.into) for row in wanted if row.id not in self._left_out]
            passed += len(rows)
            new = rows[len(rows) - max(0, passed - copied) :] if passed > copied else []
            if passed >= self.total:
                yield [*new, *self._more(), self._note], True
                return
            if new:
                yield new, False
        raise NotFound(_("Some of this session's events were deleted while they were being copied."))

    def _more(self) -> Iterator[ImportedEvent]:
        for event in self._end.events if self._end else ():
            moved = _moved(self.ref, dict(event), {}, self.into)
            yield ImportedEvent(event["id"], event["invocation_id"], event["timestamp"], json.dumps(moved))


def _notes(ref: SessionRef, into: SessionRef) -> list[str]:
    """Returns the ids of the events that are not copied into a fork:

    the note of the session's own origin, and a note with the id of the new fork's note, which an imported session may
    have. Raises Conflict if the event with that id is not a note."""
    notes = []
    for event_id in {note_id(ref), note_id(into)}:
        with suppress(NotFound):
            event = timeline.event(ref, event_id, actor=MACHINE).data
            bare = not event.get("content") and not any(as_object(event.get("actions")).values())
            if bare and note_in(ref, event, MACHINE):
                notes.append(event_id)
            elif event_id == note_id(into):
                raise Conflict(
                    _("%(id)s: an event already has this id. Choose a different one.") % {"id": into.session_id}
                )
    return notes


def _to_copy(ref: SessionRef, upto: Seq | None, left_out: list[str]) -> QuerySet[EventRow]:
    return events_of(ref).filter(seq__lte=upto).exclude(id__in=left_out)


def _known(state: State) -> State:
    return {name: value for name, value in state.items() if value is not UNKNOWN}


def _copied(ref: SessionRef, row: whole_session.StoredEvent, into: SessionRef) -> ImportedEvent:
    """Returns an event as the fork has it. A fork for another user gets it without the values of `user:` keys."""
    try:
        event = as_object(json.loads(row.text))
    except (ValueError, RecursionError) as error:
        words = _("Event %(id)s can't be copied: the stored JSON can't be read.")
        raise Invalid(words % {"id": row.id}) from error
    own = {"user": ref.user_id, "session": ref.session_id, "event": row.id, "seq": row.seq}
    return ImportedEvent(row.id, row.invocation_id, row.timestamp, json.dumps(_moved(ref, event, own, into)))


def _moved(ref: SessionRef, event: dict[str, Any], own: dict[str, Any], into: SessionRef) -> dict[str, Any]:
    """Returns an event with its `user:` and `app:` keys in the note of its origin, `own` if it has none yet."""
    metadata = as_object(event.get("custom_metadata"))
    origin = as_object(metadata.get(ORIGIN)) or own
    delta = delta_of(event)
    if shared := {name: value for name, value in delta.items() if scope_of(name)[0] != "session"}:
        own = {name: value for name, value in delta.items() if name not in shared}
        event["actions"] = {**event["actions"], "state_delta": own}
        origin = {**origin, "delta": {**as_object(origin.get("delta")), **shared}}
    if into.user_id != ref.user_id:
        if "delta" in origin:
            origin = {**origin, "delta": _without_users(origin["delta"])}
        if edit := edit_of(event):
            metadata = {**metadata, "adkweb": {**edit, "replaced": _without_users(edit.get("replaced"))}}
    event["custom_metadata"] = {**metadata, ORIGIN: origin}
    return event


def _without_users(delta: Any) -> State:
    return {name: value for name, value in as_object(delta).items() if scope_of(name)[0] != "user"}


# --- The values with which it starts, where they are others than those of the moment ----------------------------------

# They are checked before the fork is created, and written as one edit, the fork's first own event. Only the session's
# own keys can change: `user:` and `app:` state is shared, and a change would reach the original session.

Values = Mapping[str, Any]  # by key; ABSENT removes a key


def check_values(values: Values, actor: Actor, reason: str) -> None:
    """Raises Invalid if a fork cannot start with these values."""
    for key in values:
        if scope_of(key)[0] != "session":
            raise Invalid(
                _(
                    "%(key)s: a fork can only start with different values for its own keys. User and app state is "
                    "shared."
                )
                % {"key": key}
            )
    if values:
        before = [edits.Entry(key, value, None if value is ABSENT else ABSENT) for key, value in values.items()]
        edits.state_event(before, actor, reason)


def write_values(into: SessionRef, values: Values, actor: Actor, reason: str) -> None:
    """Writes the values into a fork that was created; once, however often it is called. Raises what `edit_state`
    does."""
    if values:
        entries = [edits.Entry(key, value, UNKNOWN) for key, value in values.items()]
        edits.overwrite_state(into, entries, actor=actor, reason=reason, once=note_id(into))


def values_as_json(values: Values) -> list[list[Any]]:
    """Returns the values as JSON can hold them: [["step", "pay"], ["note"]], where `note` is removed."""
    return [[key] if value is ABSENT else [key, value] for key, value in values.items()]


def values_from_json(stored: list[list[Any]]) -> Values:
    """Returns the values that `values_as_json` returned."""
    return {key: value[0] if value else ABSENT for key, *value in stored}
