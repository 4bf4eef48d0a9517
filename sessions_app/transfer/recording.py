"""Writes a stored session as a replay takes it (adk/replay.py): its events, and the state before the first of them.

`write` puts it into a test for pytest. `write_case` writes a case for ADK's evaluation, with the state before its first
message.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

from django.utils.translation import gettext as _

from ..access.actor import SYSTEM, Actor
from ..access.handles import shown_ref
from ..access.shown import mask_of
from ..domain import credentials
from ..domain.errors import Invalid
from ..domain.event import delta_of
from ..domain.json_values import as_object
from ..domain.session_ref import SessionRef
from ..domain.state import APP, UNKNOWN, USER
from ..history import moments
from ..sources import database
from . import exporting
from .formats import evalset
from .hiding import Hiding
from .items import EventItem, SessionItem, canonical

MOST: Final = 10_000  # events
_TEST: Final = """\
\"\"\"Replays a recorded session with the agent of today, without its model and tools. Made by adkweb.\"\"\"

import importlib
import json

from adkweb import Replay

{note}RECORDING = json.loads(r\"\"\"
{recording}
\"\"\")


def test_replay():
    agent = importlib.import_module(RECORDING["appName"])
    if not hasattr(agent, "root_agent"):
        agent = importlib.import_module(f"{{RECORDING['appName']}}.agent")
    # run_code=True lets functions of workflows run, too, with all their effects.
    Replay(RECORDING).check(getattr(agent, "app", None) or agent.root_agent, run_code=False)
"""
_NOTE: Final = "# Values that adkweb's rules hide are dots here, so the test fails where the agent uses them.\n"


def write(
    ref: SessionRef, actor: Actor, left_out: exporting.Damaged | None = None, hiding: Hiding | None = None
) -> Iterator[bytes]:
    """Writes a test for pytest. What rules hide from the actor is dots, and the test says so. Raises what `of` raises."""
    recording = of(ref, actor=actor)
    if actor is SYSTEM:
        recording = credentials.without(recording)
    note = _NOTE if mask_of(actor, ref.app_name).has_dots(recording) else ""
    # In JSON without other characters than ASCII's, three quotes never follow each other.
    yield _TEST.format(note=note, recording=json.dumps(recording, indent=1)).encode()


def write_case(
    ref: SessionRef, actor: Actor, left_out: exporting.Damaged | None = None, hiding: Hiding | None = None
) -> Iterator[bytes]:
    """Writes a case for ADK's evaluation. Raises what `of` raises."""
    items = exporting.items(ref.source, exporting.Filter(*ref[1:]), actor=actor, left_out=left_out)
    first = next(filter(_is_message, _events(ref, actor, left_out)), None)
    if first and database.has_order(ref.source):
        state, _unknown = _state_before(ref, first["id"], actor)
        items = (
            each._replace(initial_state=canonical(state)) if isinstance(each, SessionItem) else each for each in items
        )
    yield from evalset.write(hiding.items(items) if hiding else items)


def of(ref: SessionRef, *, actor: Actor) -> dict[str, Any]:
    """Returns a session as its actor may see it.

    What other sessions have written to `user:` and `app:` keys before a message is an event without content before it. Such
    keys whose value before the first event can't be known are `unknown`. Raises NotFound, SourceError, and Invalid for a
    session that is too long or has something that isn't JSON."""
    events, state, known, unknown = list[dict[str, Any]](), dict[str, Any](), dict[str, Any](), list[str]()
    for event in _events(ref, actor):
        if not events or _is_message(event):
            then, left_out = _state_before(ref, event["id"], actor)
            if not events:
                state, unknown, known = then, left_out, then
            shared = {key: then.get(key) for key in {**known, **then} if key.startswith((APP, USER))}
            if changed := {key: value for key, value in shared.items() if value != known.get(key)}:
                events.append({"author": "user", "timestamp": event["timestamp"], "actions": {"state_delta": changed}})
            known = then
        known = known | delta_of(event)
        events.append(event)
    _source, app, user, session = shown_ref(ref, actor)
    return {"appName": app, "userId": user, "id": session, "state": state, "unknown": unknown, "events": events}


def _state_before(ref: SessionRef, event_id: str, actor: Actor) -> tuple[dict[str, Any], list[str]]:
    """Returns the state before an event, `user:` and `app:` keys included, and those of them whose value can't be known. A
    key that no event is known to have written has the value of now."""
    moment = moments.state_at(ref, event_id, before=True, actor=actor)
    then = moment.state.merged()
    unknown = sorted(key for key, value in then.items() if value is UNKNOWN)
    if unknown:
        written = moments.state_now(ref, actor=actor).writers
        now = {key: value for key, value in moment.now.merged().items() if key not in written}
        then |= {key: now.get(key, UNKNOWN) for key in unknown}
    known = {key: value for key, value in then.items() if value is not UNKNOWN}
    return known, [key for key in unknown if key not in known and key.startswith((APP, USER))]


def _is_message(event: dict[str, Any]) -> bool:
    return event.get("author") == "user" and bool(as_object(event.get("content")).get("parts"))


def _events(ref: SessionRef, actor: Actor, left_out: exporting.Damaged | None = None) -> Iterator[dict[str, Any]]:
    after, left = None, MOST + 1
    while left > 0:
        some, after = exporting.events(ref, after, left, actor, left_out)
        left -= len(some)
        for each in some:
            yield _event(each)
        if after is None:
            return
    raise Invalid(_("This session has more than %(n)s events, too many for a replay.") % {"n": f"{MOST:,}"})


def _event(item: EventItem) -> dict[str, Any]:
    names = {"id": item.id, "invocation_id": item.invocation_id, "timestamp": item.timestamp}
    return {**as_object(json.loads(item.text)), **names}
