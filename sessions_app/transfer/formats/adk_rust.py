"""Reads `adk-rust`: a database of zavora-ai/adk-rust's session services, schema version 1 (0.1 to 0.9).

`events` has the model's answer in `llm_response` and the actions in another column, as Rust's serde writes them. Parts
have forms of their own, and bytes are lists of numbers. `sessions.state` is a snapshot of all scopes, of which only the
session's own keys are read. Fields that ADK's events do not have go into `custom_metadata.adk_rust` under adk-rust's
names.
"""

import base64
import binascii
import re
from collections.abc import Callable
from datetime import date
from typing import Any, Final

from ...domain.errors import Invalid
from ...domain.state import split
from .databases import reader
from .layouts import Json, Layout, keep, seconds
from .opened import Row

_Rest = dict[str, Any]  # anything that ADK has no field for
_USAGE: Final = {
    "prompt_token_count": "prompt_token_count",
    "candidates_token_count": "candidates_token_count",
    "total_token_count": "total_token_count",
    "cache_read_input_token_count": "cached_content_token_count",
    "thinking_token_count": "thoughts_token_count",
}
_SAME: Final = ("partial", "turn_complete", "interrupted", "error_code", "error_message", "interaction_id")
_ACTIONS: Final = ("state_delta", "artifact_delta", "skip_summarization", "transfer_to_agent", "escalate", "route")


def _event(row: Row, json: Json) -> dict[str, Any]:
    rest: _Rest = {}
    answer = json.object(row["llm_response"], "llm_response")
    fields: dict[str, Any] = {name: row[name] or None for name in ("author", "branch")}
    fields |= {name: answer.pop(name, None) or None for name in _SAME}
    fields["content"] = _content(answer.pop("content", None), rest)
    fields["usage_metadata"] = _usage(answer.pop("usage_metadata", None), rest)
    fields["citation_metadata"] = _citations(answer.pop("citation_metadata", None), rest)
    if reason := answer.pop("finish_reason", None):
        fields["finish_reason"] = re.sub("(?<=[a-z])(?=[A-Z])", "_", str(reason)).upper()
    rest |= answer
    fields["actions"] = _actions(json.object(row["actions"], "actions"), rest)
    waiting = json.parse(row["long_running_tool_ids"], "long_running_tool_ids")
    if not isinstance(waiting, list | None):
        raise Invalid("long_running_tool_ids: not a JSON list")
    fields["long_running_tool_ids"] = waiting or None
    event = {name: value for name, value in fields.items() if value is not None}
    keep(event, "adk_rust", rest)
    return event


def _actions(given: dict[str, Any], rest: _Rest) -> dict[str, Any]:
    actions = {name: value for name in _ACTIONS if (value := given.pop(name, None)) not in (None, False)}
    compaction = given.pop("compaction", None)
    if isinstance(compaction, dict):
        times = {
            name: seconds(compaction.get(name), f"actions.compaction.{name}")
            for name in ("start_timestamp", "end_timestamp")
        }
        actions["compaction"] = {
            **times,
            "compacted_content": _content(compaction.get("compacted_content"), rest) or {},
        }
    rest |= given
    return actions


def _usage(given: Any, rest: _Rest) -> dict[str, Any] | None:
    if not isinstance(given, dict):
        return None
    rest["usage_metadata"] = {name: value for name, value in given.items() if name not in _USAGE} or None
    return {_USAGE[name]: value for name, value in given.items() if name in _USAGE and value is not None} or None


def _citations(given: Any, rest: _Rest) -> dict[str, Any] | None:
    if not isinstance(given, dict):
        return None
    names = {"uri": "uri", "title": "title", "startIndex": "start_index", "endIndex": "end_index", "license": "license"}
    citations = []
    for each in _objects(given.get("citationSources"), "citation_metadata.citationSources"):
        citation = {snake: each[name] for name, snake in names.items() if each.get(name) is not None}
        if (text := each.get("publicationDate")) is not None:
            try:
                day = date.fromisoformat(str(text)[:10])
                citation["publication_date"] = {"year": day.year, "month": day.month, "day": day.day}
            except ValueError:
                rest["citation_metadata"] = given  # all of it, with the date as it was
        citations.append(citation)
    return {"citations": citations}


# --- Content ----------------------------------------------------------------------------------------------------------


def _content(given: Any, rest: _Rest) -> dict[str, Any] | None:
    if given is None:
        return None
    if not isinstance(given, dict):
        raise Invalid("content: not a JSON object")
    parts = []
    for number, part in enumerate(_objects(given.get("parts"), "content.parts")):
        made = next((make(part) for name, make in _PARTS.items() if name in part), None)
        if made is None:
            rest.setdefault("parts", []).append({"index": number, "part": part})
        else:
            parts.append(made)
    return {"parts": parts} | ({"role": given["role"]} if given.get("role") else {})


def _text(part: dict[str, Any]) -> dict[str, Any]:
    return {"text": part["text"]}


def _thought(part: dict[str, Any]) -> dict[str, Any]:
    return {"text": part["thinking"], "thought": True} | _signature(part.get("signature"))


def _call(part: dict[str, Any]) -> dict[str, Any]:
    args = part["args"] if isinstance(part["args"], dict | None) else {"args": part["args"]}
    call = {"id": part.get("id"), "name": part.get("name"), "args": args}
    return {"function_call": _present(call)} | _signature(part.get("thought_signature"))


def _response(part: dict[str, Any]) -> dict[str, Any]:
    given = part.get("functionResponse", part.get("function_response"))
    if not isinstance(given, dict):
        raise Invalid("content.parts: a function response is not a JSON object")
    value = given.get("response")
    response = (
        value if isinstance(value, dict | None) else {"result": value}
    )  # as ADK does if a tool does not return an object
    inner = [{"inline_data": _blob(each)} for each in _objects(given.get("inline_data"), "inline_data")]
    inner += [{"file_data": _file(each)} for each in _objects(given.get("file_data"), "file_data")]
    response_part = {"id": part.get("id"), "name": given.get("name"), "response": response, "parts": inner or None}
    return {"function_response": _present(response_part)}


def _blob(part: dict[str, Any]) -> dict[str, Any]:
    try:
        data = base64.urlsafe_b64encode(bytes(part["data"])).decode()
    except (KeyError, TypeError, ValueError) as error:
        raise Invalid("content.parts: data is not a list of bytes") from error
    return _present({"mime_type": part.get("mime_type"), "data": data})


def _file(part: dict[str, Any]) -> dict[str, Any]:
    return _present({"mime_type": part.get("mime_type"), "file_uri": part.get("file_uri")})


def _signature(text: Any) -> dict[str, str]:
    """Returns a signature as base64, which ADK needs. Other providers' signatures may not be base64."""
    if not isinstance(text, str) or not text:
        return {}
    try:
        base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        text = base64.urlsafe_b64encode(text.encode("utf-8", "replace")).decode()
    return {"thought_signature": text}


_PARTS: Final[dict[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {  # by a field that only this kind of part has
    "thinking": _thought,
    "text": _text,
    "functionResponse": _response,
    "function_response": _response,
    "args": _call,
    "file_uri": lambda part: {"file_data": _file(part)},
    "data": lambda part: {"inline_data": _blob(part)},
}


def _present(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def _objects(given: Any, where: str) -> list[dict[str, Any]]:
    if given is None:
        return []
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise Invalid(f"{where}: not a list of JSON objects")
    return given


LAYOUT: Final = Layout(
    "adk-rust",
    _event,
    frozenset({"author", "branch", "llm_response", "actions", "long_running_tool_ids"}),
    state=lambda merged: split(merged).session,
    session="session_id",
    created="created_at",
    updated="updated_at",
)
read = reader(LAYOUT)
