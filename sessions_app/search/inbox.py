"""The inbox: the calls that wait for an answer, in all sources."""

import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.db.models import Q
from django.utils.translation import gettext as _

from ..access import masking
from ..access.actor import Actor
from ..access.audit.record import record
from ..access.handles import shown_ref
from ..access.shown import check_unmasked, shown_words
from ..domain.description import Part
from ..domain.errors import Invalid, NotFound, SourceError
from ..domain.invocations import ASKING_CALLS
from ..domain.pending import Asked, asked
from ..domain.positions import Seq
from ..domain.session_ref import SessionRef, digest_of
from ..domain.shorten import words
from ..models import Dismissal, Event, SearchPending, SearchSession
from ..reads.event_views import EventView, measured, views
from ..reads.labels import said
from ..reads.lists import existing
from ..reads.paging import Page, read_cursor, write_cursor
from ..sources import agents, database, registry
from ..sources.errors import shown, unusable
from ..sources.finding import SESSION_FILE, in_shell
from . import tree
from .index.tables import names_of, ref_of
from .selecting import select
from .sql import rows

EVERY: Final = tree.Query(None)
PAGE: Final = 50
COUNTED: Final = 999  # calls; of more, a page says that there are more
_FROM: Final = """FROM sessions_app_searchpending AS p JOIN sessions_app_searchsession AS s ON s.id = p.session_id
    JOIN sessions_app_searchsource AS w ON w.id = s.source_id"""
_DISMISSED: Final = """EXISTS (SELECT 1 FROM sessions_app_dismissal AS d
    WHERE d."where" = w."where" AND d.digest = s.digest AND d.asked = p.asked)"""
# The index learns of an answer a moment after the agent has stored it.
_ANSWERED: Final = """EXISTS (SELECT 1 FROM sessions_app_answer AS a
    WHERE a."where" = w."where" AND a.digest = s.digest AND a.asked = p.asked AND a.state IN ('open', 'sent')
    AND a.at > %s)"""
_STORED_SECONDS: Final = 10.0  # after which the index has an answer that arrived
_ANSWERABLE: Final = f"""EXISTS (SELECT 1 FROM sessions_app_searchpending AS q
    WHERE q.session_id = p.session_id AND q.event = p.event AND NOT {_DISMISSED.replace("p.asked", "q.asked")})"""
_UNANSWERED: Final = f"p.passed_over = %s AND NOT {_DISMISSED} AND NOT {_ANSWERED}"
ID_PREFIX: Final = "call-"
_READ_ONLY: Final = re.compile(r"[?&]mode=ro\b")  # in an address


@dataclass(frozen=True, slots=True)
class Waiting:
    """A call that waits for an answer: domain/pending.Pending, with its session and the call. `call` is None if the event
    can't be read now. `alone` tells that its event asks nothing else: all that an event asks is answered together. `why`
    says why it can't be answered; it is empty if it can, as far as adkweb knows. `answered` tells that someone has just
    answered it. `dismissal` is set if someone decided that it won't be answered."""

    ref: SessionRef
    title: str
    kind: str
    tool: str
    since: float
    seq: Seq
    event_id: str
    call_id: str
    passed_over: bool
    key: str  # what stands for the call in adkweb's own tables
    answered: bool
    call: Part | None = None
    alone: bool = False
    why: str = ""
    dismissal: Dismissal | None = None

    @property
    def asked(self) -> Asked | None:
        """Returns what it asks; None if that can't be read now."""
        return asked(self.call) if self.call else None


def waiting(
    query: tree.Query = EVERY,
    *,
    actor: Actor,
    ref: SessionRef | None = None,
    passed_over: bool | None = False,
    dismissed: bool = False,
    cursor: str | None = None,
    limit: int = PAGE,
) -> Page[Waiting]:
    """Returns a page of the calls that wait in the sessions that a query selects, the oldest first; or of those that the
    user passed over, or that were dismissed; with `ref`, of one session. What someone has just answered is left out. With
    `passed_over` None, all that can be answered: those that were dismissed are needed to answer the rest of their event.
    Raises Invalid for a cursor that isn't one."""
    selection = select(query, actor)
    keys, types = _order()
    since = time.time() - _STORED_SECONDS
    which, beyond = _UNANSWERED, ""
    values: list[Any] = [passed_over, since]
    if dismissed or passed_over is None:
        which, values = _DISMISSED if dismissed else _ANSWERABLE, []
    if ref:
        which += ' AND w."where" = %s AND s.digest = %s'
        values += [registry.identity(ref.source), digest_of(*ref[1:])]
    values += selection.values
    if cursor:
        beyond = f"AND ({keys}) > ({', '.join(['%s'] * len(types))})"
        values += read_cursor(cursor, *types)
    stored = rows(
        f"""SELECT w."where", s.names, s.title, p.kind, n.value, p.at, p.seq, p.event, p.call, p.passed_over, p.asked,
        {_ANSWERED}, {keys}
        {_FROM} JOIN sessions_app_searchname AS n ON n.id = p.name_id
        WHERE {which} AND {selection.sql} {beyond} ORDER BY {keys} LIMIT %s""",
        [since, *values, limit + 1],
    )
    aliases = registry.aliases()
    page = [
        Waiting(ref_of(aliases[where], names), title, kind, tool, at, Seq(seq), event, call, over, key, bool(answered))
        for where, names, title, kind, tool, at, seq, event, call, over, key, answered, *_keys in stored[:limit]
    ]
    following = write_cursor(*stored[limit - 1][-len(types) :]) if len(stored) > limit else None
    rows_ = _with_events(page, actor)
    return Page(_with_dismissals(rows_, actor) if dismissed else rows_, following)


def _order() -> tuple[str, list[type]]:
    """Returns what calls are ordered by, and its types. The numbers of sessions follow the ids of users: where these are
    hidden, calls of the same moment are ordered by what is seen."""
    if not masking.mask_of_all().hides_ids:
        return "p.at, p.session_id, p.number", [float, int, int]
    return "p.at, s.folded_user, s.folded_id, s.app_name, s.source_id, p.number", [float, str, str, str, int, int]


def count(query: tree.Query = EVERY, *, actor: Actor, passed_over: bool = False) -> int:
    """Returns how many calls wait, or how many the user passed over, at most COUNTED + 1."""
    selection = select(query, actor)
    some = f"SELECT 1 {_FROM} WHERE {_UNANSWERED} AND {selection.sql} LIMIT %s"
    values = [passed_over, time.time() - _STORED_SECONDS, *selection.values, COUNTED + 1]
    return int(rows(f"SELECT count(*) FROM ({some}) AS counted", values)[0][0])


def _with_events(page: Sequence[Waiting], actor: Actor) -> list[Waiting]:
    """Returns calls with what they ask, as far as the actor may see it, by one query of each source. Those whose session is
    gone are left out; those of a source that doesn't answer come without."""
    calls: dict[Waiting, Waiting] = {each: replace(each, title=said(each.title, each.ref, actor)) for each in page}
    for source in {each.ref.source for each in page}:
        some = [each for each in page if each.ref.source == source]
        try:
            titles = existing({each.ref for each in some}, actor=actor)
            events = _events(source, some, actor)
        except SourceError as error:
            calls |= {each: replace(calls[each], why=shown(error, actor)) for each in some}
            continue
        why = _why_not(source, actor)
        whys = {app: why or agents.why_not(source, app) for app in {ref.app_name for ref in titles}}
        for each in some:
            if each.ref in titles:
                why_not = whys[each.ref.app_name]
                asking = [call for call in _calls(each, events) if call.waiting or call.name in ASKING_CALLS]
                call = {call.id: call for call in asking}.get(
                    each.call_id
                )  # of two with the same id, the later one counts
                alone = len(asking) == 1
                calls[each] = replace(each, title=titles[each.ref], call=call, alone=alone, why=why_not)
            else:
                del calls[each]
    return list(calls.values())


def _why_not(source: str, actor: Actor) -> str:
    """Returns why nothing in an open source can be answered; "" if it can. Only an admin of everything learns where a source
    is, and how to start an adkweb that may answer."""
    why = database.why_shown(source)
    if not why or not actor.runs_everything:
        return why if not why or database.is_read_only(source) else unusable()
    if not database.is_read_only(source):
        return why
    where = _READ_ONLY.sub("", registry.sources[source].where)
    if Path(where).parts[-2:] == SESSION_FILE.parts:  # adkweb runs the agents of a folder, not those beside a file
        where = str(Path(where).parents[1])
    command = f"adkweb {in_shell(where)}"
    if source in settings.AGENTS:
        command += f" --agents {in_shell(f'{source}={settings.AGENTS[source]}')}"
    return f"{why} {_('To answer, start it without: %(command)s') % {'command': command}}"


def _events(source: str, some: Sequence[Waiting], actor: Actor) -> dict[tuple[SessionRef, str], EventView]:
    wanted = Q(
        *(
            Q(app_name=app, user_id=user, session_id=name, id=event)
            for app, user, name, event in {_key(each) for each in some}
        ),
        _connector=Q.OR,
    )
    with database.using(source):
        asking, _more = views(measured(Event.objects.using(source)).filter(wanted), source, actor, len(some))
    return {(view.ref, view.id): view for view in asking}


def _key(each: Waiting) -> tuple[str, str, str, str]:
    return each.ref.app_name, each.ref.user_id, each.ref.session_id, each.event_id


def _calls(each: Waiting, events: dict[tuple[SessionRef, str], EventView]) -> Sequence[Part]:
    view = events.get((each.ref, each.event_id))
    return view.description.calls if view else ()


def _with_dismissals(page: Sequence[Waiting], actor: Actor) -> list[Waiting]:
    given = Dismissal.objects.filter(asked__in=[each.key for each in page])
    dismissals = {(each.where, each.digest, each.asked): each for each in given}
    for each in dismissals.values():
        each.reason = shown_words(each.reason, actor, json.loads(each.names)[0])
    return [
        replace(
            each, dismissal=dismissals.get((registry.identity(each.ref.source), digest_of(*each.ref[1:]), each.key))
        )
        for each in page
    ]


# --- Dismissing -------------------------------------------------------------------------------------------------------

REASON_LENGTH: Final = 500


def dismiss(ref: SessionRef, key: str, reason: str, *, actor: Actor) -> None:
    """Takes a call that waits out of the inbox, because no one will answer it. Nothing is written to its source.

    Raises NotFound if it doesn't wait any longer, NotAllowed, Invalid without a reason."""
    names = _of_call(ref, key, actor)
    reason = " ".join(reason.replace("\0", " ").split())
    if not reason:
        raise Invalid(_("Enter a reason, so that others know why no one answers."), field="reason")
    if len(reason) > REASON_LENGTH:
        raise Invalid(_("A reason can have up to %(n)s characters.") % {"n": REASON_LENGTH}, field="reason")
    waits = SearchPending.objects.filter(asked=key).values_list("session_id", flat=True)
    if not SearchSession.objects.filter(pk__in=waits, source__where=names["where"], digest=names["digest"]).exists():
        raise NotFound(_("This call doesn't wait any longer. Someone may have answered it."))
    check_unmasked(reason, actor, ref.app_name)
    record("call-dismissed", actor.name, ref=ref, reason=reason)
    fields = {"names": names_of(ref), "reason": reason, "by": actor.name, "at": time.time()}
    Dismissal.objects.update_or_create(**names, defaults=fields)


def undo_dismissal(ref: SessionRef, key: str, *, actor: Actor) -> None:
    """Puts a call that was dismissed back into the inbox. Raises NotAllowed."""
    names = _of_call(ref, key, actor)
    if Dismissal.objects.filter(**names).exists():
        record("call-undismissed", actor.name, ref=ref)
        Dismissal.objects.filter(**names).delete()


def _of_call(ref: SessionRef, key: str, actor: Actor) -> dict[str, Any]:
    actor.check_sees(ref)
    actor.check_may("operate", ref.source, ref.app_name)
    return {"where": registry.identity(ref.source), "digest": digest_of(*ref[1:]), "asked": key}


# --- For programs: the API and `adkweb inbox` -------------------------------------------------------------------------


def id_of(each: Waiting, actor: Actor) -> str:
    """Returns one word that names a call: its source and session, as the actor may see them, its event, and itself."""
    return ID_PREFIX + write_cursor(*shown_ref(each.ref, actor), each.event_id, each.call_id)


def read_id(text: str) -> tuple[SessionRef, str, str]:
    """Returns what such a word names: a session, whose user may be a handle, the id of an event, and that of its call.
    Raises Invalid for any other text."""
    try:
        if not text.startswith(ID_PREFIX):
            raise Invalid
        source, app, user, session, event, call = read_cursor(text.removeprefix(ID_PREFIX), *[str] * 6)
    except Invalid as error:
        raise Invalid(
            _("“%(text)s” isn't the id of a call. Copy the whole id from the inbox.") % {"text": words(text, 40)}
        ) from error
    return SessionRef(source, app, user, session), event, call


def as_json(each: Waiting, actor: Actor) -> dict[str, Any]:
    """Returns a call with names as in the rest of the API."""
    question = each.asked or Asked("", None)
    source, app, user, session = shown_ref(each.ref, actor)
    return {
        "id": id_of(each, actor),
        "kind": each.kind,
        "tool": each.tool,
        "args": question.args,
        "hint": question.hint,
        "source": source,
        "app_name": app,
        "user_id": user,
        "session_id": session,
        "event_id": each.event_id,
        "since": each.since,
        "answerable": not each.why,
        "why": each.why,
    }
