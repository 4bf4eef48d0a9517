"""Asks the index where each key was written: by owner of state and key, the positions of the events that wrote it."""

from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple, TypeVar

from django.db import connection
from django.utils.translation import gettext as _

from ...domain.errors import Behind, Invalid
from ...domain.positions import NO_SEQ, Position, Seq, position_of, seq_of
from ...domain.session_ref import SessionRef
from ...domain.state import Scope, scope_of
from ...models import Projection, StateChange
from ...sources import registry
from . import build
from .tables import HIGHLIGHTED, names_of, owner_of, stored_key

MOST_KEYS: Final = 30_000  # keys of a scope that are read together
MOST_POSITIONS: Final = 10_000  # and the writes that are read for them, two for a key
_TRIES: Final = 5


class Highlight(NamedTuple):
    """An event that the strip highlights.

    For a rewind, `since` is the seq of the first event that it undoes, if known.
    """

    kind: str
    seq: Seq
    since: Seq | None


class KeyPositions(NamedTuple):
    """Where a key was written: last up to a moment, first after it, and last of all. None means nowhere."""

    last: Position | None
    next: Position | None
    newest: Position


class LastWrite(NamedTuple):
    """Where a key was written last in a stretch (None for nowhere), and how often."""

    position: Position | None
    writes: int


T = TypeVar("T")


def consult(source: str, ask: Callable[[], T], ref: SessionRef | None = None) -> T:
    """Reads what is new in the source and returns what `ask` then returns.

    If another process rebuilds the index in the meantime, `ask` is called again. `ref` is passed on to `catch_up`,
    whose errors this function raises.
    """
    for _try in range(_TRIES):
        before = build.catch_up(source, ref=ref)
        answer = ask()
        after = Projection.objects.filter(pk=before.projection, seq__gte=before.seq)
        if after.exists():
            return answer
    raise Behind(share=0.0)


# --- Asking it --------------------------------------------------------------------------------------------------------


def too_many(keys: int) -> Invalid:
    """Returns the error for a state that has had more keys than adkweb reads together."""
    return Invalid(_("This state has had more than %(n)s keys, so its history can't be shown here.") % {"n": keys})


def positions_of_keys(ref: SessionRef, scope: Scope, upto: Position) -> dict[str, KeyPositions]:
    """Returns where each key of a scope was written, seen from a position, by the key as the index keeps it.

    Raises Invalid if there are more than MOST_KEYS.
    """
    owner = _owner(ref, scope)
    if owner is None:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_POSITIONS, {"owner": owner, "upto": upto})
        keys = {row[0]: KeyPositions(*row[1:]) for row in cursor.fetchall()}
    if len(keys) > MOST_KEYS:
        raise too_many(MOST_KEYS)
    return keys


def writes_of(ref: SessionRef, full_key: str, before: Position | None, limit: int) -> list[Position]:
    """Returns the positions at which a key was written, the newest first; with `before`, only those before it."""
    scope, bare = scope_of(full_key)
    owner = _owner(ref, scope)
    if owner is None:
        return []
    writes = StateChange.objects.filter(owner_id=owner, key=stored_key(bare))
    if before is not None:
        writes = writes.filter(place__lt=before)
    return list(writes.order_by("-place").values_list("place", flat=True)[:limit])


def writes_between(
    ref: SessionRef, names: Sequence[str], after: Position, until: Position, limit: int
) -> dict[str, list[Position]]:
    """Returns where each of these full keys was written after a position, up to another one: its first writes, in
    order."""
    positions: dict[str, list[Position]] = {name: [] for name in names}
    scopes: dict[Scope, dict[str, str]] = {}
    for name in names:
        scope, bare = scope_of(name)
        scopes.setdefault(scope, {})[stored_key(bare)] = name
    one = """SELECT * FROM (SELECT key, place FROM sessions_app_statechange
        WHERE owner_id = %s AND key = %s AND place > %s AND place <= %s ORDER BY place LIMIT %s) AS writes"""
    for scope, keys in scopes.items():
        if (owner := _owner(ref, scope)) is not None:
            values = [value for key in keys for value in (owner, key, after, until, limit)]
            with connection.cursor() as cursor:
                cursor.execute(" UNION ALL ".join([one] * len(keys)), values)
                for key, position in cursor.fetchall():
                    positions[keys[key]].append(position)
    return {name: sorted(some) for name, some in positions.items()}


def last_writes(
    ref: SessionRef, names: Sequence[str], stretches: Sequence[tuple[Position, Position]]
) -> dict[str, list[LastWrite]]:
    """Returns the last write of each of these full keys in each stretch: after a position, up to another one."""
    values = ", ".join(f"({n}, {after}, {upto})" for n, (after, upto) in enumerate(stretches))
    of = """FROM sessions_app_statechange
        WHERE owner_id = %s AND key = %s AND place > stretch_after AND place <= stretch_upto"""
    ask = f"""WITH stretches (number, stretch_after, stretch_upto) AS (VALUES {values})
        SELECT (SELECT max(place) {of}), (SELECT count(*) {of}) FROM stretches ORDER BY number"""
    last: dict[str, list[LastWrite]] = {}
    for name in names:
        scope, bare = scope_of(name)
        owner, last[name] = _owner(ref, scope), [LastWrite(None, 0)] * len(stretches)
        if owner is not None and stretches:
            with connection.cursor() as cursor:
                cursor.execute(ask, [owner, stored_key(bare)] * 2)
                last[name] = [LastWrite(*row) for row in cursor.fetchall()]
    return last


def highlights(
    ref: SessionRef, kinds: Collection[str], after: Seq = NO_SEQ, upto: Seq | None = None, limit: int = 10_000
) -> list[Highlight]:
    """Returns a session's events of these HIGHLIGHTS, or “fork”, after a seq, in order."""
    owner = _owner(ref, HIGHLIGHTED)
    if owner is None:
        return []
    events = StateChange.objects.filter(owner_id=owner, key__in=kinds, place__gt=position_of(after))
    if upto is not None:
        events = events.filter(place__lte=position_of(upto))
    rows = events.order_by("place", "key").values_list("key", "place", "since")[:limit]
    return [Highlight(kind, seq_of(position), since) for kind, position, since in rows]


def highlight_counts(
    ref: SessionRef, kinds: Sequence[str], stretches: Sequence[tuple[Seq, Seq]]
) -> list[tuple[int, ...]]:
    """Returns how many of a session's events of each of these HIGHLIGHTS there are in each range of seq."""
    owner = _owner(ref, HIGHLIGHTED)
    if owner is None or not stretches:
        return [(0,) * len(kinds)] * len(stretches)
    values = ", ".join(f"({n}, {position_of(first)}, {position_of(last)})" for n, (first, last) in enumerate(stretches))
    count = """(SELECT count(*) FROM sessions_app_statechange
        WHERE owner_id = %s AND key = %s AND place BETWEEN stretch_first AND stretch_last)"""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""WITH stretches (number, stretch_first, stretch_last) AS (VALUES {values})
            SELECT {", ".join([count] * len(kinds))} FROM stretches ORDER BY number""",
            [value for kind in kinds for value in (owner, kind)],
        )
        counts: list[tuple[int, ...]] = cursor.fetchall()
        return counts


def forks(origins: Collection[SessionRef], limit: int) -> list[Seq]:
    """Returns the seqs of the events that say that their session is a fork of one of these, all of one source."""
    owners = [_owner(ref, HIGHLIGHTED) for ref in origins]
    rows = StateChange.objects.filter(owner_id__in=[each for each in owners if each], key="fork")
    return [seq_of(position) for position in rows.order_by("place").values_list("place", flat=True)[:limit]]


def _owner(ref: SessionRef, scope: str) -> int | None:
    return owner_of(registry.identity(ref.source), names_of(ref, scope))


# Steps from key to key along the index, so it doesn't matter how often each was written.
_POSITIONS: Final = f"""WITH RECURSIVE keys (key) AS (
        SELECT min(key) FROM sessions_app_statechange WHERE owner_id = %(owner)s
        UNION ALL SELECT (SELECT min(c.key) FROM sessions_app_statechange AS c
            WHERE c.owner_id = %(owner)s AND c.key > keys.key) FROM keys WHERE keys.key IS NOT NULL)
    SELECT key,
        (SELECT max(place) FROM sessions_app_statechange AS c
            WHERE c.owner_id = %(owner)s AND c.key = keys.key AND c.place <= %(upto)s),
        (SELECT min(place) FROM sessions_app_statechange AS c
            WHERE c.owner_id = %(owner)s AND c.key = keys.key AND c.place > %(upto)s),
        (SELECT max(place) FROM sessions_app_statechange AS c WHERE c.owner_id = %(owner)s AND c.key = keys.key)
    FROM keys WHERE key IS NOT NULL LIMIT {MOST_KEYS + 1}"""
