"""Reveals hidden values to people who may see them: a key of a state or one event, with a reason that is recorded
first."""

from typing import Any, Final

from django.utils.translation import gettext as _

from ..access.actor import SYSTEM, Actor
from ..access.audit.record import record
from ..access.shown import is_hidden, shown
from ..domain.errors import Invalid, NotAllowed, NotFound
from ..domain.session_ref import SessionRef
from ..domain.state import ABSENT, Scope
from ..reads import timeline
from .edit import stored_state

REASON_LENGTH: Final = 1000


def check_may_reveal(ref: SessionRef, actor: Actor) -> None:
    """Raises NotFound if the app does not exist for this actor, NotAllowed if none of their roles may reveal."""
    actor.check_sees(ref)
    if not actor.may_reveal(ref.source, ref.app_name):
        raise NotAllowed(
            _("%(name)s doesn't have a role that can reveal masked values in this app.") % {"name": actor.name}
        )


def key(ref: SessionRef, name: str, reason: str, *, actor: Actor, only: Scope | None = None) -> Any:
    """Returns the stored value of a full key of a session; with `only`, of its app or its user.

    Raises Invalid, NotAllowed, NotFound, SourceError, and NotRecorded if that can't be recorded."""
    check_may_reveal(ref, actor)
    why = checked(reason)
    value = stored_state(ref, only, None).get(name, ABSENT)
    if value is ABSENT:
        raise NotFound(_("There's no key “%(key)s” in this state.") % {"key": name})
    if not is_hidden(name, [value], actor, ref.app_name):
        raise Invalid(_("There's nothing to reveal."))
    record("revealed", actor.name, ref=ref, key=name, reason=why)
    return value


def event(ref: SessionRef, event_id: str, reason: str, *, actor: Actor) -> Any:
    """Returns an event as it is stored. Raises what `key` does."""
    check_may_reveal(ref, actor)
    why = checked(reason)
    stored = timeline.event(ref, event_id, actor=SYSTEM)
    if stored.size:
        raise Invalid(_("This event is too large to show here."))
    if shown(stored.data, actor, ref.app_name, "event") == stored.data:
        raise Invalid(_("There's nothing to reveal."))
    record("revealed", actor.name, ref=ref, event=event_id, reason=why)
    return stored.data


def checked(reason: str) -> str:
    """Returns a reason without blanks around it. Raises Invalid without one, or for one that is too long."""
    reason = reason.strip()
    if not reason:
        raise Invalid(_("Enter a reason. It will be recorded."))
    if len(reason) > REASON_LENGTH:
        raise Invalid(_("The reason is longer than %(n)s characters. Shorten it.") % {"n": REASON_LENGTH})
    return reason
