"""Whose state a page shows and edits: a session's, an app's or a user's. One panel and one form serve all three."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from .. import access, edits, reads
from ..edits import Entry
from ..event_rows import Writer
from ..keys import SessionKey
from ..state import ABSENT, PREFIXES, STORED, Scope, State, full_key
from ..values import equal
from ..writes import Appended


@dataclass(frozen=True, slots=True)
class Row:
    """One key in the state panel; `bare` is without prefix."""

    key: str
    value: Any
    writer: Writer | None = None
    initial: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """One scope in the state panel."""

    scope: Scope
    rows: list[Row]


@dataclass(frozen=True, slots=True)
class Target:
    """A state that is shown and edited. `state` has full keys; `key` names the session that an edit goes into."""

    kind: Scope
    key: SessionKey
    state: State
    page: str
    edit: str
    value: str
    apply: Callable[[Sequence[Entry], access.Actor, str, str], Appended]
    groups: list[Group] = field(default_factory=list)


def actor(request: HttpRequest) -> access.Actor:
    """Who is signed in."""
    return access.actor_of(request.user)  # type: ignore[arg-type]


def of_session(view: reads.SessionView, writers: Mapping[str, Writer] | None = None) -> Target:
    """A session's merged state, all three scopes; `writers` where the caller knows them already."""
    key = view.key
    writers = reads.writers(key) if writers is None else writers
    initial = view.initial_state or {}
    groups = [
        Group(
            scope,
            [
                Row(
                    name := full_key(scope, bare),
                    value,
                    writers.get(name),
                    # Of a user's or app's key, other sessions may be the writers.
                    scope == "session" and name not in writers and equal(initial.get(name, ABSENT), value),
                )
                for bare, value in sorted(view.state.scope(scope).items())
            ],
        )
        for scope in STORED
    ]
    names = key._asdict()
    return Target(
        "session",
        key,
        view.state.merged(),
        reverse("session", kwargs=names),
        reverse("session-edit", kwargs=names),
        reverse("session-value", kwargs=names),
        lambda entries, who, why, once: edits.edit_state(key, entries, actor=who, reason=why, once=once),
        groups,
    )


def of_app(source: str, app_name: str) -> Target:
    """An app's state."""
    _row, state = reads.app(source, app_name)
    return _one_scope(
        "app",
        SessionKey(source, app_name, edits.OWN_NAME, edits.OWN_NAME),
        state,
        {"source": source, "app_name": app_name},
        lambda entries, who, why, once: edits.edit_app_state(
            source, app_name, entries, actor=who, reason=why, once=once
        ),
    )


def of_user(source: str, app_name: str, user_id: str) -> Target:
    """A user's state in an app."""
    state = reads.user_state(source, app_name, user_id)
    return _one_scope(
        "user",
        SessionKey(source, app_name, user_id, edits.OWN_NAME),
        state,
        {"source": source, "app_name": app_name, "user_id": user_id},
        lambda entries, who, why, once: edits.edit_user_state(
            source, app_name, user_id, entries, actor=who, reason=why, once=once
        ),
    )


def _one_scope(scope: Scope, key: SessionKey, state: State, names: dict[str, str], apply: Any) -> Target:
    full = {PREFIXES[scope] + bare: value for bare, value in sorted(state.items())}
    return Target(
        scope,
        key,
        full,
        reverse(scope, kwargs=names),
        reverse(f"{scope}-edit", kwargs=names),
        reverse(f"{scope}-value", kwargs=names),
        apply,
        [Group(scope, [Row(name, value) for name, value in full.items()])],
    )
