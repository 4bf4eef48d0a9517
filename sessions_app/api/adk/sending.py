"""Writes sessions as `adk api_server` sends them: in camelCase, without nulls, with defaults filled in, without
secrets.

Reads and writes events by page, and only looks at their own fields; google-adk would turn them all into objects."""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final

import orjson
from django.utils.translation import gettext as _

from ...access.actor import Actor
from ...access.handles import shown_user
from ...domain import credentials
from ...domain.camel_case import to_camel
from ...domain.errors import Invalid
from ...domain.json_values import as_object, damage_of, read_stored_or_none
from ...reads import whole_session
from ..bodies import text_of
from .models import event_model

INTERNAL: Final = "__adk_internal_"  # prefix of the custom metadata that google-adk does not send
EVALUATIONS: Final = ("adk-eval-session-", "___eval___session___")  # start the ids of sessions that it does not list

_ACTIONS: Final[dict[str, Any]] = {
    "stateDelta": {},
    "artifactDelta": {},
    "requestedAuthConfigs": {},
    "requestedToolConfirmations": {},
}
_NODE: Final = ("path", "outputFor", "messageAsOutput")
_NO_NODE: Final[dict[str, Any]] = {"path": ""}


def session(
    stored: whole_session.StoredSession,
    pages: Iterable[list[whole_session.StoredEvent]],
    actor: Actor,
    temp: dict[str, Any] | None = None,
) -> Iterator[bytes]:
    """Yields a session in pieces: what comes before its events, the events page by page, and the rest."""
    yield _head(stored, actor, temp or {})[:-1] + b',"events":['
    comma = b""
    for page in pages:
        for event in map(_dumps, events_of_page(page)):
            yield comma
            yield event
            del event
            comma = b","
    yield b'],"lastUpdateTime":' + _dumps(stored.revision) + b"}"


def sessions(stored: Iterable[whole_session.StoredSession], actor: Actor) -> Iterator[bytes]:
    """Yields a list of sessions without events, in pieces. Leaves out the sessions of evaluations."""
    between = b"["
    for each in stored:
        if not each.ref.session_id.startswith(EVALUATIONS):
            yield (
                between + _head(each, actor, {})[:-1] + b',"events":[],"lastUpdateTime":' + _dumps(each.revision) + b"}"
            )
            between = b","
    yield b"[]" if between == b"[" else b"]"


def redacted(value: Any) -> Any:
    """Returns a value without the secrets of credentials, by google-adk's rules."""
    return credentials.without(value, wider=False)


def _head(stored: whole_session.StoredSession, actor: Actor, temp: dict[str, Any]) -> bytes:
    ref = stored.ref
    state = stored.state.merged() | temp
    head = {"id": ref.session_id, "appName": ref.app_name, "userId": shown_user(*ref[:3], actor), "state": state}
    text = _dumps(head)
    return _dumps(redacted(head)) if credentials.may_hold(text.decode()) else text


def events_of_page(page: list[whole_session.StoredEvent]) -> Iterator[dict[str, Any]]:
    """Yields the events of a page as google-adk's routes answer them, and empties the page as it goes.

    Raises Invalid, naming the event, for one that cannot be read: google-adk could not load the session either.
    """
    for event in page:
        if damage := damage_of(event.text):
            raise Invalid(_("event %(id)s: %(why)s") % {"id": event.id, "why": damage})
    text = f"[{','.join([event.text for event in page])}]"
    secrets = credentials.may_hold(text)
    raw = text.encode("utf-8", "surrogatepass")
    del text  # large values are dropped as soon as they are not needed
    contents = read_stored_or_none(raw)
    del raw
    if not isinstance(contents, list) or len(contents) != len(page):
        raise ValueError("what is stored here is no event")
    page.reverse()
    contents.reverse()
    while page:
        yield _event(page.pop(), contents.pop(), secrets)


def _event(row: whole_session.StoredEvent, data: Any, secrets: bool) -> dict[str, Any]:
    """Returns an event as google-adk would send it. `secrets` says whether its page may hold any."""
    data = as_object(data)
    if "null" in row.text:
        data = _without_nulls(row, data)
    known = _fields()
    sent = {name: value for name, value in to_camel(data).items() if name in known}
    actions = sent.get("actions")
    sent["actions"] = {**_ACTIONS, **actions} if isinstance(actions, dict) else _ACTIONS
    node = sent.get("nodeInfo")
    sent["nodeInfo"] = {"path": "", **{name: node[name] for name in _NODE if name in node}} if node else _NO_NODE
    sent["invocationId"], sent["id"] = row.invocation_id, row.id
    sent.setdefault("author", "")
    sent.setdefault("timestamp", row.timestamp)
    if "longRunningToolIds" in sent:
        sent["longRunningToolIds"] = sorted(set(sent["longRunningToolIds"]))
    if INTERNAL in row.text:
        _hide_internal(sent)
    if sent["actions"]["requestedAuthConfigs"] or (secrets and credentials.may_hold(row.text)):
        return as_object(redacted(sent))
    return sent


@cache
def _fields() -> frozenset[str | None]:
    """Returns the names of the fields that google-adk knows. It ignores all others."""
    return frozenset(field.alias for field in event_model().model_fields.values())


def _without_nulls(row: whole_session.StoredEvent, data: dict[str, Any]) -> dict[str, Any]:
    """Returns an event without the nulls of ADK's own fields. Nulls in state, arguments and the like are values."""
    columns = {"id": row.id, "invocation_id": row.invocation_id}
    timestamp = row.timestamp if data.get("timestamp") is None else data["timestamp"]
    try:
        read = event_model().model_validate({**data, **columns, "timestamp": timestamp})
        event: dict[str, Any] = read.model_dump(mode="json", exclude_none=True)
    except ValueError:  # an event that google-adk could not load
        return {name: value for name, value in data.items() if value is not None}
    return event


def _hide_internal(sent: dict[str, Any]) -> None:
    metadata = as_object(sent.get("customMetadata"))
    kept = {name: value for name, value in metadata.items() if not name.startswith(INTERNAL)}
    if kept:
        sent["customMetadata"] = kept
    elif metadata:
        del sent["customMetadata"]


def _dumps(value: Any) -> bytes:
    """Returns a value as JSON text, with null for NaN and infinity."""
    try:
        text: bytes = orjson.dumps(value)
    except TypeError:  # integers beyond 64 bits, halves of surrogate pairs
        return text_of(value).encode("utf-8", "replace")
    return text
