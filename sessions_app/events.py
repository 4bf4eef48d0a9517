"""The shape of an event: check what is to be stored, and describe what was (pure).

An event is the JSON that ADK stores in `events.event_data`: snake_case, nulls left out. Fields that adkweb does not know
are kept, equal in value. What adkweb adds stands in `custom_metadata.adkweb` and nowhere else.
"""

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from django.utils.translation import gettext as _

from .errors import Invalid
from .state import State, without_temp
from .values import check, check_name, dumps, equal

Event = dict[str, Any]

SYSTEM: Final = "system"  # the author of every edit
EDIT_PREFIX: Final = "edit-"  # of every state edit's invocation id
ORIGIN: Final = "adkweb_origin"  # in custom_metadata: of which event a fork's event is the copy

ID_LENGTH: Final = 128  # of ADK's columns, in characters
INVOCATION_ID_LENGTH: Final = 256
_LAST_TIMESTAMP: Final = 2**32 - 1  # in the year 2106; later, floats are too coarse to add a microsecond

# What ADK accepts in `actions`; it refuses to load an event that has any other.
ACTION_FIELDS: Final = frozenset(
    [
        "skip_summarization",
        "state_delta",
        "artifact_delta",
        "transfer_to_agent",
        "transfer_reason",
        "escalate",
        "requested_auth_configs",
        "requested_tool_confirmations",
        "compaction",
        "end_of_agent",
        "agent_state",
        "rewind_before_invocation_id",
        "route",
        "render_ui_widgets",
        "set_model_response",
    ]
)

# Calls that ADK itself makes to ask a person for something.
AUTH_CALL: Final = "adk_request_credential"
CONFIRMATION_CALL: Final = "adk_request_confirmation"
INPUT_CALL: Final = "adk_request_input"


def new_id() -> str:
    """A fresh event id."""
    return str(uuid.uuid4())


def is_partial(event: Mapping[str, Any]) -> bool:
    """Whether the event is a piece of a streamed answer, which is never stored."""
    return bool(event.get("partial"))


def check_event(event: Any) -> Event:
    """The event as it will be stored: id and timestamp present, temp keys trimmed, nulls left out.

    Raises Invalid, naming the place, for what ADK could not load again or a database cannot hold.
    """
    if not isinstance(event, Mapping):
        raise Invalid(_("An event is a JSON object."))
    stored: Event = {key: value for key, value in check(event).items() if value is not None}
    stored["id"] = check_name(stored.get("id", ""), "id", ID_LENGTH) or new_id()
    stored["invocation_id"] = check_name(stored.get("invocation_id", ""), "invocation_id", INVOCATION_ID_LENGTH)
    stored["author"] = check_name(stored.get("author", ""), "author", INVOCATION_ID_LENGTH)
    stored["timestamp"] = _check_timestamp(stored.get("timestamp", time.time()))
    _check_types(stored, "", "event")
    stored["actions"] = _check_actions(stored.get("actions", {}))
    _check_content(stored.get("content", {}))
    if not all(isinstance(name, str) for name in stored.get("long_running_tool_ids", [])):
        raise Invalid(_("long_running_tool_ids: must be a list of texts"))
    return stored


def delta_of(event: Mapping[str, Any]) -> State:
    """The event's state delta, keys with prefix."""
    return _dict(_dict(event.get("actions")).get("state_delta"))


def removed_by(event: Mapping[str, Any]) -> list[str]:
    """The keys that the event takes out of the state; in its delta they stand as null, which is what ADK reads."""
    delta = delta_of(event)
    removed = edit_of(event).get("removed")
    keys = removed if isinstance(removed, list) else []
    return [key for key in keys if isinstance(key, str) and delta.get(key, "") is None]


def edit_of(event: Mapping[str, Any]) -> dict[str, Any]:
    """What adkweb noted in an edit: actor, reason, replaced values, removed keys; empty for any other event."""
    return _dict(_dict(event.get("custom_metadata")).get("adkweb"))


def ended_by(edit: Mapping[str, Any]) -> str:
    """The id of the invocation that an edit ended, by what was noted in it; empty where it ended none."""
    ended = edit.get("ended")
    return ended if isinstance(ended, str) else ""


def is_edit(event: Mapping[str, Any]) -> bool:
    """Whether adkweb has noted something in the event."""
    return "adkweb" in _dict(event.get("custom_metadata"))


def check_no_note(event: Mapping[str, Any], *names: str) -> None:
    """Raises Invalid for an event from outside that has a note of adkweb's, by default any: it could claim to be anybody's
    edit, or a fork's copy of another event.
    """
    metadata = _dict(event.get("custom_metadata"))
    for name in names or ("adkweb", ORIGIN):
        if name in metadata:
            raise Invalid(
                _("custom_metadata.%(name)s: is adkweb's own note, which nobody else writes") % {"name": name}
            )


def is_copy(event: Mapping[str, Any]) -> bool:
    """Whether a fork copied the event here from another session."""
    return bool(_dict(event.get("custom_metadata")).get(ORIGIN))


def same(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Whether two events are the same event, sent twice: equal but for what storing leaves out."""
    return equal(_core(a), _core(b))


def _core(event: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in event.items() if value is not None}
    kept["actions"] = {k: v for k, v in _dict(event.get("actions")).items() if v not in (None, {}, [])}
    return kept


def _check_timestamp(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Invalid(_("timestamp: must be seconds since 1970, a number"))
    if not 0 <= value <= _LAST_TIMESTAMP:
        raise Invalid(_("timestamp: must be seconds, between the years 1970 and 2106"))
    return float(value)


def _check_actions(actions: dict[str, Any]) -> dict[str, Any]:
    unknown = sorted(actions.keys() - ACTION_FIELDS)
    if unknown:
        raise Invalid(
            _("actions: ADK does not know %(names)s and could not load the session again")
            % {"names": ", ".join(map(dumps, unknown))}
        )
    kept = {key: value for key, value in actions.items() if value is not None}
    _check_types(kept, "actions.")
    if "state_delta" in kept:
        kept["state_delta"] = without_temp(kept["state_delta"])
    for name, version in kept.get("artifact_delta", {}).items():
        if isinstance(version, bool) or not isinstance(version, int):
            raise Invalid(_("actions.artifact_delta.%(name)s: must be a whole number") % {"name": name})
    return kept


def _check_content(content: dict[str, Any]) -> None:
    _check_types(content, "content.")
    for place, part in enumerate(content.get("parts") or []):
        where = f"content.parts[{place}]."
        if not isinstance(part, dict):
            raise Invalid(_("content.parts: must be a list of objects"))
        _check_types(part, where, "part")
        for name in ("function_call", "function_response"):
            _check_types(part.get(name) or {}, f"{where}{name}.", name)


def _check_types(found: dict[str, Any], where: str, shape: str = "") -> None:
    for name, wanted in _TYPES[shape or where].items():
        if found.get(name) is not None and not isinstance(found[name], wanted):
            raise Invalid(f"{where}{name}: {_type_words()[wanted]}")


def _type_words() -> dict[type, str]:
    return {
        str: _("must be a text"),
        bool: _("must be true or false"),
        dict: _("must be an object"),
        list: _("must be a list"),
    }


# What ADK's parser wants where adkweb knows the field: one of another type would keep the agent from its whole session.
_SHAPES: Final[dict[str, dict[type, str]]] = {
    "event": {
        str: "branch error_code error_message finish_reason isolation_scope model_version",
        bool: "partial turn_complete interrupted",
        dict: """actions content custom_metadata usage_metadata grounding_metadata node_info input_transcription
            output_transcription""",
        list: "long_running_tool_ids",
    },
    "actions.": {
        str: "transfer_to_agent transfer_reason rewind_before_invocation_id",
        bool: "skip_summarization escalate end_of_agent",
        dict: "state_delta artifact_delta requested_auth_configs requested_tool_confirmations compaction agent_state",
        list: "render_ui_widgets",
    },
    "content.": {str: "role", list: "parts"},
    "part": {
        str: "text",
        bool: "thought",
        dict: "function_call function_response executable_code code_execution_result inline_data file_data",
    },
    "function_call": {str: "id name", dict: "args"},
    "function_response": {str: "id name", dict: "response"},
}
_TYPES: Final = {
    shape: {name: wanted for wanted, names in fields.items() for name in names.split()}
    for shape, fields in _SHAPES.items()
}


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
    actions = _dict(event.get("actions"))
    parts = _parts(event)
    tokens = _dict(event.get("usage_metadata")).get("total_token_count")
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
    parts = _dict(event.get("content")).get("parts")
    if not isinstance(parts, list):
        return []
    waiting = event.get("long_running_tool_ids")
    waiting_ids = {i for i in waiting if isinstance(i, str)} if isinstance(waiting, list) else set()
    # While ADK asks a person for a confirmation or a sign-in, the tool's response so far is an "error" that is none.
    actions = _dict(event.get("actions"))
    asked = {*_dict(actions.get("requested_tool_confirmations")), *_dict(actions.get("requested_auth_configs"))}
    found: list[Part] = []
    for part in parts:
        found.append(_part(part, waiting_ids, asked))
        inner = _dict(_dict(part).get("function_response")).get("parts")  # a tool's images
        found += [_part(p, waiting_ids, asked) for p in inner] if isinstance(inner, list) else []
    return found


def _part(part: Any, waiting_ids: set[str], asked: set[str]) -> Part:
    data = _dict(part)
    if isinstance(data.get("text"), str):
        return Part("thought" if data.get("thought") else "text", data["text"])
    if call := _dict(data.get("function_call")):
        call_id = str(call.get("id") or "")
        return Part("call", _dict(call.get("args")), str(call.get("name") or ""), call_id, call_id in waiting_ids)
    if response := _dict(data.get("function_response")):
        value, call_id = response.get("response"), str(response.get("id") or "")
        failed = bool(_dict(value).get("error")) and call_id not in asked
        return Part("response", value, str(response.get("name") or ""), call_id, failed=failed)
    if code := _dict(data.get("executable_code")):
        return Part("code", str(code.get("code") or ""), str(code.get("language") or "").lower())
    if result := _dict(data.get("code_execution_result")):
        outcome = str(result.get("outcome") or "")
        return Part("code_result", str(result.get("output") or ""), outcome, failed=not outcome.endswith("OK"))
    if blob := _dict(data.get("inline_data")):
        mime = str(blob.get("mime_type") or "")
        return Part("image" if mime in IMAGE_TYPES else "file", blob, str(blob.get("display_name") or mime))
    if file := _dict(data.get("file_data")):
        return Part("file", file, str(file.get("display_name") or file.get("file_uri") or ""))
    return Part("unknown", part)


# Shown as images: formats that carry no script. SVG does, and is offered for download.
IMAGE_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"})


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
