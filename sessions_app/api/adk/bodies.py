"""Reads request bodies as `adk api_server` does, in camelCase or snake_case, and refuses the same bodies: with 422 and
a list of faults, or 400."""

import json
from email.message import Message
from functools import cache
from typing import Any, Final

from django.http import HttpRequest
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model
from pydantic.alias_generators import to_camel

from ...domain.description import AUTH_CALL, CONFIRMATION_CALL, INPUT_CALL
from ...domain.edit_note import NOTES
from ...domain.event import check_event
from ...domain.json_values import check_containers
from .models import event_model
from .sending import INTERNAL

_OWN_CALLS: Final = frozenset([AUTH_CALL, CONFIRMATION_CALL, INPUT_CALL])
_OWN_OPTIONS: Final = frozenset(["app_name", "user_id", "state", "session_id"])
_CONFIG: Final = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class Refused(Exception):
    """A refusal: the status of the answer, and its `detail`, which is a string or a list of faults."""

    def __init__(self, status: int, detail: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


class Update(BaseModel):
    """The body of PATCH."""

    model_config = _CONFIG

    state_delta: dict[str, Any]


class NewSession(BaseModel):
    """The body of POST. `events` are google-adk's models; `stored_events` returns them as they are stored."""

    model_config = _CONFIG

    session_id: str | None = None
    state: dict[str, Any] | None = None
    events: Any = None
    options: dict[str, Any] | None = None

    def stored_events(self) -> list[dict[str, Any]]:
        """Returns the events as ADK stores those that a program sends. Raises Refused, Invalid."""
        return [_restored(number, event) for number, event in enumerate(self.events or [])]


def update_of(request: HttpRequest) -> Update:
    """Returns the change of state in the body. Raises Refused."""
    if not request.body:
        raise Refused(422, [{"type": "missing", "loc": ["body"], "msg": "Field required", "input": None}])
    found: Update = validated(Update, _sent(request), "body")
    return found


def state_of(request: HttpRequest) -> dict[str, Any] | None:
    """Returns the state that is the whole body; None without a body. Raises Refused."""
    found: dict[str, Any] | None = validated(dict[str, Any] | None, _sent(request), "body")
    return found


def new_session_of(request: HttpRequest) -> NewSession:
    """Returns the session in the body; without a body, one without state and events. Raises Refused."""
    found: NewSession = validated(_new_session() | None, _sent(request), "body") or NewSession()
    if found.events:
        _check_events(found.events)
    if found.options:
        own = ", ".join(sorted(found.options.keys() & _OWN_OPTIONS))
        raise Refused(
            400,
            f"Session options cannot contain keys already bound by the endpoint: {own}"
            if own
            else "Session options are not supported by the configured session service.",
        )
    return found


def validated(kind: Any, value: Any, *place: str) -> Any:
    """Returns a value as the given type. Raises Refused with pydantic's errors."""
    try:
        return TypeAdapter(kind).validate_python(value, from_attributes=True)
    except ValidationError as error:
        faults: list[dict[str, Any]] = [
            {**each, "loc": [*place, *each["loc"]]} for each in error.errors(include_url=False)
        ]
        for fault in faults:
            if "error" in fault.get("ctx", {}):
                fault["ctx"] = {"error": {}}  # an exception, whose message is not shown
        raise Refused(422, faults) from error


def _sent(request: HttpRequest) -> Any:
    """Returns the parsed body: None if it is empty, its text if the content type is not JSON."""
    if not request.body:
        return None
    if not _is_json(request.headers.get("Content-Type", "")):
        return request.body.decode("utf-8", "replace")
    check_containers(request.body)
    try:
        return json.loads(request.body, parse_constant=lambda _name: None)
    except json.JSONDecodeError as error:
        fault = {"type": "json_invalid", "loc": ["body", error.pos], "msg": "JSON decode error", "input": {}}
        raise Refused(422, [{**fault, "ctx": {"error": error.msg}}]) from error
    except (ValueError, RecursionError) as error:
        raise Refused(400, "There was an error parsing the body") from error


def _is_json(content_type: str) -> bool:
    header = Message()
    header["content-type"] = content_type
    kind = header.get_content_subtype()
    return bool(content_type) and header.get_content_maintype() == "application" and f"+{kind}".endswith("+json")


@cache
def _new_session() -> Any:
    events: Any = list[event_model()] | None  # type: ignore[misc]
    return create_model("NewSession", __base__=NewSession, events=(events, None))


def _check_events(events: list[Any]) -> None:
    """Refuses events with what only ADK may write, and two events with the same id."""
    seen = set()
    for number, event in enumerate(events):
        refused = ""
        if event.long_running_tool_ids:
            refused = "long-running tool IDs"
        elif event.actions != type(event.actions)():
            refused = "event actions"
        elif any(name in _OWN_CALLS for name in _names_of(event)):
            refused = "ADK protocol function calls"
        elif noted := {*NOTES} & (event.custom_metadata or {}).keys():
            refused = f"custom_metadata.{min(noted)}, which is adkweb's own note"
        if refused:
            raise Refused(400, f"Session initialization event {number} cannot include {refused}.")
        if event.id in seen:
            raise Refused(400, f"Session initialization event {number} has the id of another: {event.id}")
        seen |= {event.id} if event.id else set()


def _names_of(event: Any) -> list[str | None]:
    parts = (event.content.parts if event.content else None) or []
    return [each.name for part in parts for each in (part.function_call, part.function_response) if each]


def _restored(number: int, event: Any) -> dict[str, Any]:
    try:
        stored: dict[str, Any] = event.model_dump(mode="json", exclude_none=True)
    except ValueError as error:  # nested too deep
        raise Refused(400, f"Session initialization event {number}: {error}") from error
    metadata = {name: value for name, value in (event.custom_metadata or {}).items() if not name.startswith(INTERNAL)}
    stored["custom_metadata"] = {**metadata, INTERNAL + "restored_event": True}
    return stored if stored.get("partial") else check_event(stored)
