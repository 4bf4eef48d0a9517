"""Describes an event: its parts, its calls, the state that it writes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from .json_values import as_object
from .state import State

# The calls that ADK itself makes to ask a person for something.
AUTH_CALL: Final = "adk_request_credential"
CONFIRMATION_CALL: Final = "adk_request_confirmation"
INPUT_CALL: Final = "adk_request_input"
STOP: Final = "INVOCATION_ABORTED"  # the error code of an event with which ADK ends a run that was stopped


# --- What an event says -----------------------------------------------------------------------------------------------


Path = tuple[str | int, ...]  # in a JSON document: ("content", "parts", 0, "text")
MORE: Final = "…"


class Cut(str):
    """The start of a text of a large event, with “…” at its end; of a file's base64, nothing else. `length` is that of
    the text, `path` its place in the event."""

    length: int
    path: Path

    @classmethod
    def of(cls, text: str, length: int, path: Path) -> "Cut":
        """Returns a text that continues."""
        cut = cls(text + MORE)
        cut.length, cut.path = length, path
        return cut


def length_of(text: str) -> int:
    """Returns how long a text is in its event."""
    return text.length if isinstance(text, Cut) else len(text)


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

    @property
    def bytes(self) -> int:
        """Returns how many bytes of an image or a file the event holds, as base64; 0 if it only says where that is."""
        data = as_object(self.value).get("data")
        return length_of(data) * 3 // 4 if isinstance(data, str) else 0


@dataclass(slots=True)
class Description:
    """A description of an event. `kind` is the one of its `kinds` that its line in the timeline shows.

    `written` is when its row was stored, in seconds since 1970, which an adopted database records; see clock.py.
    """

    kind: str
    author: str
    parts: list[Part] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    delta: State = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    actions: dict[str, Any] = field(default_factory=dict)
    edit: dict[str, Any] = field(default_factory=dict)
    tokens: int | None = None
    heard: str = ""  # what a person or an agent said aloud
    interim: bool = False  # so far: the whole follows in another event
    written: float | None = None
    _numbers: dict[int, int] = field(default_factory=dict, compare=False, repr=False)
    _kinds_of_parts: set[str] | None = field(default=None, compare=False, repr=False)

    def of(self, *kinds: str) -> list[Part]:
        """Returns the parts of these kinds."""
        if self._kinds_of_parts is None:
            self._kinds_of_parts = {part.kind for part in self.parts}
        return [] if self._kinds_of_parts.isdisjoint(kinds) else [part for part in self.parts if part.kind in kinds]

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
        """Returns the number of a part among `media`, which addresses use."""
        if not self._numbers:
            self._numbers.update({id(each): number for number, each in enumerate(self.media)})
        return self._numbers[id(part)]

    @property
    def text(self) -> str:
        """Returns all text of the event, without thoughts."""
        return "\n".join(part.value for part in self.of("text"))

    @property
    def words(self) -> str:
        """Returns what was written or, if nothing was, what was said aloud."""
        return self.text or self.heard

    @property
    def by_agent(self) -> bool:
        """Returns whether an agent wrote it: not a user, an editor, or ADK's runner, which summarises."""
        return bool(self.author) and self.author != "user" and not self.edit and self.kind != "compaction"

    @property
    def by_user(self) -> bool:
        """Returns whether the session's user wrote it: not an editor, or ADK's runner in the user's name."""
        return self.author == "user" and self.kind not in ("edit", "compaction")

    @property
    def failed(self) -> bool:
        """Returns whether the event reports that something went wrong."""
        return self.kind == "error" or any(part.failed for part in self.parts)


def parts_of(event: Mapping[str, Any]) -> list[Part]:
    """Returns the parts of an event's content, with those that a tool answered."""
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
    # ADK answers the open calls of a run that was stopped with an "error", too.
    return [replace(each, failed=False) for each in described] if event.get("error_code") == STOP else described


def heard_in(event: Mapping[str, Any]) -> tuple[str, bool]:
    """Returns what was said aloud in a live run, by the user or by an agent, and whether that is only a partial
    transcription."""
    for name in ("input_transcription", "output_transcription"):
        said = as_object(event.get(name))
        if isinstance(text := said.get("text"), str) and text.strip():
            return text, said.get("finished") is False or bool(event.get("partial"))
    return "", False


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
