"""A stored session as a replay takes it (adk/replay.py): its events, and the state before the first of them."""

import json
from collections.abc import Iterator
from typing import Any, Final

from django.utils.translation import gettext as _

from ..access.actor import SYSTEM
from ..domain.errors import Invalid
from ..domain.session_ref import SessionRef
from ..domain.state import APP, UNKNOWN, USER
from ..history import moments
from ..transfer import exporting
from ..transfer.items import EventItem

MOST: Final = 10_000  # events


def of(ref: SessionRef) -> dict[str, Any]:
    """Returns a session with all of its values, whoever asks: an agent gets it, and no one else.

    What other sessions have written to `user:` and `app:` keys before a message is an event without content before it. A
    key whose value can't be known is left out. Raises NotFound, SourceError, and Invalid for a session that is too long or
    has something that isn't JSON."""
    events, state, known = list[dict[str, Any]](), dict[str, Any](), dict[str, Any]()
    for event in _events(ref):
        is_message = event.get("author") == "user" and (event.get("content") or {}).get("parts")
        if not events or is_message:
            then = {**moments.state_at(ref, event["id"], before=True, actor=SYSTEM).state.merged()}
            then = {key: value for key, value in then.items() if value is not UNKNOWN}
            if not events:
                state = known = then
            shared = {key: then.get(key) for key in {**known, **then} if key.startswith((APP, USER))}
            if changed := {key: value for key, value in shared.items() if value != known.get(key)}:
                events.append({"author": "user", "timestamp": event["timestamp"], "actions": {"state_delta": changed}})
            known = then
        known = known | (event.get("actions") or {}).get("state_delta", {})
        events.append(event)
    return {"appName": ref.app_name, "userId": ref.user_id, "id": ref.session_id, "state": state, "events": events}


def _events(ref: SessionRef) -> Iterator[dict[str, Any]]:
    after, left = None, MOST + 1
    while left > 0:
        some, after = exporting.events(ref, after, left, SYSTEM)
        left -= len(some)
        for each in some:
            yield _event(each)
        if after is None:
            return
    raise Invalid(_("This session has more than %(n)s events, too many for a replay.") % {"n": f"{MOST:,}"})


def _event(item: EventItem) -> dict[str, Any]:
    names = {"id": item.id, "invocation_id": item.invocation_id, "timestamp": item.timestamp}
    return {**json.loads(item.text), **names}
