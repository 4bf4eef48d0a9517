"""Whose state a page shows and edits: a session's, an app's or a user's. One panel and one form serve all three."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import urlencode

from ...access import actor as access_actor
from ...domain.session_ref import SessionRef, own_session
from ...domain.state import ABSENT, PREFIXES, STORED, UNKNOWN, Change, Scope, State, full_key, same, scope_of, split
from ...edits import edit as edits
from ...edits.edit import Entry
from ...errors import Behind, Invalid
from ...history import drift, moments
from ...reads import views
from ...reads import writers as reads_writers
from ...reads.deltas import Writer
from ...writes.append import Appended
from ...writes.half_made import is_half

ROWS: Final = 300  # keys of a scope that a panel shows
MOST_ROWS: Final = 2_000  # that it shows when it shows all


@dataclass(frozen=True, slots=True)
class Row:
    """One key in the state panel, with its prefix; at an event also what that changed, and why a value is not known. Now
    also what events say, where another value is stored.
    """

    key: str
    value: Any
    writer: Writer | None = None
    initial: bool = False
    change: Change | None = None
    unknown: str = ""
    said: Any = UNKNOWN

    @property
    def drifted(self) -> bool:
        """Whether the events say something else; what they say may be of a moment later than the value."""
        return self.said is not UNKNOWN and not same(self.said, self.value)

    @property
    def same(self) -> bool:
        """Whether the event wrote the value that stood there already."""
        return self.change is not None and same(self.change.old, self.change.new)


@dataclass(frozen=True, slots=True)
class Group:
    """One scope in the state panel; `more` of its keys are not shown. One of `size` characters is too large to be read."""

    scope: Scope
    rows: list[Row]
    more: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class Target:
    """A state that is shown and edited. `state` has full keys; `key` names the session that an edit goes into."""

    kind: Scope
    ref: SessionRef
    state: State
    page: str
    edit: str
    value: str
    apply: Callable[[Sequence[Entry], access_actor.Actor, str, str], Appended]
    groups: list[Group] = field(default_factory=list)
    drifted: int = 0


def actor(request: HttpRequest) -> access_actor.Actor:
    """Who is signed in."""
    return access_actor.actor_of(request.user)  # type: ignore[arg-type]


def address_at(ref: SessionRef, event_id: str, name: str = "session", /, **more: str) -> str:
    """The address of a session's page at an event; of `more` what is empty is left out."""
    asked = {"at": event_id, **{name: value for name, value in more.items() if value}}
    # Half of a surrogate pair, which no address can hold, becomes a question mark.
    query = urlencode({name: value.encode("utf-8", "replace") for name, value in asked.items()})
    return f"{reverse(name, kwargs=ref._asdict())}?{query}"


def who_wrote(view: views.SessionView) -> tuple[Mapping[str, Writer], Collection[str], State]:
    """Of the state as it is stored: the last writers of its keys, in whichever session, the keys that stand since a
    session was created, and what events say of those that are stored otherwise. While the source is being read, what this
    session's newest events tell of its own keys.
    """
    try:
        now = moments.state_now(view.ref)
        # It may be newer than the view: what it tells holds for the values that stand in both.
        shown = {name for name in {*now.writers, *now.initial} if same(now.state.get(name), view.state.get(name))}
        drifted = {} if is_half(view.state.session) else drift.glance(now)
        return {name: now.writers[name] for name in shown & now.writers.keys()}, now.initial & shown, drifted
    except (Behind, Invalid):
        found = reads_writers.writers(view.ref)
        writers = {name: writer for name, writer in found.items() if scope_of(name)[0] == "session"}
        began = split(view.initial_state or {}).session
        unwritten = view.state.session.keys() - found.keys()
        return writers, {name for name in unwritten if same(began.get(name, ABSENT), view.state.get(name))}, {}


def of_session(
    view: views.SessionView,
    writers: Mapping[str, Writer] | None = None,
    initial: Collection[str] = (),
    drifted: Mapping[str, Any] | None = None,
    *,
    whole: bool = True,
) -> Target:
    """A session's merged state, all three scopes; with who wrote it where the caller asked `who_wrote`. One that is not
    `whole` shows ROWS keys of a scope, those that were written last, and those that drifted.
    """
    ref = view.ref
    writers, drifted = writers or {}, drifted or {}
    groups = []
    for scope in STORED:
        values = {full_key(scope, bare): value for bare, value in view.state.scope(scope).items()}
        marked = {name for name in drifted if scope_of(name)[0] == scope}
        shown = sorted(marked.union(_newest(values, writers, whole=whole)))
        rows = [
            Row(
                name,
                values.get(name, ABSENT),
                writers.get(name),
                name in initial,
                said=drifted.get(name, UNKNOWN),
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
        lambda entries, who, why, once: edits.edit_state(ref, entries, actor=who, reason=why, once=once),
        groups,
        len(drifted),
    )


def _newest(names: Iterable[str], writers: Mapping[str, Writer], *, whole: bool = False) -> list[str]:
    """The keys of a scope that were written last; of those that no event wrote, the first by name."""
    most = MOST_ROWS if whole else ROWS
    return sorted(sorted(names), key=lambda name: -writers[name].timestamp if name in writers else 0.0)[:most]


def of_app(source: str, app_name: str, *, partly: bool = False) -> Target:
    """An app's state."""
    state, size = _state(lambda: views.app(source, app_name)[1], partly)
    return _one_scope(
        "app",
        own_session(source, app_name),
        state,
        {"source": source, "app_name": app_name},
        lambda entries, who, why, once: edits.edit_app_state(
            source, app_name, entries, actor=who, reason=why, once=once
        ),
        size,
    )


def of_user(source: str, app_name: str, user_id: str, *, partly: bool = False) -> Target:
    """A user's state in an app."""
    state, size = _state(lambda: views.user_state(source, app_name, user_id), partly)
    return _one_scope(
        "user",
        own_session(source, app_name, user_id),
        state,
        {"source": source, "app_name": app_name, "user_id": user_id},
        lambda entries, who, why, once: edits.edit_user_state(
            source, app_name, user_id, entries, actor=who, reason=why, once=once
        ),
        size,
    )


def _state(read: Callable[[], State], partly: bool) -> tuple[State, int]:
    """A scope's state; where only a part is wanted, nothing and its size instead of one that is too large to be read."""
    try:
        return read(), 0
    except Invalid as error:
        if not partly or "size" not in error.detail:
            raise
        return {}, error.detail["size"]


def with_writers(target: Target, *, whole: bool) -> Target:
    """An app's or a user's state with who wrote it, as far as that is known now; one that is not `whole` shows ROWS keys,
    those that were written last.
    """
    try:
        writers, initial = moments.authors(target.ref, target.kind, split(target.state).scope(target.kind))
    except (Behind, Invalid):
        writers, initial = {}, frozenset()
    shown = sorted(_newest(target.state, writers, whole=whole))
    rows = [Row(name, target.state[name], writers.get(name), name in initial) for name in shown]
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
