"""Tells which turn was the first to read an edit, and how many sessions share what was edited. No event is read for it.

An agent reads state when a turn begins. So an edit is read by the first turn that begins after it: if the key is the
session's own, in this session; if it is the user's or the app's, in any session that shares it.
"""

from dataclasses import dataclass
from typing import Final

from ..access.actor import Actor
from ..domain.positions import Seq
from ..domain.session_ref import SessionRef, digest_of
from ..domain.state import Scope
from ..models import SearchOwner, SearchSession, SearchSpan
from ..sources import registry
from . import feeding
from .outline import turn_at
from .sql import rows
from .storing import ref_of

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
    known = feeding.share(ref.source) == 1.0
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
