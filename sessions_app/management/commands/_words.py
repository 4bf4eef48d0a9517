"""Says what happened in an event, on one line of a terminal."""

from collections.abc import Callable
from typing import Any, Final

from ...domain.json_values import as_object
from ...domain.kinds import Description, Part, describe
from ...reads.event_views import EventView
from ._terminal import short, words

_VALUE: Final = 60  # characters of an argument


def told(view: EventView) -> str:
    """Returns what happened in an event, without its kind, which is shown beside it."""
    if view.size:
        return f"an event of {view.size:,} characters, too large to be shown here"
    description = view.description
    say = _SAY.get(description.kind)
    text = say(description, view.data) if say else ""
    if description.kind != "artifact" and description.actions.get("artifact_delta"):
        text = f"{text} {_artifacts(description)}"
    return text.strip()


def _call(part: Part) -> str:
    arguments = ", ".join(f"{words(name, _VALUE)}={short(value, _VALUE)}" for name, value in _items(part.value))
    return f"{words(part.name)}({arguments})"


def _response(part: Part) -> str:
    value = part.value
    if part.failed:
        error = as_object(value).get("error")
        return f"{words(part.name)} → error {words(error, 160) if isinstance(error, str) else short(error, 160)}"
    if isinstance(value, dict) and len(value) == 1 and "result" in value:  # ADK wraps anything but an object like this
        value = value["result"]
    return f"{words(part.name)} → {short(value, 160)}"


def _calls(description: Description) -> str:
    return " · ".join(_call(part) + (" waits for an answer" if part.waiting else "") for part in description.calls)


def _asked(description: Description) -> str:
    """Returns the tools that a person is asked about."""
    names = [as_object(as_object(part.value).get("originalFunctionCall")).get("name") for part in description.calls]
    return words(" · ".join([str(name) for name in names if name] + [part.name for part in description.responses]))


def _edit(description: Description) -> str:
    reason = description.edit.get("reason")
    who = f"by {description.edit.get('actor')}"
    return words(" ".join([who, f"“{reason}”" if reason else "", description.text]))


def _transfer(description: Description) -> str:
    reason = description.actions.get("transfer_reason")
    return words(f"to {description.actions.get('transfer_to_agent')}" + (f": {reason}" if reason else ""))


def _heard(data: dict[str, Any]) -> str:
    spoken = [as_object(data.get(f"{way}_transcription")).get("text") for way in ("input", "output")]
    return words(next((text for text in spoken if isinstance(text, str)), ""))


def _first(description: Description, kind: str) -> str:
    return next((words(part.value) for part in description.of(kind) if isinstance(part.value, str)), "")


def _artifacts(description: Description) -> str:
    return words(
        " · ".join(f"{name} v{version}" for name, version in _items(description.actions.get("artifact_delta")))
    )


def _items(value: Any) -> list[tuple[str, Any]]:
    return list(as_object(value).items())


_SAY: Final[dict[str, Callable[[Description, dict[str, Any]], str]]] = {
    "edit": lambda d, e: _edit(d),
    "rewind": lambda d, e: words(f"to before {d.actions['rewind_before_invocation_id']}"),
    "compaction": lambda d, e: words(
        describe({"content": as_object(d.actions["compaction"]).get("compacted_content")}).text
    ),
    "error": lambda d, e: words(f"{e.get('error_code') or ''} {e.get('error_message') or ''}"),
    "interrupted": lambda d, e: words(d.text),
    "auth": lambda d, e: "asks for a sign-in " + words(" · ".join(part.name for part in [*d.calls, *d.responses])),
    "confirmation": lambda d, e: "asks for a confirmation " + _asked(d),
    "long_running": lambda d, e: _calls(d),
    "transfer": lambda d, e: _transfer(d),
    "escalation": lambda d, e: "to the agent above",
    "call": lambda d, e: _calls(d),
    "response": lambda d, e: " · ".join(map(_response, d.responses)),
    "code": lambda d, e: _first(d, "code"),
    "code_result": lambda d, e: _first(d, "code_result"),
    "message": lambda d, e: words(d.text),
    "media": lambda d, e: words(" · ".join(part.name for part in d.media)),
    "transcription": lambda d, e: _heard(e),
    "thought": lambda d, e: _first(d, "thought"),
    "output": lambda d, e: short(e["output"], 160),
    "artifact": lambda d, e: _artifacts(d),
    "checkpoint": lambda d, e: "agent finished" if d.actions.get("end_of_agent") else "",
    "unknown": lambda d, e: words(
        ", ".join(sorted(e.keys() - {"id", "invocation_id", "timestamp", "author", "actions"}))
    ),
}
