"""Reads and checks what adkweb notes in an event's `custom_metadata`: who edited, why, and what was replaced (pure)."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from django.utils.translation import gettext as _

from ..errors import Invalid
from .json_values import as_object

SYSTEM: Final = "system"  # the author of every edit
EDIT_PREFIX: Final = "edit-"  # of every state edit's invocation id
ORIGIN: Final = "adkweb_origin"  # in custom_metadata: of which event a fork's event is the copy
NOTES: Final = ("adkweb", ORIGIN)  # all that adkweb writes into custom_metadata


def edit_of(event: Mapping[str, Any]) -> dict[str, Any]:
    """What adkweb noted in an edit: actor, reason, replaced values, removed keys; empty for any other event."""
    return as_object(as_object(event.get("custom_metadata")).get("adkweb"))


def ended_by(edit: Mapping[str, Any]) -> str:
    """The id of the invocation that an edit ended, by what was noted in it; empty where it ended none."""
    ended = edit.get("ended")
    return ended if isinstance(ended, str) else ""


def is_edit(event: Mapping[str, Any]) -> bool:
    """Whether adkweb has noted something in the event."""
    return "adkweb" in as_object(event.get("custom_metadata"))


def check_no_note(event: Mapping[str, Any], names: Iterable[str] = NOTES) -> None:
    """Raises Invalid for an event that has a note of adkweb's: it could claim to be anybody's edit, or a fork's copy of
    another event.
    """
    metadata = as_object(event.get("custom_metadata"))
    for name in names:
        if name in metadata:
            raise Invalid(
                _("custom_metadata.%(name)s: is adkweb's own note, which nobody else writes") % {"name": name}
            )


def is_copy(event: Mapping[str, Any]) -> bool:
    """Whether a fork copied the event here from another session."""
    return bool(as_object(event.get("custom_metadata")).get(ORIGIN))
