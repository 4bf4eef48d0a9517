"""The values with which a fork begins where they are others than those of the moment: one edit, the first event of its own.

They are checked before the fork is made. Only the session's own keys can have others: `user:` and `app:` state is shared
with the fork, and a change of it would reach the sessions that it is forked from."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from ..access.actor import Actor
from ..domain.errors import Invalid
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, UNKNOWN, scope_of
from . import edit
from .fork_tree import note_id

Values = Mapping[str, Any]  # by key; ABSENT takes a key away


def check(values: Values, actor: Actor, reason: str) -> None:
    """Raises Invalid if a fork cannot begin with these values."""
    for key in values:
        if scope_of(key)[0] != "session":
            raise Invalid(
                _("%(key)s: a fork can begin with other values of its own keys only; user and app state is shared.")
                % {"key": key}
            )
    if values:
        before = [edit.Entry(key, value, None if value is ABSENT else ABSENT) for key, value in values.items()]
        edit.state_event(before, actor, reason)


def write(into: SessionRef, values: Values, actor: Actor, reason: str) -> None:
    """Writes the values into a fork that has been made; once, however often. Raises what `edit_state` does."""
    if values:
        entries = [edit.Entry(key, value, UNKNOWN) for key, value in values.items()]
        edit.overwrite_state(into, entries, actor=actor, reason=reason, once=note_id(into))


def kept(values: Values) -> list[list[Any]]:
    """Returns the values as JSON can hold them: [["step", "pay"], ["note"]], where `note` is taken away."""
    return [[key] if value is ABSENT else [key, value] for key, value in values.items()]


def read(stored: list[list[Any]]) -> Values:
    """Returns the values that `kept` returned."""
    return {key: value[0] if value else ABSENT for key, *value in stored}
