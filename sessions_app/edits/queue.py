"""Edits that wait until no invocation runs in their session, because an append from outside would end it.

A queued edit is a row of adkweb's own, so it survives every restart. Any process may apply it (`apply_due`), and exactly
one does: it claims the row for LEASE_SECONDS by one UPDATE. The id of the event that the edit becomes is fixed when it is
queued, so where a process dies between writing the event and noting so, the next one finds the event and writes no other.
"""

import json
import logging
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import ValidationError
from django.db.models import Q
from django.utils import translation
from django.utils.translation import gettext as _

from .. import broadcast
from ..access.actor import actor_of, of_person
from ..domain.edit_note import EDIT_PREFIX, edit_of, ended_by
from ..domain.event import ID_LENGTH, Event
from ..domain.invocations import Running
from ..domain.json_values import check_name
from ..domain.positions import Seq
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, Change, same
from ..errors import Conflict, Error, NotAllowed, NotFound, SourceError, StaleSession
from ..models import QueuedEdit
from ..reads import timeline
from ..reads import views as reads_views
from ..reads.event_views import events_of, ordered, views
from ..sources import database, registry
from . import edit as edits
from .edit import Entry

log = logging.getLogger("adkweb.queued")

WAITING, APPLIED, CONFLICT, WITHDRAWN, FAILED = "waiting", "applied", "conflict", "withdrawn", "failed"
LEASE_SECONDS: Final = 30.0
_SHOWN: Final = 50  # of one session, or of one person
_EDITS: Final = 20  # that may follow an invocation's last event
_KEPT_SECONDS: Final = 30 * 86400.0  # an edit of which its author knows what became of it
_IN_DOUBT: Final = 0.0  # a claim that has ended, while nobody could say whether the event was written


@dataclass(frozen=True, slots=True)
class Queued:
    """A queued edit: what is to change, who wants it and why, and what became of it.

    `state` is waiting, applied, conflict, withdrawn or failed; `key` is None while its source is not among adkweb's;
    `author_id` is None where whoever queued it cannot sign in any more;
    `message` says why it failed or who withdrew it; `changed` are the keys that were in the way of a conflict.
    """

    id: uuid.UUID
    ref: SessionRef | None
    entries: list[Entry]
    of: dict[str, str]  # as in edits.edit_state
    author_id: int | None
    actor: str
    reason: str
    created: float
    state: str
    message: str
    finished: float | None
    event_id: str
    seq: Seq | None
    changed: list[str]

    @property
    def changed_keys(self) -> str:
        """The keys that were in the way, in one text."""
        return ", ".join(self.changed)

    @property
    def changes(self) -> list[Change]:
        """What the person saw, and what is to be."""
        return [Change(entry.key, entry.seen, entry.value) for entry in self.entries]


def held(ref: SessionRef) -> Running | None:
    """The invocation that a write from outside would end now; None where none runs, or it waits for a person."""
    found = timeline.in_flight(ref)
    return None if found is None or found.waiting else found


def queue_edit(
    ref: SessionRef,
    entries: Sequence[Entry],
    *,
    person: AbstractBaseUser,
    reason: str = "",
    once: str = "",
    of: Mapping[str, str] | None = None,
) -> Queued:
    """Keeps an edit until its session is idle; nothing is written to the session before `apply_due` does.

    The same edit sent again with the same `once`, a token of the form that asks, is kept once. Raises what `edit_state`
    would raise if it were applied now: Invalid, NotFound, NotAllowed, Conflict, SourceError.
    """
    actor = actor_of(person)
    actor.check_may_write()
    event, seen = edits.state_event(entries, actor, reason, once=once, of=of)
    state = reads_views.session(ref).state
    names = [check_name(name, _("a name"), ID_LENGTH) for name in ref[1:]]
    where = registry.identity(ref.source)
    row_id = uuid.uuid5(uuid.NAMESPACE_OID, ascii([person.pk, where, *names, event["id"]]))
    row = QueuedEdit.objects.filter(pk=row_id).first()
    if row is None:
        current = {name: state.get(name) for name in seen}
        if not all(same(current[name], value) for name, value in seen.items()):
            raise Conflict(current=current)
        now = time.time()
        QueuedEdit.objects.filter(told=True, finished__lt=now - _KEPT_SECONDS).delete()
        row, _created = QueuedEdit.objects.get_or_create(
            id=row_id,
            defaults={
                "where": where,
                "app_name": ref.app_name,
                "user_id": ref.user_id,
                "session_id": ref.session_id,
                "entries": _dump([entry for entry in entries if entry.key in seen]),
                "of": json.dumps(dict(of)) if of else "",
                "actor": actor.name,
                "person_id": person.pk,
                "reason": edit_of(event)["reason"],
                "event_id": event["id"],
                "created": now,
            },
        )
        broadcast.tell("queued", ref)
    return _view(row)


def get(queued_id: uuid.UUID | str) -> Queued:
    """One queued edit, whatever became of it; raises NotFound."""
    return _view(_row(queued_id))


def of_session(ref: SessionRef) -> list[Queued]:
    """A session's edits that wait, and those of which their authors do not know yet what became; newest first."""
    rows = QueuedEdit.objects.filter(
        Q(state=WAITING) | Q(told=False),
        where=registry.identity(ref.source),
        app_name=ref.app_name,
        user_id=ref.user_id,
        session_id=ref.session_id,
    )
    return [_view(row) for row in rows.order_by("-created", "id").select_related("person")[:_SHOWN]]


def outcomes(person: AbstractBaseUser) -> list[Queued]:
    """A person's finished edits of which they do not know yet what became, oldest first."""
    rows = QueuedEdit.objects.filter(person_id=person.pk, told=False, finished__isnull=False)
    return [_view(row) for row in rows.order_by("finished").select_related("person")[:_SHOWN]]


def any_waiting() -> bool:
    """Whether any edit waits, in any session."""
    return QueuedEdit.objects.filter(state=WAITING).exists()


def withdraw(queued_id: uuid.UUID | str, person: AbstractBaseUser) -> None:
    """Takes a waiting edit back, whoever queued it; its author is told who did.

    Raises NotFound, NotAllowed; Conflict where it is being applied just now or does not wait any more; SourceError where
    nobody can say whether it was written, because the database went away in the middle of it.
    """
    actor = actor_of(person)
    actor.check_may_write()
    row = _row(queued_id)
    claim = _claim(row)
    if claim is None:
        raise Conflict(_("This edit is being applied just now, or does not wait any more."))
    before = None
    if row.claimed_until is not None:
        # Whoever claimed it before never said what came of it.
        try:
            before = edits.stored(_ref(row) or _raise_away(), _event(row)[0])
        except Error:
            _note(row, claim, {"claimed_until": row.claimed_until})
            raise
    if before is not None:
        _note(row, claim, _applied(before.seq))
        raise Conflict(_("This edit was applied already."))
    told = row.person_id == person.pk
    _note(row, claim, {"state": WITHDRAWN, "message": actor.name, "told": told})


def dismiss(queued_id: uuid.UUID | str, person: AbstractBaseUser) -> None:
    """Notes that its author knows what became of an edit; anybody may where the author cannot sign in any more.

    Raises NotFound.
    """
    row = _row(queued_id)
    author = row.person
    if row.finished is None or (author is not None and author.is_active and author.pk != person.pk):
        raise NotFound(_("There is no such edit of yours."))
    QueuedEdit.objects.filter(pk=row.pk).update(told=True)
    _tell(row)


def apply_due(keys: Iterable[SessionRef] | None = None) -> int:
    """Tries the edits that wait, of these sessions or of all, the oldest of a session first; how many are finished now.

    An edit goes on waiting while an invocation runs in its session or ended less than SETTLE_SECONDS ago, while another
    process tries it, and while its database is away. Never raises for an edit.
    """
    if settings.READ_ONLY:
        return 0
    wanted = None if keys is None else set(keys)
    finished = 0
    blocked = set()  # what comes later in a session waits for what comes first
    rows = QueuedEdit.objects.filter(state=WAITING).order_by("created", "id").select_related("person").defer("entries")
    for row in rows:
        ref = _ref(row)
        if ref is None or ref in blocked or (wanted is not None and ref not in wanted):
            continue
        if _try(row, ref):
            finished += 1
        else:
            blocked.add(ref)
    return finished


# --- Applying ---------------------------------------------------------------------------------------------------------


def _try(row: QueuedEdit, ref: SessionRef) -> bool:
    """Whether the edit is finished now, by this process."""
    claim = _claim(row)
    if claim is None:
        return False
    try:
        # Kept as it is written in the code, and translated when somebody reads it.
        with translation.override("en"):
            outcome = _outcome(row, ref)
    except Exception:
        # A fault of adkweb's: the others go on, and this one is tried again when the claim has ended.
        log.exception("the queued edit %s of %s", row.pk, "/".join(ref))
        return False
    return _note(row, claim, outcome) and "state" in outcome


def _outcome(row: QueuedEdit, ref: SessionRef) -> dict[str, Any]:
    """What becomes of a claimed edit, as fields of its row; without a state, it goes on waiting."""
    claimed_until = row.claimed_until
    try:
        event, seen = _event(row)
        if (before := edits.stored(ref, event)) is not None:
            return _applied(before.seq)
        claimed_until = None
        _check_author(row.person)
        # First: whatever an agent writes after this makes the append stale.
        revision = reads_views.session(ref).revision
        if not _is_idle(ref):
            return {"claimed_until": None}
        claimed_until = _IN_DOUBT
        appended = edits.append_once(ref, event, of_person(row.actor), seen, revision)
        written = edits.stored(ref, event) if appended.seq is None else None
        return _applied(written.seq if written else appended.seq)
    except StaleSession:
        return {"claimed_until": None}
    except SourceError:
        return {"claimed_until": claimed_until}
    except Conflict as conflict:
        if "current" not in conflict.detail:
            return {"state": FAILED, "message": conflict.message}
        current = conflict.detail["current"]
        return {"state": CONFLICT, "entries": _dump(_entries(row), current)}
    except NotFound:
        return {"state": FAILED, "message": _("The session was deleted.")}
    except Error as error:
        return {"state": FAILED, "message": error.message}


def _is_idle(ref: SessionRef) -> bool:
    """Whether no agent holds the session: no invocation runs, and the last one did not end a moment ago by itself. After
    one that an edit ended, nothing follows.
    """
    if held(ref) is not None:
        return False
    with database.using(ref.source):
        for view in views(ordered(events_of(ref), ref.source), ref.source, _EDITS, ref=ref)[0]:
            edit = edit_of(view.data)
            if ended_by(edit):
                return True
            if not edit:
                return bool(abs(time.time() - view.timestamp) >= settings.SETTLE_SECONDS)
    return True


def _check_author(person: Any) -> None:
    if person is None or not person.is_active:
        raise NotAllowed(_("Whoever queued it has no account any more."))
    actor_of(person).check_may_write()


def _event(row: QueuedEdit) -> tuple[Event, dict[str, Any]]:
    """The event that the edit becomes, with the id that was fixed for it, and the values that the person saw."""
    event, seen = edits.state_event(_entries(row), of_person(row.actor), row.reason, of=_of(row))
    event |= {"id": row.event_id, "invocation_id": EDIT_PREFIX + row.event_id}
    edit_of(event)["queued"] = row.created
    return event, seen


def _applied(seq: Seq | None) -> dict[str, Any]:
    return {"state": APPLIED, "seq": seq}


# --- Rows -------------------------------------------------------------------------------------------------------------


def _claim(row: QueuedEdit) -> float | None:
    """When this process's claim on the edit ends; None where another's lasts, or it does not wait any more."""
    now = time.time()
    if row.claimed_until is not None and row.claimed_until >= now:
        return None
    until = now + LEASE_SECONDS
    # Whoever claimed it since the row was read has changed what is compared here.
    waiting = QueuedEdit.objects.filter(pk=row.pk, state=WAITING, claimed_until=row.claimed_until)
    return until if waiting.update(claimed_until=until) else None


def _note(row: QueuedEdit, claim: float, fields: dict[str, Any]) -> bool:
    """Notes what came of a claimed edit; False where the claim has gone over to another process meanwhile."""
    if "state" in fields:
        fields = {"finished": time.time(), **fields}
    if not QueuedEdit.objects.filter(pk=row.pk, state=WAITING, claimed_until=claim).update(**fields):
        return False
    if "state" in fields:
        log.info("the queued edit %s of %s: %s", row.pk, row.actor, fields["state"])
        _tell(row)
    return True


def _tell(row: QueuedEdit) -> None:
    if (ref := _ref(row)) is not None:
        broadcast.tell("queued", ref)


def _row(queued_id: uuid.UUID | str) -> QueuedEdit:
    try:
        row = QueuedEdit.objects.filter(pk=queued_id).first()
    except ValidationError:  # no UUID
        row = None
    if row is None:
        raise NotFound(_("There is no such edit."))
    return row


def _ref(row: QueuedEdit) -> SessionRef | None:
    """The session, by the alias that its source has today."""
    alias = registry.alias_of(row.where)
    return None if alias is None else SessionRef(alias, row.app_name, row.user_id, row.session_id)


def _raise_away() -> SessionRef:
    raise SourceError(_("Its database is not among adkweb's sources now."))


def _dump(entries: Iterable[Entry], current: dict[str, Any] | None = None) -> str:
    """Entries as JSON text; a value that is not there is left out, and a key that was in the way is marked."""
    kept = []
    for entry in entries:
        values = {"value": entry.value, "seen": entry.seen}
        found = {"key": entry.key, **{name: value for name, value in values.items() if value is not ABSENT}}
        if current is not None and not same(current.get(entry.key, ABSENT), entry.seen):
            found["changed"] = True
        kept.append(found)
    return json.dumps(kept)


def _entries(row: QueuedEdit) -> list[Entry]:
    return [Entry(kept["key"], kept.get("value", ABSENT), kept.get("seen", ABSENT)) for kept in json.loads(row.entries)]


def _of(row: QueuedEdit) -> dict[str, str]:
    return json.loads(row.of) if row.of else {}


def _view(row: QueuedEdit) -> Queued:
    return Queued(
        row.id,
        _ref(row),
        _entries(row),
        _of(row),
        None if row.person is None or not row.person.is_active else row.person.pk,
        row.actor,
        row.reason,
        row.created,
        row.state,
        _(row.message) if row.state == FAILED and row.message else row.message,
        row.finished,
        row.event_id,
        row.seq,
        [kept["key"] for kept in json.loads(row.entries) if "changed" in kept],
    )
