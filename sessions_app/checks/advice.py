"""Finds in the state of an app what ADK advises against: state should be small, flat and JSON, with each key in its
scope.

It asks the index, and reads a bounded number of the newest sessions (samples.py). It never shows a value: for a secret,
it names the key and the kind.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ..access.actor import Actor
from ..domain.errors import Error
from ..domain.positions import Seq
from ..domain.session_ref import SessionRef, own_session
from ..domain.state import Scope, full_key, scope_of
from ..history import key_history, moments
from ..search.drift_looks import drifted, drifted_keys
from ..search.health import Of
from ..search.index.tables import ref_of
from ..search.sql import rows
from . import names
from .samples import OneState, Sample, sample
from .values import signs

KINDS: Final = (
    "secret",
    "outside",
    "unprefixed",
    "prefix",
    "scopes",
    "spelling",
    "style",
    "text",
    "large",
    "deep",
    "stale",
)
MOST: Final = 8  # findings of a kind
COUNTED: Final = 10_000  # sessions that have a key
STALE_DAYS: Final = 30
_DETAILS: Final = 4  # of a finding
_STATE: Final = 50_000  # bytes above which a state is called large
_KEYS: Final = 2_000  # of an app, that are compared
_JUDGED: Final = 5  # sessions whose stored state is compared with their events
_RECENT: Final = 10  # sessions without a key, before it is called left behind
_OLD_KEYS: Final = 40  # whose age is looked up
_OLD: Final = 1_000  # sessions of such a key whose last activity is looked up
_DAY: Final = 86_400


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to improve: its kind, the key, and details. A key without a name is the whole state of a scope.

    `seen` is the number of states looked at that show it, and `owners` that of the sessions or users that have the key,
    at most COUNTED, and then `more`. `ref` is one of the sessions; the event `event_id` of `wrote` wrote the key there
    last.
    """

    kind: str
    key: str
    details: tuple[str, ...] = ()
    seen: int = 0
    ref: SessionRef | None = None
    owners: int = 0
    more: bool = False
    wrote: SessionRef | None = None
    event_id: str = ""
    seq: Seq | None = None

    @property
    def scope(self) -> Scope:
        """Returns the scope of the key."""
        return scope_of(self.key)[0]

    @property
    def is_whole(self) -> bool:
        """Returns whether the finding is about a whole state, and not about a key."""
        return not scope_of(self.key)[1]


@dataclass(frozen=True, slots=True)
class Health:
    """Advice on the state of an app, by kind, in the order of KINDS. `hidden` counts what is left out.

    `sessions` is how many were read. `share` is how much of the source the index has."""

    findings: dict[str, list[Finding]]
    hidden: dict[str, int]
    sessions: int
    share: float


def health(source: str, app_name: str, *, actor: Actor) -> Health:
    """Returns what to improve in the state of an app. Raises NotFound, SourceError."""
    read = sample(source, app_name, actor=actor)
    keys = _keys(read)
    by_kind: dict[str, list[Finding]] = {kind: [] for kind in KINDS}
    for finding in (
        *_by_values(read),
        *_by_names(read, keys),
        *_outside(read, app_name, actor),
        *_stale(read, keys, actor),
    ):
        by_kind[finding.kind].append(finding)
    findings, hidden = {}, {}
    for kind, some in by_kind.items():
        if some:
            some.sort(key=lambda finding: (-finding.seen, finding.key))
            findings[kind] = [_written(_counted(finding, read), actor) for finding in some[:MOST]]
            hidden[kind] = len(some) - len(findings[kind])
    return Health(findings, hidden, len(read.sessions), read.share)


def _states(read: Sample) -> Iterator[tuple[Scope, OneState]]:
    scopes: Sequence[tuple[Scope, list[OneState]]] = (
        *(("session", read.sessions), ("user", read.users), ("app", read.apps)),
    )
    for scope, states in scopes:
        yield from ((scope, one) for one in states)


def _keys(read: Sample) -> dict[Scope, set[str]]:
    """Returns the bare keys of each scope: those that the index has, and those of the states that are read."""
    keys: dict[Scope, set[str]] = {"session": set(), "user": set(), "app": set()}
    for scope, one in _states(read):
        keys[scope].update(one.state)
    for (path,) in rows(
        """SELECT n.value FROM sessions_app_searchname AS n WHERE n.kind = 'key' AND n.app_name = %s AND EXISTS
        (SELECT 1 FROM sessions_app_searchvalue AS v WHERE v.name_id = n.id) ORDER BY n.id LIMIT %s""",
        [read.app_name, _KEYS],
    ):
        scope, bare = scope_of(path)
        if "." not in bare:  # otherwise, it may be part of another key
            keys[scope].add(bare)
    return {scope: {bare for bare in some if bare and not bare.startswith("__")} for scope, some in keys.items()}


# --- What values show -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Shown:
    """States with the same finding for the same key."""

    details: set[str] = field(default_factory=set)
    refs: list[SessionRef] = field(default_factory=list)

    def add(self, detail: str, ref: SessionRef) -> None:
        self.details.add(detail)
        if not self.refs or self.refs[-1] is not ref:
            self.refs.append(ref)

    def summary(self) -> tuple[str, ...]:
        numbers = [int(each) for each in self.details if each.isdecimal()]
        return (str(max(numbers)),) if numbers else tuple(sorted(self.details)[:_DETAILS])


def _by_values(read: Sample) -> Iterator[Finding]:
    shown: dict[tuple[str, str], _Shown] = {}
    for scope, one in _states(read):
        if one.bytes > _STATE:
            shown.setdefault(("large", full_key(scope, "")), _Shown()).add(str(one.bytes), one.ref)
        for bare, value in one.state.items():
            if bare and not bare.startswith("__"):
                for sign in signs(bare, value):
                    shown.setdefault((sign.kind, full_key(scope, bare)), _Shown()).add(sign.detail, one.ref)
    for (kind, key), each in shown.items():
        yield Finding(kind, key, each.summary(), len(each.refs), each.refs[0])


# --- What names show --------------------------------------------------------------------------------------------------


def _by_names(read: Sample, keys: dict[Scope, set[str]]) -> Iterator[Finding]:
    states = [(one.ref.user_id, one.state) for one in read.sessions]
    for bare in keys["session"]:
        if prefix := names.meant_prefix(bare):
            yield _named(read, "prefix", bare, prefix)
        elif bare in keys["user"] or bare in keys["app"]:
            others = [full_key(scope, bare) for scope in ("user", "app") if bare in keys[scope]]
            yield _named(read, "scopes", bare, *others)
        elif names.is_same_for_each_user(states, bare):
            yield _named(read, "unprefixed", bare, "same")
        elif names.seems_users(bare):
            yield _named(read, "unprefixed", bare, "name")
    for scope, some in keys.items():
        for first, *others in names.spellings(some):
            yield _named(read, "spelling", full_key(scope, first), *(full_key(scope, other) for other in others))
    usual, others = names.other_style({bare for some in keys.values() for bare in some})
    for scope, some in keys.items():
        yield from (_named(read, "style", full_key(scope, bare), usual) for bare in others if bare in some)


def _named(read: Sample, kind: str, key: str, *details: str) -> Finding:
    scope, bare = scope_of(key)
    refs = [one.ref for each, one in _states(read) if each == scope and bare in one.state]
    return Finding(kind, key, details[:_DETAILS], len(refs), refs[0] if refs else None)


# --- What time shows --------------------------------------------------------------------------------------------------


def _outside(read: Sample, app_name: str, actor: Actor) -> Iterator[Finding]:
    """Yields keys whose stored value differs from what their last event wrote: in the newest sessions, and in those
    known to have drifted."""
    shown: dict[str, _Shown] = {}
    known = drifted(of=Of(read.source, app_name), actor=actor)
    for ref in dict.fromkeys([*read.refs[:_JUDGED], *(each.ref for each in known)]):
        try:
            for change in drifted_keys(ref, actor=actor):
                shown.setdefault(change.key, _Shown()).add("", ref)
        except Error:  # it is gone by now, or its history is not read yet
            continue
    yield from (Finding("outside", key, (), len(each.refs), each.refs[0]) for key, each in shown.items())


def _stale(read: Sample, keys: dict[Scope, set[str]], actor: Actor) -> Iterator[Finding]:
    """Yields keys of sessions that no newer session has, and keys of the app that have not been written for long."""
    recent = [pk for pk, at in zip(read.numbers, read.active, strict=True) if read.newest - at < STALE_DAYS * _DAY]
    if len(recent) >= _RECENT:
        yield from _left_behind(read, recent, keys["session"])
    for one in read.apps:
        try:
            writers, _initial = moments.authors(own_session(*one.ref[:2]), "app", one.state, actor=actor)
        except Error:
            continue
        for key, writer in writers.items():
            if (days := int((read.newest - writer.timestamp) // _DAY)) >= STALE_DAYS:
                yield Finding("stale", key, (str(days),), 1, one.ref)


def _left_behind(read: Sample, recent: Sequence[int], keys: set[str]) -> Iterator[Finding]:
    holes = ", ".join(["%s"] * len(recent))
    present = rows(
        f"""SELECT DISTINCT n.value FROM sessions_app_searchvalue AS v JOIN sessions_app_searchname AS n ON n.id = v.name_id
        WHERE v.owner_id IN ({holes})""",
        recent,
    )
    for key in sorted(keys - {path for (path,) in present})[:_OLD_KEYS]:
        newest = rows(
            """SELECT s.names, s.last FROM (SELECT v.owner_id FROM sessions_app_searchname AS n
                JOIN sessions_app_searchvalue AS v ON v.name_id = n.id
                WHERE n.kind = 'key' AND n.value = %s AND n.app_name = %s ORDER BY v.owner_id DESC LIMIT %s) AS v
            JOIN sessions_app_searchsession AS s ON s.id = v.owner_id WHERE s.app_owner_id = %s
            ORDER BY s.last DESC LIMIT 1""",
            [key, read.app_name, _OLD, read.app],
        )
        for text, last in newest:
            if (days := int((read.newest - last) // _DAY)) >= STALE_DAYS:
                yield Finding("stale", key, (str(days),), 0, ref_of(read.source, text))


# --- What is told of each ---------------------------------------------------------------------------------------------

_OWNERS: Final = {  # the table of those that have keys of a scope, their number there, and what a session calls it
    "session": ("searchsession", "v.owner_id", "id"),
    "user": ("searchowner", "-v.owner_id", "user_owner_id"),
    "app": ("searchowner", "-v.owner_id", "app_owner_id"),
}


def _counted(finding: Finding, read: Sample) -> Finding:
    """Adds how many sessions, users or apps have the key, and one of the sessions if none was looked at."""
    if finding.is_whole:
        return replace(finding, owners=finding.seen)
    table, number, of_owner = _OWNERS[finding.scope]
    owners = f"""FROM sessions_app_searchname AS n JOIN sessions_app_searchvalue AS v ON v.name_id = n.id
        JOIN sessions_app_{table} AS o ON o.id = {number} AND o.source_id = %s
        WHERE n.kind = 'key' AND n.value = %s AND n.app_name = %s"""
    values = [read.number, finding.key, read.app_name]
    count = rows(f"SELECT count(*) FROM (SELECT 1 {owners} LIMIT %s) AS counted", [*values, COUNTED + 1])[0][0]
    finding = replace(finding, owners=max(finding.seen, min(count, COUNTED)), more=count > COUNTED)
    if finding.ref is not None:
        return finding
    of = f"SELECT {number} {owners} ORDER BY v.owner_id DESC LIMIT 1"
    one = rows(f"SELECT names FROM sessions_app_searchsession WHERE {of_owner} = ({of}) LIMIT 1", values)
    return replace(finding, ref=ref_of(read.source, one[0][0]) if one else None)


def _written(finding: Finding, actor: Actor) -> Finding:
    """Adds the event that wrote the key last, if it is known."""
    if finding.ref is None or finding.is_whole:
        return finding
    try:
        writes = key_history.history(finding.ref, finding.key, limit=1, actor=actor).rows
    except Error:  # its history is not read yet
        return finding
    wrote = next((write for write in writes if write.event_id), None)
    return replace(finding, wrote=wrote.ref, event_id=wrote.event_id, seq=wrote.seq) if wrote else finding
