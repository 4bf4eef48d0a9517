"""Lists every value that a key ever had."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..domain.errors import Invalid
from ..domain.positions import NO_SEQ, Position, Seq, position_of, seq_of
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, STORED, UNKNOWN, Change, Scope, scope_of
from ..reads import views
from ..reads.paging import Page, read_cursor, write_cursor
from . import adk_merge_bug
from .index.query import consult, writes_between, writes_of
from .index.written import CHUNK, FOREVER, Written, first_value, start_of, written_at

_GONE: Final = 4  # writes of sessions deleted since, which are skipped
PAGE: Final = 50  # writes of a key
_CHAIN: Final = 1_000  # writes of one key that are folded; older ones are UNKNOWN


@dataclass(frozen=True, slots=True)
class KeyWrite:
    """One write of one key. A session's initial state has no event: `event_id` is empty, and `seq` is 0."""

    ref: SessionRef
    event_id: str
    seq: Seq
    timestamp: float
    author: str
    actor: str
    reason: str
    change: Change


# --- History ----------------------------------------------------------------------------------------------------------


def history(
    ref: SessionRef, name: str, before: str | None = None, limit: int = PAGE, *, actor: Actor
) -> Page[KeyWrite]:
    """Returns a page of the writes of a full key, the newest first; of a shared key, those of all sessions.

    The last page ends with the value that the session started with, if it is known. A deleted session that had the same
    id contributes nothing. Raises Invalid for a `temp:` key, which is never stored.
    """
    actor.check_sees(ref)
    scope, _bare = scope_of(name)
    if scope not in STORED:
        raise Invalid(_("%(key)s: temp: keys live for one invocation and are never stored") % {"key": name})
    page = _page(ref, name, scope, before, limit, limit, actor)
    while page.next and not page.rows:  # many writes are of deleted sessions: read more at once
        page = _page(ref, name, scope, page.next, limit, max(limit, CHUNK), actor)
    return page


def next_writes(ref: SessionRef, names: Sequence[str], seq: Seq, *, actor: Actor) -> dict[str, Written]:
    """Returns the first write of each of these full keys after an event, where there is one; of a shared key, in any
    session. Raises Behind."""
    actor.check_sees(ref)
    after, until = position_of(seq), Position(2**63 - 1)
    positions = consult(ref.source, lambda: writes_between(ref, names, after, until, _GONE + 1), ref)
    written = written_at(ref.source, {each for some in positions.values() for each in some}, actor)
    first: dict[str, Written] = {}
    for name, some in positions.items():
        own = (written[each].within(ref, scope_of(name)[0]) for each in some if each in written)
        if this := next((each.by(name) for each in own if each and each.writer), None):
            first[name] = this
    return first


def _page(
    ref: SessionRef, name: str, scope: Scope, before: str | None, limit: int, most: int, actor: Actor
) -> Page[KeyWrite]:
    """Returns at most `limit` writes from the next `most` positions. There may be none and still be a next page."""
    below = Position(read_cursor(before, int)[0]) if before else None
    positions = consult(ref.source, lambda: writes_of(ref, name, below, most + 1), ref)
    own = {position: each.within(ref, scope) for position, each in written_at(ref.source, positions, actor).items()}
    written = {position: each.by(name) for position, each in own.items() if each}
    # A missing event may have belonged to an earlier session with the same id.
    if scope == "session" and len(written) < len(positions):
        begun = start_of(ref)
        positions = [position for position in positions if position in written or position >= begun]
    first = first_value(ref, name, actor) if len(positions) <= most else None
    values = {position: each.value(name) for position, each in written.items()}
    if adk_merge_bug.may_merge(ref.source) and not all(each.settles(name) for each in written.values()):
        folded = _merged(ref, name, positions[0], positions[-1], actor, is_newest=before is None)
        values |= {at: folded[at] for at, each in written.items() if at in folded and not each.settles(name)}
    rows: list[KeyWrite] = []
    seen = 0
    for position in positions[:most]:
        seen += 1
        if position in written:
            older = positions[seen] if seen < len(positions) else None
            old = _before(written, values, position, older, first, name, scope)
            rows.append(_key_write(written[position], position, Change(name, old, values[position])))
        if len(rows) == limit:
            break
    if len(positions) > seen:
        return Page(rows, write_cursor(positions[seen - 1]))
    if scope == "session" and first is not UNKNOWN and first is not ABSENT:
        created = views.session(ref, partly=True, actor=actor).create_time
        rows.append(KeyWrite(ref, "", NO_SEQ, created, "", "", "", Change(name, ABSENT, first)))
    return Page(rows)


def _merged(
    ref: SessionRef, name: str, newest: Position, oldest: Position, actor: Actor, *, is_newest: bool
) -> dict[Position, Any]:
    """Returns a full key's value after each of its writes between two positions, if its source may have merged them."""
    chain, start = chain_of(ref, name, newest, oldest, actor=actor), first_value(ref, name, actor)
    shared = scope_of(name)[0] != "session"
    values = adk_merge_bug.folded(ref, chain, start, shared=shared)
    if is_newest and newest in values:
        stored = _stored(ref, name, actor)
        possible = adk_merge_bug.fold(chain, start, adk_merge_bug.possible(ref.source), shared=shared)[newest]
        if stored is not UNKNOWN and adk_merge_bug.explains(possible, chain[-1].value, stored):
            values[newest] = stored
    return values


def _stored(ref: SessionRef, name: str, actor: Actor) -> Any:
    """Returns a full key's value now; UNKNOWN if the state is too large to be read."""
    try:
        return _read(ref, *scope_of(name), actor)
    except Invalid:
        return UNKNOWN


def _read(ref: SessionRef, scope: Scope, bare: str, actor: Actor) -> Any:
    if scope == "session":
        return views.session(ref, actor=actor).state.session.get(bare, ABSENT)
    if scope == "user":
        return views.user_state(ref.source, ref.app_name, ref.user_id, actor=actor).get(bare, ABSENT)
    return views.app(ref.source, ref.app_name, actor=actor)[1].get(bare, ABSENT)


def _before(
    written: Mapping[Position, Written],
    values: Mapping[Position, Any],
    position: Position,
    older: Position | None,
    first: Any,
    name: str,
    scope: Scope,
) -> Any:
    """Returns a key's value before a write: what the edit notes, or what the previous write left."""
    this = written[position]
    noted = this.before(name)
    if scope != "session" and (noted is not UNKNOWN or this.imported):
        return noted
    if older is None:
        return noted if first is UNKNOWN else first
    if older not in written or (written[older].imported and scope != "session"):
        return UNKNOWN
    return values[older]


def _key_write(this: Written, position: Position, change: Change) -> KeyWrite:
    who = this.writer
    return KeyWrite(
        this.ref,
        who.event_id if who else "",
        seq_of(position) if who else NO_SEQ,
        this.timestamp,
        who.author if who else "",
        who.actor if who else "",
        str(this.edit.get("reason") or ""),
        change,
    )


# --- Back to a write that settles the value, where deltas may have been merged ----------------------------------------


def chain_of(
    ref: SessionRef, name: str, position: Position, down_to: Position = FOREVER, *, actor: Actor
) -> list[adk_merge_bug.Write]:
    """Returns the writes of a full key, the oldest first, from one that settles its value up to `position`.

    That first write is at `down_to` or before. If none settles the value, the chain starts with the very first write.
    """
    scope, begun = scope_of(name)[0], Position(0)
    chain: list[adk_merge_bug.Write] = []
    below, most = Position(position + 1), PAGE
    while len(chain) < _CHAIN:
        positions = writes_of(ref, name, below, most)
        written = {
            at: own for at, each in written_at(ref.source, positions, actor).items() if (own := each.within(ref, scope))
        }
        if scope == "session" and len(written) < len(positions):
            begun = begun or start_of(ref)
        for at in positions:
            each = written.get(at)
            if each is None and at < begun:  # by another session that had the same id
                return chain[::-1]
            known = each is not None and (
                scope == "session" or not each.imported
            )  # it is unknown when an imported one was created
            chain.append(each.write(at, name) if each and known else adk_merge_bug.Write(at, UNKNOWN, True))
            if at <= down_to and chain[-1].settles:
                return chain[::-1]
        if len(positions) < most:
            return chain[::-1]
        below, most = positions[-1], CHUNK
    return [adk_merge_bug.Write(Position(0), UNKNOWN, True), *chain[::-1]]
