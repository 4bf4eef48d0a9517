"""Does everything that can happen to sessions and state, at random, and computes the result by a naive fold."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import strategies as st

from sessions_app.domain.event import new_id
from sessions_app.domain.session_ref import SessionRef
from sessions_app.domain.state import Scoped, apply, split
from sessions_app.edits import rewind
from sessions_app.sources import database
from sessions_app.writes.append import append_event
from sessions_app.writes.sessions import create_session, delete_session
from tests.strategies import json_values
from tests.support.people import ALICE

USERS, SESSIONS = ("ana", "ben"), ("s1", "s2", "s3")
INVOCATIONS = ("i1", "i2", "i3")
KEYS = ("n", "m", "user:tier", "user:x", "app:total", "app:", "temp:t", "a" * 700, "ключ 👩‍👩‍👧‍👦", "\1odd")
_apps = itertools.count()

values = st.none() | st.integers(0, 3) | json_values
deltas = st.dictionaries(st.sampled_from(KEYS), values, max_size=4)
creations = st.tuples(st.just("create"), st.sampled_from(USERS), st.sampled_from(SESSIONS), deltas)
appends = st.tuples(
    st.just("append"),
    st.sampled_from(USERS),
    st.sampled_from(SESSIONS),
    deltas,
    st.lists(st.sampled_from(KEYS), max_size=2),
    st.sampled_from(INVOCATIONS),
)
rewinds = st.tuples(st.just("rewind"), st.sampled_from(USERS), st.sampled_from(SESSIONS), st.sampled_from(INVOCATIONS))
deletions = st.tuples(st.just("delete"), st.sampled_from(USERS), st.sampled_from(SESSIONS), st.booleans())
looks = st.tuples(st.just("look"))
histories = st.lists(st.one_of(creations, appends, appends, appends, rewinds, looks), max_size=25)
with_deletions = st.lists(st.one_of(creations, creations, appends, appends, appends, deletions, looks), max_size=30)


class Fold:
    """Everything that was written, applied in order, and the state of each event's session before and after it."""

    def __init__(self, source: str) -> None:
        self.source, self.app_name = source, f"app{next(_apps)}"
        self.app: dict[str, Any] = {}
        self.user: dict[str, dict[str, Any]] = {}
        self.session: dict[SessionRef, dict[str, Any]] = {}
        self.seen: list[tuple[SessionRef, str, Scoped, Scoped]] = []
        self.began: dict[tuple[SessionRef, str], dict[str, Any]] = {}  # own state before an invocation's first event

    def ref(self, user: str, name: str) -> SessionRef:
        return SessionRef(self.source, self.app_name, user, name)

    def state(self, ref: SessionRef) -> Scoped:
        return Scoped(dict(self.app), dict(self.user.get(ref.user_id, {})), dict(self.session[ref]))

    def apply(self, ref: SessionRef, delta: dict[str, Any], removed: list[str] = []) -> None:  # noqa: B006  # read only
        gone = split(dict.fromkeys(removed))
        scoped = split(delta)
        self.app = apply(self.app, scoped.app, gone.app)
        self.user[ref.user_id] = apply(self.user.get(ref.user_id, {}), scoped.user, gone.user)
        self.session[ref] = apply(self.session.get(ref, {}), scoped.session, gone.session)

    def create(self, user: str, name: str, state: dict[str, Any]) -> None:
        ref = self.ref(user, name)
        if ref in self.session:
            return
        create_session(*ref[:3], session_id=name, state=state, actor=ALICE)
        self.apply(ref, state)

    def append(self, user: str, name: str, delta: dict[str, Any], wish: list[str], invocation: str) -> None:
        ref = self.ref(user, name)
        if ref not in self.session:
            return
        removed = [each for each in wish if not each.startswith("temp:")]
        event = {
            "id": new_id(),
            "author": "agent",
            "invocation_id": invocation,
            "actions": {"state_delta": {**delta, **dict.fromkeys(removed)}},
            "custom_metadata": {"adkweb": {"removed": removed}} if removed else {},
        }
        before = self.state(ref)
        append_event(ref, event, actor=ALICE, origin="person")
        self.apply(ref, delta, removed)
        self.seen.append((ref, event["id"], before, self.state(ref)))
        self.began.setdefault((ref, invocation), before.session)

    def rewind(self, user: str, name: str, invocation: str) -> None:
        ref = self.ref(user, name)
        if (ref, invocation) not in self.began:
            return
        before = self.state(ref)
        event = rewind.rewind(ref, invocation, actor=ALICE).event
        self.session[ref] = dict(self.began[ref, invocation])
        self.seen.append((ref, event["id"], before, self.state(ref)))

    def delete(self, user: str, name: str, by_others: bool) -> None:
        ref = self.ref(user, name)
        if ref not in self.session:
            return
        if by_others:
            with database.using(self.source) as db, db.cursor() as cursor:
                cursor.execute("DELETE FROM sessions WHERE app_name = %s AND user_id = %s AND id = %s", ref[1:])
        else:
            delete_session(ref, actor=ALICE)
        del self.session[ref]
        self.seen = [each for each in self.seen if each[0] != ref]
        self.began = {each: state for each, state in self.began.items() if each[0] != ref}
