"""Tells the kinds of an event, and describes it: its parts, its calls, the state that it writes (pure)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from .edit_note import edit_of
from .event import delta_of, removed_by
from .json_values import as_object
from .state import State

# The calls that ADK itself makes to ask a person for something.
AUTH_CALL: Final = "adk_request_credential"
CONFIRMATION_CALL: Final = "adk_request_confirmation"
INPUT_CALL: Final = "adk_request_input"


# --- What an event says -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an event's content as a person reads it.

    `kind` is one of: text, thought, call, response, code, code_result, image, file, unknown. `id` pairs a call with its
    response. `value` is the text, the code or its output, the arguments, the response or the file. For an unknown part,
    it is the part itself.
    """

    kind: str
    value: Any
    name: str = ""
    id: str = ""
    waiting: bool = False  # a long-running call, which a person or another system answers
    failed: bool = False


@dataclass(slots=True)
class Description:
    """What an event is and says. `kind` is the one of its `kinds` that its line in the timeline shows."""

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
        """Returns the parts of these kinds."""
        return [part for part in self.parts if part.kind in kinds]

    @property
    def calls(self) -> list[Part]:
        """Returns the tool calls."""
        return self.of("call")

    @property
    def responses(self) -> list[Part]:
        """Returns the tool responses."""
        return self.of("response")

    @property
    def media(self) -> list[Part]:
        """Returns inline data and files."""
        return self.of("image", "file")

    def number_of(self, part: Part) -> int:
        """Returns the number of a part among `media`, which addresses name it by."""
        if not self._numbers:
            self._numbers.update({id(each): number for number, each in enumerate(self.media)})
        return self._numbers[id(part)]

    @property
    def text(self) -> str:
        """Returns all text of the event, without thoughts."""
        return "\n".join(part.value for part in self.of("text"))

    @property
    def failed(self) -> bool:
        """Tells whether the event reports that something went wrong."""
        return self.kind in ("error", "interrupted") or any(part.failed for part in self.parts)


def describe(event: Mapping[str, Any]) -> Description:
    """Describes what an event is and says. It never raises for an event that a database holds, whatever is in it."""
    actions = as_object(event.get("actions"))
    parts = _parts(event)
    tokens = as_object(event.get("usage_metadata")).get("total_token_count")
    description = Description(
        kind="unknown",
        author=str(event.get("author") or ""),
        parts=parts,
        delta=delta_of(event),
        removed=removed_by(event),
        actions=actions,
        edit=edit_of(event),
        tokens=tokens if isinstance(tokens, int) else None,
    )
    description.kinds = [name for name, kind in TABLE.items() if kind.is_of(event, actions, description)]
    description.kind = description.kinds[0] if description.kinds else "unknown"
    return description


class Kind(NamedTuple):
    """How to tell that an event is of a kind, and how the kind is shown."""

    is_of: Callable[
        [Mapping[str, Any], dict[str, Any], Description], bool
    ]  # the event, its actions, its description so far
    icon: str  # in static/img/icons.svg
    style: str = "bold"  # in a terminal
    highlight: int = 0  # its weight on the strip above a timeline; 0 if it is not shown there


# The kinds of event, the most telling one first: an event that transfers and also changes state is shown as a transfer,
# and its chips show the state change.
TABLE: Final[dict[str, Kind]] = {
    "edit": Kind(lambda e, a, d: bool(d.edit), "edit", style="bold yellow", highlight=4),
    "rewind": Kind(
        lambda e, a, d: bool(a.get("rewind_before_invocation_id")), "rewind", style="bold yellow", highlight=3
    ),
    "compaction": Kind(lambda e, a, d: bool(a.get("compaction")), "past", style="dim", highlight=2),
    "error": Kind(
        lambda e, a, d: bool(e.get("error_code") or e.get("error_message")), "error", style="bold red", highlight=5
    ),
    "interrupted": Kind(lambda e, a, d: bool(e.get("interrupted")), "error", style="bold red"),
    "auth": Kind(
        lambda e, a, d: bool(a.get("requested_auth_configs")) or _calls(d, AUTH_CALL), "lock", style="bold magenta"
    ),
    "confirmation": Kind(
        lambda e, a, d: bool(a.get("requested_tool_confirmations")) or _calls(d, CONFIRMATION_CALL),
        "wait",
        style="bold magenta",
    ),
    "long_running": Kind(lambda e, a, d: any(part.waiting for part in d.parts), "wait", style="bold magenta"),
    "transfer": Kind(lambda e, a, d: bool(a.get("transfer_to_agent")), "transfer"),
    "escalation": Kind(lambda e, a, d: bool(a.get("escalate")), "export"),
    "call": Kind(lambda e, a, d: bool(d.calls), "tool"),
    "response": Kind(lambda e, a, d: bool(d.responses), "return"),
    "code": Kind(lambda e, a, d: bool(d.of("code")), "code"),
    "code_result": Kind(lambda e, a, d: bool(d.of("code_result")), "return"),
    "message": Kind(lambda e, a, d: bool(d.of("text")), "model", style="bold green"),
    "media": Kind(lambda e, a, d: bool(d.media), "image"),
    "transcription": Kind(
        lambda e, a, d: bool(e.get("input_transcription") or e.get("output_transcription")), "message"
    ),
    "thought": Kind(lambda e, a, d: bool(d.of("thought")), "thought", style="dim"),
    "output": Kind(lambda e, a, d: e.get("output") is not None, "export"),
    "artifact": Kind(lambda e, a, d: bool(a.get("artifact_delta")), "file"),
    "state": Kind(lambda e, a, d: bool(d.delta), "state", highlight=1),
    "checkpoint": Kind(lambda e, a, d: bool(a.get("agent_state") or a.get("end_of_agent")), "check", style="dim"),
    "finish": Kind(lambda e, a, d: bool(e.get("turn_complete")), "check", style="dim"),
    "unknown": Kind(lambda e, a, d: False, "info"),
}
KINDS: Final = tuple(TABLE)
HIGHLIGHTS: Final = tuple(  # the kinds that the strip shows, the most telling one last
    sorted((name for name, kind in TABLE.items() if kind.highlight), key=lambda name: TABLE[name].highlight)
)


def _calls(description: Description, name: str) -> bool:
    return any(part.name == name for part in description.calls)


def _parts(event: Mapping[str, Any]) -> list[Part]:
    parts = as_object(event.get("content")).get("parts")
    if not isinstance(parts, list):
        return []
    waiting = event.get("long_running_tool_ids")
    waiting_ids = {i for i in waiting if isinstance(i, str)} if isinstance(waiting, list) else set()
    # While ADK asks a person for a confirmation or a sign-in, the tool's response is an "error" that is not really one.
    actions = as_object(event.get("actions"))
    asked = {*as_object(actions.get("requested_tool_confirmations")), *as_object(actions.get("requested_auth_configs"))}
    described: list[Part] = []
    for part in parts:
        described.append(_part(part, waiting_ids, asked))
        inner = as_object(as_object(part).get("function_response")).get("parts")  # a tool's images
        described += [_part(p, waiting_ids, asked) for p in inner] if isinstance(inner, list) else []
    return described


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


# Shown as images: formats that cannot carry a script. SVG can, so it is offered for download.
IMAGE_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"})
