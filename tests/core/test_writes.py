"""Appending, creating and deleting."""

from sessions_app import reads, writes
from sessions_app.access import Actor


def test_an_append_changes_every_scope_that_its_delta_names(source: str, actor: Actor) -> None:
    key = writes.create_session(source, "app", "user", actor=actor, state={"a": 1, "user:b": 2, "app:c": 3, "temp:d": 4})
    delta = {"a": 10, "user:b": None, "app:c": [1], "temp:d": 5}
    writes.append_event(key, {"author": "x", "actions": {"state_delta": delta}}, actor=actor)
    assert reads.session(key).state.merged() == {"a": 10, "user:b": None, "app:c": [1]}
