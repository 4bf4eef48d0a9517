"""Finds which event last wrote each key."""

from ..access.actor import Actor
from ..domain.json_values import as_object
from ..domain.positions import NO_SEQ, Seq
from ..domain.session_ref import SessionRef
from ..domain.state import scope_of
from ..sources import database
from .deltas import Writer, state_rows, writer
from .listed import sessions_since

# --- Who wrote a key --------------------------------------------------------------------------------------------------


def writers(ref: SessionRef, after: Seq = NO_SEQ, *, actor: Actor) -> dict[str, Writer]:
    """Returns the last writer of each key, with its prefix, that this session's newest RECENT events wrote, or those
    after a seq."""
    actor.check_sees(ref)
    with database.using(ref.source):
        writers: dict[str, Writer] = {}
        for row in state_rows(ref, actor, after=after)[0]:
            writers = dict.fromkeys(row["delta"], writer(ref, row)) | writers
        return writers


def last_writer(ref: SessionRef, full_key: str, *, actor: Actor) -> Writer | None:
    """Returns the event that last wrote a key of any scope. Searches the sessions that were active since the scope
    changed."""
    actor.check_sees(ref)
    scope, _bare = scope_of(full_key)
    with database.using(ref.source):
        sessions = [ref] if scope == "session" else list(sessions_since(ref, scope))
        writers = [
            writer(candidate, row)
            for candidate in sessions
            for row in state_rows(candidate, actor, limit=100)[0]
            if full_key in as_object(row["delta"])
        ]
        return max(writers, key=lambda writer: writer.timestamp, default=None)
