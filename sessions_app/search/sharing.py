"""Tells which sessions share the state of a user or an app, and which of them run or wait now: whom an edit reaches."""

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.db.models import OuterRef, Subquery

from ..access.actor import Actor
from ..domain.positions import Seq
from ..domain.session_ref import SessionRef, digest_of
from ..domain.state import Scope
from ..models import SearchOwner, SearchSession, SearchSpan
from ..sources import registry
from .at_work import Numbers
from .index import feed
from .index.tables import ref_of
from .outline import turn_at
from .sql import is_one_of, rows

MOST: Final = 10_000  # sessions that are counted
NAMED: Final = 5  # of those that run or wait
MOST_ACTIVE: Final = 100  # that run or wait, and are counted
_SOME: Final = 500


@dataclass(frozen=True, slots=True)
class Active:
    """A session that runs or waits. Its status is `running` or `waiting`."""

    ref: SessionRef
    status: str


@dataclass(frozen=True, slots=True)
class Sharing:
    """The sessions that share a state. `sessions` is at most MOST, and then `more` tells whether there are more of them.

    `named` are some of those that run or wait, and `active` is their number, at most MOST_ACTIVE, and then `more_active`.
    `share` says how much of the source the index has: below 1, all this may be too little.
    """

    sessions: int = 0
    more: bool = False
    named: list[Active] = field(default_factory=list)
    active: int = 0
    more_active: bool = False
    share: float = 1.0

    @property
    def others(self) -> int:
        """Returns how many run or wait beside those that are named."""
        return self.active - len(self.named)


def sharing(ref: SessionRef, scope: str, *, actor: Actor) -> Sharing:
    """Returns which sessions share the `user` or `app` state of a session, which need not exist. Raises NotFound."""
    actor.check_sees(ref)
    share = feed.share(ref.source)
    digest = digest_of(ref.app_name, ref.user_id if scope == "user" else "")
    owners = SearchOwner.objects.filter(source__where=registry.identity(ref.source), digest=digest)
    owner = owners.values_list("pk", flat=True).first()
    if owner is None:
        return Sharing(share=share)
    of_owner = f"s.{'user' if scope == 'user' else 'app'}_owner_id = %s AND s.listed"
    count = _count(of_owner, [owner], MOST)
    # An app has many sessions, few of which are busy: “+” keeps SQLite from looking at all of them.
    now = f"{'+' if scope == 'app' else ''}{of_owner} AND {Numbers.now().active}"
    values = [owner, time.time() - settings.SILENCE_SECONDS]
    active = _count(now, values, MOST_ACTIVE)
    newest = rows(
        f"""SELECT s.names, s.phase FROM (SELECT s.id, s.names, s.phase, s.last FROM sessions_app_searchsession AS s
        WHERE {now} LIMIT %s) AS s ORDER BY s.last DESC, s.id DESC LIMIT %s""",
        [*values, MOST_ACTIVE, NAMED],
    )
    named = [
        Active(ref_of(ref.source, names), "waiting" if phase == "waiting" else "running") for names, phase in newest
    ]
    return Sharing(min(count, MOST), count > MOST, named, min(active, MOST_ACTIVE), active > MOST_ACTIVE, share)


def reached(where: str, owners: Iterable[tuple[str, str]]) -> tuple[int, int]:
    """Returns how many sessions share the state of these users, (app, user), or apps, (app, ""), and how many of them run
    or wait now. `where` identifies the source. An edit of that state changes all of them."""
    digests = {digest_of(*owner): "user" if owner[1] else "app" for owner in owners}
    silence, now = time.time() - settings.SILENCE_SECONDS, Numbers.now().active
    sessions = active = 0
    for column in ("user", "app"):
        of_column = [digest for digest, each in digests.items() if each == column]
        for start in range(0, len(of_column), _SOME):
            some = of_column[start : start + _SOME]
            values: list[Any] = [silence, where]
            (counted,) = rows(
                f"""SELECT count(*), coalesce(sum(CASE WHEN {now} THEN 1 END), 0)
                FROM sessions_app_searchsession AS s JOIN sessions_app_searchowner AS o ON o.id = s.{column}_owner_id
                JOIN sessions_app_searchsource AS w ON w.id = o.source_id
                WHERE w."where" = %s AND {is_one_of("o.digest", some, values)} AND s.listed""",
                values,
            )
            sessions, active = sessions + int(counted[0]), active + int(counted[1])
    return sessions, active


def _count(condition: str, values: list[Any], most: int) -> int:
    """Counts rows of the index, up to one more than `most`."""
    statement = f"SELECT 1 FROM sessions_app_searchsession AS s WHERE {condition} LIMIT %s"
    return int(rows(f"SELECT count(*) FROM ({statement}) AS counted", [*values, most + 1])[0][0])


# --- The first turn that read an edit. No event is read for it --------------------------------------------------------

LOOKED_AT: Final = 2_000  # turns of all sessions, after an edit of shared state
COUNT_LIMIT: Final = 1_000  # sessions of a user


@dataclass(frozen=True, slots=True)
class FirstRead:
    """Names the turn that read an edit first: its session, its number and its seq."""

    ref: SessionRef
    turn: int
    seq: Seq


@dataclass(frozen=True, slots=True)
class Readers:
    """Says what is known about who reads an edit.

    `first` is None if no turn has begun since, or if nobody knows (`known` is false): many turns of others have begun, or
    the source is not indexed yet. `sessions` share the key, of a user's at most COUNT_LIMIT + 1; None if it is the session's
    own.
    """

    first: FirstRead | None = None
    known: bool = False
    sessions: int | None = None


def readers(ref: SessionRef, seq: Seq, at: float, scope: Scope, *, actor: Actor) -> Readers:
    """Returns who reads an edit that was made at a time, in seconds, as the event `seq` of a session."""
    actor.check_sees(ref)
    known = feed.share(ref.source) == 1.0
    if scope not in ("user", "app"):
        return _of_session(ref, seq) if known else Readers()
    where, names = registry.identity(ref.source), (ref.app_name, ref.user_id if scope == "user" else "")
    owner = SearchOwner.objects.filter(source__where=where, digest=digest_of(*names)).first()
    if owner is None or not known:
        return Readers()
    count = owner.sessions
    if scope == "user":
        count = SearchSession.objects.filter(user_owner=owner, listed=True).values("pk")[: COUNT_LIMIT + 1].count()
    first, known = _of_owner(ref.source, at, f"s.{scope}_owner_id", owner.pk)
    return Readers(first, known, count)


class Written(NamedTuple):
    """An edit: its session and its seq there, when it was made, in seconds, and the scope of what it wrote."""

    ref: SessionRef
    seq: Seq
    at: float
    scope: Scope


def are_read(edits: Sequence[Written], *, actor: Actor) -> dict[Written, bool]:
    """Returns of which edits it is known whether an agent has read them since, and whether one has.

    Of sessions, the last turns are enough, in one query. Of what is shared, an older edit was read once a newer one was,
    so that only those that were not ask for themselves."""
    for edit in edits:
        actor.check_sees(edit.ref)
    indexed = {source for source in {edit.ref.source for edit in edits} if feed.share(source) == 1.0}
    known = sorted((edit for edit in edits if edit.ref.source in indexed), key=lambda edit: -edit.at)
    last = _last_turns({edit.ref for edit in known})
    read: dict[Written, bool] = {}
    read_by: set[tuple[str, Scope, str]] = set()
    for edit in known:
        if edit.scope not in ("user", "app"):
            if edit.ref in last:
                read[edit] = last[edit.ref] > edit.seq
            continue
        names = edit.ref.app_name, edit.ref.user_id if edit.scope == "user" else ""
        owner = edit.ref.source, edit.scope, digest_of(*names)
        if owner not in read_by:
            readers_ = readers(edit.ref, edit.seq, edit.at, edit.scope, actor=actor)
            if not readers_.known:
                continue
            if readers_.first:
                read_by.add(owner)
        read[edit] = owner in read_by
    return read


def _last_turns(refs: Collection[SessionRef]) -> dict[SessionRef, Seq]:
    """Returns the seq at which the last turn of each session begins, 0 if it has none; of those in the index."""
    by_name = {(registry.identity(ref.source), digest_of(*ref[1:])): ref for ref in refs}
    last = SearchSpan.objects.filter(session_id=OuterRef("pk"), kind="t", number=OuterRef("turns")).values("seq")[:1]
    of_sessions = SearchSession.objects.filter(
        source__where__in={where for where, _digest in by_name}, digest__in={digest for _where, digest in by_name}
    ).values_list("source__where", "digest", Subquery(last))
    return {by_name[where, digest]: Seq(seq or 0) for where, digest, seq in of_sessions if (where, digest) in by_name}


def _of_session(ref: SessionRef, seq: Seq) -> Readers:
    of_session = SearchSession.objects.filter(source__where=registry.identity(ref.source), digest=digest_of(*ref[1:]))
    for number, turns in of_session.values_list("pk", "turns"):
        last, seq_of = turn_at(number, turns, seq)
        turn = last + 1
        return Readers(FirstRead(ref, turn, Seq(seq_of(turn))) if turn <= turns else None, known=True)
    return Readers()


def _of_owner(source: str, at: float, column: str, owner: int) -> tuple[FirstRead | None, bool]:
    """Returns the first of the next turns of all sessions that is one of the owner's; and whether this is known."""
    since = "FROM sessions_app_searchspan WHERE kind = 't' AND at > %s ORDER BY at LIMIT %s"
    first = rows(
        f"""SELECT s.names, p.session_id, p.at FROM (SELECT session_id, at {since}) AS p
        JOIN sessions_app_searchsession AS s ON s.id = p.session_id WHERE {column} = %s ORDER BY p.at LIMIT 1""",
        [at, LOOKED_AT, owner],
    )
    if not first:
        return None, rows(f"SELECT count(*) FROM (SELECT 1 {since}) AS p", [at, LOOKED_AT])[0][0] < LOOKED_AT
    names, session, began = first[0]
    turn = SearchSpan.objects.filter(session_id=session, kind="t", at=began).order_by("number")
    number, seq = turn.values_list("number", "seq")[0]
    return FirstRead(ref_of(source, names), number, Seq(seq)), True
