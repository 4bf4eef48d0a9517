"""Turns a session's events into the conversation of an evaluation case, and back.

For each invocation, a case has the user's message, what agents said, which tools they used, and the final response.
"""

import math
import uuid
from collections.abc import Iterator
from typing import Any, Final

from ...domain.camel_case import camel_name, to_snake
from ...domain.errors import Invalid
from ...domain.event import Event
from ..items import moment

_USER: Final = "user"
_AGENT: Final = "agent"  # ADK's name for an agent without a name
_KEPT: Final = ("grounding_metadata", "usage_metadata", "model_version")  # of an event, beside its content
_STEP: Final = 2e-6  # seconds between events, whose times are not in a case; rows have microseconds


# --- From events ------------------------------------------------------------------------------------------------------


def conversation(events: list[Event]) -> list[dict[str, Any]]:
    """Turns a session's events into a case's conversation. Invocations without words, such as edits, are left out."""
    by_invocation: dict[str, list[Event]] = {}
    for event in events:
        by_invocation.setdefault(str(event.get("invocation_id") or ""), []).append(event)
    return [invocation for name, each in by_invocation.items() if (invocation := _invocation(name, each))]


def _invocation(invocation_id: str, events: list[Event]) -> dict[str, Any] | None:
    user_content: dict[str, Any] = {"parts": []}
    at = 0.0
    said: list[Event] = []
    final: Event | None = None
    for event in events:
        if str(event.get("author")).lower() == _USER:
            if isinstance(event.get("content"), dict):
                user_content, at = event["content"], event["timestamp"]
            continue
        parts = _parts(event)
        # A live response is both sound and its transcript. An evaluation can judge only the text.
        if parts and _is_final(event, parts) and (final is None or not _text(_parts(final)) or _text(parts)):
            final = event
        if event.get("grounding_metadata") is not None or any(map(_says, parts)):
            said.append(event)
    if not (user_content.get("parts") or said or final):
        return None
    invocation = {
        "invocation_id": invocation_id,
        "user_content": user_content,
        "intermediate_data": {"invocation_events": [_said(event, event is final) for event in said]},
        "creation_timestamp": at,
    }
    return invocation if final is None else invocation | {"final_response": final["content"]}


def _said(event: Event, final: bool) -> dict[str, Any]:
    step = {name: event[name] for name in ("content", *_KEPT) if event.get(name) is not None}
    if final and not _has(_parts(event), "function_call"):
        step.pop("content", None)  # it is the final response
    return {"author": event.get("author", ""), **step}


def _parts(event: Event) -> list[dict[str, Any]]:
    content = event.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def _has(parts: list[dict[str, Any]], name: str) -> bool:
    return any(part.get(name) is not None for part in parts)


def _text(parts: list[dict[str, Any]]) -> bool:
    return any(part.get("text") for part in parts)


def _says(part: dict[str, Any]) -> bool:
    return bool(part.get("text")) or any(
        part.get(name) is not None for name in ("function_call", "function_response", "inline_data")
    )


def _is_final(event: Event, parts: list[dict[str, Any]]) -> bool:
    """Returns whether an event is a final response, as ADK's `Event.is_final_response` does."""
    actions = event.get("actions")
    if (isinstance(actions, dict) and actions.get("skip_summarization")) or event.get("long_running_tool_ids"):
        return True
    if event.get("partial") or _has(parts, "function_call"):
        return False
    if event.get("error_code"):
        return True
    return not _has(parts, "function_response") and parts[-1].get("code_execution_result") is None


# --- To events --------------------------------------------------------------------------------------------------------


class Events:
    """Turns the invocations of a case into events. `made` has each event with its path in the case."""

    def __init__(self, names: list[str], made: float) -> None:
        self.made: list[tuple[Event, str]] = []
        self._names = "/".join(names)
        self._at, self._last = made, -math.inf
        self._invocation: str = ""
        self._where = ""

    def add(self, invocation: dict[str, Any], number: int) -> None:
        """Adds the events of an invocation. Raises Invalid."""
        self._where = f"conversation[{number}]"
        self._invocation = field(invocation, "invocation_id") or f"{self._names}/{number}"
        self._at = time_of(invocation) or self._at
        said, final = field(invocation, "intermediate_data"), field(invocation, "final_response")
        content = field(invocation, "user_content")
        if content is None:
            raise Invalid("user_content is missing")
        self._event(_USER, content=content)
        steps = list(_steps(as_object(said or {})))
        if final is not None:
            _put_final(steps, final)
        for step in steps:
            self._event(step.pop("author", None) or _AGENT, **step)

    def _event(self, author: Any, **fields: Any) -> None:
        at = self._last = self._at if self._at > self._last else self._last + _STEP
        event = {
            # Always the same id, so that a second import changes nothing.
            "id": str(uuid.uuid5(uuid.NAMESPACE_OID, f"adkweb/{self._names}/{len(self.made)}")),
            "invocation_id": self._invocation,
            "author": author,
            "timestamp": at,
            "actions": {},
            **{name: value for name, value in fields.items() if value is not None},
        }
        self.made.append((event, self._where))


def _steps(said: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields what agents said and did in an invocation. The older form of a case keeps tool calls separately."""
    for step in _list(said, "invocation_events"):
        yield {name: field(as_object(step), name) for name in ("author", "content", *_KEPT)}
    responses = [(as_object(response), _id(response)) for response in _list(said, "tool_responses")]
    waiting: dict[str, list[Any]] = {}
    for response, call in responses:
        waiting.setdefault(call, []).append(response)
    asked = set()
    for use in _list(said, "tool_uses"):
        yield _tool("model", function_call=use)
        if call := _id(as_object(use)):
            asked.add(call)
            for response in waiting.pop(call, []):
                yield _tool(_USER, function_response=response)
    for response, call in responses:
        if call not in asked:
            yield _tool(_USER, function_response=response)
    for pair in _list(said, "intermediate_responses"):
        if not isinstance(pair, list) or len(pair) != 2:
            raise Invalid("intermediate_responses: each is an author and a list of parts")
        yield {"author": pair[0], "content": {"role": "model", "parts": pair[1]}}


def _id(tool: dict[str, Any]) -> str:
    name = tool.get("id")
    return name if isinstance(name, str) else ""


def _put_final(steps: list[dict[str, Any]], final: Any) -> None:
    """Puts the final response back into its step. Only a step that calls a tool still has it."""
    content = to_snake(final, "Content")
    empty = [step for step in steps if step.get("content") is None]
    bare = [step for step in empty if step.get("grounding_metadata") is None]  # the others may have only sources
    said = bare or empty or [step for step in steps if to_snake(step["content"], "Content") == content]
    if not said:
        said = [{"author": steps[-1]["author"] if steps else _AGENT}]
        steps += said
    step, parts = said[-1], _parts({"content": content})
    step["content"] = content
    # A response with tools was final for one of two reasons: a call that waits, or an answer that isn't summed up.
    if _has(parts, "function_call"):
        calls = [part["function_call"] for part in parts if isinstance(part.get("function_call"), dict)]
        ids = [call["id"] for call in calls if call.get("id")]
        step["long_running_tool_ids"] = ids or None
    elif _has(parts, "function_response"):
        step["actions"] = {"skip_summarization": True}


def _tool(role: str, **part: Any) -> dict[str, Any]:
    return {"author": _AGENT, "content": {"role": role, "parts": [part]}}


def field(given: dict[str, Any], name: str) -> Any:
    """Returns a field in either spelling: eval_id or evalId."""
    return given.get(name, given.get(camel_name(name)))


def time_of(given: dict[str, Any]) -> float:
    """Returns when a case or an invocation was created, or 0.0 if it doesn't say. Raises Invalid."""
    at = moment(field(given, "creation_timestamp") or 0.0)
    if at is None:
        raise Invalid("creation_timestamp is not a time in seconds since 1970")
    return at


def _list(given: dict[str, Any], name: str) -> list[Any]:
    value = field(given, name) or []
    if not isinstance(value, list):
        raise Invalid(f"{name} is not a list")
    return value


def as_object(value: Any) -> dict[str, Any]:
    """Returns a JSON object as it is. Raises Invalid for anything else."""
    if not isinstance(value, dict):
        raise Invalid("an object is expected here")
    return value
