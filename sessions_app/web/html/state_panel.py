"""Defines targets: the session, app or user whose state a page shows and edits, all with the same panel and form."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from django.urls import reverse
from django.utils.http import urlencode

from ...access import actor as access_actor
from ...domain.errors import Behind, Invalid
from ...domain.positions import Seq
from ...domain.session_ref import SessionRef, own_session
from ...domain.state import (
    ABSENT,
    PREFIXES,
    STORED,
    UNKNOWN,
    Change,
    Scope,
    State,
    differs,
    full_key,
    same,
    scope_of,
    shown_order,
    split,
)
from ...edits import edit as edits
from ...edits.edit import Entry
from ...history import drift, moments
from ...reads import deltas as reads_writers
from ...reads import lists, views
from ...reads.deltas import Writer, written_beside
from ...search import outline
from ...writes.append import Appended

ROWS: Final = 300  # keys of a scope that a panel shows
MOST_ROWS: Final = 2_000  # keys that it shows when a person asks for all


@dataclass(frozen=True, slots=True)
class Row:
    """A key in the state panel.

    At an event, `change` is what the event wrote, `unknown` says why the value is unknown, and `now` is the value that is
    stored, UNKNOWN where nothing is compared with it. `said` is the value that
    the events give the key, if a different one is stored. `turn` is the number of the turn in which it was written, 0 if
    nobody knows. `beside` has the agents that wrote it at the same time, `session` what another session is called in which
    it was written.
    """

    key: str
    value: Any
    writer: Writer | None = None
    initial: bool = False
    change: Change | None = None
    unknown: str = ""
    said: Any = UNKNOWN
    turn: int = 0
    beside: tuple[str, ...] = ()
    session: str = ""
    now: Any = UNKNOWN

    @property
    def differs(self) -> bool:
        """Tells whether the key has another value now, or none."""
        return differs(self.value, self.now)

    @property
    def later(self) -> bool:
        """Tells whether the key did not exist at the event, and exists now."""
        return self.value is ABSENT and self.differs

    @property
    def drifted(self) -> bool:
        """Tells whether the events give the key another value. It may be newer than the one that is shown."""
        return self.said is not UNKNOWN and not same(self.said, self.value)

    @property
    def same(self) -> bool:
        """Tells whether the event wrote the value that the key already had."""
        return self.change is not None and same(self.change.old, self.change.new)


@dataclass(frozen=True, slots=True)
class Group:
    """A scope in the state panel. `more` of its keys are not shown. `size` is set if its state is too large to read."""

    scope: Scope
    rows: list[Row]
    more: int = 0
    size: int = 0

    @property
    def empty(self) -> bool:
        """Tells whether no row is shown: keys that were set later are hidden."""
        return all(row.later and not row.change for row in self.rows)


@dataclass(frozen=True, slots=True)
class Target:
    """A state that is shown and edited. `state` has full keys. `ref` names the session that an edit goes into."""

    kind: Scope
    ref: SessionRef
    state: State
    page: str
    edit: str
    value: str
    apply: Callable[[Sequence[Entry], access_actor.Actor, str, str, Mapping[str, Any]], Appended]
    groups: list[Group] = field(default_factory=list)
    drifted: int = 0


class Wrote(NamedTuple):
    """Who wrote the keys of a state last, and which were set at creation; what the events say for keys that drifted; the
    turns in which they were written; who else wrote a key at the same time; what other sessions of writers are called."""

    writers: Mapping[str, Writer] = MappingProxyType({})
    initial: Collection[str] = ()
    drifted: Mapping[str, Any] = MappingProxyType({})
    turns: Mapping[Seq, int] = MappingProxyType({})
    beside: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    called: Mapping[SessionRef, str] = MappingProxyType({})


NOBODY: Final = Wrote()


def address_at(ref: SessionRef, event_id: str, name: str = "session", /, **more: str) -> str:
    """Returns the URL of a session's page at an event. Empty values of `more` are left out."""
    asked = {"at": event_id, **{name: value for name, value in more.items() if value}}
    # Half of a surrogate pair becomes a question mark, because no address can hold it.
    query = urlencode({name: value.encode("utf-8", "replace") for name, value in asked.items()})
    return f"{reverse(name, kwargs=ref._asdict())}?{query}"


def who_wrote(view: views.SessionView, who: access_actor.Actor, upto: outline.Reached | None = None) -> Wrote:
    """Returns who wrote the keys of a session.

    While the source is still being indexed, returns what the newest events of this session tell about its own keys.
    """
    try:
        now = moments.state_now(view.ref, actor=who)
        # It may be newer than the view, so it tells only about values that are the same in both.
        shown = {name for name in {*now.writers, *now.initial} if same(now.state.get(name), view.state.get(name))}
        drifted = {} if view.is_incomplete else drift.glance(now, actor=who)
        writers = {name: now.writers[name] for name in shown & now.writers.keys()}
        turns, beside = _turns_in(view.ref, writers.values(), who, upto), written_beside(view.ref, writers, actor=who)
        called = others_called(view.ref, writers.values(), who)
        return Wrote(writers, now.initial & shown, drifted, turns, beside, called)
    except (Behind, Invalid):
        last = reads_writers.writers(view.ref, actor=who)
        writers = {name: writer for name, writer in last.items() if scope_of(name)[0] == "session"}
        began = split(view.initial_state or {}).session
        unwritten = view.state.session.keys() - last.keys()
        initial = {name for name in unwritten if same(began.get(name, ABSENT), view.state.get(name))}
        return Wrote(writers, initial, turns=_turns_in(view.ref, writers.values(), who, upto))


def others_called(
    ref: SessionRef, writers: Iterable[Writer | None], who: access_actor.Actor
) -> Mapping[SessionRef, str]:
    """Returns what other sessions are called in which these writers wrote."""
    others = {writer.ref for writer in writers if writer and writer.ref != ref}
    return lists.titles(sorted(others)[:ROWS], actor=who) if others else {}


def _turns_in(
    ref: SessionRef, writers: Iterable[Writer], who: access_actor.Actor, upto: outline.Reached | None
) -> dict[Seq, int]:
    seqs = written_last(ref, writers)
    return outline.outline(ref, (), actor=who, also=seqs, upto=upto).turn_numbers(seqs)


def written_last(ref: SessionRef, writers: Iterable[Writer]) -> list[Seq]:
    """Returns the seqs of the writers that wrote in this session, of the ROWS that wrote last."""
    seqs = {writer.seq for writer in writers if writer.ref == ref and writer.seq is not None}
    return sorted(seqs, reverse=True)[:ROWS]


def of_session(view: views.SessionView, wrote: Wrote = NOBODY, *, whole: bool = True) -> Target:
    """Returns a session's merged state with its three scopes, and its writers if the caller has asked `who_wrote`.

    Unless `whole`, each scope shows the ROWS keys that were written last, and those that drifted.
    """
    writers, drifted = wrote.writers, wrote.drifted
    ref = view.ref
    groups = []
    for scope in STORED:
        values = {full_key(scope, bare): value for bare, value in view.state.scope(scope).items()}
        marked = {name for name in drifted if scope_of(name)[0] == scope}
        shown = sorted(marked.union(_newest(values, writers, whole=whole)), key=shown_order)
        rows = [
            Row(
                name,
                values.get(name, ABSENT),
                writers.get(name),
                name in wrote.initial,
                said=drifted.get(name, UNKNOWN),
                turn=turn_of(writers.get(name), wrote.turns),
                beside=wrote.beside.get(name, ()),
                session=session_of(writers.get(name), wrote.called),
            )
            for name in shown
        ]
        groups.append(Group(scope, rows, len(values.keys() - set(shown)), view.sizes.get(scope, 0)))
    names = ref._asdict()
    return Target(
        "session",
        ref,
        view.state.merged(),
        reverse("session", kwargs=names),
        reverse("session-edit", kwargs=names),
        reverse("session-value", kwargs=names),
        lambda entries, who, why, once, of: edits.edit_state(ref, entries, actor=who, reason=why, once=once, of=of),
        groups,
        len(drifted),
    )


def session_of(writer: Writer | None, called: Mapping[SessionRef, str]) -> str:
    """Returns what the session of a writer is called, if it is another one."""
    return called.get(writer.ref, "") if writer else ""


def turn_of(writer: Writer | None, turns: Mapping[Seq, int]) -> int:
    """Returns the number of the turn in which a writer wrote; 0 if nobody knows, or if it was in another session."""
    return turns.get(writer.seq, 0) if writer and writer.seq is not None else 0


def _newest(names: Iterable[str], writers: Mapping[str, Writer], *, whole: bool = False) -> list[str]:
    """Returns the keys in the order of their last writing, the newest first, then by name those that no event wrote."""
    most = MOST_ROWS if whole else ROWS
    return sorted(sorted(names), key=lambda name: -writers[name].timestamp if name in writers else 0.0)[:most]


def of_app(source: str, app_name: str, who: access_actor.Actor, *, partly: bool = False) -> Target:
    """Returns an app's state."""
    state, size = _state(lambda: views.app(source, app_name, actor=who)[1], partly)
    return _one_scope(
        "app",
        own_session(source, app_name),
        state,
        {"source": source, "app_name": app_name},
        lambda entries, who, why, once, of: edits.edit_app_state(
            source, app_name, entries, actor=who, reason=why, once=once, of=of
        ),
        size,
    )


def of_user(source: str, app_name: str, user_id: str, who: access_actor.Actor, *, partly: bool = False) -> Target:
    """Returns a user's state in an app."""
    state, size = _state(lambda: views.user_state(source, app_name, user_id, actor=who), partly)
    return _one_scope(
        "user",
        own_session(source, app_name, user_id),
        state,
        {"source": source, "app_name": app_name, "user_id": user_id},
        lambda entries, who, why, once, of: edits.edit_user_state(
            source, app_name, user_id, entries, actor=who, reason=why, once=once, of=of
        ),
        size,
    )


def _state(read: Callable[[], State], partly: bool) -> tuple[State, int]:
    """Reads a scope's state and returns it with 0.

    With `partly`, a state that is too large comes back as {} and its size.
    """
    try:
        return read(), 0
    except Invalid as error:
        if not partly or "size" not in error.detail:
            raise
        return {}, error.detail["size"]


def with_writers(target: Target, who: access_actor.Actor, *, whole: bool) -> Target:
    """Adds the writers to an app's or a user's state, as far as they are known now.

    Unless `whole`, only the ROWS keys that were written last are kept.
    """
    try:
        writers, initial = moments.authors(target.ref, target.kind, split(target.state).scope(target.kind), actor=who)
    except (Behind, Invalid):
        writers, initial = {}, frozenset()
    shown = sorted(_newest(target.state, writers, whole=whole))
    called = others_called(target.ref, writers.values(), who)
    rows = [
        Row(name, target.state[name], writer := writers.get(name), name in initial, session=session_of(writer, called))
        for name in shown
    ]
    return replace(target, groups=[Group(target.kind, rows, len(target.state) - len(rows), target.groups[0].size)])


def _one_scope(scope: Scope, ref: SessionRef, state: State, names: dict[str, str], apply: Any, size: int) -> Target:
    full = {PREFIXES[scope] + bare: value for bare, value in sorted(state.items())}
    return Target(
        scope,
        ref,
        full,
        reverse(scope, kwargs=names),
        reverse(f"{scope}-edit", kwargs=names),
        reverse(f"{scope}-value", kwargs=names),
        apply,
        [Group(scope, [Row(name, full[name]) for name in list(full)[:MOST_ROWS]], max(0, len(full) - MOST_ROWS), size)],
    )
