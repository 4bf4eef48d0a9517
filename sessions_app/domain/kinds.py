"""Tells the kind of an event, and describes one: its parts, its calls, the state that it writes (pure)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .edit_note import edit_of
from .event import delta_of, removed_by
from .json_values import as_object
from .state import State

# Calls that ADK itself makes to ask a person for something.
AUTH_CALL: Final = "adk_request_credential"
CONFIRMATION_CALL: Final = "adk_request_confirmation"
INPUT_CALL: Final = "adk_request_input"


# --- What an event says -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """One part of an event's content, or one of its actions, as a person reads it.

    `kind` is one of: text, thought, call, response, code, code_result, image, file, unknown. `id` pairs a call with its
    response. `value` is the text, the arguments, the response, or the part itself where adkweb does not know it.
    """

    kind: str
    value: Any
    name: str = ""
    id: str = ""
    waiting: bool = False  # a long-running call: its response comes from a person or another system
    failed: bool = False


@dataclass(slots=True)
class Description:
    """What an event is and says; `kind` is the one that its line in the timeline tells."""

    kind: str
    author: str
    parts: list[Part] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    delta: State = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    actions: dict[str, Any] = field(default_factory=dict)
    edit: dict[str, Any] = field(default_factory=dict)
    tokens: int | None = None
    _numbers: dict[int, int] = field(default_factory=dict, compare=False, repr=False)

    def of(self, *kinds: str) -> list[Part]:
        """The parts of these kinds."""
        return [part for part in self.parts if part.kind in kinds]

    @property
    def calls(self) -> list[Part]:
        """Tool calls."""
        return self.of("call")

    @property
    def responses(self) -> list[Part]:
        """Tool responses."""
        return self.of("response")

    @property
    def media(self) -> list[Part]:
        """Inline data and files."""
        return self.of("image", "file")

    def number_of(self, part: Part) -> int:
        """The number of one of `media`, by which it can be had."""
        if not self._numbers:
            self._numbers.update({id(each): number for number, each in enumerate(self.media)})
        return self._numbers[id(part)]

    @property
    def text(self) -> str:
        """All text of the event, thoughts left out."""
        return "\n".join(part.value for part in self.of("text"))

    @property
    def failed(self) -> bool:
        """Whether the event tells of something that went wrong."""
        return self.kind in ("error", "interrupted") or any(part.failed for part in self.parts)


def describe(event: Mapping[str, Any]) -> Description:
    """What an event is and says, whatever is in it; never raises for an event that a database holds."""
    actions = as_object(event.get("actions"))
    parts = _parts(event)
    tokens = as_object(event.get("usage_metadata")).get("total_token_count")
    found = Description(
        kind="unknown",
        author=str(event.get("author") or ""),
        parts=parts,
        delta=delta_of(event),
        removed=removed_by(event),
        actions=actions,
        edit=edit_of(event),
        tokens=tokens if isinstance(tokens, int) else None,
    )
    found.kinds = [kind for kind, present in _KINDS.items() if present(event, actions, found)]
    found.kind = found.kinds[0] if found.kinds else "unknown"
    return found


# The kinds of event, the one that says most first: an event that transfers and also changes state is told as a transfer,
# and its state change by its chips.
_KINDS: Final[dict[str, Any]] = {
    "edit": lambda e, a, d: bool(d.edit),
    "rewind": lambda e, a, d: bool(a.get("rewind_before_invocation_id")),
    "compaction": lambda e, a, d: bool(a.get("compaction")),
    "error": lambda e, a, d: bool(e.get("error_code") or e.get("error_message")),
    "interrupted": lambda e, a, d: bool(e.get("interrupted")),
    "auth": lambda e, a, d: bool(a.get("requested_auth_configs")) or _calls(d, AUTH_CALL),
    "confirmation": lambda e, a, d: bool(a.get("requested_tool_confirmations")) or _calls(d, CONFIRMATION_CALL),
    "long_running": lambda e, a, d: any(part.waiting for part in d.parts),
    "transfer": lambda e, a, d: bool(a.get("transfer_to_agent")),
    "escalation": lambda e, a, d: bool(a.get("escalate")),
    "call": lambda e, a, d: bool(d.calls),
    "response": lambda e, a, d: bool(d.responses),
    "code": lambda e, a, d: bool(d.of("code")),
    "code_result": lambda e, a, d: bool(d.of("code_result")),
    "message": lambda e, a, d: bool(d.of("text")),
    "media": lambda e, a, d: bool(d.media),
    "transcription": lambda e, a, d: bool(e.get("input_transcription") or e.get("output_transcription")),
    "thought": lambda e, a, d: bool(d.of("thought")),
    "output": lambda e, a, d: e.get("output") is not None,
    "artifact": lambda e, a, d: bool(a.get("artifact_delta")),
    "state": lambda e, a, d: bool(d.delta),
    "checkpoint": lambda e, a, d: bool(a.get("agent_state") or a.get("end_of_agent")),
    "finish": lambda e, a, d: bool(e.get("turn_complete")),
}
KINDS: Final = (*_KINDS, "unknown")


def _calls(description: Description, name: str) -> bool:
    return any(part.name == name for part in description.calls)


def _parts(event: Mapping[str, Any]) -> list[Part]:
    parts = as_object(event.get("content")).get("parts")
    if not isinstance(parts, list):
        return []
    waiting = event.get("long_running_tool_ids")
    waiting_ids = {i for i in waiting if isinstance(i, str)} if isinstance(waiting, list) else set()
    # While ADK asks a person for a confirmation or a sign-in, the tool's response so far is an "error" that is none.
    actions = as_object(event.get("actions"))
    asked = {*as_object(actions.get("requested_tool_confirmations")), *as_object(actions.get("requested_auth_configs"))}
    found: list[Part] = []
    for part in parts:
        found.append(_part(part, waiting_ids, asked))
        inner = as_object(as_object(part).get("function_response")).get("parts")  # a tool's images
        found += [_part(p, waiting_ids, asked) for p in inner] if isinstance(inner, list) else []
    return found


def _part(part: Any, waiting_ids: set[str], asked: set[str]) -> Part:
    data = as_object(part)
    if isinstance(data.get("text"), str):
        return Part("thought" if data.get("thought") else "text", data["text"])
    if call := as_object(data.get("function_call")):
        call_id = str(call.get("id") or "")
        return Part("call", as_object(call.get("args")), str(call.get("name") or ""), call_id, call_id in waiting_ids)
    if response := as_object(data.get("function_response")):
        value, call_id = response.get("response"), str(response.get("id") or "")
        failed = bool(as_object(value).get("error")) and call_id not in asked
        return Part("response", value, str(response.get("name") or ""), call_id, failed=failed)
    if code := as_object(data.get("executable_code")):
        return Part("code", str(code.get("code") or ""), str(code.get("language") or "").lower())
    if result := as_object(data.get("code_execution_result")):
        outcome = str(result.get("outcome") or "")
        return Part("code_result", str(result.get("output") or ""), outcome, failed=not outcome.endswith("OK"))
    if blob := as_object(data.get("inline_data")):
        mime = str(blob.get("mime_type") or "")
        return Part("image" if mime in IMAGE_TYPES else "file", blob, str(blob.get("display_name") or mime))
    if file := as_object(data.get("file_data")):
        return Part("file", file, str(file.get("display_name") or file.get("file_uri") or ""))
    return Part("unknown", part)


# Shown as images: formats that carry no script. SVG does, and is offered for download.
IMAGE_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"})
