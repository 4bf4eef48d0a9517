"""`evalset`: sessions as cases of ADK's evaluation, which it reads from `*.evalset.json`; not lossless.

A case has what a conversation says: per invocation the user's message, what agents said and which tools they used, and the
final response. What `adk web` writes when a session is added to a set of cases is what is written here.
"""

import math
import re
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Final

from ...domain.event import ID_LENGTH, Event
from ...domain.json_values import check_name
from ...domain.spelling import camel_name, to_snake
from ...domain.state import split
from ...errors import Invalid
from ..items import EventItem, Item, Reader, SessionItem, canonical, moment, open_file, parse
from .adk_json import begun, checked_event, stored_event
from .document import load, piece

_USER: Final = "user"
_AGENT: Final = "agent"  # ADK's name for an agent that has none
_KEPT: Final = ("grounding_metadata", "usage_metadata", "model_version")  # of an event beside what it says
_STEP: Final = 2e-6  # seconds between events whose times no case has: enough for rows, which have microseconds
NAMES: Final = ({"eval_set_id", "eval_cases"}, {"evalSetId", "evalCases"})


# --- Writing ----------------------------------------------------------------------------------------------------------


def write(items: Iterable[Item]) -> Iterator[bytes]:
    """A set with a case for each session; its name is that of the first one's app."""
    name, newest = "adkweb", 0.0
    session: SessionItem | None = None
    events: list[Event] = []
    ids: set[str] = set()
    yield b'{"eval_cases":['
    for item in items:
        if isinstance(item, EventItem):
            events.append(stored_event(item))
        elif isinstance(item, SessionItem):
            if session is None:
                name = item.app
            else:
                yield _case(session, events, ids)
            session, events = item, []
            newest = max(newest, item.updated)
    if session is not None:
        yield _case(session, events, ids)
    # ADK takes a set's id for a file's name.
    rest = {"creation_timestamp": newest, "eval_set_id": re.sub(r"[^a-zA-Z0-9_]", "_", name), "name": name}
    yield f"],{canonical(rest)[1:]}\n".encode()


def _case(session: SessionItem, events: list[Event], ids: set[str]) -> bytes:
    eval_id = session.session
    if eval_id in ids:  # of another user
        eval_id = f"{session.app}/{session.user}/{session.session}"
    comma = "," if ids else ""
    ids.add(eval_id)
    case = {
        "eval_id": eval_id,
        "conversation": conversation(events),
        "session_input": {
            "app_name": session.app,
            "user_id": session.user,
            "state": parse(session.initial_state or "{}"),
        },
        "creation_timestamp": session.created,
    }
    return f"{comma}\n{canonical(case)}".encode()


def conversation(events: list[Event]) -> list[dict[str, Any]]:
    """A session's invocations as ADK's evaluation has them; one without a word, such as a person's edit, is left out."""
    by_invocation: dict[str, list[Event]] = {}
    for event in events:
        by_invocation.setdefault(str(event.get("invocation_id") or ""), []).append(event)
    return [found for name, each in by_invocation.items() if (found := _invocation(name, each))]


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
        # A live response is both sound and its transcript: the text is what can be judged.
        if parts and _is_final(event, parts) and (final is None or not _text(_parts(final)) or _text(parts)):
            final = event
        if event.get("grounding_metadata") is not None or any(map(_says, parts)):
            said.append(event)
    if not (user_content.get("parts") or said or final):
        return None
    found = {
        "invocation_id": invocation_id,
        "user_content": user_content,
        "intermediate_data": {"invocation_events": [_said(event, event is final) for event in said]},
        "creation_timestamp": at,
    }
    return found if final is None else found | {"final_response": final["content"]}


def _said(event: Event, final: bool) -> dict[str, Any]:
    found = {name: event[name] for name in ("content", *_KEPT) if event.get(name) is not None}
    if final and not _has(_parts(event), "function_call"):
        found.pop("content", None)  # it is the final response
    return {"author": event.get("author", ""), **found}


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
    """As ADK's Event.is_final_response says it."""
    actions = event.get("actions")
    if (isinstance(actions, dict) and actions.get("skip_summarization")) or event.get("long_running_tool_ids"):
        return True
    if event.get("partial") or _has(parts, "function_call"):
        return False
    if event.get("error_code"):
        return True
    return not _has(parts, "function_response") and parts[-1].get("code_execution_result") is None


# --- Reading ----------------------------------------------------------------------------------------------------------


@contextmanager
def read(path: str, strict: bool) -> Iterator[Reader]:
    """The sessions that a file's cases are; `strict`: they are for PostgreSQL."""
    with open_file(path) as (file, size):
        yield _Cases(file, size, strict)


class _Cases:
    """The items of a set, case by case."""

    def __init__(self, file: BinaryIO, size: int, strict: bool) -> None:
        self.done, self.total, self.place = 0, size, ""
        self._file, self._strict = file, strict
        self._seen: set[tuple[str, ...]] = set()

    def __iter__(self) -> Iterator[Item]:
        """From the file's beginning, once."""
        cases = _field(_object(load(self._file)), "eval_cases")
        if not isinstance(cases, list):
            raise Invalid("this is no set of ADK's evaluation: eval_cases is no list")
        for number, case in enumerate(cases):
            self.place = f"eval_cases[{number}]"
            yield from self._case(_object(case))
            self.done = self.total * (number + 1) // len(cases)

    def _case(self, case: dict[str, Any]) -> Iterator[Item]:
        where = self.place
        given = _field(case, "session_input")
        if given is None:
            raise Invalid("session_input is missing, and with it the names of app and user")
        session, said = _object(given), _field(case, "conversation")
        if not isinstance(said, list):
            raise Invalid("it has no conversation that could be imported")
        eval_id = _field(case, "eval_id")
        names = [
            check_name(_field(session, "app_name"), "app_name", ID_LENGTH),
            check_name(_field(session, "user_id"), "user_id", ID_LENGTH),
            check_name(_field(session, "session_id") or eval_id, "eval_id", ID_LENGTH),
        ]
        if tuple(names) in self._seen:
            raise Invalid(f"the session {'/'.join(names)} is there twice")
        self._seen.add(tuple(names))
        state = split(_object(piece(_field(session, "state") or {}, self._strict)))
        made = _time(case)
        events = _Events(names, made)
        for number, invocation in enumerate(said):
            self.place = f"{where}.conversation[{number}]"
            events.add(_object(invocation), number)
        items = []
        for event, place in events.found:
            items.append(checked_event(event, f"{where}.{place}", self._strict))
        first, updated = (items[0].timestamp, items[-1].timestamp) if items else (made, made)
        created = min(made or first, first)  # adk web's case is younger than the session that it is made of
        self.place = where
        yield from begun(names, state, state.session, (created, updated), len(items))
        yield from items


class _Events:
    """The events that the invocations of one case are, each with where it stands."""

    def __init__(self, names: list[str], made: float) -> None:
        self.found: list[tuple[Event, str]] = []
        self._names = "/".join(names)
        self._at, self._last = made, -math.inf
        self._invocation: str = ""
        self._place = ""

    def add(self, invocation: dict[str, Any], number: int) -> None:
        """The events of one invocation; raises Invalid."""
        self._place = f"conversation[{number}]"
        self._invocation = _field(invocation, "invocation_id") or f"{self._names}/{number}"
        self._at = _time(invocation) or self._at
        said, final = _field(invocation, "intermediate_data"), _field(invocation, "final_response")
        content = _field(invocation, "user_content")
        if content is None:
            raise Invalid("user_content is missing")
        self._event(_USER, content=content)
        steps = list(_steps(_object(said or {})))
        if final is not None:
            _place_final(steps, final)
        for step in steps:
            self._event(step.pop("author", None) or _AGENT, **step)

    def _event(self, author: Any, **fields: Any) -> None:
        at = self._last = self._at if self._at > self._last else self._last + _STEP
        event = {
            # Always the same, so that importing twice is importing once.
            "id": str(uuid.uuid5(uuid.NAMESPACE_OID, f"adkweb/{self._names}/{len(self.found)}")),
            "invocation_id": self._invocation,
            "author": author,
            "timestamp": at,
            "actions": {},
            **{name: value for name, value in fields.items() if value is not None},
        }
        self.found.append((event, self._place))


def _steps(said: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What agents said and did in an invocation: in order, or, in the older form, its tools apart."""
    for step in _list(said, "invocation_events"):
        yield {name: _field(_object(step), name) for name in ("author", "content", *_KEPT)}
    responses = [(_object(response), _id(response)) for response in _list(said, "tool_responses")]
    waiting: dict[str, list[Any]] = {}
    for response, call in responses:
        waiting.setdefault(call, []).append(response)
    asked = set()
    for use in _list(said, "tool_uses"):
        yield _tool("model", function_call=use)
        if call := _id(_object(use)):
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
    found = tool.get("id")
    return found if isinstance(found, str) else ""


def _place_final(steps: list[dict[str, Any]], final: Any) -> None:
    """Puts the final response where it stood: it is left out of its step, but for one that calls a tool."""
    content = to_snake(final, "Content")
    empty = [step for step in steps if step.get("content") is None]
    bare = [step for step in empty if step.get("grounding_metadata") is None]  # the others may be sources alone
    said = bare or empty or [step for step in steps if to_snake(step["content"], "Content") == content]
    if not said:
        said = [{"author": steps[-1]["author"] if steps else _AGENT}]
        steps += said
    step, parts = said[-1], _parts({"content": content})
    step["content"] = content
    # With tools in it, it was final for one of two reasons: a call that waits, or an answer that nobody sums up.
    if _has(parts, "function_call"):
        calls = [part["function_call"] for part in parts if isinstance(part.get("function_call"), dict)]
        ids = [call["id"] for call in calls if call.get("id")]
        step["long_running_tool_ids"] = ids or None
    elif _has(parts, "function_response"):
        step["actions"] = {"skip_summarization": True}


def _tool(role: str, **part: Any) -> dict[str, Any]:
    return {"author": _AGENT, "content": {"role": role, "parts": [part]}}


def _field(found: dict[str, Any], name: str) -> Any:
    return found.get(name, found.get(camel_name(name)))


def _time(found: dict[str, Any]) -> float:
    """When a case or an invocation was made; 0.0 where that is not known."""
    at = moment(_field(found, "creation_timestamp") or 0.0)
    if at is None:
        raise Invalid("creation_timestamp is no time in seconds since 1970")
    return at


def _list(found: dict[str, Any], name: str) -> list[Any]:
    value = _field(found, name) or []
    if not isinstance(value, list):
        raise Invalid(f"{name} is no list")
    return value


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Invalid("an object is expected where something else stands")
    return value
