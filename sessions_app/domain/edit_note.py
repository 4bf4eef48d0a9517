"""Reads and checks adkweb's note in an event's `custom_metadata`: who edited, why, and what was replaced (pure)."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from .errors import Invalid
from .json_values import as_object
from .translation import gettext_lazy as _

SYSTEM: Final = "system"  # the author of every edit
EDIT_PREFIX: Final = "edit-"  # the invocation id of every state edit starts with it
ORIGIN: Final = "adkweb_origin"  # in custom_metadata of a fork's event: the event that it is a copy of
NOTES: Final = ("adkweb", ORIGIN)  # what adkweb itself writes into custom_metadata
RUN: Final = "adkweb_run"  # in custom_metadata of the events of a run that adkweb started: the id of its job


def edit_of(event: Mapping[str, Any]) -> dict[str, Any]:
    """Returns adkweb's note in an edit (actor, reason, replaced values, removed keys), or {} for any other event."""
    return as_object(as_object(event.get("custom_metadata")).get("adkweb"))


def ended_by(edit: Mapping[str, Any]) -> str:
    """Returns the id of the invocation that an edit ended, according to its note, or "" if it ended none."""
    ended = edit.get("ended")
    return ended if isinstance(ended, str) else ""


def until_of(edit: Mapping[str, Any]) -> float | None:
    """Returns when a temporary edit is undone, from its note, in seconds; None for any other edit."""
    until = edit.get("until")
    return float(until) if isinstance(until, int | float) and not isinstance(until, bool) else None


def is_edit(event: Mapping[str, Any]) -> bool:
    """Returns whether the event has adkweb's note of an edit."""
    return "adkweb" in as_object(event.get("custom_metadata"))


def check_no_note(event: Mapping[str, Any], names: Iterable[str] = NOTES) -> None:
    """Raises Invalid if an event has one of adkweb's notes.

    With such a note, it could claim to be anyone's edit, or a fork's copy of another event.
    """
    metadata = as_object(event.get("custom_metadata"))
    for name in names:
        if name in metadata:
            raise Invalid(_("custom_metadata.%(name)s: reserved for adkweb's own notes") % {"name": name})


def run_of(event: Mapping[str, Any]) -> str:
    """Returns the id of the run that an event says it is of, as it is written there; "" if it says none."""
    run = as_object(event.get("custom_metadata")).get(RUN)
    return "" if run is None else str(run)


def is_listed(edit: Mapping[str, Any]) -> bool:
    """Returns whether lists of edits show an edit, from its note. They show one edit of a batch per app."""
    return not edit.get("batch") or bool(edit.get("for_batch"))


def is_copy(event: Mapping[str, Any]) -> bool:
    """Returns whether a fork copied the event from another session."""
    return bool(as_object(event.get("custom_metadata")).get(ORIGIN))
