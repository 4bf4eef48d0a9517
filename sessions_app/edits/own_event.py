"""Appends an event that a person wrote by hand."""

import uuid
from collections.abc import Mapping
from typing import Any, Final

from django.utils.translation import gettext as _

from ..access.actor import SYSTEM as MACHINE
from ..access.actor import Actor
from ..domain.adk_fields import check_fields
from ..domain.edit_note import EDIT_PREFIX, SYSTEM, edit_of
from ..domain.errors import Conflict, Invalid
from ..domain.event import check_event, delta_of
from ..domain.session_ref import SessionRef
from ..reads import views
from ..writes.append import Appended
from . import edit

_TRIES: Final = 5


def add_event(ref: SessionRef, event: Mapping[str, Any], *, actor: Actor, reason: str = "") -> Appended:
    """Appends an event that a person wrote by hand. It is an edit, whatever author and invocation it names.

    Raises Invalid with the path of the fault, NotFound, NotAllowed, Conflict (another event has its id), SourceError.
    """
    checked = check_event(event)
    if checked.get("partial"):
        raise Invalid(_("partial: a partial event is never stored"))
    if camel := [name for name in checked if name != name.lower()]:
        raise Invalid(_("%(names)s: fields are written in snake_case here") % {"names": ", ".join(camel)})
    check_fields(checked)
    checked["author"] = checked["author"] or SYSTEM
    checked["invocation_id"] = checked["invocation_id"] or EDIT_PREFIX + str(uuid.uuid4())
    for attempt in range(_TRIES):
        state = views.session(ref, actor=MACHINE).state
        before = {name: state.get(name) for name in delta_of(checked)}
        noted = edit.note([edit.Entry(name, None, value) for name, value in before.items()], actor, reason)
        noted["removed"] = edit_of(checked).get("removed", [])
        checked["custom_metadata"] = {**checked.get("custom_metadata", {}), "adkweb": noted}
        try:
            return edit.append_once(ref, checked, actor, before)
        except Conflict as conflict:
            # Somebody has just written one of its keys: note again what it replaces.
            if "current" not in conflict.detail or attempt == _TRIES - 1:
                raise
    raise AssertionError("unreachable")
